"""A reasoner that is one trained network for many algorithms (`mechgap.training.multi_task`).

It is fed no hints, and runs the same number of steps whatever is asked.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mechgap.algorithms import algorithm
from mechgap.networks import Prediction
from mechgap.networks.clrs_net import STATES, States
from mechgap.networks.cross_attention import Memory
from mechgap.networks.slots import SharedNet, Slots
from mechgap.trace import Stage, Values, Variable
from mechgap.training.multi_task import MultiTask, load_multi_task
from mechgap.training.transnar.reasoner import Asked, Part, Reasoner, layer_steps, memory_at, narrow


class SharedReasoner(Reasoner):
    """One trained network for many algorithms.

    Attributes:
        net: its weights.
        frames: T; it runs T - 1 steps.
        stand_ins: (an algorithm that it never saw, as which other one it thinks about it).
    """

    net: SharedNet
    frames: int = eqx.field(static=True)
    stand_ins: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())

    def __check_init__(self) -> None:
        if self.net.networks.config.encode_hints:
            raise ValueError(
                "A reasoner must not need hints, since text gives none; got a network with hint_mode = "
                "'encoded_decoded'. Train one with hint_mode='none' and frames=33."
            )

    @classmethod
    def of(cls, trained: MultiTask | str | Path, seed: int = 0) -> "SharedReasoner":
        """The network of one seed of a training, or of its folder."""
        result = trained if isinstance(trained, MultiTask) else load_multi_task(trained)
        return cls(net=result.member(seed), frames=int(result.manifest["frames"]))

    def with_stand_ins(self, names: Sequence[str]) -> "SharedReasoner":
        """The same network, also for algorithms that it never saw: it has no encoders for them, and borrows some."""
        unseen = tuple((name, stand_in(self.slots, name)) for name in names if name not in self.algorithms)
        return replace(self, stand_ins=unseen)

    @property
    def slots(self) -> Slots:
        """Which variable lies where."""
        return self.net.slots

    @property
    def widths(self) -> tuple[int, int]:
        """Of the states of nodes and edges."""
        hidden = self.net.networks.config.hidden
        return hidden, hidden

    def number(self, name: str) -> int:
        """See `Reasoner`; of a stand-in where there is one."""
        return super().number(dict(self.stand_ins).get(name, name))

    def part(self, name: str, inputs: Mapping[str, Any]) -> Part:
        """See `Reasoner`. An order that never changes is an input of the network, though text does not say it.

        What a stand-in has among its inputs and a question does not, such as a source, is 0 throughout.
        """
        known = self.algorithms[self.number(name)]
        spec, pos = dict(self.slots.specs)[known], np.asarray(inputs["pos"])
        given = {**inputs, "pred": standing_order(pos)}
        if known != name:
            given = {v.name: np.zeros((len(pos), *v.shape(pos.shape[-1]))) for v in spec.at(Stage.INPUT)} | given
        values = {variable: narrow(given[variable]) for variable in spec.names(Stage.INPUT)}
        return Part(values, {}, np.full(len(pos), self.frames, np.int32), known)

    def memory(self, asked: Asked, layers: int | None = None, gradients: str = "none") -> Memory:
        """See `Reasoner`."""
        net = self.net if gradients == "all" else jax.lax.stop_gradient(self.net)

        def one(number: Array, inputs: Values, size: Array) -> Memory:
            present = jnp.arange(inputs["pos"].shape[-1]) < size
            if layers is not None:
                states = self._states(net, number, inputs, present, self.frames)
                return memory_at(states, layer_steps(self.frames - 1, layers), present)
            # All steps but the last leave states of nodes alone: those of edges would fill the device's memory.
            hidden, last = None, self.net if gradients == "last" else net
            if self.frames > 2:
                hidden = self._states(net, number, inputs, present, self.frames - 1).nodes[-1]
            return memory_at(self._states(last, number, inputs, present, 2, hidden), 0, present)

        if gradients == "last" and layers is not None:
            raise ValueError('train_reasoner = "last" needs reads = "final": earlier states get no gradients.')
        return jax.vmap(one)(jnp.asarray(asked.numbers), asked.inputs, jnp.asarray(asked.sizes))

    def _states(
        self,
        net: SharedNet,
        number: Array,
        inputs: Values,
        present: Bool[Array, " n"],
        frames: int,
        hidden: Float[Array, "n s"] | None = None,
    ) -> States:
        run, which = net.network(number), net.asked(number)
        options: dict[str, Any] = {"asked": which, "present": present, "record": STATES, "hidden": hidden}
        states = run(inputs, {}, frames, steps=frames, **options).states
        assert states is not None
        return states

    @eqx.filter_jit
    def predict(self, asked: Asked) -> Prediction:
        """What it answers itself: logits of outputs by slot."""

        def one(number: Array, inputs: Values, size: Array) -> Prediction:
            present = jnp.arange(inputs["pos"].shape[-1]) < size
            run, which = self.net.network(number), self.net.asked(number)
            return run(inputs, {}, self.frames, steps=self.frames, asked=which, present=present, record=False)

        return jax.vmap(one)(jnp.asarray(asked.numbers), asked.inputs, jnp.asarray(asked.sizes))


def stand_in(slots: Slots, unseen: str) -> str:
    """Which of its algorithms a network is told that a question about another one is about.

    One that has all of its inputs and as few more as possible; of several, one whose executions are written down in
    variables most like its own: weights matter to Prim's algorithm and to Bellman and Ford's, not to breadth-first
    search. What the network then computes is that other algorithm, on the question's data.
    """
    needed = {_look(v) for v in algorithm(unseen).spec.at(Stage.INPUT)}
    more = {name: {_look(v) for v in spec.at(Stage.INPUT)} for name, spec in slots.specs}
    fitting = [name for name, has in more.items() if needed <= has]
    if not fitting:
        inputs = ", ".join(sorted(look[0] for look in needed))
        raise ValueError(
            f"The reasoner never saw {unseen!r}, and none of its algorithms has all of its inputs ({inputs}), so that "
            f"none can stand in for it. It knows {', '.join(slots.algorithms)}."
        )
    own = _hints(unseen)
    return min(fitting, key=lambda name: (len(more[name] - needed), -(_hints(name) & own).total()))


def _hints(name: str) -> Counter:
    return Counter((v.location, v.kind) for v in algorithm(name).spec.at(Stage.HINT))


def _look(variable: Variable) -> tuple[str, ...]:
    return variable.name, variable.location, variable.kind


def standing_order(pos: Float[np.ndarray, "batch n"]) -> Int[np.ndarray, "batch n"]:
    """Everybody's predecessor in an array, or in its own string: positions start at 0 in each; the first has itself."""
    ids = np.arange(pos.shape[-1])
    return np.where(pos == 0, ids, ids - 1)
