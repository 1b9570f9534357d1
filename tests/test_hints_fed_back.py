"""Memory of edges and of the graph: hints that a network shows and is fed again in the next step."""

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import mechgap as mg
from graphs import drawn
from mechgap.algorithms.graph_search import BFS_SPEC
from mechgap.compiler.certificate import compare
from mechgap.compiler.errors import DomainError, NotExpressible
from mechgap.interop.exports import export
from mechgap.programs.expressions import Expression, Read, back_edge, edge, graph, kept, lift, me, other, when
from mechgap.programs.graph import Bool, GraphProgram, Node, Real, Select, StateVariable, argmin
from mechgap.programs.graph_interpreter import RangeError
from mechgap.trace import Kind, Location, Spec, Stage, Variable
from reference_model import ask_the_reference, needs_the_oracle

COMPONENTS = "strongly_connected_components"


def swapped(part: Any, old: Read, new: Read) -> Any:
    """The same tree with another read."""
    if part == old:
        return new
    if isinstance(part, tuple):
        return tuple(swapped(x, old, new) for x in part)
    if not isinstance(part, Expression | Select | StateVariable):
        return part
    return type(part)(**{f.name: swapped(getattr(part, f.name), old, new) for f in fields(part)})


def components_with_the_phase_in_its_hint() -> GraphProgram:
    """Instead of `second`, which every node knows, the hint `phase` remembers that it has begun."""
    program = mg.program(COMPONENTS, max_nodes=16)
    old, new = me.second, graph.phase
    updates = {k: swapped(x, old, new) for k, x in program.updates if k != "second"}
    return replace(
        program,
        state=(*(v for v in program.state if v.name != "second"), Bool("turned")),
        selects=swapped(program.selects, old, new),
        lets=swapped(program.lets, old, new),
        updates={**updates, "turned": me.turns},
        hints={**dict(program.hints), "phase": kept(0, graph.phase | me.turned)},
    )


def tasks_counted_in_their_hint(max_nodes: int = 16) -> GraphProgram:
    """Instead of a counter that every node keeps, the hint `t` counts, and is compared in attention."""
    program = mg.program("task_scheduling", max_nodes=max_nodes)
    old, new = me.t, graph.t
    return replace(
        program,
        state=(*(v for v in program.state if v.name != "t"), Bool("took")),
        lets=swapped(program.lets, old, new),
        updates={**{k: x for k, x in program.updates if k != "t"}, "took": me.takes},
        hints={**dict(program.hints), "t": kept(0, graph.t + me.took)},
        weights={**dict(program.weights), "t": (0.0, max_nodes)},
    )


BENCHMARK = {
    "edges: the reversed graph": (lambda: mg.program(COMPONENTS, max_nodes=16), ("A_t",)),
    "a truth value of the graph": (components_with_the_phase_in_its_hint, ("A_t", "phase")),
    "a number of the graph": (tasks_counted_in_their_hint, ("t",)),
}


@pytest.mark.parametrize(
    ("row", "repred"),
    [
        pytest.param("edges: the reversed graph", "soft", marks=pytest.mark.slow),
        pytest.param("edges: the reversed graph", "hard", marks=pytest.mark.slow),
        pytest.param("a truth value of the graph", "hard", marks=pytest.mark.slow),
        pytest.param("a truth value of the graph", "soft", marks=pytest.mark.slow),
        ("a number of the graph", "soft"),
    ],
)
def test_algorithms_of_the_benchmark_that_remember_in_hints(row: str, repred: str) -> None:
    """Reference == interpreter == network. (The last task is counted in a step that changes nothing else.)"""
    make, heeded = BENCHMARK[row]
    program = make()
    assert program.heeded == heeded
    compiled = mg.compile(program, hidden=None, max_nodes=16, hint_repred=repred, certify="none")
    inputs = drawn(program.algorithm, 5, 20)
    trace = mg.algorithm(program.algorithm).trace(**inputs)
    meant = program.interpret(steps=trace.steps if row == "a number of the graph" else None, **inputs)
    assert trace.differences(meant) == {}
    result = compare(compiled, meant, compiled.run_like(meant))
    assert (result.wrong, result.near) == (0, 0), result.failures
    assert result.error <= 1e-6
    assert result.attention_error <= 1e-5


def hint(name: str, location: Location, kind: Kind) -> Variable:
    return Variable(name, Stage.HINT, location, kind)


WALK_SPEC = Spec(
    (
        *(v for v in BFS_SPEC if v.stage != Stage.OUTPUT),
        hint("trail", Location.EDGE, Kind.MASK),
        hint("count", Location.GRAPH, Kind.SCALAR),
        hint("late", Location.GRAPH, Kind.MASK),
        hint("twice", Location.GRAPH, Kind.SCALAR),
        Variable("path", Stage.OUTPUT, Location.EDGE, Kind.MASK),
        Variable("was_late", Stage.OUTPUT, Location.GRAPH, Kind.MASK),
    )
)
fresh = argmin("fresh", other.id, where=other.is_fresh)
seen = argmin("seen", other.id, where=other.token & edge.trail)


def walk(**changes: object) -> GraphProgram:
    """A token goes from the source to the others, the lowest first, and leaves a trail besides the edges.

    Steps are counted; from the second one on it is late, and nodes along the trail then point to the token. `twice` is
    shown by nodes that know it, not kept, and can be read all the same.
    """
    program: dict[str, Any] = {
        "name": "walk",
        "spec": WALK_SPEC,
        "state": (
            Bool("token", me.s),
            Bool("gone"),
            Bool("left"),
            Bool("moved"),
            Bool("rings"),
            Bool("flag"),
            Node("to"),
            Real("double", high=64),
        ),
        "selects": (fresh, seen),
        "lets": (Bool("is_fresh", ~me.gone & ~me.token),),
        "updates": {
            "token": when(fresh.found, me.id.equals(fresh.id), me.token),
            "gone": me.gone | me.token,
            "left": me.token & fresh.found,
            "moved": fresh.found,
            "rings": me.token & (graph.count > 0.5),
            "flag": graph.twice > 3,
            "to": when(seen.found & graph.late, seen.id, me.to),
            "double": me.double + 2.0 * fresh.found,
        },
        "hints": {
            "reach_h": me.flag,
            "pi_h": me.to,
            "trail": kept(edge.adj, edge.trail | (me.left & other.token)),
            "count": kept(0, graph.count + me.moved),
            "late": kept(0, graph.late | me.rings),
            "twice": me.double,
        },
        "outputs": {"path": edge.trail, "was_late": graph.late},
        "weights": {"count": (0.0, 16.0)},
        "full": True,
        "undirected": False,
    }
    return GraphProgram(**{**program, **changes})


def walked(adj: np.ndarray, source: int, steps: int) -> dict[str, list]:
    """The same in plain loops: what each frame shows."""
    n = len(adj)
    trail, token, gone, count, late, to, flag = adj != 0, source, set(), 0, False, list(range(n)), False
    shown: dict[str, list] = {name: [] for name in ("trail", "count", "late", "pi_h", "reach_h")}
    for _ in range(steps):
        for name, value in (("trail", trail.copy()), ("count", count), ("late", late), ("pi_h", list(to))):
            shown[name].append(value)
        shown["reach_h"].append([flag] * n)
        new_flag = 2 * count > 3
        if late:
            to = [token if trail[i, token] else to[i] for i in range(n)]
        rings = count > 0.5
        gone.add(token)
        left = [v for v in range(n) if v not in gone]
        if left:
            trail[token, left[0]] = True
            token, count = left[0], count + 1
        late, flag = late or rings, new_flag
    return shown


def test_the_interpreter_keeps_what_hints_remember() -> None:
    inputs = drawn("bfs", 5, 12)
    meant = walk().interpret(steps=8, **inputs)
    for i in range(12):
        shown = walked(meant.inputs["adj"][i], int(np.argmax(inputs["s"][i])), 8)
        for name, expected in shown.items():
            given = meant.hints[name][:, i]
            given = np.argmax(given, -1) if name == "pi_h" and given.ndim == 3 else given
            np.testing.assert_array_equal(given, np.asarray(expected, float), err_msg=name)
        np.testing.assert_array_equal(meant.outputs["path"][i], np.asarray(shown["trail"][-1], float))
        assert meant.outputs["was_late"][i] == shown["late"][-1]
    assert 0 < meant.hints["late"].mean() < 1
    assert meant.hints["trail"][-1].sum() > meant.hints["trail"][0].sum()


@cache
def compiled_walk() -> mg.Compiled:
    return mg.compile(walk(), hidden=None, max_nodes=16, certify="none")


def test_a_walk_that_leaves_a_trail_is_compiled() -> None:
    """And certified, also by what is drawn there; the certificate knows what the hint may count to."""
    compiled = mg.compile(walk(), hidden=None, max_nodes=16)
    said = str(compiled.certificate)
    assert compiled.certificate.ok, said
    assert "2 to 16, positions" in said
    assert "graph.count: Real[0, 16]" in said
    assert compiled.certificate.result.error == 0


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "repred"), [("float32", "hard"), ("float64", "soft"), ("float32", "hard_on_eval")])
def test_a_walk_in_other_networks(dtype: str, repred: str) -> None:
    compiled = mg.compile(walk(), hidden=None, max_nodes=16, dtype=dtype, hint_repred=repred, certify="full")
    assert compiled.certificate.ok, str(compiled.certificate)


def test_outputs_are_those_of_every_executions_own_end() -> None:
    """The network runs more frames than they have."""
    meant = walk().interpret(steps=8, **drawn("bfs", 5, 24))
    for steps in (2, 3, 5):
        cut = walk().interpret(steps=steps, **drawn("bfs", 5, 24))
        shown = compiled_walk().run_like(cut, frames=8)
        np.testing.assert_array_equal(shown.outputs["path"], meant.hints["trail"][steps - 1])
        np.testing.assert_array_equal(shown.outputs["was_late"], meant.hints["late"][steps - 1])


@pytest.mark.parametrize(
    ("name", "shows"), [("trail", "pi_h"), ("late", "pi_h"), ("count", "pi_h"), ("twice", "reach_h")]
)
def test_what_is_not_fed_back_is_missed(name: str, shows: str) -> None:
    """Every one of them is really listened to: without it nodes, too, show something else."""
    network = compiled_walk().network
    silent = jax.tree.map(np.zeros_like, network.encoders[name])
    deaf = replace(compiled_walk(), network=eqx.tree_at(lambda net: net.encoders[name], network, silent))
    meant = walk().interpret(steps=8, **drawn("bfs", 5, 24))
    assert np.any(deaf.run_like(meant).hints[shows] != meant.hints[shows])


def test_hints_on_edges_without_memory() -> None:
    """Shown of two ends, and not fed back."""
    ends = {"path": me.token & ~other.gone, "trail": me.gone & edge.adj, "was_late": me.rings}
    program = walk(
        selects=(fresh, argmin("seen", other.id, where=other.token)),
        outputs={name: ends[name] for name in ("path", "was_late")},
        **hints(trail=ends["trail"]),
    )
    assert program.heeded == ("count", "late", "twice")
    compiled = mg.compile(program, hidden=None, max_nodes=16, certify="none")
    meant = program.interpret(steps=5, **drawn("bfs", 5, 24))
    result = compare(compiled, meant, compiled.run_like(meant, frames=8))
    assert (result.wrong, result.near) == (0, 0), result.failures


def test_a_counter_that_is_only_shown_needs_no_second_node() -> None:
    flag = {"rings": me.token, "flag": me.token, "to": me.to}
    program = walk(updates={**dict(walk().updates), **flag}, **hints(trail=kept(edge.adj, edge.trail)))
    assert program.heard == ("trail",)
    assert program.heeded == ("trail", "count", "late")
    compiled = mg.compile(program, hidden=None, max_nodes=16, certify="none")
    meant = program.interpret(steps=3, A=np.zeros((2, 1, 1)), s=np.ones((2, 1)))
    assert compare(compiled, meant, compiled.run_like(meant)).wrong == 0


def test_a_truth_value_of_the_graph_is_a_number_as_well() -> None:
    """0 or 1, like any other; and a let may have a hint's name."""
    updates = {"double": me.double + 2.0 * fresh.found + me.late, "flag": when(me.gone, graph.late, me.flag)}
    program = walk(lets=(*walk().lets, Bool("late", graph.late)), updates={**dict(walk().updates), **updates})
    compiled = mg.compile(program, hidden=None, max_nodes=16, certify="none")
    meant = program.interpret(steps=8, **drawn("bfs", 5, 24))
    assert meant.hints["twice"].max() > 2 * meant.hints["count"].max()
    result = compare(compiled, meant, compiled.run_like(meant))
    assert (result.wrong, result.near, result.error) == (0, 0, 0.0), result.failures


def test_a_single_node_hears_no_graph() -> None:
    with pytest.raises(DomainError, match=r"hears count, late, twice of the graph .* a single node has no choice"):
        compiled_walk().run(steps=3, A=np.zeros((1, 1, 1)), s=np.ones((1, 1)))


def test_a_number_that_leaves_its_range_is_refused() -> None:
    message = (
        r"'count' is declared Real\[0, 2\], but becomes 3. Declare a larger range: weights={'count': \(low, high\)}"
    )
    with pytest.raises(RangeError, match=message):
        walk(weights={"count": (0.0, 2.0)}).interpret(steps=8, **drawn("bfs", 5, 4))


def hints(**changes: object) -> dict[str, Any]:
    return {"hints": {**dict(walk().hints), **changes}}


ILL_FORMED = {
    "a hint on nodes": (
        hints(reach_h=kept(0, me.flag)),
        r"hint 'reach_h' is kept, but it is a mask on the node",
    ),
    "a part of a hint": (hints(late=graph.late | kept(0, me.flag)), r"only a hint as a whole can be kept"),
    "a variable that is kept": (
        {"updates": {**dict(walk().updates), "flag": kept(0, me.flag)}},
        r"update 'flag' is '0 at first, then me.flag', but only a hint as a whole can be kept",
    ),
    "a start from the state": (
        hints(count=kept(me.double, graph.count)),
        r"the start of hint 'count' reads 'me.double', but me has only",
    ),
    "another hint": (
        hints(count=kept(0, graph.twice)),
        r"hint 'count' reads 'graph.twice', but graph has only \['count'\]",
    ),
    "another node, of the graph": (
        hints(late=kept(0, other.flag)),
        r"hint 'late' reads 'other.flag', but only \['graph', 'me'\] can be read there",
    ),
    "an output of a hint that is not kept": (
        {"outputs": {"path": edge.trail, "was_late": graph.twice}},
        r"output 'was_late' reads 'graph.twice', but only \['me'\] can be read there",
    ),
    "an output of a part of a memory": (
        {"outputs": {"path": edge.trail & me.gone, "was_late": graph.late}},
        r"output 'path' reads 'edge.trail', but edge has only \['A', 'adj'\]",
    ),
    "an output of another kind": (
        {"outputs": {"path": edge.trail, "was_late": graph.count}},
        r"output 'was_late' is a mask on the graph, and 'graph.count', which it shows, a scalar on the graph",
    ),
    "a start from a hint": (
        {"state": (*(v for v in walk().state if v.name != "flag"), Bool("flag", graph.late))},
        r"the start of 'flag' reads 'graph.late', but only",
    ),
    "edges that are not kept": (
        hints(trail=back_edge.adj),
        r"hint 'trail' reads 'back_edge.adj', but only \['edge', 'me', 'other'\] can be read there",
    ),
    "a name that means something": (
        {
            "spec": Spec(tuple(replace(v, name="found") if v.name == "count" else v for v in WALK_SPEC)),
            **hints(found=kept(0, graph.found + me.moved)),
        },
        r"hint 'found' is kept, but 'found' means something else where it is read",
    ),
    "a number whose range is not declared": (
        {"weights": {}},
        r"hint 'count' is a number that is kept; declare its range: weights={'count': \(low, high\)}",
    ),
    "neighbours alone": ({"full": False}, r"hint 'trail' is kept on edges, which joins nodes .* this needs full=True"),
}


@pytest.mark.parametrize("row", ILL_FORMED)
def test_an_ill_formed_memory_is_refused(row: str) -> None:
    changes, message = ILL_FORMED[row]
    with pytest.raises(ValueError, match=message):
        walk(**changes)


def looking_for(where: Expression) -> dict[str, Any]:
    return {"selects": (fresh, argmin("seen", other.id, where=where))}


NOT_EXPRESSIBLE = {
    "an edge that may not lead to oneself": (
        {**hints(trail=kept(0, edge.trail | (me.left & other.token)))},
        r"'edge.trail' in the where of 'seen': of an edge, only edge.adj can be a condition, and a hint that is kept",
    ),
    "an edge that may be lost": (
        {**hints(trail=kept(edge.adj, me.left & other.token))},
        r"'edge.trail' in the where of 'seen': of an edge, only edge.adj can be a condition",
    ),
    "an edge that is not there": (
        looking_for(other.token & ~edge.trail),
        r"'not edge.trail' in the where of 'seen': of an edge, only edge.adj can be a condition",
    ),
    "two ways to raise an edge": (
        {**hints(trail=kept(edge.adj, edge.trail | (me.left & other.token) | (me.token & other.left)))},
        r"edge.trail \| \(me.a & other.b\), with Bool variables",
    ),
    "a comparison on an edge": (
        {**hints(trail=kept(edge.adj, edge.trail | (me.double > 2)))},
        r"edge.trail \| \(me.a & other.b\), with Bool variables",
    ),
    "a number for a truth value": (
        {**hints(trail=kept(edge.adj, edge.trail | (me.double & other.token)))},
        r"with Bool variables a and b, and no more",
    ),
    "a constant on an edge": (
        {**hints(trail=kept(edge.adj, edge.trail | lift(1)))},
        r"with Bool variables a and b, and no more",
    ),
    "a number that is raised": (
        {**hints(late=kept(0, graph.late | me.double))},
        r"it is a Bool variable, or several joined by \|",
    ),
    "a number that falls": (
        {**hints(count=kept(0, graph.count - me.left))},
        r"a number of it is one variable times a number above 0, and what it was before",
    ),
    "a number from two variables": (
        {**hints(count=kept(0, graph.count + me.left + me.token))},
        r"a number of it is one variable times a number above 0",
    ),
    "the graph, of which only neighbours are seen": (
        {
            "full": False,
            "selects": (fresh, argmin("seen", other.id, where=other.token)),
            "outputs": {"path": me.token & other.gone, "was_late": graph.late},
            **hints(trail=me.gone & other.token),
        },
        r"what belongs to the graph is heard by looking to the first or to the last .* this needs full=True",
    ),
    "what all nodes hold": (
        {**hints(late=kept(0, graph.late | ~me.rings))},
        r"the graph shows the largest of what its nodes hold, so that a truth value of it is a Bool variable",
    ),
    "a node for a number": (
        {**hints(twice=me.to)},
        r"'twice: hint graph scalar' = 'me.to' shows a node as a number; a node is shown by a pointer",
    ),
    "arithmetic with a hint": (
        {"updates": {**dict(walk().updates), "double": me.double + graph.count}},
        r"'graph.count' is heard by no node",
    ),
}


@pytest.mark.parametrize("row", NOT_EXPRESSIBLE)
def test_what_cannot_be_remembered_is_named(row: str) -> None:
    changes, message = NOT_EXPRESSIBLE[row]
    with pytest.raises(NotExpressible, match=message):
        mg.compile(walk(**changes), certify="none")


@pytest.mark.parametrize("mode", ["none", "decoded_only"])
def test_a_network_that_is_fed_nothing_is_refused(mode: str) -> None:
    message = rf"reads hints that are fed back \(A_t\), which a network of hint_mode='{mode}' is not"
    with pytest.raises(NotExpressible, match=message):
        mg.compile(COMPONENTS, hidden=None, hint_mode=mode)


@pytest.mark.slow
@needs_the_oracle
@pytest.mark.parametrize("row", ["a truth value of the graph", "a number of the graph"])
def test_the_unmodified_reference_feeds_them_back(row: str, tmp_path: Path) -> None:
    """Of edges, tests/test_circuits.py has strongly_connected_components."""
    program = BENCHMARK[row][0]()
    compiled = mg.compile(program, hidden=None, max_nodes=16, certify="none")
    export(compiled, "clrs", tmp_path / "x.npz")
    for counts in ask_the_reference(tmp_path / "x.npz", "5:32", "16:16")["counts"]:
        assert counts["graphs"] == {5: 32, 16: 16}[counts["nodes"]]
        assert all(values > 0 and wrong == 0 for wrong, values in counts["wrong"].values()), counts
        assert all(error < 4e-6 for error in counts["error"].values()), counts
