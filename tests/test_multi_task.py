"""One network trained on several algorithms, at sizes that take seconds."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mechgap.networks import ClrsNet, NetConfig
from mechgap.networks.slots import SharedNet
from mechgap.trace import Spec, Stage
from mechgap.training.loss import losses
from mechgap.training.multi_task import MultiTask, MultiTaskConfig, load_multi_task, train_together
from mechgap.training.multi_task.loop import loss_of, predict
from mechgap.training.multi_task.pool import Pool, slots_of, sources_of, training_pool

SETTINGS = {
    "algorithms": ("bfs", "insertion_sort", "optimal_bst", "segments_intersect"),
    "sizes": [4, 5],
    "steps": 4,
    "batch": 2,
    "algorithms_per_step": 2,
    "pool": 3,
    "validation": 4,
    "hidden": 8,
}
TWO = {"algorithms": ("bfs", "optimal_bst")}
WITHOUT_HINTS = {"hint_mode": "none", "frames": 4}  # compiled in a fraction of the time


@pytest.fixture(scope="module")
def config() -> MultiTaskConfig:
    return MultiTaskConfig.from_settings({**SETTINGS, **TWO, **WITHOUT_HINTS})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("together")


@pytest.fixture(scope="module")
def trained(config: MultiTaskConfig, folder: Path) -> MultiTask:
    return train_together(config, folder=folder, quiet=True)


def test_all_means_the_benchmark() -> None:
    assert len(MultiTaskConfig().algorithms) == 30


def test_every_algorithm_has_a_score(trained: MultiTask, config: MultiTaskConfig) -> None:
    assert tuple(trained.scores) == config.algorithms
    assert all(scores.shape == (1,) and 0 <= scores[0] <= 1 for scores in trained.scores.values())
    assert trained.manifest["nodes"] == 6  # five keys of optimal_bst and a gap more


def test_what_was_written_is_read_back(trained: MultiTask, folder: Path, config: MultiTaskConfig) -> None:
    again = load_multi_task(folder / config.name())
    assert again.config == config
    assert jax.tree.all(jax.tree.map(np.array_equal, again.networks, trained.networks))
    assert json.dumps(again.manifest) == json.dumps(trained.manifest)
    assert train_together(config, folder=folder, quiet=True).scores == again.scores  # not trained again


@pytest.mark.slow
def test_with_hints_a_network_is_trained_as_well() -> None:
    result = train_together(MultiTaskConfig.from_settings({**SETTINGS, "processor": "triplet_gmpnn"}), quiet=True)
    assert np.isfinite(result.manifest["loss"]).all()


HINTED = pytest.param({}, marks=pytest.mark.slow, id="with hints")


@pytest.mark.parametrize("change", [HINTED, pytest.param(WITHOUT_HINTS, id="without hints")])
def test_the_loss_is_that_of_the_algorithms_own_networks(change: dict) -> None:
    """Slots and padding change nothing: each algorithm's loss is what its network alone says on its own size."""
    config = MultiTaskConfig.from_settings({**SETTINGS, **change})
    sources = sources_of(config)
    slots, whole = slots_of(sources), training_pool(config, slots_of(sources), sources, quiet=True)
    net = SharedNet.init(slots, config.network, key=jax.random.key(3))
    frames = config.frames or int(whole.lengths.max())
    together = jax.jit(lambda number, samples: loss_of(net, (number, samples, None), frames=frames, hint_weight=1.0))
    for number, source in enumerate(sources):
        samples = whole.at(number, jnp.arange(3))  # those of the smallest size
        padded = together(jnp.array([number]), jax.tree.map(lambda x: x[None], samples))
        alone = _alone(net, number, source.spec, samples, frames)
        np.testing.assert_allclose(padded, alone, rtol=1e-5, err_msg=source.algorithm.name)
    assert together._cache_size() == 1  # one compilation for all algorithms


def _alone(net: SharedNet, number: int, spec: Spec, samples: Pool, frames: int) -> jax.Array:
    name, n = net.slots.algorithms[number], int(samples.sizes[0])
    names = net.slots.names[name]
    mine = net.network(number)
    own = ClrsNet(
        {v.name: mine.encoders[names[v.name]] for v in spec if names[v.name] in mine.encoders},
        mine.processor,
        {v.name: mine.decoders[names[v.name]] for v in spec if names[v.name] in mine.decoders},
        spec,
        mine.config,
    )

    def cut(stage: Stage, values: dict) -> dict:
        leading = 2 if stage == Stage.HINT else 1
        shapes = {v.name: v.shape(n) for v in spec.at(stage)}
        return {k: values[names[k]][(slice(None),) * leading + tuple(map(slice, shape))] for k, shape in shapes.items()}

    batch = samples.as_batch()
    inputs, outputs = cut(Stage.INPUT, batch.inputs), cut(Stage.OUTPUT, batch.outputs)
    hints = cut(Stage.HINT, batch.hints) if batch.hints else {}
    by_sample = {k: jnp.moveaxis(x, 1, 0) for k, x in hints.items()}
    lengths = samples.lengths if hints else jnp.full_like(samples.lengths, frames)
    run = jax.jit(jax.vmap(lambda i, h, length: own(i, h, length, steps=frames, record=False)))
    each = losses(spec, run(inputs, by_sample, lengths), hints, outputs, samples.lengths)
    return each.total()


def test_without_hints_a_network_is_not_told_how_long_an_execution_is(config: MultiTaskConfig) -> None:
    sources = sources_of(config)
    slots = slots_of(sources)
    pool = training_pool(config, slots, sources, quiet=True)
    assert pool.hints == {}
    net = SharedNet.init(slots, config.network, key=jax.random.key(3))
    run = jax.jit(lambda samples: predict(net, 0, samples, 4).outputs)
    samples = pool.at(0)
    other = run(eqx.tree_at(lambda pool: pool.lengths, samples, samples.lengths * 0 + 2))
    for slot, x in run(samples).items():
        np.testing.assert_array_equal(x, other[slot])


BAD = [
    ({"algorithms": ("bsf",)}, "No algorithm 'bsf'. Did you mean 'bfs'"),
    ({"algorithms": ("bfs", "bfs")}, "algorithms must be different names, at least one; got bfs, bfs"),
    ({"algorithms": ()}, "at least one; got none"),
    ({"sizes": [3]}, "sizes must be whole numbers of at least 4"),
    ({"frames": 1}, r"frames must be 0 \(as many as needed\) or at least 2; got 1"),
    ({"algorithms_per_step": 5}, "algorithms_per_step must not be above the number of algorithms, 4; got 5"),
    ({"pool": 0}, "pool must be a whole number of at least 1; got 0"),
    ({"hiden": 4}, "No setting 'hiden'. Did you mean 'hidden'"),
    ({"pre_attention_bias": 5}, "pre_attention_bias is for one size of graph"),
]


@pytest.mark.parametrize(("change", "says"), BAD)
def test_impossible_settings_are_refused(change: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MultiTaskConfig.from_settings({**SETTINGS, **change})


def test_the_defaults_are_a_network_config() -> None:
    assert MultiTaskConfig().network == NetConfig()
