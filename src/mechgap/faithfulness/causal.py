"""Does the attention that is compared matter? Put the program's or another network's into a network, and see."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from mechgap.compiler.to_gatv2 import Compiled
from mechgap.faithfulness.external import matches
from mechgap.faithfulness.internal import masked_mean
from mechgap.faithfulness.probes import Meant, Probe, attention_of, uniform_attention
from mechgap.networks import ClrsNet, Replacement, postprocess, predict
from mechgap.training.data import Batch
from mechgap.training.ensemble import map_members, members_at_once
from mechgap.training.result import Table
from mechgap.training.scores import count, traced_score

# In the order in which they are read. "compiled" is what files call the program's attention α*.
ABOUT = {
    "own": "the trained network as it is",
    "compiled": "the trained network attends as the program does (α*), in every row and step",
    "compiled, decisive rows": "as the program in rows where the algorithm moves information, else as itself",
    "compiled, idle rows": "as the program in rows where the algorithm moves nothing, else as itself",
    "compiled, first half": "as the program in the first half of the steps, then as itself",
    "compiled, second half": "as itself in the first half of the steps, then as the program",
    "another seed": "the trained network attends as the next trained network does",
    "uniform": "the trained network attends to itself and all neighbours equally",
    "compiled network, own": "the compiled network as it is",
    "compiled network, trained attention": "the compiled network attends as the trained network does",
    "compiled network, trained attention, decisive rows": "as the trained one where the algorithm moves information",
    "compiled network, uniform": "the compiled network attends to itself and all neighbours equally",
}


@dataclass(frozen=True)
class Swaps:
    """What swaps of attention do: condition (see `ABOUT`) -> "score" and "hints" -> [members]."""

    conditions: dict[str, Table]

    def change(self, condition: str) -> np.ndarray:
        """How much a swap changes the score of each network."""
        own = "compiled network, own" if condition.startswith("compiled network") else "own"
        return self.conditions[condition]["score"] - self.conditions[own]["score"]


def swap_attention(networks: ClrsNet, compiled: Compiled, on: Probe) -> Swaps:
    """Measure every network under every swap.

    Args:
        networks: with a leading member axis.
        compiled: the program's network.
        on: a probe that was made for it.
    """
    networks.config.check_attention("Swapping attention")
    if on.meant is None:
        raise ValueError("Swapping attention needs a probe that was made with the compiled network.")
    at_once = members_at_once(on.batch, networks.config.hidden)
    uniform = uniform_attention(on.trace)
    look = compiled.looks[compiled.compared]
    found = _swapped(networks, compiled.network, look, on.batch, on.meant, uniform, on.trace.steps, at_once)
    found = jax.device_get(found)  # sorted by name, as trees are
    return Swaps({name: found[name] for name in ABOUT})


@eqx.filter_jit
def _swapped(
    networks: ClrsNet,
    compiled: ClrsNet,
    look: tuple[int, int],
    batch: Batch,
    meant: Meant,
    uniform: Array,
    steps: int,
    at_once: int,
) -> dict[str, dict[str, Array]]:
    alpha = map_members(lambda net: attention_of(net, batch, steps), networks, at_once)

    def one(member: tuple[ClrsNet, Array, Array]) -> dict[str, dict[str, Array]]:
        network, own, another = member
        into_trained, into_compiled = _plans(own, another, batch, meant, uniform)
        return _outcomes(network, batch, into_trained, steps) | _outcomes(compiled, batch, into_compiled, steps, look)

    return map_members(one, (networks, alpha, jnp.roll(alpha, -1, axis=0)), at_once)


Plan = dict[str, tuple[Array, Array]]  # condition -> attention [steps, B, heads, n, n], and the rows [steps, B, n]


def _plans(own: Array, another: Array, batch: Batch, meant: Meant, uniform: Array) -> tuple[Plan, Plan]:
    star = jnp.mean(meant.star, axis=2, keepdims=True)
    heard = jnp.mean(own, axis=2, keepdims=True)
    decisive = jnp.any(meant.decisive, axis=2)
    everywhere, nowhere = jnp.ones_like(decisive), jnp.zeros_like(decisive)
    early = 2 * jnp.arange(len(own))[:, None] < batch.lengths - 1
    early = jnp.broadcast_to(early[..., None], decisive.shape)
    into_trained = {
        "own": (star, nowhere),
        "compiled": (star, everywhere),
        "compiled, decisive rows": (star, decisive),
        "compiled, idle rows": (star, ~decisive),
        "compiled, first half": (star, early),
        "compiled, second half": (star, ~early),
        "another seed": (another, everywhere),
        "uniform": (uniform, everywhere),
    }
    into_compiled = {
        "compiled network, own": (star, nowhere),
        "compiled network, trained attention": (heard, everywhere),
        "compiled network, trained attention, decisive rows": (heard, decisive),
        "compiled network, uniform": (uniform, everywhere),
    }
    return into_trained, into_compiled


def _outcomes(
    network: ClrsNet, batch: Batch, plan: Plan, steps: int, look: tuple[int, int] | None = None
) -> dict[str, dict[str, Array]]:
    """What becomes of a network under every condition, in all its heads or in that of one (micro-step, head)."""
    heads = network.config.heads * network.config.message_passing_steps
    given = jnp.stack([jnp.broadcast_to(x, (*x.shape[:2], heads, *x.shape[3:])) for x, _ in plan.values()])
    where = jnp.stack([rows for _, rows in plan.values()])
    found = jax.lax.map(lambda swap: _outcome(network, batch, swap[0], swap[1], steps, look), (given, where))
    return {name: {k: x[i] for k, x in found.items()} for i, name in enumerate(plan)}


def _outcome(
    network: ClrsNet,
    batch: Batch,
    given: Float[Array, "steps batch heads n n"],
    where: Bool[Array, "steps batch n"],
    steps: int,
    look: tuple[int, int] | None,
) -> dict[str, Array]:
    replacement = _replacement(network, given, where, look)
    prediction = predict(
        network, batch.inputs, batch.hints, batch.lengths, steps=steps, replacement=replacement, record=False
    )
    counts = count(network.spec, postprocess(network.spec, prediction.outputs), batch.outputs)
    inside = jnp.arange(1, steps)[:, None] < batch.lengths
    right = []
    for name, logits in prediction.hints.items():
        equal = matches(network.spec[name], jnp.moveaxis(logits, 0, 1)[: steps - 1], batch.hints[name][1:], "meant")
        right.append(masked_mean(equal, jnp.broadcast_to(inside[..., None], equal.shape)))
    hints = jnp.mean(jnp.stack(right)) if right else jnp.asarray(jnp.nan)
    return {"score": traced_score(network.spec, counts), "hints": hints}


def _replacement(network: ClrsNet, given: Array, where: Array, look: tuple[int, int] | None) -> Replacement:
    by_sample = jnp.moveaxis(given, 1, 0)
    batch, steps, _, *nodes = by_sample.shape
    k, heads = network.config.message_passing_steps, network.config.heads
    chosen = jnp.ones((k, heads), bool) if look is None else jnp.zeros((k, heads), bool).at[look].set(True)
    rows = jnp.moveaxis(where, 1, 0)[:, :, None, None] & chosen[..., None]
    return Replacement(by_sample.reshape(batch, steps, k, heads, *nodes), rows)
