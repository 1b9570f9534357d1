"""A reasoner that has, for each algorithm, the exact network that a program was compiled into.

It feeds its own hints back and is told how long an execution is, as in the benchmark.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from mechgap.networks.clrs_net import STATES, ClrsNet
from mechgap.networks.cross_attention import Memory
from mechgap.networks.slots import Slots
from mechgap.trace import Stage, Values
from mechgap.training.transnar.reasoner import Asked, Part, Reasoner, layer_steps, memory_at, narrow


class CompiledReasoner(Reasoner):
    """The exact networks of compiled programs, one for each algorithm.

    Every network runs on the whole batch, and each question takes what its own network says: right for few algorithms.

    Attributes:
        networks: of one width.
        names: the algorithms, in the order of their numbers: JAX sorts the keys of a dict on its way into a program.
        frames: the most that an execution may have.
        programs: what they were compiled from; they give the first frame and the length of an execution.
    """

    networks: dict[str, ClrsNet]
    names: tuple[str, ...] = eqx.field(static=True)
    frames: int = eqx.field(static=True)
    programs: tuple[Any, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, compiled: Mapping[str, Any], frames: int) -> "CompiledReasoner":
        """From algorithm -> what `mechgap.compile` returned."""
        networks = {name: one.network for name, one in compiled.items()}
        found = sorted({network.config.hidden for network in networks.values()})
        if len(found) != 1:
            raise ValueError(
                f"All networks of a reasoner must have one width; got {found}. Compile all with hidden={found[-1]}."
            )
        programs = tuple(one.program for one in compiled.values())
        return cls(networks=networks, names=tuple(networks), frames=frames, programs=programs)

    @property
    def slots(self) -> Slots:
        """Which variable lies where."""
        return Slots(tuple((name, self.networks[name].spec) for name in self.names))

    @property
    def widths(self) -> tuple[int, int]:
        """Of the states of nodes and edges."""
        hidden = next(iter(self.networks.values())).config.hidden
        return hidden, hidden

    @property
    def is_fed_hints(self) -> bool:
        """See `Reasoner`."""
        return True

    @property
    def is_one_network(self) -> bool:
        """See `Reasoner`."""
        return False

    def part(self, name: str, inputs: Mapping[str, Any]) -> Part:
        """See `Reasoner`."""
        meant = self.programs[self.number(name)].interpret(**inputs)
        if meant.lengths.max() > self.frames:
            raise ValueError(
                f"An execution of {name!r} has {meant.lengths.max()} frames, and this reasoner has room for "
                f"{self.frames}. Give frames={meant.lengths.max()} or more."
            )
        spec = self.networks[name].spec
        first = {v.name: narrow(meant.hints[v.name][0]) for v in spec.at(Stage.HINT)}
        values = {v.name: narrow(meant.inputs[v.name]) for v in spec.at(Stage.INPUT)}
        return Part(values, first, np.asarray(meant.lengths, np.int32), name)

    def memory(self, asked: Asked, layers: int | None = None, gradients: str = "none") -> Memory:
        """See `Reasoner`; there is nothing to learn here."""
        if gradients != "none":
            raise ValueError(f'A compiled reasoner is exact and learns nothing: train_reasoner="none"; {gradients!r}.')
        each = [self._memory(name, asked, layers) for name in self.algorithms]
        mine = jax.nn.one_hot(asked.numbers, len(each), dtype=bool, axis=0)

        def chosen(*values: Array) -> Array:
            where = [m.reshape(-1, *(1,) * (values[0].ndim - 1)) for m in mine]
            return jnp.select(where, values, jnp.zeros((), values[0].dtype))

        return jax.lax.stop_gradient(jax.tree.map(chosen, *each))

    def memory_of_one(self, name: str | None, asked: Asked, layers: int | None = None) -> Memory:
        """See `Reasoner`: the other networks need not run."""
        assert name is not None
        return jax.lax.stop_gradient(self._memory(name, asked, layers))

    def _memory(self, name: str, asked: Asked, layers: int | None) -> Memory:
        network, slots = self.networks[name], self.slots.names[name]

        def one(inputs: Values, hints: Values, length: Array, size: Array) -> Memory:
            present = jnp.arange(inputs["pos"].shape[-1]) < size
            own = {v.name: inputs[slots[v.name]] for v in network.spec.at(Stage.INPUT)}
            first = {v.name: hints[slots[v.name]][None] for v in network.spec.at(Stage.HINT)}
            states = network(own, first, length, steps=self.frames, present=present, record=STATES).states
            assert states is not None
            steps = jnp.maximum(length - 1, 1)
            return memory_at(states, steps - 1 if layers is None else layer_steps(steps, layers), present)

        return jax.vmap(one)(asked.inputs, asked.hints, jnp.asarray(asked.lengths), jnp.asarray(asked.sizes))
