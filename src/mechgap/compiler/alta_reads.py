"""Where a compiled ALTA program uses an undefined value."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from mechgap.networks.layers import AnyLinear
from mechgap.networks.transformer import clipped
from mechgap.programs.alta import AltaProgram


class UndefinedReads(eqx.Module):
    """Finds positions at which a rule uses an undefined value: one of its tests is of it, and all its others hold.

    Attributes:
        expansion: the layers of the MLP that turn numbers and sets into one-hot form, if there are any.
        tests: what the rules that read heads test, over the numbers that rules see.
        counts: how many tests each has.
        heads: whether a rule tests a head.
        members: the numbers that say which value a head's output has.
        scale: of these numbers; 1 is `1 / scale` there.
        sure: a head's output has a value where its largest number is at least this.
    """

    expansion: tuple[AnyLinear, ...]
    tests: Float[Array, "seen rules"]
    counts: Float[Array, " rules"]
    heads: Float[Array, "heads rules"]
    members: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    sure: float = eqx.field(static=True)

    @classmethod
    def of(cls, program: AltaProgram, view: Any, expansion: tuple[AnyLinear, ...], longest: int) -> "UndefinedReads":
        """For the rules of a program that read the output of a head."""
        rules = [r for r in program.rules if any(n in program.nullable for n, _ in r.tests)]
        names = [h.name for h in program.heads]
        tests, heads = np.zeros((view.width, len(rules))), np.zeros((len(names), len(rules)))
        for i, rule in enumerate(rules):
            for name, values in rule.tests:
                tests[[view.place(name, member) for member in values], i] = view.scale
                if name in program.nullable:
                    heads[names.index(name), i] = 1
        counts = np.array([len(rule.tests) for rule in rules])
        members = tuple(tuple(view.place(name, m) for m in program.readable[name].domain) for name in names)
        given = [jnp.asarray(x, jnp.float32) for x in (tests, counts, heads)]
        return cls(expansion, given[0], given[1], given[2], members, view.scale, 1 - 0.5 / longest)

    def __call__(self, x: Float[Array, "length d"]) -> Bool[Array, " length"]:
        """[length]: whether a rule uses something undefined there; x is the stream after attention."""
        if not self.members or not self.counts.shape[0]:
            return jnp.zeros(len(x), bool)
        with jax.default_matmul_precision("highest"):
            return self._used(x)

    def _used(self, x: Float[Array, "length d"]) -> Bool[Array, " length"]:
        for layer in self.expansion:
            x = clipped(layer(x))
        lost = []
        for places in self.members:
            at = jnp.array(places)
            undefined = jnp.max(x[:, at], axis=-1) * self.scale < self.sure
            x = x.at[:, at].set(jnp.where(undefined[:, None], 0, x[:, at]))
            lost.append(undefined)
        missing = jnp.stack(lost, axis=-1).astype(x.dtype) @ self.heads
        return jnp.any((missing > 0.5) & (x @ self.tests + missing > self.counts - 0.5), axis=-1)
