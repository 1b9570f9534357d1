"""Everything that is measured of one network on one probe, as one function of arrays; ensembles map it over members."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from mechgap.faithfulness.external import MARGINS, hint_scores, matches
from mechgap.faithfulness.internal import distances_to, eq24, masked_mean, on_timescale
from mechgap.faithfulness.probes import Meant, Probe, heads_in_front
from mechgap.networks import ClrsNet, Record, postprocess, predict
from mechgap.trace import Kind, Spec, Variable
from mechgap.training.data import Batch
from mechgap.training.ensemble import map_members, members_at_once
from mechgap.training.scores import count, traced_score

POINTS = 12  # of the uniform timescale
Measures = dict[str, Array]


class Observed(eqx.Module):
    """What one network did on a probe.

    Attributes:
        measures: one number each; see `measure`.
        curves: the same over the uniform timescale, [points].
        attention: of the first samples, [steps, shown, heads, n, n].
        hints: what it predicts there, as probabilities, indices and numbers, [steps, shown, ...].
    """

    measures: Measures
    curves: Measures
    attention: Array
    hints: Measures


def observe(
    network: ClrsNet, batch: Batch, meant: Meant | None, steps: int, shown: int, record: Record = True
) -> Observed:
    """Run one network and measure it, or of its attention what is recorded.

    Measures, in [0, 1] unless said otherwise:
        score: of the outputs, as the benchmark counts them.
        internal/eq24 (up to 2/n), internal/rows, internal/decisive, internal/idle: see `internal`; by the best head.
        internal/equivalent/NAME: `rows` against another α* that the program declares.
        internal/mean_head, internal/mixture: `rows` with the heads read in another way.
        external/printed, external/meant and external/ORDER/HINT: see `external`.
        hint_score/HINT: the benchmark's.
    """
    network.config.check_attention("Measuring faithfulness")
    prediction = predict(network, batch.inputs, batch.hints, batch.lengths, steps=steps, record=record)
    assert prediction.activations is not None
    assert prediction.activations.coefficients is not None
    inside = jnp.arange(1, steps)[:, None] < batch.lengths
    alpha = heads_in_front(prediction.activations.coefficients)[: steps - 1]
    counts = count(network.spec, postprocess(network.spec, prediction.outputs), batch.outputs)
    measures: Measures = {"score": traced_score(network.spec, counts)}
    curves: Measures = {}
    if meant is not None:
        of_attention = internal_measures(alpha, batch, meant, inside)
        measures, curves = measures | of_attention[0], curves | of_attention[1]
    logits = {name: jnp.moveaxis(x, 0, 1)[: steps - 1] for name, x in prediction.hints.items()}
    of_hints = _external(network.spec, logits, batch, inside)
    values = {name: _shown(network.spec[name], x[:, :shown]) for name, x in logits.items()}
    return Observed(measures | of_hints[0], curves | of_hints[1], alpha[:, :shown], values)


def internal_measures(alpha: Array, batch: Batch, meant: Meant, inside: Array) -> tuple[Measures, Measures]:
    """All measures of attention, and their curves."""
    n = alpha.shape[-1]
    rows_inside = jnp.broadcast_to(inside[..., None], (*inside.shape, n))
    decisive = rows_inside & jnp.any(meant.decisive, axis=2)
    idle = rows_inside & ~decisive
    distance, readings = distances_to(alpha, meant.star, rows_inside)
    measures = {
        "internal/eq24": eq24(distance, inside),
        "internal/rows": readings["best_head"],
        "internal/decisive": masked_mean(distance, decisive),
        "internal/idle": masked_mean(distance, idle),
        "internal/mean_head": readings["mean_head"],
        "internal/mixture": readings["mixture"],
    }
    for name, star in meant.equivalents.items():
        measures[f"internal/equivalent/{name}"] = distances_to(alpha, star, rows_inside)[1]["best_head"]
    curves = {
        "internal/rows": on_timescale(distance, rows_inside, batch.lengths, POINTS),
        "internal/decisive": on_timescale(distance, decisive, batch.lengths, POINTS),
    }
    return measures, curves


def observe_all(networks: ClrsNet, probe: Probe, shown: int = 1, record: Record = True) -> Observed:
    """Observe every network of an ensemble; all arrays with a leading member axis, on the host."""
    config, steps = networks.config, probe.trace.steps
    looks = len(record) if isinstance(record, tuple) else config.message_passing_steps * config.heads
    at_once = members_at_once(probe.batch, config.hidden, maps=steps * looks)
    return jax.device_get(_observe_all(networks, probe.batch, probe.meant, steps, shown, at_once, record))


@eqx.filter_jit
def _observe_all(
    networks: ClrsNet, batch: Batch, meant: Meant | None, steps: int, shown: int, at_once: int, record: Record
) -> Observed:
    return map_members(lambda network: observe(network, batch, meant, steps, shown, record), networks, at_once)


def _external(spec: Spec, logits: Measures, batch: Batch, inside: Array) -> tuple[Measures, Measures]:
    if not logits:
        return {}, {}
    truth = {name: batch.hints[name][1:] for name in logits}
    measures: Measures = {}
    curves: Measures = {}
    for order in MARGINS:
        each = {name: matches(spec[name], logits[name], truth[name], order) for name in logits}
        for name, right in each.items():
            mask = jnp.broadcast_to(inside[..., None], right.shape)
            measures[f"external/{order}/{name}"] = masked_mean(right, mask)
            curves[f"external/{order}/{name}"] = on_timescale(right, mask, batch.lengths, POINTS)
        measures[f"external/{order}"] = jnp.mean(jnp.stack([measures[f"external/{order}/{name}"] for name in each]))
        curves[f"external/{order}"] = jnp.mean(jnp.stack([curves[f"external/{order}/{name}"] for name in each]), axis=0)
    scores = {f"hint_score/{name}": x for name, x in hint_scores(spec, logits, truth, inside).items()}
    return measures | scores, curves


def _shown(variable: Variable, logits: Array) -> Array:
    match variable.kind:
        case Kind.MASK:
            return jax.nn.sigmoid(logits)
        case Kind.SCALAR:
            return logits
        case _:
            return jnp.argmax(logits, axis=-1).astype(jnp.int32)
