"""Two strings in a row, to compare with each other or to find one in the other."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from mechgap.algorithms.distributions.stream import BenchmarkStream

CHARACTERS = 4  # the benchmark's alphabet


@dataclass(frozen=True)
class TwoStrings:
    """Two random strings of n characters together; the first is the longer one where n is odd."""

    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """All characters of all samples are consecutive numbers of the stream."""
        letters = stream.rng.randint(CHARACTERS, size=(count, n))
        return {"string": self._strings(n, count, np).astype(float), "key": np.eye(CHARACTERS)[letters]}

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        letters = jax.random.randint(key, (batch, n), 0, CHARACTERS)
        strings = self._strings(n, batch, jnp).astype(float)
        return {"string": strings, "key": jax.nn.one_hot(letters, CHARACTERS, dtype=strings.dtype)}

    def _strings(self, n: int, count: int, xp: ModuleType) -> Any:
        if n < 2:
            raise ValueError(f"Two strings need at least 2 characters; got n = {n}.")
        return xp.broadcast_to(xp.arange(n) >= n - n // 2, (count, n))


@dataclass(frozen=True)
class NeedleInHaystack:
    """Two random strings over four characters, the needle copied to a random place of the haystack.

    The benchmark leaves out the haystack's last place.

    Attributes:
        longest: the needle's length is drawn from 1 ... longest, as in the reference training script (8); without it,
            it is a fifth of all characters.
    """

    longest: int | None = None
    p: tuple[float, ...] = ()

    def draw(self, stream: BenchmarkStream, n: int, count: int, p: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Each sample in the benchmark's order: the needle's length, the needle, the haystack, the place."""
        self._check(n)
        per_sample = n + 8
        while True:
            words = stream.words_ahead(per_sample * count + 64)
            try:
                needle, start, place, used = self._places(words.tolist(), n, count)
                break
            except IndexError:  # numbers out of a range, which are drawn again, were more than expected
                per_sample *= 2
        stream.skip_words(used)
        characters = words[start + (np.arange(n) + needle) % n]  # the needle is drawn first and stands last
        return self._strings(characters.astype(np.int64) & (CHARACTERS - 1), needle, place, np)

    def _places(self, words: list[int], n: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Of each sample: the needle's length, where its characters start in the stream, its place in the haystack."""
        samples, used = [], 0
        needle = max(n // 5, 1)
        for _ in range(count):
            if self.longest is not None:
                longer, used = _below(self.longest, words, used)
                needle = 1 + longer
            start = used
            place, used = _below(n - 2 * needle, words, start + n)
            samples.append((needle, start, place))
        needles, starts, places = np.array(samples).T[..., None]
        return needles, starts, places, used

    def sample(self, key: PRNGKeyArray, n: int, batch: int, p: Array) -> dict[str, Array]:
        self._check(n)
        of_needle, of_characters, of_place = jax.random.split(key, 3)
        needle = jnp.full((batch, 1), max(n // 5, 1))
        if self.longest is not None:
            needle = jax.random.randint(of_needle, (batch, 1), 1, self.longest + 1)
        characters = jax.random.randint(of_characters, (batch, n), 0, CHARACTERS)
        place = jax.random.randint(of_place, (batch, 1), 0, n - 2 * needle)
        return self._strings(characters, needle, place, jnp)

    def _check(self, n: int) -> None:
        longest = max(n // 5, 1) if self.longest is None else self.longest
        if n <= 2 * longest:
            raise ValueError(f"A needle of {longest} and a longer haystack need n >= {2 * longest + 1}; got n = {n}.")

    @staticmethod
    def _strings(characters: Any, needle: Any, place: Any, xp: ModuleType) -> dict[str, Any]:
        """The inputs, from the characters of the haystack and then of the needle."""
        ids = xp.arange(characters.shape[-1])
        head = len(ids) - needle
        copied = (place <= ids) & (ids < place + needle)
        characters = xp.take_along_axis(characters, xp.where(copied, ids - place + head, ids), axis=-1)
        return {"string": (ids >= head) * 1.0, "key": (characters[..., None] == xp.arange(CHARACTERS)) * 1.0}


def _below(bound: int, words: list[int], used: int) -> tuple[int, int]:
    """`BenchmarkStream.below` on words drawn ahead: the number, and how many words are used then."""
    if bound == 1:
        return 0, used
    mask = (1 << (bound - 1).bit_length()) - 1
    while (value := words[used] & mask) >= bound:
        used += 1
    return value, used + 1
