"""How the rules of an ALTA program see the stream: as it is, or with numbers and sets expanded to one-hot form."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np

from mechgap.compiler.alta_units import is_plain
from mechgap.compiler.errors import PrecisionError
from mechgap.networks.layers import Linear
from mechgap.programs.alta import AltaProgram, Categorical, Numeric, SetOf
from mechgap.programs.alta_stream import StreamLayout


def view_of(program: AltaProgram, layout: StreamLayout) -> "PlainView | ExpandedView":
    """How a program's rules see the stream."""
    return PlainView(layout) if is_plain(program) else ExpandedView(program, layout)


class PlainView:
    """How rules see the stream where all is categorical: as it is."""

    scale = 1.0

    def __init__(self, layout: StreamLayout):
        self.layout, self.width = layout, layout.width

    def layers(self) -> tuple[Linear, ...]:
        """Layers to see through: none."""
        return ()

    def place(self, name: str, member: int) -> int:
        """Where it says that a variable has a member of its domain as its value."""
        return self.layout.places[name].start + member

    def raw(self, index: int, sign: float) -> tuple[int, float]:
        """Where a number of the stream is found, and by what to multiply it."""
        return index, 1.0

    def resets(self, program: AltaProgram) -> list[tuple[int, float]]:
        """The numbers of the stream to set to 0, and a power of two above them."""
        return [(i, 2.0) for h in program.heads for i in range(*self.layout.places[h.name].indices(self.layout.width))]


class ExpandedView:
    """Two layers that turn numbers and sets into one-hot form, and pass everything else on.

    Values that are passed on are halved on the way, since an average of ones may be a little more than 1, and the
    activation would cut it off. Numbers are passed on twice, for their two signs.
    """

    scale = 2.0

    def __init__(self, program: AltaProgram, layout: StreamLayout):
        readable = program.readable
        self.program, self.layout, self.readable = program, layout, readable
        self.numbers = [n for n, v in readable.items() if isinstance(v, Numeric)]
        self.sets = [n for n, v in readable.items() if isinstance(v, SetOf)]
        self.sizes = self._sizes()
        self._passed: dict[tuple[int, int], int] = {}
        self._members: dict[tuple[str, int], int] = {}
        at = 0
        taken = {self.layout.places[n].start for n in self.numbers}
        for index in range(layout.width):
            for sign in (1, -1) if index in taken else (1,):
                self._passed[index, sign], at = at, at + 1
        for name in (*self.numbers, *self.sets):
            for member in readable[name].domain:
                self._members[name, member], at = at, at + 1
        self.width = at

    def place(self, name: str, member: int) -> int:
        """Where it says that a variable has a member of its domain as its value."""
        if isinstance(self.readable[name], Categorical):
            return self._passed[self.layout.places[name].start + member, 1]
        return self._members[name, member]

    def raw(self, index: int, sign: float) -> tuple[int, float]:
        """Where a number of the stream is found, and by what to multiply it."""
        name = next((n for n in self.numbers if self.layout.places[n].start == index), None)
        if name is None:
            return self._passed[index, 1], 2.0
        return self._passed[index, 1 if sign > 0 else -1], 2 * self.sizes[name]

    def resets(self, program: AltaProgram) -> list[tuple[int, float]]:
        """The numbers of the stream to set to 0, and a power of two above them, with the sign that is meant."""
        found: list[tuple[int, float]] = []
        for h in program.heads:
            place = self.layout.places[h.name]
            if isinstance(self.readable[h.name], Numeric):
                size = 2 * self.sizes[h.name]
                found += [(place.start, size), (place.start, -size), (self.layout.defined[h.name], 2.0)]
            else:
                found += [(i, 2.0) for i in range(place.start, place.stop)]
        return found

    def bound(self, name: str) -> float:
        """Twice what a number never exceeds."""
        return 2 * self.sizes[name]

    def layers(self) -> tuple[Linear, ...]:
        """The two layers: steps at the middles between buckets, sets and values passed on; then buckets from steps."""
        steps = self._steps()
        first_width = len(self._passed) + len(steps) + sum(len(self.readable[n].domain) for n in self.sets)
        first, bias = np.zeros((self.layout.width, first_width)), np.zeros(first_width)
        second, second_bias = np.zeros((first_width, self.width)), np.zeros(self.width)
        for (index, sign), at in self._passed.items():
            first[index, at] = sign * self._half(index)
            second[at, at] = 1
        at = len(self._passed)
        where = {}
        for name, threshold, slope in steps:
            first[self.layout.places[name].start, at] = slope
            bias[at] = 0.5 - slope * threshold
            where[name, threshold] = at
            at += 1
        for name in self.numbers:
            self._buckets(name, where, second, second_bias)
        for name in self.sets:
            for member, chosen in enumerate(self.readable[name].sets):  # type: ignore[union-attr]
                signs = [1.0 if i in chosen else -1.0 for i in range(self.readable[name].size)]  # type: ignore[union-attr]
                first[self.layout.places[name], at] = signs
                bias[at] = 1.0 - len(chosen)
                second[at, self._members[name, member]] = 0.5
                at += 1
        layer = [
            Linear(jnp.asarray(w, jnp.float32), jnp.asarray(b, jnp.float32))
            for w, b in ((first, bias), (second, second_bias))
        ]
        return layer[0], layer[1]

    def _buckets(self, name: str, where: dict, second: np.ndarray, bias: np.ndarray) -> None:
        """A bucket is where the step below has been made and the one above has not; nowhere if undefined. Halved."""
        variable = self.readable[name]
        assert isinstance(variable, Numeric)
        middles = variable.middles
        for member in variable.domain:
            column = self._members[name, member]
            bias[column] = 0.5
            if member > 0:
                second[where[name, middles[member - 1]], column] += 0.5
                bias[column] -= 0.5
            if member < len(middles):
                second[where[name, middles[member]], column] -= 0.5
            if name in self.layout.defined:
                second[self._passed[self.layout.defined[name], 1], column] += 1.0  # halved already
                bias[column] -= 0.5

    def _steps(self) -> list[tuple[str, float, float]]:
        """(number, middle, slope): a ramp as wide as what is in neither bucket, which rounding must not leave."""
        found = []
        for name in self.numbers:
            variable = self.readable[name]
            assert isinstance(variable, Numeric)
            places = zip(pairwise(variable.buckets), variable.middles, variable.tolerances, strict=True)
            for (low, high), middle, tolerance in places:
                if high - low < 4 * tolerance:
                    raise PrecisionError(
                        f"{name!r} has buckets {low:.7g} and {high:.7g}, which float32 cannot tell apart when "
                        f"averaged. They must differ by {4 * tolerance:.3g} or more: use fewer buckets."
                    )
                found.append((name, middle, 0.5 / tolerance))
        return found

    def _half(self, index: int) -> float:
        name = next((n for n in self.numbers if self.layout.places[n].start == index), None)
        return 0.5 if name is None else 0.5 / self.sizes[name]

    def _sizes(self) -> dict[str, float]:
        """Of every number, and of every head over one, a power of two that it never exceeds."""
        found = {}
        for v in self.program.variables:
            if isinstance(v, Numeric):
                starts = v.init.by_input or v.init.by_position or (v.init.constant,)
                written = [rule.value for rule in self.program.rules if rule.target == v.name]
                largest = max(abs(float(x)) for x in (*v.buckets, *starts, *written))
                found[v.name] = float(2 ** int(np.ceil(np.log2(max(largest, 1.0)))))
        return found | {h.name: found[h.value] for h in self.program.heads if h.value in found}

    def check_clearing(self, name: str) -> None:
        """A rule writes over a number of size M by a sum with M, which in float32 leaves up to M 2^-23 of it behind."""
        left, size = self.bound(name) * 2.0**-22, self.sizes[name]
        for reader in (name, *(h.name for h in self.program.heads if h.value == name)):
            buckets = self.readable[reader].buckets  # type: ignore[union-attr]
            for low, high in pairwise(buckets):
                if high - low < 8 * left:
                    raise PrecisionError(
                        f"Rules write over {name!r}, which may be as large as {size:g}. What float32 leaves of it "
                        f"is too much for the buckets {low:.7g} and {high:.7g} of {reader!r}: they must differ by "
                        f"{8 * left:.3g} or more."
                    )
