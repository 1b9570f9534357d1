"""Tasks for ALTA programs: texts to learn from, texts to be tested on, and what is right."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mechgap.programs.alta import AltaProgram
from mechgap.programs.library.scan_divergence import divergence_split
from mechgap.programs.library.scan_grammar import actions, jump_split, length_split, random_split, read_mcd_split

TOGETHER = 128  # texts that are run at once
Run = Callable[[list[list[int]]], list[list[int]]]
SPLITS: dict[str, Callable[[], tuple[Sequence[str], Sequence[str]]]] = {
    "length": length_split,
    "jump": jump_split,
    "random": random_split,
    "divergence": divergence_split,
}
# Published splits that are no part of this package: whoever has the files puts them there, with tasks.txt.
PUBLISHED = {name: Path("data/scan") / f"{name}.json" for name in ("mcd1", "mcd2", "mcd3")}
# Which texts parity is tested on: 1 had in the slice of longer texts those of all tests that are longer, 59 % of them
# with more ones than training shows, since more ones need more room; 2 draws that slice by itself.
PARITY_TESTS = 2
TASKS = "tasks.txt"  # all commands, which a published file numbers; beside it


@dataclass(frozen=True)
class Task:
    """What a program is to do.

    Attributes:
        name: e.g. "parity".
        train: texts to learn from.
        tests: what they have in common -> texts to be tested on.
        answer: text -> the right answer.
    """

    name: str
    train: tuple[str, ...]
    tests: Mapping[str, tuple[str, ...]]
    answer: Callable[[str], str]


def parity_task(train_length: int = 20, test_length: int = 40, *, each: int = 100, seed: int = 0) -> Task:
    """Bits, with `each` texts for every number of ones, of a length between that number and the longest (ALTA D.1).

    So are the training set and the slice of longer texts, whose lengths are from `train_length` + 1 on (Figure 4). The
    other slices are parts of a test set with all lengths, drawn like the training set.
    """
    if not 1 <= train_length < test_length:
        raise ValueError(f"Give lengths 1 <= train < test; got {train_length} and {test_length}.")
    rng = random.Random(seed)
    train = bits(rng, train_length, each)
    tested = bits(rng, test_length, each)
    slices = {
        f"length <= {train_length}": [t for t in tested if len(t) <= train_length],
        f"length > {train_length}": bits(rng, test_length, each, train_length + 1),
        f"ones > {train_length}": [t for t in tested if t.count("1") > train_length],
    }
    if empty := [name for name, texts in slices.items() if not texts]:
        raise ValueError(f"With {each} texts for every number of ones none has {empty[0]}. Give more, each=20.")
    return Task("parity", tuple(train), _tuples(slices), lambda text: str(text.count("1") % 2))


def bits(rng: random.Random, longest: int, each: int, shortest: int = 1) -> list[str]:
    """Texts of bits, equally many for every number of ones from 0 to the longest, of lengths that can hold it."""
    found = []
    for ones in range(longest + 1):
        for _ in range(each):
            length = rng.randint(max(ones, shortest), longest)
            places = set(rng.sample(range(length), ones))
            found.append("".join("1" if i in places else "0" for i in range(length)))
    return found


def addition_task(train_digits: int = 3, test_digits: int = 50, *, count: int = 3000, seed: int = 0) -> Task:
    """Sums of two numbers of up to so many digits."""
    if not 1 <= train_digits < test_digits:
        raise ValueError(f"Give digits 1 <= train < test; got {train_digits} and {test_digits}.")
    rng = random.Random(seed)

    def draw(fewest: int, most: int, many: int) -> list[str]:
        sizes = [(rng.randint(fewest, most), rng.randint(1, most)) for _ in range(many)]
        return [f"{_number(rng, a)}+{_number(rng, b)}" for a, b in sizes]

    slices = {
        f"digits <= {train_digits}": draw(1, train_digits, 100),
        f"digits {train_digits + 1} to {test_digits}": draw(train_digits + 1, test_digits, 100),
    }
    answer = lambda text: str(sum(int(number) for number in text.split("+")))  # noqa: E731
    return Task("addition", tuple(draw(1, train_digits, count)), _tuples(slices), answer)


def scan_task(split: str = "length") -> Task:
    """SCAN commands, split in one of these ways.

    Args:
        split: "length", by the number of actions; "jump", by that verb; "random"; "divergence", by how rules are
            combined (see `scan_divergence`); or a published split: "mcd1" to "mcd3", or the path of such a JSON file.
    """
    file = published_file(split)
    if file is None:
        train, test = SPLITS[split]()
    elif file.exists():
        train, test = read_mcd_split(file, file.parent / TASKS)
    else:
        raise FileNotFoundError(
            f"No file {file}: published splits are no part of mechgap. Put it there, with the {TASKS} that it numbers "
            f"beside it; or take the split 'divergence', which is ours."
        )
    name = split if file is None else file.stem
    return Task("scan", tuple(train), {f"test of the {name} split": tuple(test)}, lambda text: " ".join(actions(text)))


def published_file(split: str) -> Path | None:
    """The file that a split of SCAN needs; None for those that are made here."""
    if split in SPLITS:
        return None
    if split not in PUBLISHED and not split.endswith(".json"):
        raise ValueError(
            f"SCAN is split by {', '.join(SPLITS)}, or as published: {', '.join(PUBLISHED)}, or the path of a .json "
            f"file; got {split!r}."
        )
    return PUBLISHED.get(split, Path(split))


def task_of(program: AltaProgram, train_length: int | None = None, split: str | None = None, each: int = 20) -> Task:
    """The task of a program of the library.

    Args:
        program: parity, addition or SCAN.
        train_length: the longest that is learned from: bits (20) or digits (3).
        split: of SCAN (length).
        each: texts of bits for every number of ones.
    """
    if program.name == "scan":
        if train_length is not None:
            raise ValueError(f"SCAN is split, not cut at a length; give a split instead of the length {train_length}.")
        return scan_task("length" if split is None else split)
    if split is not None:
        raise ValueError(f"Only scan has splits; leave out the split {split!r} for {program.name!r}.")
    if program.name.startswith("parity"):
        length = 20 if train_length is None else train_length
        return parity_task(length, 2 * length, each=each)
    if program.name == "addition":
        return addition_task(3 if train_length is None else train_length)
    raise ValueError(
        f"There is no task with a training set for {program.name!r}; there is one for the parity programs, addition "
        f"and scan. From Python: mechgap.minimal(program, inputs) for any."
    )


def answers(program: AltaProgram, run: Run, texts: Sequence[str]) -> list[str]:
    """What is answered, whatever becomes of an execution otherwise: the shorter texts first, some at a time.

    Args:
        program: reads and writes text.
        run: sequences of input ids -> the output variable at every position of each.
        texts: in any order.
    """
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    found = [""] * len(texts)
    for start in range(0, len(order), TOGETHER):
        part = order[start : start + TOGETHER]
        outputs = run([program.encode(texts[i]) for i in part])
        for i, output in zip(part, outputs, strict=True):
            found[i] = program.decode(output)
    return found


def right(program: AltaProgram, task: Task, texts: Sequence[str], layers: int | None = None) -> np.ndarray:
    """[texts]: whether the interpreter's answer is right, after at most so many layers."""
    said = answers(program, lambda inputs: program.interpret(inputs, layers=layers).outputs, texts)
    return np.array([answer == task.answer(text) for answer, text in zip(said, texts, strict=True)])


def _number(rng: random.Random, digits: int) -> int:
    return rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits)


def _tuples(slices: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(texts) for name, texts in slices.items()}
