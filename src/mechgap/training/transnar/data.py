"""What a text model learns from: questions and answers as tokens, drawn once, in batches of one length each."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Int, UInt8
from rich.console import Console
from rich.progress import track

from mechgap.algorithms import text
from mechgap.algorithms.inputs import DERIVED, completed
from mechgap.algorithms.text.layout import layout
from mechgap.algorithms.text.sampling import traces
from mechgap.algorithms.text.writing import written_pairs
from mechgap.networks.cross_attention import Memory
from mechgap.networks.rotary import plain_positions, randomised_positions
from mechgap.storage import read_tensors, write_tensors
from mechgap.trace import Values
from mechgap.training.config import hashed_name
from mechgap.training.transnar.config import SHUFFLED, TextTrainingConfig
from mechgap.training.transnar.reasoner import Asked, Part, Reasoner

FORMAT = "mechgap.questions/1"
# What a draw is for, so that no two uses of a seed see the same numbers.
TO_ORDER, TO_PLACE, TO_VALIDATE = range(3)


class Batch(NamedTuple):
    """What a step learns from.

    Attributes:
        ids: tokens, padded at their ends.
        wanted: where the answer and <eos> stand; nowhere in rows that only fill up a batch.
        positions: of the tokens.
        asked: the questions, for the reasoner; their numbers where its states are kept; None where there is none.
    """

    ids: Int[np.ndarray, "batch length"]
    wanted: Bool[np.ndarray, "batch length"]
    positions: Int[np.ndarray, "batch length"]
    asked: Asked | Int[np.ndarray, " batch"] | None


@dataclass(frozen=True, eq=False)
class Group:
    """Questions about one algorithm of one size, by the same index in each array.

    Attributes:
        inputs: what is asked, complete, as `algorithm.trace` takes it.
        ids: the tokens of each.
        starts: where answers begin among them.
    """

    algorithm: str
    size: int
    inputs: Values
    ids: tuple[UInt8[np.ndarray, " _"], ...]
    starts: Int[np.ndarray, " samples"]


class Chosen(NamedTuple):
    """A batch before it is put together: its bucket and the numbers of its questions, each with its group."""

    length: int
    rows: Int[np.ndarray, "batch 2"]
    counted: Bool[np.ndarray, " batch"]


@dataclass(frozen=True, eq=False)
class Corpus:
    """All questions, and in which bucket each lies.

    Attributes:
        groups: by algorithm and size.
        parts: the same for a reasoner; empty where there is none.
        train, validation: bucket -> (group, row) of its questions.
        kept: what the reasoner thinks of every question, one group after the other; None where it is asked anew.
    """

    groups: tuple[Group, ...]
    parts: tuple[Part, ...]
    train: dict[int, Int[np.ndarray, "_ 2"]]
    validation: dict[int, Int[np.ndarray, "_ 2"]]
    kept: Memory | None = None

    @cached_property
    def starts(self) -> Int[np.ndarray, " groups"]:
        """The number of every group's first question."""
        return np.cumsum([0, *(len(group.ids) for group in self.groups)])[:-1]

    @property
    def nodes(self) -> int:
        """What all questions are padded to, for the reasoner."""
        return max(part.nodes for part in self.parts)


def draw_group(name: str, size: int, count: int, seed: int) -> Group:
    """Questions and answers of the reference generator's sampler of that seed."""
    written, pairs, inputs = layout(name), [], []
    for trace, few in traces(name, size, count, seed=seed):
        pairs += written_pairs(written, trace, few)
        inputs.append({k: np.asarray(x)[:few] for k, x in trace.inputs.items()})
    asked, said = [text.encode(q) for q, _ in pairs], [text.encode(a) for _, a in pairs]
    ids = [np.array([text.BOS, *q, *a, text.EOS], np.uint8) for q, a in zip(asked, said, strict=True)]
    together = {k: np.concatenate([part[k] for part in inputs]) for k in inputs[0]}
    return Group(name, size, together, tuple(ids), np.array([1 + len(q) for q in asked], np.int32))


def draw_groups(config: TextTrainingConfig, quiet: bool | None = None) -> tuple[Group, ...]:
    """The questions of all algorithms and sizes, with right answers."""
    return kept_groups(config, None, quiet)


def kept_groups(config: TextTrainingConfig, folder: str | Path | None, quiet: bool | None = None) -> tuple[Group, ...]:
    """`draw_groups`, from files in the folder where they have been drawn before: two for each algorithm."""
    groups: list[Group] = []
    wanted = ((config.sizes, config.samples), (config.extra_sizes, config.extra_samples))
    for name in _watched(config.algorithms, quiet):
        for sizes, samples in wanted:
            groups += _kept(name, sizes, samples, config.data_seed, folder) if sizes else ()
    return tuple(groups)


def _kept(name: str, sizes: tuple[int, ...], samples: int, seed: int, folder: str | Path | None) -> Iterable[Group]:
    what = json.dumps([name, sizes, samples, seed])
    path = None if folder is None else Path(folder) / f"{hashed_name('questions', what)}.safetensors"
    if path is not None and path.exists():
        return load_groups(path)
    groups = [draw_group(name, size, samples, seed) for size in sizes]
    jax.clear_caches()  # no tracer serves two algorithms, and thousands of programs would fill the memory
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_groups(path, groups)
    return groups


def save_groups(path: str | Path, groups: Iterable[Group]) -> None:
    """Write questions as arrays; what follows from other inputs is left out."""
    tensors: Values = {}
    about = []
    for number, group in enumerate(groups):
        written = {f"{number}.inputs.{k}": x for k, x in group.inputs.items() if k not in DERIVED}
        lengths = np.array([len(ids) for ids in group.ids], np.int32)
        tokens = {"ids": np.concatenate(group.ids), "lengths": lengths, "starts": group.starts}
        tensors |= {**written, **{f"{number}.{k}": x for k, x in tokens.items()}}
        about.append([group.algorithm, group.size])
    write_tensors(path, tensors, {"format": FORMAT, "groups": about, "vocabulary": list(text.VOCABULARY)})


def load_groups(path: str | Path) -> tuple[Group, ...]:
    """Read what `save_groups` wrote."""
    tensors, about = read_tensors(path, FORMAT)
    if about["vocabulary"] != list(text.VOCABULARY):
        raise ValueError(f"{path} was written with other tokens; delete it, and questions are drawn anew.")
    groups = []
    for number, (name, size) in enumerate(about["groups"]):
        start = f"{number}.inputs."
        given = {k.removeprefix(start): x for k, x in tensors.items() if k.startswith(start)}
        ends = np.cumsum(tensors[f"{number}.lengths"])[:-1]
        ids = tuple(np.split(tensors[f"{number}.ids"], ends))
        inputs = completed(layout(name).algorithm.spec, given, np)
        groups.append(Group(name, size, inputs, ids, tensors[f"{number}.starts"]))
    return tuple(groups)


def corpus_of(config: TextTrainingConfig, groups: tuple[Group, ...], reasoner: Reasoner | None) -> Corpus:
    """Sort questions into buckets, the first of each group for training."""
    train: dict[int, list[tuple[int, int]]] = {length: [] for length in config.buckets}
    validation: dict[int, list[tuple[int, int]]] = {length: [] for length in config.buckets}
    for number, group in enumerate(groups):
        longest = max(len(ids) for ids in group.ids)
        if longest > config.buckets[-1]:
            raise ValueError(
                f"A question about {group.algorithm!r} of size {group.size} has {longest} tokens, and the longest "
                f"bucket is {config.buckets[-1]}. Raise the last of buckets (and context), or leave the size out."
            )
        share = 1.0 if group.size in config.extra_sizes else config.train_share
        kept = max(1, round(share * len(group.ids)))
        for row, ids in enumerate(group.ids):
            (train if row < kept else validation)[config.bucket(len(ids))].append((number, row))
    if config.memory == SHUFFLED:
        alone = [length for length, some in train.items() if some and min(len(some), config.batch(length)) < 2]
        if alone:
            raise ValueError(
                f'With memory = "shuffled" questions see the states of another one of their batch, and in the bucket '
                f"of {alone[0]} one stands alone. Raise tokens to at least {2 * alone[0]}, or samples, or change "
                f"buckets."
            )
        validation = {length: some for length, some in validation.items() if len(some) > 1}
    parts = () if reasoner is None else tuple(reasoner.part(group.algorithm, group.inputs) for group in groups)
    rows, held = ({k: np.array(v, np.int32) for k, v in x.items() if v} for x in (train, validation))
    return Corpus(groups, parts, rows, held)


class Plan:
    """Which questions every step sees: each once per epoch, the order drawn from the seed and the epoch's number."""

    def __init__(self, config: TextTrainingConfig, corpus: Corpus, seed: int) -> None:
        self.config, self.corpus, self.seed = config, corpus, seed
        self.per_epoch = sum(-(-len(rows) // config.batch(length)) for length, rows in corpus.train.items())
        self.epoch = lru_cache(maxsize=1)(self._epoch)

    @property
    def steps(self) -> int:
        """How many there are in all."""
        return self.config.steps or self.config.epochs * self.per_epoch

    def at(self, step: int) -> Chosen:
        """The questions of one step."""
        epoch, place = divmod(step, self.per_epoch)
        return self.epoch(epoch)[place]

    def _epoch(self, number: int) -> list[Chosen]:
        rng = np.random.default_rng([self.seed, TO_ORDER, number])
        batches = in_batches(self.config, {k: rng.permutation(rows) for k, rows in self.corpus.train.items()})
        return [batches[i] for i in rng.permutation(len(batches))]


def in_batches(config: TextTrainingConfig, rows: dict[int, Int[np.ndarray, "_ 2"]]) -> list[Chosen]:
    """Rows in the order given, cut into batches; a last one is filled up with rows that do not count."""
    found = []
    for length, some in rows.items():
        size = config.batch(length)
        for start in range(0, len(some), size):
            filled = np.take(some, np.arange(start, start + size), axis=0, mode="wrap")  # behind each stands another
            found.append(Chosen(length, filled, start + np.arange(size) < len(some)))
    return found


def batch_of(
    config: TextTrainingConfig, corpus: Corpus, chosen: Chosen, rng: np.random.Generator, reasoner: Reasoner | None
) -> Batch:
    """Put a batch together. One draw of positions for every sequence."""
    count = len(chosen.rows)
    ids = np.full((count, chosen.length), text.PAD, np.int32)
    wanted = np.zeros(ids.shape, bool)
    for place, (number, row) in enumerate(chosen.rows.tolist()):
        group = corpus.groups[number]
        tokens = group.ids[row]
        ids[place, : len(tokens)] = tokens
        wanted[place, group.starts[row] : len(tokens)] = chosen.counted[place]
    positions = positions_for(config, rng, chosen.length, count)
    return Batch(ids, wanted, positions, None if reasoner is None else asked_of(corpus, chosen, reasoner))


def asked_of(corpus: Corpus, chosen: Chosen, reasoner: Reasoner) -> Asked | Int[np.ndarray, " batch"]:
    """The questions of a batch for the reasoner, or their numbers where its states are kept."""
    numbers, rows = chosen.rows.T
    if corpus.kept is not None:
        return (corpus.starts[numbers] + rows).astype(np.int32)
    places = [(number, np.flatnonzero(numbers == number)) for number in np.unique(numbers).tolist()]
    parts = [(corpus.parts[number].at(rows[where]), where) for number, where in places]
    return reasoner.together(parts, len(rows), corpus.nodes)


def positions_for(
    config: TextTrainingConfig, rng: np.random.Generator, length: int, count: int
) -> Int[np.ndarray, "count length"]:
    """As the config says: drawn, or counted."""
    if config.random_positions:
        return randomised_positions(rng, length, config.max_position, count)
    return plain_positions(length, count)


def _watched(names: Sequence[str], quiet: bool | None) -> Iterable[str]:
    console = Console(stderr=True)
    hidden = not console.is_terminal if quiet is None else quiet
    return track(names, "drawing questions", console=console, disable=hidden, transient=True)
