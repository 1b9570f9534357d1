"""The gap: its formulas by hand on three nodes, its laws, its file, and what it refuses."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mechgap as mg
from mechgap.faithfulness import gap, load_gap
from mechgap.faithfulness.external import hint_scores, matches
from mechgap.faithfulness.internal import distances_to, mixture_distance, on_timescale, row_distance
from mechgap.faithfulness.measure import internal_measures, observe_all
from mechgap.faithfulness.mechanistic_gap import _compile_call
from mechgap.faithfulness.probes import Meant, attention_of, make_probe, probe, uniform_attention
from mechgap.networks import ClrsNet
from mechgap.programs import program_parameters
from mechgap.storage import read_tensors, write_tensors
from mechgap.trace import Kind, Location, Spec, Stage, Variable
from mechgap.training import TrainConfig
from mechgap.training.data import Batch

CONFIG = TrainConfig(
    algorithm="bfs", hidden=16, sizes=(5,), steps=6, seeds=3, eval_every=3, length_generalize=False, batch=8
)


@pytest.fixture(scope="module")
def compiled() -> mg.Compiled:
    return mg.compile("bfs", hidden=16, certify="none")


@pytest.fixture(scope="module")
def ensemble() -> mg.Ensemble:
    settings = {k: v for k, v in CONFIG.as_json().items() if k != "algorithm"}
    return mg.train("bfs", **settings)


@pytest.fixture(scope="module")
def measured(ensemble: mg.Ensemble, compiled: mg.Compiled) -> mg.Gap:
    return gap(ensemble, compiled, splits=("validation", "test"), samples=8, shown=2)


# Three nodes in a row, 0 - 1 - 2, one step of bfs from node 0: node 1 looks at node 0, the others at themselves.
STAR = jnp.asarray([[1.0, 0, 0], [1, 0, 0], [0, 0, 1]])
UNIFORM = jnp.asarray([[1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 2, 1 / 2]])


def three_nodes(alpha: jax.Array, steps: int = 1, length: int = 2) -> dict[str, float]:
    shape = (steps, 1, 1)
    meant = Meant(
        star=jnp.broadcast_to(STAR, (*shape, 3, 3)),
        decisive=jnp.broadcast_to(jnp.asarray([False, True, False]), (*shape, 3)),
        equivalents={"all neighbours": jnp.broadcast_to(UNIFORM.at[1].set(STAR[1]), (*shape, 3, 3))},
    )
    batch = Batch({}, {}, {}, jnp.asarray([length], jnp.int32))
    inside = jnp.arange(1, steps + 1)[:, None] < batch.lengths
    measures, _ = internal_measures(jnp.broadcast_to(alpha, (*shape, 3, 3)), batch, meant, inside)
    return {name: float(x) for name, x in measures.items()}


def test_every_internal_formula_by_hand() -> None:
    found = three_nodes(UNIFORM)
    # |1/2 - 1| + |1/2| = 1 in rows 0 and 2, |1/3 - 1| + 1/3 + 1/3 = 4/3 in row 1: 10/3 in all, t = 1, n = 3.
    assert found["internal/eq24"] == pytest.approx(10 / 3 / 9)
    assert found["internal/rows"] == pytest.approx((1 / 2 + 2 / 3 + 1 / 2) / 3)
    assert found["internal/decisive"] == pytest.approx(2 / 3)
    assert found["internal/idle"] == pytest.approx(1 / 2)
    assert found["internal/equivalent/all neighbours"] == pytest.approx(2 / 9)
    assert found["internal/eq24"] == pytest.approx(2 / 3 * found["internal/rows"])  # Eq. 24 is 2/n times ours


def test_steps_beyond_the_length_do_not_count() -> None:
    assert three_nodes(UNIFORM, steps=4, length=3) == pytest.approx(three_nodes(UNIFORM))


def test_the_distance_grows_as_attention_is_mixed_with_uniform() -> None:
    shares = np.linspace(0, 1, 11)
    found = [three_nodes((1 - s) * STAR + s * UNIFORM) for s in shares]
    for measure in ("internal/eq24", "internal/rows", "internal/decisive"):
        values = np.array([x[measure] for x in found])
        assert values[0] == 0
        assert (np.diff(values) > 0).all()
        np.testing.assert_allclose(values, shares * values[-1], atol=1e-6)


def test_heads_are_read_in_three_ways() -> None:
    mask = jnp.ones((1, 1, 3), bool)
    heads = jnp.stack([STAR, UNIFORM])[None, None]
    _, onehot = distances_to(heads, STAR[None, None, None], mask)
    assert float(onehot["best_head"]) == 0
    assert float(onehot["mixture"]) == pytest.approx(0, abs=1e-6)
    assert float(onehot["mean_head"]) == pytest.approx((1 / 2 + 2 / 3 + 1 / 2) / 3 / 2)
    between = 0.3 * STAR + 0.7 * UNIFORM
    _, mixed = distances_to(heads, between[None, None, None], mask)
    assert float(mixed["mixture"]) < 0.02 < 0.1 < float(mixed["best_head"])
    assert float(mixture_distance(heads[:, :, :1], between[None, None], mask)) == pytest.approx(
        float(row_distance(STAR, between).mean())
    )


def test_the_uniform_timescale_stretches_short_executions() -> None:
    rows = jnp.asarray([[0.0, 0.0], [1.0, 1.0], [7.0, 2.0], [7.0, 3.0]])[..., None]  # of 3 and of 5 frames
    lengths = jnp.asarray([3, 5])
    mask = (jnp.arange(1, 5)[:, None] < lengths)[..., None]
    np.testing.assert_allclose(on_timescale(rows, mask, lengths, 4), [0, 0.5, 1.5, 2])


HINTS = Spec(
    (
        Variable("pos", Stage.INPUT, Location.NODE, Kind.SCALAR),
        Variable("d", Stage.HINT, Location.NODE, Kind.SCALAR),
        Variable("reach", Stage.HINT, Location.NODE, Kind.MASK),
        Variable("pi", Stage.HINT, Location.NODE, Kind.POINTER),
    )
)
LOGITS = {
    "d": jnp.asarray([[[0.0, 1.3, 2.05]]]),
    "reach": jnp.asarray([[[8.0, 0.5, -0.5]]]),  # sigmoids 0.9997, 0.62, 0.38
    "pi": jnp.asarray([[[[9.0, 0, 0], [0, 0, 1], [0, 1, 0]]]]),
}
TRUTH = {
    "d": jnp.asarray([[[0.0, 1.0, 2.0]]]),
    "reach": jnp.asarray([[[1.0, 1.0, 1.0]]]),
    "pi": jnp.asarray([[[0, 0, 1]]]),
}


@pytest.mark.parametrize(
    ("name", "order", "expected"),
    [
        ("d", "printed", [1, 1, 1]),  # within 0.5
        ("d", "meant", [1, 0, 1]),  # within 0.1
        ("reach", "printed", [1, 0, 0]),  # within 0.1
        ("reach", "meant", [1, 1, 0]),  # within 0.5
        ("pi", "printed", [1, 0, 1]),
        ("pi", "meant", [1, 0, 1]),
    ],
)
def test_every_external_formula_by_hand(name: str, order: str, expected: list[int]) -> None:
    np.testing.assert_array_equal(matches(HINTS[name], LOGITS[name], TRUTH[name], order)[0, 0], expected)


def test_a_prediction_that_is_too_small_does_not_match() -> None:
    """Eq. 25 lacks the absolute value."""
    assert not matches(HINTS["d"], jnp.full((1, 1, 1), -50.0), jnp.zeros((1, 1, 1)), "printed").any()


def test_the_benchmarks_hint_scores_by_hand() -> None:
    found = hint_scores(HINTS, LOGITS, TRUTH, jnp.ones((1, 1), bool))
    assert float(found["d"]) == pytest.approx((0.3**2 + 0.05**2) / 3, rel=1e-5)
    assert float(found["reach"]) == pytest.approx(2 * 1 * (2 / 3) / (1 + 2 / 3))  # precision 1, recall 2/3
    assert float(found["pi"]) == pytest.approx(2 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("splits", [("validation",), ("train", "test")], ids=["one", "others"])
def test_a_network_has_no_gap_from_itself(compiled: mg.Compiled, splits: tuple[str, ...]) -> None:
    found = gap(compiled, compiled, config=CONFIG, samples=8, splits=splits)
    for split in splits:
        for measure in ("eq24", "rows", "decisive", "idle", "mean_head", "mixture"):
            assert found.values(f"internal/{measure}", split)[0] == 0.0, (split, measure)
        assert found.values("external/meant", split)[0] == 1.0
        assert found.values("external/printed", split)[0] == 1.0
        assert found.measures[split]["score"][0] == 1.0


def test_measures_lie_between_0_and_1(measured: mg.Gap) -> None:
    for split, table in measured.measures.items():
        n = measured.about["splits"][split]["n"]
        for name, values in table.items():
            highest = 2 / n if name == "internal/eq24" else 1
            assert ((values >= 0) & (values <= highest)).all(), (split, name)


def test_an_untrained_network_and_uniform_attention_are_far(measured: mg.Gap) -> None:
    far = measured.baselines["validation"]
    assert far["untrained"]["internal/rows"].min() > 0.25
    assert far["uniform"]["internal/rows"][0] > 0.25
    assert far["compiled"]["internal/rows"][0] == 0
    assert len(far["untrained"]["internal/rows"]) == 8


@pytest.mark.slow
def test_the_gap_does_not_change_when_nodes_are_relabelled(ensemble: mg.Ensemble, compiled: mg.Compiled) -> None:
    on = probe(CONFIG, "validation", 6, compiled)
    order = np.array([3, 1, 4, 0, 2])
    relabelled = replace(
        on.batch,
        inputs={k: x[:, order][:, :, order] if x.ndim == 3 else x[:, order] for k, x in on.batch.inputs.items()},
        hints={k: _relabelled_hint(x, order, k == "pi_h") for k, x in on.batch.hints.items()},
    )
    steps = on.trace.steps
    found = []
    for batch, decisive in ((on.batch, on.meant.decisive), (relabelled, on.meant.decisive[..., order])):
        star = attention_of(compiled.network, batch, steps)
        alpha = attention_of(jax.tree.map(jnp.asarray, ensemble.member(0)), batch, steps)
        measures, curves = internal_measures(alpha, batch, Meant(star, decisive, {}), on.inside)
        found.append({**measures, **{f"curve {k}": x for k, x in curves.items()}})
    for name, value in found[0].items():
        np.testing.assert_allclose(value, found[1][name], atol=1e-5, err_msg=name)


def _relabelled_hint(x: jax.Array, order: np.ndarray, pointer: bool) -> jax.Array:
    moved = x[..., order]
    return jnp.argsort(jnp.asarray(order))[moved.astype(int)] if pointer else moved


def test_padding_steps_change_nothing(ensemble: mg.Ensemble, compiled: mg.Compiled) -> None:
    on = probe(CONFIG, "validation", 6, compiled)
    assert on.meant is not None

    def longer(x: jax.Array) -> jax.Array:
        return jnp.pad(x, [(0, 3)] + [(0, 0)] * (x.ndim - 1))

    meant = Meant(
        longer(on.meant.star), longer(on.meant.decisive), {k: longer(x) for k, x in on.meant.equivalents.items()}
    )
    padded = make_probe("validation", on.trace.pad(on.trace.steps + 3), meant)
    short, long = observe_all(ensemble.networks, on), observe_all(ensemble.networks, padded)
    for name, values in short.measures.items():
        np.testing.assert_allclose(values, long.measures[name], atol=1e-5, err_msg=name)
    for name, values in short.curves.items():
        np.testing.assert_allclose(values, long.curves[name], atol=1e-5, err_msg=name)


def test_the_compiled_attention_is_what_the_interpreter_means(compiled: mg.Compiled) -> None:
    on = probe(CONFIG, "test", 8, compiled)
    meant = compiled.program.interpret(**{k: on.trace.inputs[k] for k in ("pos", "s", "A", "adj")})
    inside = np.asarray(on.inside)
    np.testing.assert_array_equal(np.asarray(on.meant.star)[inside], meant.attention[:, 0][inside])


def test_equivalent_attention_differs_on_idle_rows_only(compiled: mg.Compiled) -> None:
    on = probe(CONFIG, "validation", 8, compiled)
    busy = np.asarray(on.meant.decisive)
    for name, star in on.meant.equivalents.items():
        np.testing.assert_array_equal(np.asarray(star)[busy], np.asarray(on.meant.star)[busy], err_msg=name)
        np.testing.assert_allclose(np.asarray(star)[np.asarray(on.inside)].sum(-1), 1, err_msg=name)
    assert {"lowest reached", "own parent", "all neighbours"} == set(on.meant.equivalents)


def test_uniform_attention_is_over_neighbours(compiled: mg.Compiled) -> None:
    on = probe(CONFIG, "validation", 4, compiled)
    rows = np.asarray(uniform_attention(on.trace))[0, :, 0]
    joined = (on.trace.inputs["adj"] > 0) | np.eye(5, dtype=bool)
    assert (rows[~joined] == 0).all()
    np.testing.assert_allclose(rows.sum(-1), 1, rtol=1e-6)


def test_a_gap_is_saved_and_loaded_without_loss(measured: mg.Gap, tmp_path: Path) -> None:
    measured.save(tmp_path)
    loaded = load_gap(tmp_path)
    assert loaded.algorithm == measured.algorithm
    for split, table in measured.measures.items():
        for name, values in table.items():
            np.testing.assert_array_equal(loaded.measures[split][name], values)
            np.testing.assert_array_equal(loaded.values(name, split), values)
    for name, values in measured.shown.items():
        np.testing.assert_array_equal(loaded.shown[name], values)
    np.testing.assert_allclose(loaded.distances, measured.distances, atol=1e-3)
    assert loaded.about == measured.about
    assert loaded.about["star"] == "interpreter"
    assert loaded.closest() == measured.closest()


def test_diverged_networks_do_not_count(measured: mg.Gap) -> None:
    lost = np.array([False, True, False])
    broken = {k: np.where(lost, np.nan, x) for k, x in measured.measures["validation"].items()}
    found = replace(
        measured,
        members=measured.members | {"diverged": lost},
        measures=measured.measures | {"validation": broken},
    )
    assert found.summary("internal/rows")["n"] == 2
    assert np.isfinite(found.summary("internal/rows")["mean"])
    assert found.closest() != 1
    assert len(found.clusters().labels) == 2
    nobody = replace(measured, members=measured.members | {"diverged": np.ones(3, bool)})
    assert nobody.as_json()["networks"] == 0
    assert "nan" in repr(nobody)


@pytest.mark.slow
def test_without_a_program_only_hints_are_compared() -> None:
    config = TrainConfig(algorithm="dfs_simplified", hidden=8, sizes=(4,), length_generalize=False)
    spec = probe(config, "test", 2).trace.spec
    network = ClrsNet.init(spec, config.network_config(), key=jax.random.key(0))
    found = gap(network, None, config=config, splits=("validation",), samples=2)
    names = found.measures["validation"]
    assert any(name.startswith("external/") for name in names)
    assert not any(name.startswith("internal/") for name in names)
    assert found.about["compiled"] is None
    assert found.about["star"] is None


@pytest.mark.slow
def test_what_the_compiled_network_needs_is_said(ensemble: mg.Ensemble) -> None:
    config = TrainConfig(algorithm="bellman_ford", hidden=8, sizes=(4,), length_generalize=False)
    compiled = mg.compile("bellman_ford", hidden=16, certify="none")
    network = ClrsNet.init(compiled.program.spec, config.network_config(), key=jax.random.key(0))
    found = gap(network, compiled, config=config, splits=("validation",), samples=2)
    assert found.about["compiled"]["needs"] == {"edge_info": True}
    assert found.about["compiled"]["differs"] == {"use_layer_norm": False}


def _other_program(ensemble: mg.Ensemble) -> None:
    gap(ensemble, mg.compile("bellman_ford", hidden=16, certify="none"))


def _double(ensemble: mg.Ensemble) -> None:
    gap(ensemble, mg.compile("bfs", hidden=16, dtype="float64", certify="none"))


def _split(ensemble: mg.Ensemble) -> None:
    gap(ensemble, splits=("holdout",))


def _no_data(ensemble: mg.Ensemble) -> None:
    gap(ensemble.member(0))


def _not_a_network(ensemble: mg.Ensemble) -> None:
    gap({"weights": 1})  # type: ignore[arg-type]


def _too_small(ensemble: mg.Ensemble) -> None:
    gap(ensemble, mg.compile("bfs", hidden=16, max_nodes=3, certify="none"))


def _other_kind(ensemble: mg.Ensemble) -> None:
    config = TrainConfig(algorithm="insertion_sort")
    trained = mg.compile(mg.program("insertion_sort", permutations=True), certify="none")
    gap(trained, mg.compile("insertion_sort", certify="none"), config=config)


def _no_measure(ensemble: mg.Ensemble) -> None:
    gap(ensemble, splits=("test",), samples=2).values("internal/rows", "test")


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (_other_program, r"learned 'bfs', but the compiled program runs 'bellman_ford'.*same algorithm"),
        (_double, "dtype='float32'"),
        (_split, "one of train, validation, test; got 'holdout'"),
        (_no_data, "say on what data.*config=TrainConfig"),
        (_not_a_network, "expects an ensemble, a compiled program or a network; got dict"),
        (_too_small, "No train sample of 5 nodes can be compared.*max_nodes"),
        (
            _other_kind,
            r"know 'pred' as output of kind permutation_pointer, .* as output of kind pointer.*"
            r"mg\.compile\(mg\.program\('insertion_sort', permutations=True\)\)\.",
        ),
        (_no_measure, "No measure 'internal/rows' of 'test'; there are"),
    ],
)
def test_what_a_gap_refuses(attempt: object, message: str, ensemble: mg.Ensemble) -> None:
    with pytest.raises((ValueError, TypeError, KeyError), match=message):
        attempt(ensemble)  # type: ignore[operator]


@pytest.mark.parametrize("name", mg.program_names("graph"))
@pytest.mark.parametrize("given", [True, False])
def test_the_call_that_compiles_what_was_learned_does_so(name: str, given: bool) -> None:
    options = {k: given for k in ("permutations", "pred_as_input") if k in program_parameters(name)}
    learned = mg.program(name, **options).spec
    said = _compile_call(learned, name)
    if not options:
        assert said == "a program with inputs, hints and outputs as theirs"
    else:
        (option,) = options
        assert said == f"mg.compile(mg.program('{name}', {option}={given}))"
    assert _compile_call(learned, "my_own") == "a program with inputs, hints and outputs as theirs"


def test_a_damaged_file_is_named(measured: mg.Gap, tmp_path: Path) -> None:
    measured.save(tmp_path)
    path = tmp_path / "gap.safetensors"
    tensors, header = read_tensors(path, "mechgap.gap/1")
    write_tensors(path, {k: x for k, x in tensors.items() if k != "members/seed"}, header)
    with pytest.raises(ValueError, match=r"gap.safetensors lacks members/seed; measure the gap again"):
        load_gap(tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"gap.safetensors is not a readable safetensors file"):
        load_gap(tmp_path)
