"""Questions put to text models: greedy answers, their three scores beside those of a constant answer, and controls."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from mechgap.algorithms import text
from mechgap.algorithms.text import Example, Question
from mechgap.algorithms.text.scores import ScoreRow
from mechgap.algorithms.text.writing import show
from mechgap.networks import postprocess
from mechgap.networks.cross_attention import Memory
from mechgap.networks.generation import greedy
from mechgap.networks.rotary import plain_positions, randomised_positions
from mechgap.networks.transnar import TransNAR
from mechgap.trace import Variable
from mechgap.training.transnar.config import EvaluationConfig, TextTrainingConfig
from mechgap.training.transnar.reasoner import Asked, Reasoner, SharedReasoner, questions_asked, shuffled
from mechgap.training.transnar.result import TextModels

ROOMS = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
ANSWERS = (16, 32, 64, 128, 192, 256, 384, 512, 768, 1024)
TOKENS_AT_ONCE = 65_536  # long questions are answered fewer at a time


@dataclass(frozen=True)
class Control:
    """How a trained model is asked.

    Attributes:
        opened: False shuts all gates: what the Transformer within would say.
        memory: "own", or "shuffled": it sees the reasoner's states for another question.
        random_positions: None as in training.
    """

    opened: bool = True
    memory: str | None = None
    random_positions: bool | None = None


AS_TRAINED = Control()
CONTROLS = {
    "as trained": AS_TRAINED,
    "gates shut": Control(opened=False),
    "shuffled": Control(memory="shuffled"),
    "plain positions": Control(random_positions=False),
}


def questions_for(config: EvaluationConfig, algorithms: Iterable[str]) -> list[Example]:
    """The questions of an evaluation, by size and algorithm."""
    names = list(algorithms)
    return [e for n in config.sizes for name in names for e in text.sample(name, n, config.count, seed=config.seed)]


def answers(
    model: TransNAR,
    config: TextTrainingConfig,
    reasoner: Reasoner | None,
    examples: Sequence[Example],
    evaluation: EvaluationConfig | None = None,
    control: Control = AS_TRAINED,
) -> list[str]:
    """What a model answers, by greedy decoding.

    Args:
        model: a trained one.
        config: how it was trained.
        reasoner: whom it looks at, or None.
        examples: questions with right answers, which only say how long an answer may get: a quarter longer, and some.
        evaluation: how many at once, and the seed of positions.
        control: how it is asked.
    """
    evaluation, said = evaluation or EvaluationConfig(), [""] * len(examples)
    rng = np.random.default_rng(evaluation.position_seed)
    for (room, new), places in _by_room(examples, config.context).items():
        size = max(1, min(evaluation.together, TOKENS_AT_ONCE // (room + new)))
        order = rng.permutation(places)  # neighbours are questions of any kind, which the shuffled control needs
        for start in range(0, len(order), size):
            rows = np.resize(order[start : start + size], size)
            found = _answer(model, config, reasoner, [examples[i] for i in rows], room, new, rng, control)
            for i, ids in list(zip(rows, found, strict=True))[: len(order) - start]:
                said[i] = text.decode(ids)
    return said


def _answer(
    model: TransNAR,
    config: TextTrainingConfig,
    reasoner: Reasoner | None,
    examples: Sequence[Example],
    room: int,
    new: int,
    rng: np.random.Generator,
    control: Control,
) -> Int[np.ndarray, "batch new"]:
    prompts = text.batch([(e.question, "") for e in examples], length=room)
    drawn = config.random_positions if control.random_positions is None else control.random_positions
    count, length = len(examples), room + new
    at = randomised_positions(rng, length, config.max_position, count) if drawn else plain_positions(length, count)
    memory = None
    if reasoner is not None:
        asked = questions_asked(reasoner, [text.parse(e.question) for e in examples])
        layers = config.layers if config.reads == "per_layer" else None
        memory = _memory(reasoner, asked, layers, (control.memory or config.memory) == "shuffled")
    ids, lengths, positions = (jnp.asarray(x) for x in (prompts.ids, prompts.lengths, at))
    found = greedy(model, ids, lengths, positions, memory, max_new=new, eos=text.EOS, opened=jnp.array(control.opened))
    return np.asarray(found)


@eqx.filter_jit
def _memory(reasoner: Reasoner, asked: Asked, layers: int | None, of_another: bool) -> Memory:
    memory = reasoner.memory(asked, layers)
    return shuffled(memory) if of_another else memory


def _by_room(examples: Sequence[Example], context: int) -> dict[tuple[int, int], list[int]]:
    """(room for a question, room for its answer) -> who fits there."""
    groups: dict[tuple[int, int], list[int]] = {}
    for place, example in enumerate(examples):
        groups.setdefault(room_for(example, context), []).append(place)
    return groups


def room_for(example: Example, context: int) -> tuple[int, int]:
    """Tokens for a question, and for its answer; few different ones, since each needs a program of its own."""
    asked, said = 1 + len(text.encode(example.question)), 1 + len(text.encode(example.answer))
    new = _room(said + said // 4 + 4, ANSWERS)
    return min(_room(asked, ROOMS), max(asked, context - new)), new


def _room(length: int, rooms: Sequence[int]) -> int:
    return next((room for room in rooms if room >= length), length)


def reasoner_answers(reasoner: SharedReasoner, questions: Sequence[Question], together: int = 64) -> list[str]:
    """What a trained reasoner answers itself, written as text: the upper bound of what a text model can read off it."""
    said: list[str] = []
    nodes = max(q.nodes for q in questions)
    for start in range(0, len(questions), together):
        some = questions[start : start + together]
        rows = [some[i % len(some)] for i in range(together)]
        prediction = reasoner.predict(questions_asked(reasoner, rows, nodes=nodes))
        decided = jax.device_get(postprocess(reasoner.slots.spec, prediction.outputs))
        said += [written(reasoner, q, {k: x[i] for k, x in decided.items()}) for i, q in enumerate(some)]
    return said


def written(reasoner: Reasoner, question: Question, decided: Mapping[str, Any]) -> str:
    """Decided outputs by slot, of one question, as an answer."""
    slots, key = reasoner.slots.names[question.algorithm], question.inputs.get("key")
    parts = []
    for variable in question.layout.answers.values():
        value = _value(variable, slots, decided, question.nodes)
        value = np.where(_unsaid(variable, question), -1, value)
        parts.append(show(variable, value, None if key is None else key[0]))
    return ", ".join(parts) + "\n\n"


def _value(variable: Variable, slots: Mapping[str, str], decided: Mapping[str, Any], n: int) -> np.ndarray:
    mask = slots.get(f"{variable.name}_mask")
    if variable.permutation and mask is not None:  # a matrix in which the first node points to the last one
        pred = np.argmax(decided[slots[variable.name]][:n, :n], axis=-1)
        first = int(np.argmax(decided[mask][:n]))
        return np.where(np.arange(n) == first, first, pred)
    return np.asarray(decided[slots[variable.name]])[tuple(slice(size) for size in variable.shape(n)) or ...]


def _unsaid(variable: Variable, question: Question) -> Any:
    """Where an answer is -1 whatever is found: pairs that are no edge, and that are no cell of a table."""
    if question.algorithm == "bridges":
        return question.inputs["adj"][0] == 0
    if question.algorithm == "lcs_length":
        second = question.inputs["string"][0] == 1
        return ~(~second[:, None] & second[None, :])[..., None]
    return False


@dataclass(frozen=True)
class Scores:
    """What one way of answering got.

    Attributes:
        by_size: n -> a row for every algorithm, and the mean.
        seconds: all answers took; compiling included, but for the algorithms themselves.
    """

    by_size: dict[int, list[ScoreRow]]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = {str(n): [_plain(row) for row in rows] for n, rows in self.by_size.items()}
        return {"by_size": rows, "seconds": round(self.seconds, 3)}


def _plain(row: ScoreRow) -> dict[str, Any]:
    """JSON has no number for the error of a single answer."""
    return {name: None if value != value else value for name, value in asdict(row).items()}


def scored(answer: Callable[[], list[str]], examples: Sequence[Example]) -> Scores:
    """Answer and score."""
    began = time.perf_counter()
    said = answer()
    seconds = time.perf_counter() - began
    return Scores(score_by_size(said, examples), seconds)


def score_by_size(said: Sequence[str], examples: Sequence[Example]) -> dict[int, list[ScoreRow]]:
    """The score table of every size."""
    tables = {}
    for n in sorted({e.length for e in examples}):
        some = [i for i, e in enumerate(examples) if e.length == n]
        names = [examples[i].algorithm for i in some]
        tables[n] = text.score_table([said[i] for i in some], [examples[i] for i in some], names)
    return tables


def evaluate(
    result: TextModels,
    evaluation: EvaluationConfig,
    controls: Sequence[str] = ("as trained",),
    watch: Callable[[str], None] = lambda said: None,
) -> dict[str, Any]:
    """All scores of all seeds, as plain values for metrics.json.

    Args:
        result: trained models.
        evaluation: what is asked.
        controls: names from `CONTROLS`; those about a reasoner are left out where there is none.
        watch: is told what is done.
    """
    examples = questions_for(evaluation, result.config.algorithms)
    questions = [text.parse(e.question) for e in examples]
    scores: dict[str, Any] = {"evaluation": asdict(evaluation), "models": {}}
    for seed, model, reasoner in zip(result.config.seed_range, result.models, result.reasoners, strict=True):
        for name in controls:
            if reasoner is None and name in ("gates shut", "shuffled"):
                continue
            watch(f"seed {seed}, {name}")
            answer = partial(answers, model, result.config, reasoner, examples, evaluation, CONTROLS[name])
            scores["models"].setdefault(name, []).append(scored(answer, examples).as_json())
    reasoner = result.reasoners[0]
    if isinstance(reasoner, SharedReasoner):
        watch("the reasoner alone")
        scores["reasoner"] = scored(partial(reasoner_answers, reasoner, questions), examples).as_json()
    watch("the algorithms themselves")
    text.right_answers(questions)  # compiled here, so that the time below is that of the algorithms
    scores["exact"] = scored(partial(text.right_answers, questions), examples).as_json()
    return scores
