"""Correlations, clusters, swaps of attention, landscapes and the forms of compiled networks that are trained on."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import mechgap as mg
from mechgap.faithfulness.causal import ABOUT, swap_attention
from mechgap.faithfulness.clusters import attention_distances, find_clusters
from mechgap.faithfulness.correlation import correlate, implied_count, mean_interval
from mechgap.faithfulness.landscape import (
    landscapes,
    load_landscapes,
    loss_of,
    random_direction,
    save_landscapes,
    scores_under_noise,
)
from mechgap.faithfulness.probes import Probe, attention_of, probe
from mechgap.faithfulness.stability import first_step, redundant, rotated, variants
from mechgap.faithfulness.study import run_study
from mechgap.networks import ClrsNet, Replacement, predict
from mechgap.training import TrainConfig, fit

CONFIG = TrainConfig(algorithm="bfs", hidden=16, sizes=(5,), seeds=2, steps=1, batch=4, length_generalize=False)


@pytest.fixture(scope="module")
def compiled() -> mg.Compiled:
    return mg.compile("bfs", hidden=16, certify="none")


@pytest.fixture(scope="module")
def on(compiled: mg.Compiled) -> Probe:
    return probe(CONFIG, "validation", 4, compiled)


@pytest.fixture(scope="module")
def networks(on: Probe) -> ClrsNet:
    keys = jax.random.split(jax.random.key(1), 2)
    return jax.vmap(lambda key: ClrsNet.init(on.trace.spec, CONFIG.network_config(), key=key))(keys)


def test_correlations_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    y = 0.6 * x + rng.normal(size=40)
    found = correlate(x, y)
    assert (found.pearson, found.pearson_p) == pytest.approx(tuple(stats.pearsonr(x, y)))
    assert (found.spearman, found.spearman_p) == pytest.approx(tuple(stats.spearmanr(x, y)))
    assert found.pearson_interval[0] < found.pearson < found.pearson_interval[1]
    assert found.spearman_interval[0] < found.spearman < found.spearman_interval[1]
    # A percentile bootstrap and Fisher's z agree for a plain normal sample.
    fisher = stats.pearsonr(x, y).confidence_interval()
    np.testing.assert_allclose(found.pearson_interval, fisher, atol=0.12)


def test_a_constant_column_has_no_correlation() -> None:
    found = correlate(np.ones(10), np.arange(10.0))
    assert np.isnan([found.pearson, found.pearson_p, found.spearman, *found.pearson_interval]).all()
    assert correlate(np.arange(2.0), np.arange(2.0)).n == 2
    assert np.isnan(mean_interval(np.array([np.nan]))).all()


@pytest.mark.parametrize(("r", "p"), [(-0.124, 0.203), (-0.055, 0.569)])
def test_the_papers_table_1_implies_about_108_networks(r: float, p: float) -> None:
    assert 104 < implied_count(r, p) < 112


def test_two_kinds_of_networks_are_two_stable_clusters() -> None:
    rng = np.random.default_rng(0)
    kind = np.array([0] * 5 + [1] * 6)
    apart = 0.5 * (kind[:, None] != kind[None, :]) + 0.05
    noise = 0.02 * rng.random((8, 11, 11))
    distances = apart + noise + np.swapaxes(noise, 1, 2)
    for matrix in distances:
        np.fill_diagonal(matrix, 0)
    found = find_clusters(distances)
    assert (found.cut, found.stable) == (2, 2)
    assert len(set(found.labels[:5])) == len(set(found.labels[5:])) == 1
    assert find_clusters(distances[:, :2, :2]).stable == 0


def test_distances_between_networks_by_hand() -> None:
    one = np.array([[1.0, 0], [0.5, 0.5]])
    other = np.array([[0.0, 1], [0.5, 0.5]])
    attention = np.stack([one, other])[:, None, None, None].repeat(3, axis=1).astype(np.float32)
    inside = np.array([[True], [True], [False]])
    np.testing.assert_allclose(attention_distances(attention, inside)[0], [[0, 0.5], [0.5, 0]])


@pytest.mark.slow
def test_own_attention_put_back_changes_nothing(networks: ClrsNet, on: Probe) -> None:
    network = jax.tree.map(lambda x: x[0], networks)
    steps, batch = on.trace.steps, on.batch
    plain = predict(network, batch.inputs, batch.hints, batch.lengths, steps=steps)
    own = plain.activations.coefficients
    everywhere = jnp.ones((*own.shape[:4], own.shape[-1]), bool)
    for given in (Replacement(own, everywhere), Replacement(jnp.zeros_like(own), ~everywhere)):
        again = predict(network, batch.inputs, batch.hints, batch.lengths, steps=steps, replacement=given)
        np.testing.assert_allclose(again.outputs["pi"], plain.outputs["pi"], atol=1e-5)
    changed = predict(
        network,
        batch.inputs,
        batch.hints,
        batch.lengths,
        steps=steps,
        replacement=Replacement(own[..., ::-1], everywhere),
    )
    assert np.abs(changed.outputs["pi"] - plain.outputs["pi"]).max() > 1e-4


@pytest.mark.slow
def test_swaps_cover_every_condition(networks: ClrsNet, compiled: mg.Compiled, on: Probe) -> None:
    found = swap_attention(networks, compiled, on)
    assert set(found.conditions) == set(ABOUT)
    assert (found.conditions["compiled network, own"]["score"] == 1).all()
    assert (found.conditions["compiled network, uniform"]["score"] < 1).all()
    assert (found.change("own") == 0).all()
    # Together the two networks' attentions are swapped: each attends as the other.
    steps = on.trace.steps
    first, second = (jax.tree.map(lambda x, i=i: x[i], networks) for i in range(2))
    theirs = jnp.moveaxis(attention_of(second, on.batch, steps), 1, 0)[:, :, None]
    everywhere = jnp.ones((*theirs.shape[:4], theirs.shape[-1]), bool)
    swapped = predict(
        first,
        on.batch.inputs,
        on.batch.hints,
        on.batch.lengths,
        steps=steps,
        replacement=Replacement(theirs, everywhere),
    )
    right = np.mean(np.argmax(swapped.outputs["pi"], -1) == np.asarray(on.batch.outputs["pi"]))
    assert found.conditions["another seed"]["score"][0] == pytest.approx(right)


def test_swaps_need_a_program(networks: ClrsNet, compiled: mg.Compiled) -> None:
    with pytest.raises(ValueError, match="needs a probe that was made with the compiled network"):
        swap_attention(networks, compiled, probe(CONFIG, "validation", 2))


def test_a_direction_has_the_norm_of_every_filter(networks: ClrsNet, compiled: mg.Compiled) -> None:
    network = jax.tree.map(lambda x: x[0], networks)
    direction = random_direction(network, key=jax.random.key(3))
    for one, other in (
        (network.processor.value, direction.processor.value),
        (network.decoders["pi"][0], direction.decoders["pi"][0]),
    ):
        np.testing.assert_allclose(np.linalg.norm(one.weight, axis=0), np.linalg.norm(other.weight, axis=0), rtol=1e-4)
        assert (np.asarray(other.bias) == 0).all()
    idle = np.abs(np.asarray(compiled.network.processor.value.weight)).sum(0) == 0
    assert idle.any()
    still = random_direction(compiled.network, key=jax.random.key(3)).processor.value.weight
    assert (np.asarray(still)[:, idle] == 0).all()


@pytest.mark.slow
def test_a_landscape_has_the_network_in_its_middle(networks: ClrsNet, on: Probe, tmp_path: Path) -> None:
    network = jax.tree.map(lambda x: x[0], networks)
    found = landscapes(network, on.batch, "learned", key=jax.random.key(0), points=3)
    assert [x.scale for x in found] == ["general", "local"]
    for x in found:
        assert x.loss[1, 1] == pytest.approx(float(loss_of(network, on.batch)), rel=1e-5)
        assert x.sharpness["loss"] == pytest.approx(float(x.loss[1, 1]), rel=1e-5)
        assert np.abs(x.loss[0, 0] - x.loss[1, 1]) > 0
    save_landscapes(tmp_path, found)
    for x, again in zip(found, load_landscapes(tmp_path), strict=True):
        np.testing.assert_array_equal(x.loss, again.loss)
        assert (x.name, x.scale, x.sharpness, x.noise) == (again.name, again.scale, again.sharpness, again.noise)


def test_noise_hurts_the_compiled_network_and_none_does_not(compiled: mg.Compiled, on: Probe) -> None:
    found = scores_under_noise(compiled.network, on.batch, key=jax.random.key(0), scales=(1.0,), draws=4)
    assert found["0"] == 1.0
    assert found["1"] < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bfs", "bellman_ford"])
def test_other_forms_of_a_compiled_network_compute_the_same(name: str) -> None:
    made = mg.compile(name, hidden=40, certify="none")
    config = TrainConfig(algorithm=name, sizes=(5,))
    batch = probe(config, "validation", 4, made).batch
    steps = next(iter(batch.hints.values())).shape[0]
    plain = predict(made.network, batch.inputs, batch.hints, batch.lengths, steps=steps)
    copies = redundant(made.network)
    for network in (copies, rotated(made.network, key=jax.random.key(0)), rotated(copies, key=jax.random.key(0))):
        again = predict(network, batch.inputs, batch.hints, batch.lengths, steps=steps)
        np.testing.assert_array_equal(np.argmax(again.outputs["pi"], -1), np.argmax(plain.outputs["pi"], -1))
        np.testing.assert_allclose(again.activations.coefficients, plain.activations.coefficients, atol=1e-4)
    used = [np.abs(np.asarray(net.processor.skip.weight)).sum(0) > 0 for net in (made.network, copies)]
    assert used[1].sum() >= 2 * used[0].sum()
    turned = np.asarray(rotated(made.network, key=jax.random.key(0)).processor.sender.weight)
    assert (turned != 0).mean() > 2 * (np.asarray(made.network.processor.sender.weight) != 0).mean()


@pytest.mark.slow
def test_at_full_margin_attention_has_no_gradient(on: Probe) -> None:
    program = mg.program("bfs")
    hard, soft = (
        variants(program, (m,), hidden=16, max_nodes=5, min_gap=0.001, key=jax.random.key(0))[0] for m in (60.0, 0.001)
    )
    assert first_step(hard.network, on.batch).attention_gradient_norm == 0
    assert first_step(soft.network, on.batch).attention_gradient_norm > 0
    assert hard.name == "margin 60"


def test_variants_are_every_combination() -> None:
    found = variants(mg.program("bfs"), (4.6, 30.0), hidden=16, key=jax.random.key(0))
    assert [v.name for v in found][:4] == [
        "margin 4.6",
        "margin 4.6, rotated",
        "margin 4.6, redundant",
        "margin 4.6, redundant, rotated",
    ]
    assert len({v.name for v in found}) == 8


@pytest.mark.slow
def test_one_ensemble_starts_from_several_networks(compiled: mg.Compiled) -> None:
    starts = [compiled.network, redundant(compiled.network)]
    settings = {"use_layer_norm": False, "learning_rate": 1e-30, "seeds": 2}
    configs = [CONFIG.with_settings({**settings, "init_from": f"form {i}"}) for i in range(2)]
    found = fit(configs, init_from=starts, quiet=True)
    for member, start in zip(range(4), (0, 0, 1, 1), strict=True):
        weights = (found.member(member).processor.skip.weight, starts[start].processor.skip.weight)
        np.testing.assert_allclose(*weights, atol=1e-20)
    with pytest.raises(ValueError, match="one per config: 2; got 3"):
        fit(configs, init_from=[*starts, starts[0]], quiet=True)


@pytest.mark.slow
def test_a_study_leaves_everything_a_report_needs(tmp_path: Path) -> None:
    config = CONFIG.with_settings({"hidden": 8})
    ensemble, found = run_study(config, tmp_path / "study", splits=("validation",), samples=2, points=3, quiet=True)
    assert len(ensemble) == 2
    assert found is not None
    assert sorted(p.name for p in (tmp_path / "study").iterdir()) == [
        *("causal.json", "config.json", "excerpt.safetensors", "gap.json", "gap.safetensors"),
        *("history.safetensors", "landscape.safetensors", "manifest.json", "metrics.json"),
    ]
    assert {x.name for x in load_landscapes(tmp_path / "study")} == {"learned", "initial", "compiled"}
    with pytest.raises(ValueError, match="A study measures gap, causal, landscape; got 'speed'"):
        run_study(config, tmp_path / "study", measure=("speed",))
