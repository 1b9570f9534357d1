"""Graph programs: what they mean, and that they are values."""

from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

import mechgap as mg
from graphs import as_networkx, one_hot, weighted_graphs
from mechgap.algorithms import benchmark_names
from mechgap.algorithms.graph_search import BFS_SPEC
from mechgap.programs import MISSING
from mechgap.programs.expressions import Read, edge, lift, maximum, me, other, when
from mechgap.programs.graph import Bool, Enum, GraphProgram, Node, Real, Select, SelectKind, argmin, match, mean
from mechgap.programs.graph_interpreter import RangeError

PROGRAMS = {name: mg.program(name) for name in mg.program_names("graph")}


@given(weighted_graphs())
def test_the_interpreter_equals_the_reference_algorithm(graph: tuple[np.ndarray, int]) -> None:
    A, s = graph
    for name in ("bfs", "bellman_ford"):
        inputs = {"A": A[None], "s": one_hot(s, len(A))}
        assert PROGRAMS[name].interpret(**inputs).differences(mg.algorithm(name).trace(**inputs)) == {}


@pytest.mark.slow
@given(weighted_graphs())
def test_components_hops_and_widths_agree_with_networkx(graph: tuple[np.ndarray, int]) -> None:
    A, s = graph
    undirected = as_networkx(A).to_undirected()
    labels = PROGRAMS["connected_components"].interpret(A=A[None]).outputs["label"][0]
    for component in nx.connected_components(undirected):
        assert {int(labels[v]) for v in component} == {min(component)}
    within = PROGRAMS["k_hop"].interpret(A=A[None], s=one_hot(s, len(A))).outputs["within"][0]
    assert set(np.flatnonzero(within)) == set(nx.ego_graph(undirected, s, radius=2))
    widest = PROGRAMS["widest_path"].interpret(A=A[None], s=one_hot(s, len(A)))
    tree = nx.maximum_spanning_tree(undirected)
    for v in nx.node_connected_component(undirected, s) - {s}:
        way = nx.shortest_path(tree, s, v)
        expected = min(A[i, j] for i, j in pairwise(way))
        assert widest.hints["width"][-1, 0, v] == expected


def test_a_program_is_a_value() -> None:
    assert mg.program("bfs") == mg.program("bfs")
    assert hash(mg.program("bfs")) == hash(mg.program("bfs"))
    assert mg.program("bellman_ford") != mg.program("bellman_ford", max_distance=4.0)
    assert str(mg.program("bfs")) == "\n".join(
        [
            "program bfs",
            "  reach: Bool = me.s",
            "  pi: Node = me.id",
            "  parent = argmin over neighbours of other.id where other.reach and not me.reach; else me",
            "  reach' = me.reach or parent.reach",
            "  pi' = me.pi if parent is me else parent.id",
            "  hint reach_h = me.reach",
            "  hint pi_h = me.pi",
            "  output pi = me.pi",
        ]
    )
    with pytest.raises(TypeError, match=r"has no truth value while a program is written; use when"):
        bool(me.reach)


# 0 - 1 - 2 with weights 1/4 and 1/2, 0 - 2 with 3/4 - exactly as far as through 1 - and 3 alone.
TRIANGLE = np.array([[0, 0.25, 0.75, 0], [0.25, 0, 0.5, 0], [0.75, 0.5, 0, 0], [0, 0, 0, 0]])[None]


def test_attention_decisive_rows_and_margins() -> None:
    meant = mg.program("bellman_ford").interpret(A=TRIANGLE, s=one_hot(0, 4))
    assert meant.attention.shape == (1, 1, 1, 1, 4, 4)
    np.testing.assert_array_equal(np.argmax(meant.attention[0, 0, 0, 0], -1), [0, 0, 0, 3])
    np.testing.assert_array_equal(meant.decisive[0, 0, 0], [False, True, True, False])
    # node 1 improves from 8 to 1/4, node 2 to 3/4; the way through 1 is as long, so nothing changes after that
    np.testing.assert_array_equal(meant.margins[0, 0, 0], [np.inf, 7.75, 7.25, np.inf])
    tie = np.zeros((1, 4, 4))
    for i, j, w in ((0, 1, 0.25), (0, 2, 0.25), (1, 3, 0.5), (2, 3, 0.5)):
        tie[0, i, j] = tie[0, j, i] = w
    tied = mg.program("bellman_ford").interpret(A=tie, s=one_hot(0, 4))
    assert tied.tied[1, 0, 0].tolist() == [False, False, False, True]
    assert tied.outputs["pi"][0].tolist() == [0, 0, 0, 1]  # of equal keys the lowest node wins


def listen(select: Select, **updates) -> GraphProgram:
    return GraphProgram(
        name="listener",
        spec=BFS_SPEC,
        state=(Bool("reach", me.s), Node("pi")),
        selects=(select,),
        updates={"reach": me.reach, "pi": me.pi, **updates},
        hints={"reach_h": me.reach, "pi_h": me.pi},
        outputs={"pi": me.pi},
    )


def test_the_other_selects() -> None:
    path = np.zeros((1, 4, 4))
    for i in range(3):
        path[0, i, i + 1] = path[0, i + 1, i] = 1
    inputs = {"A": path, "s": one_hot(0, 4)}
    follow = match("follow", other.id.equals(me.id + 1))
    assert listen(follow, pi=follow.id).interpret(**inputs).outputs["pi"][0].tolist() == [1, 2, 3, 3]
    some = Select(SelectKind.ANY, "some", other.reach)
    assert listen(some, reach=me.reach | some.found).interpret(**inputs, steps=2).hints["reach_h"][1, 0].tolist() == [
        1,
        1,
        0,
        0,
    ]
    every = Select(SelectKind.ALL, "every", other.reach)
    shown = listen(every, reach=~every.found).interpret(**inputs, steps=2)
    assert shown.hints["reach_h"][1, 0].tolist() == [0, 0, 0, 0]
    average = mean("average")
    attention = listen(average, reach=average.reach > 0.4).interpret(**inputs, steps=2).attention[0, 0, 0, 0]
    np.testing.assert_allclose(attention.sum(-1), 1)
    np.testing.assert_allclose(attention[1], [1 / 3, 1 / 3, 1 / 3, 0])


def program(**changes) -> GraphProgram:
    parent = argmin("parent", other.id, where=other.reach & ~me.reach)
    fields = {
        "name": "broken",
        "spec": BFS_SPEC,
        "state": (Bool("reach", me.s), Node("pi")),
        "selects": (parent,),
        "updates": {"reach": me.reach | parent.reach, "pi": when(parent.is_me, me.pi, parent.id)},
        "hints": {"reach_h": me.reach, "pi_h": me.pi},
        "outputs": {"pi": me.pi},
    }
    return GraphProgram(**{**fields, **changes})


ILL_FORMED = {
    "unknown variable": (
        {"hints": {"reach_h": me.rech, "pi_h": me.pi}},
        r"hint 'reach_h' reads 'me.rech', but me has only",
    ),
    "unknown place": (
        {"outputs": {"pi": other.pi}},
        r"output 'pi' reads 'other.pi', but only \['me'\] can be read there",
    ),
    "missing update": (
        {"updates": {"reach": me.reach}},
        r"updates must give each of \['reach', 'pi'\] once; got \['reach'\]",
    ),
    "missing hint": ({"hints": {"reach_h": me.reach}}, r"hints must be \['reach_h', 'pi_h'\]; got \['reach_h'\]"),
    "edge in a node": ({"updates": {"reach": edge.A, "pi": me.pi}}, r"update 'reach' reads 'edge.A', but only"),
    "unknown select": (
        {"selects": (argmin("p", other.id),)},
        r"update 'pi' asks 'parent is me', but there is no select 'parent'",
    ),
    "bound that reads another": (
        {"selects": (argmin("parent", other.id, below=other.pi),)},
        r"the bound of select 'parent' reads 'other.pi', but only \['me', 'parent', 'parent.edge'\] can be read",
    ),
    "wait for each other": (
        {"lets": (Node("first", Read("parent", "pi")),), "selects": (match("parent", other.id.equals(me.first)),)},
        r"these wait for each other: first, parent. Keep one of them in the state",
    ),
    "a start from the state": (
        {"state": (Bool("reach", me.s), Node("pi", Read("parent", "pi")))},
        r"'pi' starts from pi, reach, which is not there yet; start from inputs",
    ),
    "a start from nothing": (
        {"state": (Bool("reach", me.nothing), Node("pi"))},
        r"the start of 'reach' reads 'me.nothing', but me has only",
    ),
    "a name that means something": (
        {"selects": (argmin("clock", other.id),)},
        r"clock: that is the name of an input, or means something else",
    ),
    "a hint that shows a let": (
        {"lets": (Bool("lit", me.reach),), "hints": {"reach_h": me.lit, "pi_h": me.pi}},
        r"hint 'reach_h' reads 'me.lit', but me has only",
    ),
    "compared": ({"compared": "via"}, r"compared names the select 'via'; there are \['parent'\]"),
    "no state": ({"state": ()}, r"a program needs the inputs 'pos' and 'adj', a state variable and a select"),
    "same name": ({"selects": (argmin("pi", other.id),)}, r"every variable, let and select needs a name of its own"),
}


@pytest.mark.parametrize("row", ILL_FORMED)
def test_an_ill_formed_program_is_refused(row: str) -> None:
    changes, message = ILL_FORMED[row]
    with pytest.raises(ValueError, match=message):
        program(**changes)


def test_a_value_outside_its_range_is_refused() -> None:
    far = np.ones((1, 4, 4)) - np.eye(4)
    with pytest.raises(
        RangeError, match=r"'dist' is declared Real\[0, 1\], but 'other.dist \+ edge.A' reaches 1. Declare a larger"
    ):
        mg.program("bellman_ford", max_distance=1.0).interpret(A=far, s=one_hot(0, 4))
    grow = argmin("grow", other.id)
    growing = GraphProgram(
        name="growing",
        spec=BFS_SPEC,
        state=(Real("size", low=0, high=2), Enum("kind", classes=3)),
        selects=(grow,),
        updates={"size": maximum(me.size, me.size + 1), "kind": me.kind},
        hints={"reach_h": me.size > 0, "pi_h": me.id},
        outputs={"pi": me.id},
    )
    with pytest.raises(RangeError, match=r"'size' is declared Real\[0, 2\], but becomes 3"):
        growing.interpret(A=far, s=one_hot(0, 4))


@pytest.mark.parametrize(
    ("low", "high", "resolution"), [(0, -1, None), (0, float("nan"), None), (1, 1, None), (0, 1, 0)]
)
def test_a_range_must_be_one(low: float, high: float, resolution: float | None) -> None:
    with pytest.raises(ValueError, match=r"'x' needs a (finite range low < high|resolution above 0)"):
        Real("x", lift(0.0), low, high, resolution)


def test_a_program_that_never_settles_is_refused() -> None:
    flip = argmin("flip", other.id)
    with pytest.raises(ValueError, match=r"does not settle within 36 steps on n = 4; give steps="):
        listen(flip, reach=~me.reach).interpret(A=TRIANGLE, s=one_hot(0, 4))


def test_unknown_programs_and_parameters_name_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"No program 'belman_ford'. Did you mean 'bellman_ford'"):
        mg.program("belman_ford")
    with pytest.raises(ValueError, match=r"no parameter 'max_dist'. Did you mean 'max_distance'"):
        mg.program("bellman_ford", max_dist=3)


STATUS = {"would need": "needs", "is not expressible": "not expressible"}  # as docs/expressivity.md has it


def test_every_algorithm_of_the_benchmark_has_a_program_or_a_reason() -> None:
    missing = [name for reasons in MISSING.values() for name in reasons]
    assert sorted(missing) == sorted(set(benchmark_names()) - set(mg.program_names("graph")))
    assert not set(missing) & set(mg.program_names())


def test_reasons_are_those_of_the_documentation() -> None:
    text = (Path(__file__).parents[1] / "docs/expressivity.md").read_text()
    table = text.split("## The thirty algorithms")[1].split("**Choices that are too close.**")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:2] == "| "]
    documented, before = {}, ""
    for name, status, *_, words in rows:
        documented[name] = status, words.replace("the same", f"as {before}")  # a message has no row above it
        before = name
    for status, reasons in MISSING.items():
        assert {name: (STATUS[status], words) for name, words in reasons.items()} == {
            name: said for name, said in documented.items() if said[0] == STATUS[status]
        }


@pytest.mark.parametrize("ask", [mg.program, mg.compile])
def test_an_algorithm_without_a_program_says_why(ask: object) -> None:
    for name, why in (
        ("floyd_warshall", "It is not expressible: the state is on edges, and its minimum is not linear in them"),
        ("quickselect", "It would need: as quicksort, one segment"),
    ):
        with pytest.raises(ValueError, match=rf"No program '{name}'\. {why}\. See docs/expressivity\.md\."):
            ask(name)  # type: ignore[operator]
