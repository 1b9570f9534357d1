"""The random numbers of the benchmark."""

import numpy as np


class BenchmarkStream:
    """The random numbers of the benchmark: those of NumPy's RandomState, at a fraction of its cost per call.

    Attributes:
        rng: the RandomState itself; it and the methods here draw from one sequence.
    """

    def __init__(self, seed: int | None) -> None:
        if seed is not None and (not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32):
            raise ValueError(f"seed must be from 0 to {2**32 - 1}, as NumPy's RandomState takes it; got {seed!r}.")
        self._bits = np.random.MT19937()
        self.rng = np.random.RandomState(self._bits)
        self.rng.seed(seed)
        self._generator = np.random.Generator(self._bits)

    def fill(self, uniform: np.ndarray) -> None:
        """Fill a contiguous array with what rng.uniform would return."""
        self._generator.random(out=uniform)

    def below(self, bound: int) -> int:
        """What rng.randint(bound) and rng.choice(bound) return: 32-bit words, masked, until one is below the bound."""
        if bound == 1:
            return 0
        mask = (1 << (bound - 1).bit_length()) - 1
        while (value := self._bits.random_raw() & mask) >= bound:
            pass
        return value

    def uniforms_ahead(self, count: int) -> np.ndarray:
        """The uniform numbers that come next, without drawing them."""
        here = self._bits.state
        uniform = self._generator.random(count)
        self._bits.state = here
        return uniform

    def words_ahead(self, count: int) -> np.ndarray:
        """The random words of 32 bits that come next, which rng.randint masks, without drawing them."""
        here = self._bits.state
        words = self._bits.random_raw(count)
        self._bits.state = here
        return words

    def skip_words(self, count: int) -> None:
        """Draw random words of 32 bits; a uniform number takes two."""
        self._bits.random_raw(count, output=False)
