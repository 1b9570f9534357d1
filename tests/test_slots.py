"""Many algorithms in one network: each of them runs as in a network of its own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mechgap as mg
from mechgap.networks import NetConfig
from mechgap.networks.slots import SharedNet, Slots, with_empty_slots, without_empty_slots
from mechgap.trace import Stage
from mechgap.training.weights import named
from own_networks import own_network

FEW = ("bfs", "dijkstra", "floyd_warshall", "heapsort", "lcs_length", "segments_intersect")
CONFIG = NetConfig(hidden=8)


def slots_of(names: tuple[str, ...]) -> Slots:
    return Slots(tuple((name, mg.algorithm(name).spec) for name in names))


@pytest.fixture(scope="module")
def untrained() -> SharedNet:
    return eqx.filter_jit(lambda key: SharedNet.init(slots_of(FEW), CONFIG, key=key))(jax.random.key(2))


@pytest.mark.parametrize("name", [n if n == "heapsort" else pytest.param(n, marks=pytest.mark.slow) for n in FEW])
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
