"""Questions put to text models: greedy answers, their three scores beside those of a constant answer, and controls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from mechgap.algorithms import text
from mechgap.algorithms.text import Example, Question
from mechgap.algorithms.text.writing import show
from mechgap.networks import postprocess
from mechgap.networks.cross_attention import Memory
from mechgap.networks.generation import greedy
from mechgap.networks.rotary import plain_positions, randomised_positions
from mechgap.networks.transnar import TransNAR
from mechgap.trace import Variable
from mechgap.training.transnar.config import SHUFFLED, EvaluationConfig, TextTrainingConfig
from mechgap.training.transnar.exam import Exam, Scores, exam_for, growing_exam, scored, tokens_of
from mechgap.training.transnar.reasoner import PAIRS_AT_ONCE, Reasoner, question_states, questions_asked
from mechgap.training.transnar.result import TextModels
from mechgap.training.transnar.shared_reasoner import SharedReasoner

# Few lengths: every pair of them is a program to compile, and decoding ends where all answers have.
ROOMS = (128, 256, 512, 1024, 2048)
ANSWERS = (32, 128, 512, 1024)
TOKENS_AT_ONCE = 131_072  # long questions, and large graphs, are answered fewer at a time


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


AS_TRAINED = "as trained"
POSITIONS = "as in training"  # how positions of questions are drawn; scores without this word are of denser ones
CONTROLS = {
    AS_TRAINED: Control(),
    "gates shut": Control(opened=False),
    "shuffled": Control(memory=SHUFFLED),
    "plain positions": Control(random_positions=False),
}


def answers(
    model: TransNAR,
    config: TextTrainingConfig,
    reasoner: Reasoner | None,
    examples: Sequence[Example],
    evaluation: EvaluationConfig | None = None,
    control: Control = CONTROLS[AS_TRAINED],
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
    seed = evaluation.position_seed
    if not examples:
        return []
    thoughts, nodes, whose = None, 1, np.arange(len(examples))
    if reasoner is not None:
        thoughts = question_states(reasoner, [text.parse(e.question) for e in examples], config.states)
        nodes = thoughts.present.shape[-1]
        if (control.memory or config.memory) == SHUFFLED:
            whose = _of_others(len(examples), seed)
    for (room, new), places in _by_room(examples, config.context).items():
        most = max(1, min(evaluation.together, TOKENS_AT_ONCE // (room + new), PAIRS_AT_ONCE // nodes**2))
        size = min(most, 1 << (len(places) - 1).bit_length())  # few sizes, too, and little that is thrown away
        for start in range(0, len(places), size):
            rows = np.take(places, np.arange(start, start + size), mode="wrap")
            memory: Memory | None = jax.tree.map(lambda x, rows=whose[rows]: jnp.asarray(x[rows]), thoughts)
            found = _answer(model, config, memory, [examples[i] for i in rows], room, new, seed, control)
            for i, ids in list(zip(rows, found, strict=True))[: len(places) - start]:
                said[i] = text.decode(ids[: most_said(examples[i])])  # a longer one of the call may have had more room
    return said


def _of_others(count: int, seed: int) -> Int[np.ndarray, " count"]:
    """For everybody another one, of any kind: all stand in a circle, and each has the next."""
    if count < 2:
        raise ValueError("Shuffled states are those of another question; ask at least two.")
    circle, others = np.random.default_rng(seed).permutation(count), np.empty(count, int)
    others[circle] = np.roll(circle, -1)
    return others


def _answer(
    model: TransNAR,
    config: TextTrainingConfig,
    memory: Memory | None,
    examples: Sequence[Example],
    room: int,
    new: int,
    seed: int,
    control: Control,
) -> Int[np.ndarray, "batch new"]:
    prompts = text.batch([(e.question, "") for e in examples], length=room)
    at = positions_to_answer(config, examples, room + new, seed, control.random_positions)
    ids, lengths, positions = (jnp.asarray(x) for x in (prompts.ids, prompts.lengths, at))
    found = greedy(model, ids, lengths, positions, memory, max_new=new, eos=text.EOS, opened=jnp.array(control.opened))
    return np.asarray(found)


def positions_to_answer(
    config: TextTrainingConfig, examples: Sequence[Example], length: int, seed: int, drawn: bool | None = None
) -> Int[np.ndarray, "batch length"]:
    """Positions of questions and what may be said to them, as far apart as in training.

    They are drawn for the bucket of a question with its right answer, as in training, and by the question and the seed
    alone: not by what else is asked, nor by the room that answers are given. Were they drawn for all of that, those of
    short questions would lie several times as close as a model has ever seen them. An answer that gets longer than the
    bucket, as no right one is, has the last positions up to its end (see `most_said`). Behind that is padding, whose
    position is the last one again: it is never looked at, and leaving room for it would push the others together.

    Args:
        config: how the model was trained.
        examples: questions with their right answers.
        length: of prompt and answer.
        seed: of the draw.
        drawn: or counted; by default as in training.
    """
    if not (config.random_positions if drawn is None else drawn):
        return plain_positions(length, len(examples))
    return np.stack([_drawn_positions(config, example, length, seed) for example in examples])


def _drawn_positions(
    config: TextTrainingConfig, example: Example, length: int, seed: int
) -> Int[np.ndarray, " length"]:
    asked, said = tokens_of(example)
    bucket, most = config.bucket(asked + said), min(asked + most_said(example), config.context)
    beyond = max(0, most - bucket)
    rng = np.random.default_rng([seed, crc32(example.question.encode())])
    drawn = randomised_positions(rng, bucket, config.max_position - beyond, 1)[0]
    last = np.arange(config.max_position - beyond, config.max_position, dtype=np.int32)
    padding = np.full(max(0, length - bucket - beyond), config.max_position - 1, np.int32)
    return np.concatenate([drawn, last, padding])[:length]


def most_said(example: Example) -> int:
    """How many tokens of an answer count: a quarter more than the right one has, and some. What follows is cut off."""
    _, said = tokens_of(example)
    return said + said // 4 + 4


def _by_room(examples: Sequence[Example], context: int) -> dict[tuple[int, int], list[int]]:
    """(room for a question, room for its answer) -> who fits there. All answers get as much room as the longest."""
    groups: dict[tuple[int, int], list[int]] = {}
    lengths = [tokens_of(example) for example in examples]
    longest = _room(max(map(most_said, examples)), ANSWERS)
    for place, (asked, said) in enumerate(lengths):
        # Near the end of the context an answer gets what is left; a right one fits, or the question is refused later.
        fitting = [new for new in (longest, *reversed(ANSWERS)) if said <= new <= context - asked]
        new = fitting[0] if fitting else max(said, context - asked)
        groups.setdefault((max(asked, min(_room(asked, ROOMS), context - new)), new), []).append(place)
    return groups


def room_for(example: Example, context: int) -> tuple[int, int]:
    """Tokens for a question and for its answer, where it is the only one."""
    (room,) = _by_room([example], context)
    return room


def _room(length: int, rooms: Sequence[int]) -> int:
    return next((room for room in rooms if room >= length), length)


def reasoner_answers(reasoner: SharedReasoner, questions: Sequence[Question], together: int = 64) -> list[str]:
    """What a trained reasoner answers itself, written as text: what there is to read off it."""
    if not questions:
        return []
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


def evaluate(
    result: TextModels,
    evaluation: EvaluationConfig,
    controls: Sequence[str] = (AS_TRAINED,),
    watch: Callable[[str], None] = lambda said: None,
    exam: Exam | None = None,
) -> dict[str, Any]:
    """All scores of all seeds, as plain values for metrics.json.

    Args:
        result: trained models.
        evaluation: what is asked.
        controls: names from `CONTROLS`; those about a reasoner are left out where there is none.
        watch: is told what is done.
        exam: the questions, where they have been drawn before.
    """
    check_unseen(result.config, evaluation)
    exam = exam or exam_for(evaluation, result.config.algorithms)
    scores: dict[str, Any] = {"evaluation": evaluation.as_json(), "positions": POSITIONS, "models": {}}
    for seed, model, reasoner in zip(result.config.seed_range, result.models, result.reasoners, strict=True):
        for name in controls:
            if reasoner is None and name in ("gates shut", "shuffled"):
                continue
            watch(f"seed {seed}, {name}")
            answer = partial(answers, model, result.config, reasoner, exam.examples, evaluation, CONTROLS[name])
            scores["models"].setdefault(name, []).append(scored(answer, exam.examples).as_json())
    reasoner = result.reasoners[0]
    if isinstance(reasoner, SharedReasoner):
        watch("the reasoner alone")
        known = [e for e in exam.examples if e.algorithm in reasoner.algorithms]  # others have no decoder
        if known:
            answer = partial(reasoner_answers, reasoner, [text.parse(e.question) for e in known])
            scores["reasoner"] = scored(answer, known).as_json()
    scores["exact"] = exam.exact
    return scores


def asked_so(
    had: Mapping[str, Any] | None, evaluation: EvaluationConfig, config: TextTrainingConfig | None = None
) -> bool:
    """Whether kept scores are of these questions, at positions as they are drawn now where a model has drawn ones.

    How many are answered at once changes nothing.
    """
    if had is None:
        return False
    asked = EvaluationConfig.from_settings(had["evaluation"])
    drawn = config is not None and config.random_positions
    return replace(asked, together=evaluation.together) == evaluation and (
        not drawn or had.get("positions") == POSITIONS
    )


def check_others(name: str, config: TextTrainingConfig, evaluation: EvaluationConfig) -> None:
    """Refuse to ask one question alone: models are also shown the states of another one."""
    if config.looks and evaluation.count * len(evaluation.sizes) * len(config.algorithms) < 2:
        raise ValueError(
            f"The model {name!r} is asked one question, and shuffled states are those of another one. Ask at least "
            f"two: raise count of the evaluation."
        )


def check_unseen(config: TextTrainingConfig, evaluation: EvaluationConfig) -> None:
    """Refuse to ask what a model was trained on: questions of the same seed, about graphs of the same size."""
    seen = sorted({*config.sizes, *config.extra_sizes} & {*evaluation.sizes})
    if evaluation.seed == config.data_seed and seen:
        raise ValueError(
            f"Questions of n = {', '.join(map(str, seen))} from the seed {evaluation.seed} are those of training. Give "
            f"another seed, or sizes that were not trained on."
        )


def evaluate_growing(
    result: TextModels,
    evaluation: EvaluationConfig,
    watch: Callable[[str], None] = lambda said: None,
    exam: Exam | None = None,
) -> dict[str, Any]:
    """Scores at rising n, for every algorithm until its questions and answers exceed the context.

    Returns:
        `evaluation`; `last`: the largest n of each algorithm that fits, None for none; `too_long`: the first that does
        not, None where all fit; `models`: scores by seed, as trained.
    """
    check_unseen(result.config, evaluation)
    exam = exam or growing_exam(evaluation, result.config.algorithms, result.config.context)
    sizes = {
        name: sorted({e.length for e in exam.examples if e.algorithm == name}) for name in result.config.algorithms
    }
    runs = []
    for seed, model, reasoner in zip(result.config.seed_range, result.models, result.reasoners, strict=True):
        watch(f"seed {seed}, growing")
        run = Scores({}, 0.0)
        for n in evaluation.sizes:  # one after the other: graphs are padded to the largest of a call
            some = [e for e in exam.examples if e.length == n]
            if some:
                one = scored(partial(answers, model, result.config, reasoner, some, evaluation), some)
                run = Scores({**run.by_size, **one.by_size}, run.seconds + one.seconds)
        runs.append(run.as_json())
    last = {name: max(fits, default=None) for name, fits in sizes.items()}
    too_long = {name: min((n for n in evaluation.sizes if n not in fits), default=None) for name, fits in sizes.items()}
    context = result.config.context
    about = {"evaluation": evaluation.as_json(), "positions": POSITIONS, "context": context}
    return {**about, "last": last, "too_long": too_long, "models": runs}
