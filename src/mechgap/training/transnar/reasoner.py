"""The reasoner that a text model looks at: from questions to the states of a graph network, padded to one size.

Two kinds. A *shared* reasoner is one trained network for many algorithms (`mechgap.training.multi_task`), fed no hints,
which runs the same number of steps whatever is asked. A *compiled* one has, for each algorithm, the exact network that
a program was compiled into; it feeds its own hints back and is told how long an execution is, as in the benchmark.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mechgap.algorithms import algorithm
from mechgap.algorithms.inputs import nearest
from mechgap.algorithms.text import Question
from mechgap.networks import Prediction
from mechgap.networks.clrs_net import STATES, ClrsNet, States
from mechgap.networks.cross_attention import Memory
from mechgap.networks.slots import SharedNet, Slots
from mechgap.trace import Kind, Stage, Values, Variable
from mechgap.training.multi_task import MultiTask, load_multi_task

GRADIENTS = ("none", "last", "all")  # how far the text model's loss reaches into a reasoner
QUESTIONS_AT_ONCE, PAIRS_AT_ONCE = 256, 2**19  # that are thought about together: fewer, where graphs are large


class Asked(eqx.Module):
    """What a batch of questions is to a reasoner. Slots of other algorithms hold zeros.

    Attributes:
        numbers: of the algorithms, in the reasoner's order.
        sizes: how many nodes each question has; the others are padding.
        inputs: by slot.
        hints: the first frame by slot, for reasoners that are fed hints; else empty.
        lengths: of the executions, in frames; all the same for reasoners that are not told.
    """

    numbers: Int[Array | np.ndarray, " batch"]
    sizes: Int[Array | np.ndarray, " batch"]
    inputs: Values
    hints: Values
    lengths: Int[Array | np.ndarray, " batch"]


class Part(eqx.Module):
    """Questions about one algorithm with one number of nodes, as arrays [S, ...] by variable."""

    inputs: Values
    hints: Values
    lengths: Int[np.ndarray, " samples"]
    algorithm: str = eqx.field(static=True)

    @property
    def nodes(self) -> int:
        """How many nodes the questions have."""
        return int(self.inputs["pos"].shape[-1])

    def at(self, rows: Int[np.ndarray, " rows"]) -> "Part":
        """Some of the questions."""
        return jax.tree.map(lambda x: x[rows], self)


class Reasoner(eqx.Module):
    """What both kinds have in common: where the variables of an algorithm lie."""

    frames: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def slots(self) -> Slots:
        """Which variable lies where."""

    @property
    @abstractmethod
    def widths(self) -> tuple[int, int]:
        """Of the states of nodes and edges."""

    @property
    def algorithms(self) -> tuple[str, ...]:
        """What may be asked."""
        return self.slots.algorithms

    @abstractmethod
    def part(self, name: str, inputs: Mapping[str, Any]) -> Part:
        """A batch of one algorithm's complete inputs, as `algorithm.trace` takes them."""

    @abstractmethod
    def memory(self, asked: Asked, layers: int | None = None, gradients: str = "none") -> Memory:
        """The states to look at, with a batch axis; use it under `jit`.

        Args:
            asked: the questions.
            layers: None for the last state alone; else as many states, spread evenly over the steps, the last one last.
            gradients: "none" stops them here; "all" lets them through; "last" stops them before the last step, so that
                the weights learn from their part in that step only.
        """

    def memory_of_one(self, name: str | None, asked: Asked, layers: int | None = None) -> Memory:
        """`memory` of a batch whose questions are all about one algorithm; None where there is one network for all."""
        return self.memory(asked, layers)

    def together(
        self, parts: Sequence[tuple[Part, Int[np.ndarray, " _"]]], count: int, nodes: int | None = None
    ) -> Asked:
        """Questions of several kinds in one batch.

        Args:
            parts: questions, and their places in the batch.
            count: the size of the batch.
            nodes: what all are padded to; by default the most that any has.
        """
        nodes = nodes or max(part.nodes for part, _ in parts)
        stages = (Stage.INPUT, Stage.HINT) if self.is_fed_hints else (Stage.INPUT,)
        values: dict[Stage, Values] = {
            stage: {v.name: np.zeros((count, *v.shape(nodes)), _dtype(v.kind)) for v in self.slots.spec.at(stage)}
            for stage in stages
        }
        numbers, sizes, lengths = (np.zeros(count, np.int32) for _ in range(3))
        for part, places in parts:
            numbers[places] = self.number(part.algorithm)
            sizes[places], lengths[places] = part.nodes, part.lengths
            for stage, given in zip(stages, (part.inputs, part.hints), strict=False):
                for slot, x in self.slots.put(part.algorithm, given, nodes).items():
                    values[stage][slot][places] = x
        return Asked(numbers, sizes, values[Stage.INPUT], values.get(Stage.HINT, {}), lengths)

    def number(self, name: str) -> int:
        """The number of an algorithm; one that was not learned is an error."""
        if name not in self.algorithms:
            raise ValueError(f"This reasoner does not know {name!r}. {nearest(name, self.algorithms)}")
        return self.algorithms.index(name)

    @property
    def is_fed_hints(self) -> bool:
        """Whether it needs a first frame and a length."""
        return False

    @property
    def is_one_network(self) -> bool:
        """Whether one network answers for all algorithms."""
        return True


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
        values = {variable: _narrow(given[variable]) for variable in spec.names(Stage.INPUT)}
        return Part(values, {}, np.full(len(pos), self.frames, np.int32), known)

    def memory(self, asked: Asked, layers: int | None = None, gradients: str = "none") -> Memory:
        """See `Reasoner`."""
        net = self.net if gradients == "all" else jax.lax.stop_gradient(self.net)

        def one(number: Array, inputs: Values, size: Array) -> Memory:
            present = jnp.arange(inputs["pos"].shape[-1]) < size
            if layers is not None:
                states = self._states(net, number, inputs, present, self.frames)
                return _memory(states, layer_steps(self.frames - 1, layers), present)
            # All steps but the last leave states of nodes alone: those of edges would fill the device's memory.
            hidden, last = None, self.net if gradients == "last" else net
            if self.frames > 2:
                hidden = self._states(net, number, inputs, present, self.frames - 1).nodes[-1]
            return _memory(self._states(last, number, inputs, present, 2, hidden), 0, present)

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
        first = {v.name: _narrow(meant.hints[v.name][0]) for v in spec.at(Stage.HINT)}
        values = {v.name: _narrow(meant.inputs[v.name]) for v in spec.at(Stage.INPUT)}
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
            return _memory(states, steps - 1 if layers is None else layer_steps(steps, layers), present)

        return jax.vmap(one)(asked.inputs, asked.hints, jnp.asarray(asked.lengths), jnp.asarray(asked.sizes))


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


def questions_asked(
    reasoner: Reasoner, questions: Sequence[Question], *, count: int | None = None, nodes: int | None = None
) -> Asked:
    """Parsed questions of any kinds as one batch.

    Args:
        reasoner: who is asked.
        questions: from `mechgap.text.parse`.
        count: the size of the batch, if it is to be larger than there are questions: the rest are empty.
        nodes: what all are padded to; by default the most that any has.
    """
    return reasoner.together(_parts(reasoner, questions), count or len(questions), nodes)


def _parts(reasoner: Reasoner, questions: Sequence[Question]) -> list[tuple[Part, Int[np.ndarray, " _"]]]:
    """Questions of a kind together, with their places: a compiled reasoner interprets a program for each kind."""
    groups: dict[tuple[str, int], list[int]] = {}
    for place, question in enumerate(questions):
        groups.setdefault((question.algorithm, question.nodes), []).append(place)
    parts = []
    for (name, _), places in groups.items():
        names = questions[places[0]].inputs
        inputs = {k: np.concatenate([questions[i].inputs[k] for i in places]) for k in names}
        parts.append((reasoner.part(name, inputs), np.array(places)))
    return parts


def question_states(reasoner: Reasoner, questions: Sequence[Question], layers: int | None) -> Memory:
    """What a reasoner thinks of every question, in their order, on the host; padded to the largest graph."""
    parts = _parts(reasoner, questions)
    nodes = max(part.nodes for part, _ in parts)
    found = [states for part, _ in parts for states in part_states(reasoner, part, nodes, layers)]
    back = np.argsort(np.concatenate([places for _, places in parts]))
    return jax.tree.map(lambda *some: np.concatenate(some)[back], *found)


def part_states(reasoner: Reasoner, part: Part, nodes: int, layers: int | None) -> Iterator[Memory]:
    """The states for the questions of a part, some at a time, all in arrays of one shape, on the host."""
    count, name = len(part.lengths), None if reasoner.is_one_network else part.algorithm
    size = max(1, min(count, QUESTIONS_AT_ONCE, PAIRS_AT_ONCE // nodes**2))
    for start in range(0, count, size):
        rows = np.arange(start, start + size) % count
        asked = reasoner.together([(part.at(rows), np.arange(size))], size, nodes)
        states = jax.device_get(_thought(reasoner, name, asked, layers))
        yield jax.tree.map(lambda x, few=count - start: x[:few], states)


@eqx.filter_jit
def _thought(reasoner: Reasoner, name: str | None, asked: Asked, layers: int | None) -> Memory:
    return reasoner.memory_of_one(name, asked, layers)


def shuffled(memory: Memory) -> Memory:
    """Everybody sees the states of the next question of the batch: often of another algorithm, and of another size.

    The next, not the one before: what fills up a batch stands behind the others and may be the first of them again.
    """
    return jax.tree.map(lambda x: jnp.roll(x, -1, axis=0), memory)


def layer_steps(steps: Int[Array, ""] | int, layers: int) -> Int[Array, " layers"]:
    """Which of so many steps each layer looks at: evenly spread, the last layer at the last step."""
    return (jnp.arange(1, layers + 1) * steps + layers - 1) // layers - 1


def standing_order(pos: Float[np.ndarray, "batch n"]) -> Int[np.ndarray, "batch n"]:
    """Everybody's predecessor in an array, or in its own string: positions start at 0 in each; the first has itself."""
    ids = np.arange(pos.shape[-1])
    return np.where(pos == 0, ids, ids - 1)


def _memory(states: States, at: Any, present: Bool[Array, " n"]) -> Memory:
    """The states at some steps; what padding is said to think is 0."""
    both = present[:, None] & present[None, :]
    nodes = jnp.where(present[:, None], states.nodes[at], 0)
    return Memory(nodes, jnp.where(both[..., None], states.edges[at], 0), present, both)


def _narrow(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return x.astype(np.int32 if x.dtype.kind in "iu" else np.float32)


def _dtype(kind: Kind) -> type:
    return np.int32 if kind == Kind.POINTER else np.float32
