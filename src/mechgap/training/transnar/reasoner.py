"""The reasoner that a text model looks at: from questions to the states of a graph network, padded to one size.

Two kinds: `shared_reasoner` and `compiled_reasoner`. Here is what they have in common, and how they are asked.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from mechgap.algorithms.inputs import nearest
from mechgap.algorithms.text import Question
from mechgap.networks.clrs_net import States
from mechgap.networks.cross_attention import Memory
from mechgap.networks.slots import Slots
from mechgap.trace import Kind, Stage, Values

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


def memory_at(states: States, at: Any, present: Bool[Array, " n"]) -> Memory:
    """The states at some steps; what padding is said to think is 0."""
    both = present[:, None] & present[None, :]
    nodes = jnp.where(present[:, None], states.nodes[at], 0)
    return Memory(nodes, jnp.where(both[..., None], states.edges[at], 0), present, both)


def narrow(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return x.astype(np.int32 if x.dtype.kind in "iu" else np.float32)


def _dtype(kind: Kind) -> type:
    return np.int32 if kind == Kind.POINTER else np.float32
