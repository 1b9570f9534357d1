"""Many algorithms in one network: each of them runs as in a network of its own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mechgap as mg
from mechgap.algorithms import benchmark_names
from mechgap.networks import ClrsNet, NetConfig, Prediction
from mechgap.networks.slots import SharedNet, Slots, with_empty_slots, without_empty_slots
from mechgap.trace import Kind, Stage
from mechgap.training.multi_task import MultiTaskConfig
from mechgap.training.multi_task import pool as pool_module
from mechgap.training.weights import named
from own_networks import own_network
from test_padding import algorithm_trace, cut, present_part, quickly

FEW = ("bfs", "dijkstra", "floyd_warshall", "heapsort", "lcs_length", "segments_intersect")
CONFIG = NetConfig(hidden=8)
NODES, FRAMES = 8, 6  # of graphs of 4 to 6 nodes, and of executions that are cut there


def slots_of(names: tuple[str, ...]) -> Slots:
    return Slots(tuple((name, mg.algorithm(name).spec) for name in names))


@pytest.fixture(scope="module")
def untrained() -> SharedNet:
    return eqx.filter_jit(lambda key: SharedNet.init(slots_of(FEW), CONFIG, key=key))(jax.random.key(2))


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_an_algorithm_runs_in_its_slots_as_in_a_network_of_its_own(name: str, untrained: SharedNet) -> None:
    slots = slots_of(FEW)
    trace = mg.algorithm(name).benchmark_sampler(1, 4, 2).next()
    own = own_network(untrained, name)
    number, steps = slots.algorithms.index(name), min(trace.steps, 6)
    sample = trace.take([0])
    given = {stage: {k: jnp.asarray(x[0]) for k, x in sample.values(stage).items()} for stage in (Stage.INPUT,)}
    hints = {k: jnp.asarray(x[:steps, 0]) for k, x in sample.hints.items()}
    alone = jax.jit(lambda: own(given[Stage.INPUT], hints, steps, steps=steps, record=False))()

    nodes = trace.nodes
    inputs = {v.name: slots.blank(v.name, nodes) for v in slots.spec.at(Stage.INPUT)}
    inputs |= slots.put(name, given[Stage.INPUT], nodes)
    fed = {v.name: np.stack([slots.blank(v.name, nodes)] * steps) for v in slots.spec.at(Stage.HINT)}
    fed |= slots.put(name, hints, nodes)
    run = jax.jit(
        lambda i: untrained.network(i)(inputs, fed, steps, steps=steps, asked=untrained.asked(i), record=False)
    )
    together = run(number)
    for theirs, ours in ((alone.outputs, together.outputs), (alone.hints, together.hints)):
        for variable, x in theirs.items():
            slot = slots.names[name][variable]
            np.testing.assert_allclose(ours[slot], x, rtol=1e-5, atol=1e-5, err_msg=variable)


def random_network(slots: Slots, config: NetConfig) -> SharedNet:
    """Every weight and bias random, made without compiling anything."""
    rng = np.random.RandomState(0)
    shapes = jax.eval_shape(lambda: SharedNet.init(slots, config, key=jax.random.key(0)))
    return jax.tree.map(lambda x: jnp.asarray(0.3 * rng.randn(*x.shape).astype(x.dtype)), shapes)


@pytest.fixture(scope="module")
def of_all() -> SharedNet:
    """A network over the slots that training has for the benchmark."""
    return random_network(pool_module.slots_of(pool_module.sources_of(MultiTaskConfig())), CONFIG)


@quickly
def run_alone(net: ClrsNet, inputs: dict, hints: dict, length: jax.Array) -> Prediction:
    return net(inputs, hints, length, steps=FRAMES, record=False)


@quickly
def run_together(
    net: SharedNet, number: jax.Array, inputs: dict, hints: dict, length: jax.Array, present: jax.Array
) -> Prediction:
    asked = net.asked(number)
    return net.network(number)(inputs, hints, length, steps=FRAMES, asked=asked, present=present, record=False)


def in_slots(slots: Slots, name: str, stage: Stage, values: dict) -> dict[str, np.ndarray]:
    """All slots of a stage on `NODES` nodes, with an algorithm's values in its own, in the types that networks read."""
    leading = (FRAMES,) if stage == Stage.HINT else ()
    blank = {v.name: slots.blank(v.name, NODES) for v in slots.spec.at(stage)}
    own = slots.put(name, {k: x[None] for k, x in values.items()}, NODES)  # a number alone has no axis to pad
    filled = {k: np.broadcast_to(x, (*leading, *x.shape)) for k, x in blank.items()} | {k: x[0] for k, x in own.items()}
    return {k: x.astype(np.int32 if slots.spec[k].kind == Kind.POINTER else np.float32) for k, x in filled.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", benchmark_names())
def test_every_algorithm_runs_padded_among_all_as_in_a_network_of_its_own(name: str, of_all: SharedNet) -> None:
    slots, trace = of_all.slots, algorithm_trace(name)
    assert trace.spec == dict(slots.specs)[name]
    sample = cut(trace.pad(max(trace.steps, FRAMES)), FRAMES).take([0])
    inputs = {k: x[0] for k, x in sample.inputs.items()}
    hints, length = {k: x[:, 0] for k, x in sample.hints.items()}, jnp.asarray(sample.lengths[0], jnp.int32)
    alone = run_alone(own_network(of_all, name), *jax.tree.map(jnp.asarray, (inputs, hints)), length)

    fed = (in_slots(slots, name, *values) for values in ((Stage.INPUT, inputs), (Stage.HINT, hints)))
    present = np.arange(NODES) < trace.nodes
    together = run_together(of_all, jnp.array(slots.algorithms.index(name)), *fed, length, present)
    for theirs, ours in ((alone.outputs, together.outputs), (alone.hints, together.hints)):
        assert theirs
        for variable, x in theirs.items():
            mine = present_part(trace.spec[variable], np.asarray(ours[slots.names[name][variable]]), trace.nodes, True)
            np.testing.assert_allclose(mine, x, rtol=1e-5, atol=1e-5, err_msg=variable)


BAD = [
    ("bfs", {"pos": np.zeros(5)}, "Cannot pad to 4 nodes: 'pos' has 5. Give 5 or more"),
    ("heapsort", {"pred": np.zeros((2, 5))}, "Cannot pad to 4 nodes: 'pred' has 5. Give 5 or more"),
    ("bsf", {"pos": np.zeros(4)}, "No slots of 'bsf'. Did you mean 'bfs'"),
]


@pytest.mark.parametrize(("name", "values", "says"), BAD)
def test_what_does_not_fit_is_named(name: str, values: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        slots_of(FEW).put(name, values, nodes=4)


def test_empty_slots_are_left_out_and_put_back(untrained: SharedNet) -> None:
    arrays = {name: np.asarray(x) for name, x in named(untrained).items()}
    few = without_empty_slots(arrays, untrained.slots)
    assert sum(x.size for x in few.values()) < 0.7 * sum(x.size for x in arrays.values())
    for name, x in with_empty_slots(few, untrained.slots).items():
        np.testing.assert_array_equal(x, arrays[name], err_msg=name)
    two = {name: np.stack([x, 2 * x]) for name, x in arrays.items()}  # of two seeds
    for name, x in with_empty_slots(without_empty_slots(two, untrained.slots, 1), untrained.slots, 1).items():
        np.testing.assert_array_equal(x, two[name], err_msg=name)
