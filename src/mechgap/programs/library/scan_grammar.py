"""SCAN: its words, its grammar, what commands mean, and all 20 910 of them; without a download.

command -> clause | clause and clause | clause after clause
clause  -> phrase | phrase twice | phrase thrice
phrase  -> verb | verb side | verb opposite side | verb around side | turn side | turn opposite side | turn around side
"""

import json
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

WORDS = (
    *("and", "after", "opposite", "turn", "around", "left", "right", "twice", "thrice"),
    *("walk", "look", "run", "jump", "start", "memory", "eos", "pad"),
)
SYMBOLS = ("PAD", *WORDS[:13], "WALK", "LOOK", "RUN", "JUMP", "LTURN", "RTURN", "S")
VERBS, SIDES = ("walk", "look", "run", "jump"), ("left", "right")
# How a shift-reduce parser reduces, by number from 1 on: what becomes one S.
REDUCTIONS = (
    *("S and S", "S after S", "S twice", "S thrice", "walk", "look", "run", "jump", "turn left", "turn right"),
    *("turn opposite left", "turn opposite right", "S opposite left", "S opposite right"),
    *("S around left", "S around right", "turn around left", "turn around right", "S left", "S right"),
)
LONGEST_ACTIONS = 48
TRAIN_ACTIONS = 22  # the length split trains on commands of at most so many
PUBLISHED = {
    "WALK": "I_WALK",
    "LOOK": "I_LOOK",
    "RUN": "I_RUN",
    "JUMP": "I_JUMP",
    "LTURN": "I_TURN_LEFT",
    "RTURN": "I_TURN_RIGHT",
}


def phrases() -> list[str]:
    """Every phrase."""
    bare = [*VERBS]
    sided = [
        f"{word}{how} {side}" for word in (*VERBS, "turn") for how in ("", " opposite", " around") for side in SIDES
    ]
    return bare + sided


def commands() -> list[str]:
    """All 20 910 commands."""
    clauses = [f"{p}{times}" for p in phrases() for times in ("", " twice", " thrice")]
    return clauses + [f"{a} {word} {b}" for word in ("and", "after") for a in clauses for b in clauses]


def actions(command: str) -> list[str]:
    """What a command means: the oracle."""
    words = command.split()
    for joint in ("and", "after"):
        if joint in words:
            at = words.index(joint)
            first, second = (actions(" ".join(part)) for part in (words[:at], words[at + 1 :]))
            return first + second if joint == "and" else second + first
    times = {"twice": 2, "thrice": 3}.get(words[-1], 1)
    words = words[:-1] if times > 1 else words
    verb = [] if words[0] == "turn" else [words[0].upper()]
    turn = [] if len(words) == 1 else [f"{words[-1][0].upper()}TURN"]
    if "around" in words:
        return (turn + verb) * 4 * times
    return (turn * (2 if "opposite" in words else 1) + verb) * times


@dataclass(frozen=True)
class Derivation:
    """A rule of `REDUCTIONS` that makes a command, and a derivation for each S in it."""

    rule: str
    children: tuple["Derivation", ...] = ()


def derivation(command: str) -> Derivation:
    """How the grammar makes a command."""
    words = command.split()
    for joint in ("and", "after"):
        if joint in words:
            at = words.index(joint)
            return Derivation(f"S {joint} S", tuple(derivation(" ".join(w)) for w in (words[:at], words[at + 1 :])))
    if words[-1] in ("twice", "thrice"):
        return Derivation(f"S {words[-1]}", (derivation(" ".join(words[:-1])),))
    if words[0] == "turn" or len(words) == 1:
        return Derivation(command)
    return Derivation(" ".join(["S", *words[1:]]), (Derivation(words[0]),))


def length_split() -> tuple[list[str], list[str]]:
    """Train on commands of at most 22 actions (16 990), test on longer ones (3 920)."""
    lengths = {command: len(actions(command)) for command in commands()}
    short = [command for command, n in lengths.items() if n <= TRAIN_ACTIONS]
    return short, [command for command, n in lengths.items() if n > TRAIN_ACTIONS]


def jump_split() -> tuple[list[str], list[str]]:
    """Test on all commands with "jump" in them but "jump" itself."""
    test = [c for c in commands() if "jump" in c.split() and c != "jump"]
    tested = set(test)
    return [c for c in commands() if c not in tested], test


def random_split(seed: int = 0, share: float = 0.8) -> tuple[list[str], list[str]]:
    """A random split of all commands."""
    drawn = commands()
    random.Random(seed).shuffle(drawn)
    at = round(share * len(drawn))
    return drawn[:at], drawn[at:]


def read_split(path: str | Path) -> list[tuple[str, list[str]]]:
    """A published file, "IN: jump twice OUT: I_JUMP I_JUMP" per line: commands and actions, which must be right."""
    names = {published: own for own, published in PUBLISHED.items()}
    found = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if not line.strip():
            continue
        given, out, expected = line.partition("OUT:")
        words = given.removeprefix("IN:").strip()
        unknown = [word for word in expected.split() if word not in names]
        if not given.startswith("IN:") or not out or unknown or words not in all_commands():
            raise ValueError(f"{path}, line {number}: expected 'IN: words OUT: I_ACTIONS'; got {line!r}.")
        said = [names[word] for word in expected.split()]
        if said != actions(words):
            raise ValueError(f"{path}, line {number}: {words!r} means {' '.join(actions(words))}; got {line!r}.")
        found.append((words, said))
    return found


def read_mcd_split(path: str | Path, tasks: str | Path) -> tuple[list[str], list[str]]:
    """A published split by compound divergence: train and test commands.

    Args:
        path: a JSON file with `trainIdxs` and `testIdxs`, numbers of lines.
        tasks: the file of these lines, see `read_split`.
    """
    if not Path(tasks).is_file():
        raise FileNotFoundError(f"No file {tasks}, whose lines {path} numbers. Put it there.")
    lines = [command for command, _ in read_split(tasks)]
    try:
        document = json.loads(Path(path).read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not readable JSON ({error}); it may be truncated. Fetch it again.") from error
    parts: list[Any] = [document.get(n) if isinstance(document, dict) else None for n in ("trainIdxs", "testIdxs")]
    if not all(isinstance(part, list) and part for part in parts):
        raise ValueError(f"{path}: expected a JSON object with the lists trainIdxs and testIdxs, none of them empty.")
    wrong = [i for part in parts for i in part if not isinstance(i, int) or not 0 <= i < len(lines)]
    if wrong:
        raise ValueError(f"{path}: {wrong[0]!r} is not the number of a line of {tasks}, which has {len(lines)}.")
    train, test = ([lines[i] for i in part] for part in parts)
    return train, test


@cache
def all_commands() -> frozenset[str]:
    """The same as `commands`, to ask whether something is one."""
    return frozenset(commands())
