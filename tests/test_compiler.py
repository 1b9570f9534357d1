"""Compiled networks: equal to the interpreter, equal to the reference, or a clear error."""

from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given

import mechgap as mg
from graphs import one_hot, weighted_graphs
from mechgap.algorithms.families import FAMILIES, draw_family
from mechgap.algorithms.graph_search import BFS_SPEC
from mechgap.compiler.certificate import compare
from mechgap.compiler.errors import ChannelOverflow, DomainError, NotExpressible, PrecisionError
from mechgap.programs.expressions import back_edge, edge, lift, me, minimum, other, when
from mechgap.programs.graph import Bool, Enum, GraphProgram, Node, Real, Select, SelectKind, argmax, argmin
from mechgap.programs.graph_interpreter import RangeError

SMALL = {"hidden": 16, "max_nodes": 16, "certify": "none"}
COMPILED = {
    "bfs": mg.compile("bfs", **SMALL),
    "bellman_ford": mg.compile("bellman_ford", **SMALL),
    "bellman_ford, double": mg.compile("bellman_ford", **SMALL, dtype="float64"),
    "widest_path": mg.compile("widest_path", **SMALL),
    "k_hop": mg.compile("k_hop", **SMALL),
    "connected_components": mg.compile("connected_components", **SMALL),
}
FRAMES = {1: 3, 4: 6, 7: 9}  # one T per size, so that few programs are compiled


@pytest.mark.parametrize(
    "name", [n if n == "bellman_ford" else pytest.param(n, marks=pytest.mark.slow) for n in COMPILED]
)
@given(weighted_graphs())
def test_the_law(name: str, graph: tuple[np.ndarray, int]) -> None:
    """Reference trace == interpreter == compiled network, wherever a choice is clearer than the resolution."""
    A, s = graph
    compiled = COMPILED[name]
    inputs = {"A": A[None], "s": one_hot(s, len(A))}
    inputs = {k: x for k, x in inputs.items() if k in compiled.program.spec.names(mg.Stage.INPUT)}
    meant = compiled.program.interpret(**inputs)
    if compiled.program.algorithm:
        assert mg.algorithm(compiled.program.algorithm).trace(**inputs).differences(meant) == {}
    result = compare(compiled, meant, compiled.run_like(meant, frames=FRAMES[len(A)]))
    assert result.wrong == 0, result.failures
    assert result.error <= 1e-5
    assert result.attention_error <= 1e-5
    if compiled.selects[0].resolves_ties:
        assert result.near_wrong == 0


def mixed(n: int, count: int, names: tuple[str, ...], weighted: bool = True) -> dict[str, np.ndarray]:
    parts = [draw_family(f, n, count, seed, weighted=weighted) for seed, f in enumerate(FAMILIES)]
    return {k: np.concatenate([part[k] for part in parts]) for k in names}


@pytest.mark.parametrize(("name", "options"), [("bfs", {}), ("bfs", {"layer_norm": True}), ("bfs", {"min_gap": 1e-6})])
def test_one_weight_set_serves_every_size(name: str, options: dict) -> None:
    compiled = mg.compile(name, hidden=16, max_nodes=64, certify="none", **options)
    for n in (1, 4, 16):
        meant = compiled.program.interpret(**mixed(n, 2, ("A", "s")))
        result = compare(compiled, meant, compiled.run_like(meant))
        assert (result.wrong, result.near) == (0, 0), result.failures


def test_random_positions_are_as_good_as_regular_ones() -> None:
    compiled = mg.compile("bfs", hidden=16, max_nodes=1024, min_gap=1e-6, certify="none")
    inputs = mixed(16, 2, ("A", "s"))
    rng = np.random.RandomState(0)
    pos = np.sort(rng.uniform(size=(len(inputs["A"]), 16)), axis=-1)
    pos[:, 1] = pos[:, 0] + 1.2e-6  # one pair almost as close as is allowed
    meant = compiled.program.interpret(**inputs, pos=np.sort(pos, axis=-1))
    result = compare(compiled, meant, compiled.run_like(meant))
    assert result.wrong == 0, result.failures


@pytest.mark.parametrize(("name", "most", "paper"), [("bfs", 4, 500), ("bellman_ford", 9, 500)])
def test_minimal_models_are_exact(name: str, most: int, paper: int) -> None:
    compiled = mg.compile(name, hidden=None)
    assert compiled.network.config.hidden <= most
    assert compiled.certificate.ok, str(compiled.certificate)
    count = sum(x.size for x in jax.tree.leaves(compiled.network))
    print(f"minimal {name}: hidden {compiled.network.config.hidden}, {count} parameters (the paper: about {paper})")
    with pytest.raises(ChannelOverflow, match=rf"hidden = {most - 1} is too small: the program needs {most} channels"):
        mg.compile(name, hidden=most - 1)


def test_the_certificate_says_what_was_checked() -> None:
    compiled = mg.compile("bellman_ford", hidden=16, max_nodes=64)
    certificate = compiled.certificate
    assert certificate.ok
    assert certificate.result.graphs + certificate.skipped == 64
    text = str(certificate)
    for said in ("0 of", "13 families", "up to 64", "Real[0, 8]", "reference 0 differences", "numbers at least"):
        assert said in text


def test_a_wrong_network_gets_no_certificate() -> None:
    """The certificate can fail: shift one weight that matters."""
    import dataclasses

    import equinox as eqx

    from mechgap.compiler.certificate import make_certificate

    good = mg.compile("bfs", hidden=8, max_nodes=16, certify="none")
    bad = eqx.tree_at(lambda net: net.processor.sender.weight, good.network, good.network.processor.sender.weight * 0.0)
    certificate = make_certificate(dataclasses.replace(good, network=bad), "quick")
    assert not certificate.ok
    assert certificate.result.wrong > 100
    assert "NOT OK" in str(certificate)
    assert "failure" in str(certificate)


def test_a_soft_margin_is_soft_and_not_certified() -> None:
    soft = mg.compile("bfs", hidden=8, max_nodes=16, margin=2.0)
    assert not soft.certificate.ok
    meant = soft.program.interpret(**mixed(16, 1, ("A", "s")))
    assert 1e-3 < np.max(np.abs(soft.run_like(meant).attention - meant.attention)) < 1


@pytest.mark.parametrize("mode", ["encoded_decoded", "decoded_only"])
@pytest.mark.parametrize("repred", ["soft", "hard"])
def test_compiled_networks_work_in_every_hint_mode(mode: str, repred: str) -> None:
    compiled = mg.compile("bfs", hidden=8, max_nodes=16, hint_mode=mode, hint_repred=repred)
    assert compiled.certificate.ok


@pytest.mark.slow
def test_layer_norm_survives_and_has_the_trained_architecture() -> None:
    compiled = mg.compile(mg.program("bellman_ford", max_distance=4.0), layer_norm=True, max_nodes=64)
    assert compiled.network.processor.norm is not None
    assert compiled.certificate.ok, str(compiled.certificate)
    assert compiled.certificate.result.error <= 2e-4


def test_run_takes_inputs_as_the_spec_names_them() -> None:
    compiled = COMPILED["bfs"]
    path = np.eye(4, k=1)[None] + np.eye(4, k=-1)[None]
    trace = compiled.run(A=path, s=one_hot(0, 4))
    assert trace.lengths.tolist() == [4]
    assert trace.outputs["pi"][0].tolist() == [0, 0, 1, 2]
    assert trace.attention.shape == (3, 1, 1, 1, 4, 4)
    assert compiled.run(A=path, s=one_hot(0, 4), steps=2).hints["reach_h"][1, 0].tolist() == [1, 1, 0, 0]


OUTSIDE = {
    "too many nodes": (
        lambda: COMPILED["bfs"].run(A=np.zeros((1, 17, 17)), s=one_hot(0, 17)),
        DomainError,
        r"up to 16 nodes; got 17. Compile with max_nodes=17",
    ),
    "positions too close": (
        lambda: COMPILED["bfs"].run(A=np.zeros((1, 2, 2)), s=one_hot(0, 2), pos=np.array([[0.1, 0.1001]])),
        DomainError,
        r"differ by 0.0001, but .* 0.0625. Compile with min_gap",
    ),
    "positions outside": (
        lambda: COMPILED["bfs"].run(A=np.zeros((1, 2, 2)), s=one_hot(0, 2), pos=np.array([[0.0, 1.5]])),
        DomainError,
        r"Positions must lie in \[0, 1\]; got 1.5",
    ),
    "one frame": (
        lambda: COMPILED["bfs"].run(A=np.zeros((1, 2, 2)), s=one_hot(0, 2), steps=1),
        ValueError,
        r"steps counts frames, of which the first is given: 2 or more; got 1",
    ),
    "directed graph": (
        lambda: COMPILED["bfs"].run(A=np.eye(4, k=1)[None], s=one_hot(0, 4)),
        DomainError,
        r"for undirected graphs, but A is not symmetric: node i sees A\[i, j\], its own side",
    ),
    "distance beyond D": (
        lambda: mg.compile(mg.program("bellman_ford", max_distance=1.0), hidden=16, certify="none").run(
            A=np.ones((1, 4, 4)), s=one_hot(0, 4)
        ),
        RangeError,
        r"'dist' is declared Real\[0, 1\], but 'other.dist \+ edge.A' reaches 1",
    ),
}


@pytest.mark.parametrize("row", OUTSIDE)
def test_inputs_outside_the_domain_are_refused(row: str) -> None:
    call, error, message = OUTSIDE[row]
    with pytest.raises(error, match=message):
        call()


def build(select: Select, state=None, updates=None, hints=None, **more) -> GraphProgram:
    return GraphProgram(
        name="inexpressible",
        spec=BFS_SPEC,
        state=state or (Bool("reach", me.s), Node("pi")),
        selects=more.pop("selects", (select,)),
        updates=updates or {"reach": me.reach | select.reach, "pi": when(select.is_me, me.pi, select.id)},
        hints=hints or {"reach_h": me.reach, "pi_h": me.pi},
        outputs={"pi": me.pi},
        weights={"A": (0.0, 1.0)},
        **more,
    )


JOIN = argmin("join", other.id, where=other.reach & ~me.reach)
BEST = argmin("best", other.far + edge.A, where=other.reach, below=me.far)
FAR = (Bool("reach", me.s), Node("pi"), Real("far", when(me.s, 0, 8), 0, 8))
KEEP_PI = when(BEST.is_me, me.pi, BEST.id)
INEXPRESSIBLE = {
    "product of two reals": (
        build(
            argmin("best", other.far * edge.A, where=other.reach, below=me.far),
            FAR,
            {"reach": me.reach | BEST.reach, "pi": KEEP_PI, "far": when(BEST.is_me, me.far, BEST.far * BEST.edge.A)},
        ),
        NotExpressible,
        r"'other.far \* edge.A' is a product of two values.*Make one of 'other.far' and 'edge.A' a constant",
    ),
    "update too deep": (
        build(BEST, FAR, {"reach": me.reach | BEST.reach, "pi": KEEP_PI, "far": minimum(me.far, BEST.far)}),
        NotExpressible,
        r"'far' = 'min\(me.far, best.far\)' is too deep for one step",
    ),
    "keep or overwrite of something else": (
        build(
            BEST, FAR, {"reach": me.reach | BEST.reach, "pi": KEEP_PI, "far": when(BEST.is_me, me.far, BEST.far + 1)}
        ),
        NotExpressible,
        r"'far' = .* is too deep for one step: keeping or overwriting is one ReLU only where",
    ),
    "late variable read by a select": (
        build(
            argmin("best", other.pi, where=other.reach, below=me.pi),
            updates={"reach": me.reach | BEST.reach, "pi": KEEP_PI},
        ),
        NotExpressible,
        r"reads 'other.pi', which is resolved one step late",
    ),
    "edge from the wrong end": (
        build(
            argmin("best", other.far + back_edge.A, where=other.reach, below=me.far),
            FAR,
            {"reach": me.reach | BEST.reach, "pi": KEEP_PI, "far": BEST.far},
            undirected=False,
        ),
        NotExpressible,
        r"reads 'back_edge.A', the edge from other to me; the receiver sees only its own side, edge.A",
    ),
    "a bound beside another select": (
        build(JOIN, selects=(JOIN, argmin("again", other.id, below=me.id))),
        NotExpressible,
        r"with several selects a bound is a comparison of its own; leave it out, and ask 'again.value < me.value'",
    ),
    "a select that is no argmin": (
        build(Select(SelectKind.ANY, "join", other.reach, other.reach & ~me.reach)),
        NotExpressible,
        r"can only take an argmin or an argmax",
    ),
    "comparison in where": (
        build(argmin("join", other.id, where=other.reach & (other.id < me.id) & ~me.reach)),
        NotExpressible,
        r"'other.id < me.id' in the where of 'join': only truth values joined by & can close a select",
    ),
    "values without a bound": (
        build(
            argmin("best", other.far + edge.A, where=other.reach & ~me.reach),
            FAR,
            {"reach": me.reach | BEST.reach, "pi": KEEP_PI, "far": BEST.far},
        ),
        NotExpressible,
        r"compares values without a bound.*Add below= or above=",
    ),
    "argmax of a max": (
        build(
            argmax("best", -minimum(-other.far, -edge.A), above=me.far),
            (Bool("reach", me.s), Node("pi"), Real("far", me.s, 0, 1)),
            {"reach": me.reach, "pi": KEEP_PI, "far": when(BEST.is_me, me.far, -minimum(-BEST.far, -BEST.edge.A))},
        ),
        NotExpressible,
        r"a node may choose itself as a candidate",
    ),
    "an enum": (
        build(
            JOIN,
            (Bool("reach", me.s), Node("pi"), Enum("kind", classes=3)),
            {"reach": me.reach | JOIN.reach, "pi": me.pi, "kind": me.kind},
        ),
        NotExpressible,
        r"'kind: Enum\[3\] = 0': an Enum needs a channel per class",
    ),
    "arithmetic with nodes": (
        build(argmin("best", other.pi + 1, where=other.reach & ~me.reach, below=me.pi)),
        NotExpressible,
        r"'other.pi \+ 1' calculates with a node",
    ),
    "a node that starts elsewhere": (
        build(JOIN, (Bool("reach", me.s), Node("pi", lift(3)))),
        NotExpressible,
        r"'pi: Node = 3': a Node starts as the node itself",
    ),
    "a number that starts from a node": (
        build(
            JOIN,
            (Bool("reach", me.s), Node("pi"), Real("x", me.id)),
            {"reach": me.reach | JOIN.reach, "pi": me.pi, "x": me.x},
        ),
        NotExpressible,
        r"starts from a node, which is known only by its position",
    ),
    "where on a number": (
        build(argmin("join", other.id, where=edge.A & other.reach & ~me.reach)),
        NotExpressible,
        r"'edge.A' in the where of 'join': only truth values",
    ),
    "a sum of truth values": (
        build(JOIN, updates={"reach": me.reach + JOIN.reach, "pi": when(JOIN.is_me, me.pi, JOIN.id)}),
        NotExpressible,
        r"a Bool can be copied, negated, or raised",
    ),
    "a pointer that shows a number": (
        build(JOIN, hints={"reach_h": me.reach, "pi_h": me.reach}),
        NotExpressible,
        r"a pointer must show a Node variable",
    ),
}


TOO_DEEP_FOR_ONE_STEP = {
    "or of fresh values": build(argmin("join", other.id, where=~me.reach)),
    "a node that may choose itself": build(argmin("join", other.id, where=other.reach)),
    "found in an update": build(JOIN, updates={"reach": JOIN.found, "pi": when(JOIN.is_me, me.pi, JOIN.id)}),
    "two flags at once": build(
        JOIN,
        (Bool("reach", me.s), Node("pi"), Bool("old")),
        {"reach": me.reach | JOIN.reach, "pi": when(me.old & ~me.reach, me.id, JOIN.id), "old": me.reach & ~me.old},
    ),
}


@pytest.mark.parametrize("row", TOO_DEEP_FOR_ONE_STEP)
def test_what_is_too_deep_for_one_step_is_split(row: str) -> None:
    compiled = mg.compile(TOO_DEEP_FOR_ONE_STEP[row], hidden=None, max_nodes=16, certify="none")
    assert compiled.plan.micro_steps > 1
    inputs = mg.algorithm("bfs").benchmark_sampler(0, 5, -1, track_max_steps=False).next(24).inputs
    meant = compiled.program.interpret(steps=5, A=inputs["A"], s=inputs["s"])
    result = compare(compiled, meant, compiled.run_like(meant))
    assert result.wrong == 0, result.failures
    assert result.values > 1000


@pytest.mark.parametrize("row", INEXPRESSIBLE)
def test_what_cannot_be_expressed_is_named(row: str) -> None:
    program, error, message = INEXPRESSIBLE[row]
    with pytest.raises(error, match=message):
        mg.compile(program, hidden=32, max_nodes=16, certify="none")


PRECISION = {
    "positions": (
        {"min_gap": 1e-8},
        "bfs",
        r"positions that differ by 1e-08 .*, but float32 tells apart 4.77e-07. Use dtype='float64'",
    ),
    "nodes": ({"max_nodes": 10**7}, "bfs", r"differ by 1e-07 \(n <= 10000000\), but float32"),
}


@pytest.mark.parametrize("row", PRECISION)
def test_precision_out_of_reach_is_named(row: str) -> None:
    options, name, message = PRECISION[row]
    with pytest.raises(PrecisionError, match=message):
        mg.compile(name, hidden=8, certify="none", **options)


def test_a_resolution_out_of_reach_is_named() -> None:
    program = mg.program("k_hop", hops=10**7)
    with pytest.raises(
        PrecisionError, match=r"'other.fuel - 1' of select 'via' must be resolved to 1 over a range of 1e\+07"
    ):
        mg.compile(program, hidden=16, certify="none")


ARGUMENTS = {
    "hidden": ({"hidden": 0}, r"hidden must be a whole number of at least 1, or None for the smallest; got 0"),
    "max_nodes": ({"max_nodes": 0}, r"max_nodes must be a whole number of at least 1; got 0"),
    "min_gap": ({"min_gap": -1}, r"min_gap must be in \(0, 1\].*; got -1"),
    "dtype": ({"dtype": "bfloat16"}, r"dtype must be 'float32' or 'float64'; got 'bfloat16'"),
    "margin": ({"margin": -3}, r"margin must be positive, in nats, or None for exact; got -3"),
    "certify": ({"certify": "yes"}, r"certify must be 'quick', 'full' or 'none'; got 'yes'"),
}


@pytest.mark.parametrize("row", ARGUMENTS)
def test_bad_arguments_are_refused(row: str) -> None:
    options, message = ARGUMENTS[row]
    with pytest.raises(ValueError, match=message):
        mg.compile("bfs", **options)


def test_undeclared_weights_are_named() -> None:
    via = argmin("via", edge.A, where=other.reach & ~me.reach, below=me.near)
    program = GraphProgram(
        name="undeclared",
        spec=BFS_SPEC,
        state=(Bool("reach", me.s), Real("near", lift(1.0), 0, 2), Node("pi")),
        selects=(via,),
        updates={"reach": me.reach | via.reach, "near": me.near, "pi": when(via.is_me, me.pi, via.id)},
        hints={"reach_h": me.reach, "pi_h": me.pi},
        outputs={"pi": me.pi},
    )
    with pytest.raises(NotExpressible, match=r"'edge.A' is read, but its range is not declared. Add weights="):
        mg.compile(program, hidden=32, max_nodes=16, certify="none")


def test_shared_bottlenecks_are_ties_that_the_default_network_breaks() -> None:
    """Tied offers of two parts must not be averaged: the width would be wrong, and spread."""
    A = np.zeros((1, 6, 6))
    for i, j, w in ((0, 1, 0.9), (0, 2, 0.5), (1, 3, 0.5), (2, 3, 1), (3, 4, 1), (0, 5, 0.45), (5, 4, 0.48)):
        A[0, i, j] = A[0, j, i] = w
    compiled = mg.compile("widest_path", hidden=16, certify="none")
    meant = compiled.program.interpret(A=A, s=one_hot(0, 6))
    result = compare(compiled, meant, compiled.run_like(meant))
    assert (result.wrong, result.near_wrong) == (0, 0), result.failures
    assert result.error < 1e-6


def test_the_compiler_names_no_algorithm() -> None:
    import mechgap.compiler

    names = {*mg.algorithm_names(), *mg.program_names()}
    for file in Path(mechgap.compiler.__file__).parent.glob("*.py"):
        code = "\n".join(line.split("#")[0] for line in file.read_text().splitlines())
        assert not [name for name in names if f'"{name}"' in code or f"'{name}'" in code], file
