"""A split of SCAN by compound divergence, after Keysers et al. (2020): known parts in combinations never trained.

It is a split of our own, and stands in for the published MCD splits; it is none of them. In a derivation,

    atoms       are the rules applied, e.g. "S twice" or "jump"
    compounds   are connected parts of two or three rules, e.g. "(S around left) twice"

Two distributions p and q diverge by 1 - Σ_k p_k^α q_k^(1-α). For atoms α is 0.5; for compounds it is 0.1, which asks
whether what is tested was trained at all rather than how often. A compound that nearly always occurs inside one and the
same larger one says nothing of its own, and weighs little: 1 less the largest share of its occurrences inside one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from mechgap.programs.library.scan_grammar import Derivation, commands, derivation

TRAIN, TEST = 8365, 1045  # commands, as in the published splits
ATOM_ALPHA, COMPOUND_ALPHA = 0.5, 0.1
LARGEST_COMPOUND = 3  # rules; a compound as large as a command would be in training or in test, never in both
ATOMS_BELOW = 0.02  # the divergence of atoms
CANDIDATES = 300  # commands that are tried for every one that is taken

Path = tuple[int, ...]  # from the root of a derivation, which child to take


class Part(NamedTuple):
    """A connected part of a derivation: its text, with an S for what is left open, and where its rules are."""

    text: str
    where: frozenset[Path]


@dataclass(frozen=True)
class Divergences:
    """How far a test set is from its training set, 0 to 1."""

    atoms: float
    compounds: float


@dataclass(frozen=True)
class Composition:
    """What commands are made of.

    Attributes:
        atoms: [commands, rules], how often each rule is applied.
        compounds: [commands, most], numbers of compounds; filled up with the first number that is none.
        weights: [commands, most], of the compounds; 0 where there is none.
        names: of the compounds.
    """

    atoms: np.ndarray
    compounds: np.ndarray
    weights: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Composition":
        """Of all texts together: they also decide what a compound weighs."""
        found = [list(_parts_anywhere(derivation(text))) for text in texts]
        rules = [Counter(part.text for part in parts if len(part.where) == 1) for parts in found]
        weighed = _weighed([[part for part in parts if len(part.where) > 1] for parts in found])
        kinds = sorted(set().union(*rules))
        names = sorted(set().union(*weighed))
        number, most = {name: i for i, name in enumerate(names)}, max(map(len, weighed))
        compounds, weights = np.full((len(texts), most), len(names)), np.zeros((len(texts), most))
        for i, own in enumerate(weighed):
            compounds[i, : len(own)] = [number[name] for name in own]
            weights[i, : len(own)] = list(own.values())
        atoms = np.array([[counts[kind] for kind in kinds] for counts in rules], float)
        return cls(atoms, compounds, weights, tuple(names))

    def divergences(self, train: Sequence[int], test: Sequence[int]) -> Divergences:
        """Of two sets of these commands, given by number."""
        atoms = chernoff_divergence(self.atoms[train].sum(0), self.atoms[test].sum(0), ATOM_ALPHA)
        return Divergences(atoms, chernoff_divergence(self._weight(train), self._weight(test), COMPOUND_ALPHA))

    def _weight(self, which: Sequence[int]) -> np.ndarray:
        places, weights = self.compounds[which].ravel(), self.weights[which].ravel()
        return np.bincount(places, weights, minlength=len(self.names) + 1)


def chernoff_divergence(train: np.ndarray, test: np.ndarray, alpha: float) -> float:
    """1 - Σ_k p_k^α q_k^(1-α), p and q being the two counts as shares."""
    return float(1 - np.sum((train / train.sum()) ** alpha * (test / test.sum()) ** (1 - alpha)))


def divergences(train: Sequence[str], test: Sequence[str]) -> Divergences:
    """How far any two sets of commands are apart; compounds weigh what they weigh among all commands."""
    at = {command: i for i, command in enumerate(commands())}
    return _all_commands().divergences([at[c] for c in train], [at[c] for c in test])


@cache
def divergence_split(seed: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Train (8 365) and test (1 045) commands, the same for the same seed.

    Both sets grow in step. Of some commands drawn at random the one is taken that makes compounds diverge most while
    the divergence of atoms stays below its bound; where none keeps it there, the one that brings it lowest.
    """
    every, rng = _all_commands(), np.random.default_rng(seed)
    left = rng.permutation(len(every.atoms))
    train, test = _Side(every, COMPOUND_ALPHA), _Side(every, 1 - COMPOUND_ALPHA)
    train.take(int(left[0]))
    test.take(int(left[1]))
    left = left[2:]
    while len(train.taken) < TRAIN or len(test.taken) < TEST:
        own, other = (train, test) if len(train.taken) * TEST <= len(test.taken) * TRAIN else (test, train)
        drawn = rng.choice(len(left), CANDIDATES, replace=False)
        best = drawn[own.best(left[drawn], other)]
        own.take(int(left[best]))
        left = np.delete(left, best)
    texts = commands()
    return tuple(texts[i] for i in train.taken), tuple(texts[i] for i in test.taken)


class _Side:
    """One of two sets that grow: what it is made of so far."""

    def __init__(self, every: Composition, exponent: float) -> None:
        self.every, self.exponent, self.taken = every, exponent, list[int]()
        self.atoms, self.compounds = np.zeros(every.atoms.shape[1]), np.zeros(len(every.names) + 1)

    def take(self, command: int) -> None:
        self.taken.append(command)
        self.atoms += self.every.atoms[command]
        np.add.at(self.compounds, self.every.compounds[command], self.every.weights[command])

    def best(self, candidates: np.ndarray, other: "_Side") -> int:
        """Which candidate to take."""
        with_each = self.atoms + self.every.atoms[candidates]
        shares = with_each / with_each.sum(1, keepdims=True) * (other.atoms / other.atoms.sum())
        apart = 1 - np.sum(np.sqrt(shares), axis=1)  # ATOM_ALPHA is a half
        kept = apart < ATOMS_BELOW
        return int(np.argmin(np.where(kept, self._likeness(candidates, other), 1.0) if kept.any() else apart))

    def _likeness(self, candidates: np.ndarray, other: "_Side") -> np.ndarray:
        """1 - the divergence of compounds with each candidate: only the terms of its own compounds change."""
        a, which, more = self.exponent, self.every.compounds[candidates], self.every.weights[candidates]
        there, opposite = self.compounds[which], other.compounds ** (1 - a)
        total = self.compounds**a @ opposite + (((there + more) ** a - there**a) * opposite[which]).sum(1)
        return total / ((self.compounds.sum() + more.sum(1)) ** a * other.compounds.sum() ** (1 - a))


@cache
def _all_commands() -> Composition:
    return Composition.of(commands())


def _parts_anywhere(tree: Derivation, path: Path = ()) -> Iterator[Part]:
    """Every connected part of up to so many rules."""
    yield from _parts(tree, path)
    for i, child in enumerate(tree.children):
        yield from _parts_anywhere(child, (*path, i))


def _parts(tree: Derivation, path: Path, most: int = LARGEST_COMPOUND) -> Iterator[Part]:
    """Those that begin at the root, which is at that path: each child is left an S, or a part of it stands there."""
    if most < 1:
        return
    options = [[None, *_parts(child, (*path, i), most - 1)] for i, child in enumerate(tree.children)]
    for chosen in product(*options):
        where = frozenset({path}).union(*(part.where for part in chosen if part))
        if len(where) <= most:
            texts = iter(f"({part.text})" if part else "S" for part in chosen)
            yield Part(" ".join(next(texts) if word == "S" else word for word in tree.rule.split()), where)


def _weighed(found: Sequence[Sequence[Part]]) -> list[dict[str, float]]:
    """Of every command, its compounds and what they weigh; the largest weight of those that occur several times."""
    nested = [[(part.text, _around(part, parts)) for part in parts] for parts in found]
    times = Counter(text for parts in nested for text, _ in parts)
    together = Counter((text, larger) for parts in nested for text, around in parts for larger in around)
    weights: list[dict[str, float]] = []
    for parts in nested:
        own: dict[str, float] = {}
        for text, around in parts:
            share = max((together[text, larger] / times[text] for larger in around), default=0.0)
            own[text] = max(own.get(text, 0.0), 1 - share)
        weights.append(own)
    return weights


def _around(part: Part, parts: Sequence[Part]) -> set[str]:
    """Texts of the parts that hold this one and more."""
    return {other.text for other in parts if part.where < other.where}
