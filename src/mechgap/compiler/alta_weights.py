"""The weights of an ALTA program's Transformer: embeddings, heads, MLP and output."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from mechgap.compiler.alta_units import Unit
from mechgap.compiler.alta_views import view_of
from mechgap.networks.layers import Linear
from mechgap.networks.transformer import Heads
from mechgap.programs.alta import AltaProgram, Head, Numeric
from mechgap.programs.alta_stream import StreamLayout, encoded, width_of

MATCH = 256.0  # nats; exp(-MATCH / 2) is 0 in float32


class WeightWriter:
    """Writes the weights of one program."""

    def __init__(self, program: AltaProgram, layout: StreamLayout, longest: int):
        self.program, self.layout, self.longest = program, layout, longest
        self.readable = program.readable
        self.heads_by_name = {h.name: h for h in program.heads}

    def embeddings(self) -> tuple[np.ndarray, np.ndarray | None]:
        """What starts from the input, and from nothing, is in the tokens; what starts from the position apart."""
        tokens = np.zeros((self.program.input_size, self.layout.width), np.float32)
        tokens[:, self.layout.one] = 1
        positions = None
        for v in self.program.variables:
            if v.init.by_position is not None:
                if positions is None:
                    positions = np.zeros((self.program.positions or 0, self.layout.width), np.float32)
                positions[:, self.layout.places[v.name]] = [encoded(v, x) for x in v.init.by_position]
            else:
                values = v.init.by_input or (v.init.constant,) * self.program.input_size
                tokens[:, self.layout.places[v.name]] = [encoded(v, x) for x in values]
        return tokens, positions

    def heads(self) -> Heads | None:
        """All heads, filled up to the widest."""
        if not self.program.heads:
            return None
        own = {v.name: v for v in self.program.variables}
        d = self.layout.width
        k = max((own[h.key].size for h in self.program.heads if h.key is not None), default=1)  # type: ignore[union-attr]
        m = max(width_of(own[h.value]) + 1 for h in self.program.heads)
        span = max((abs(r) for h in self.program.heads for r in h.relative), default=0) + 1
        count = len(self.program.heads)
        query, key = np.zeros((2, count, d, k), np.float32)
        value, out = np.zeros((count, d, m), np.float32), np.zeros((count, m, d), np.float32)
        relative = np.zeros((count, 2 * span + 1), np.float32)
        for i, head in enumerate(self.program.heads):
            if head.query is not None and head.key is not None:
                size = own[head.key].size  # type: ignore[union-attr]
                query[i, self.layout.places[head.query], :size] = np.sqrt(MATCH) * np.eye(size)
                key[i, self.layout.places[head.key], :size] = np.sqrt(MATCH) * np.eye(size)
            else:
                query[i, self.layout.one, 0] = key[i, self.layout.one, 0] = np.sqrt(MATCH)
            width = width_of(own[head.value])
            value[i, self.layout.places[head.value], :width] = np.eye(width)
            out[i, :width, self.layout.places[head.name]] = np.eye(width)
            if head.name in self.layout.defined:
                value[i, self.layout.one, width] = out[i, width, self.layout.defined[head.name]] = 1
            if head.relative:
                relative[i] = -2 * MATCH
                relative[i, [r + span for r in head.relative]] = 0
        null = np.full(count, MATCH / 2, np.float32)
        return Heads(*(jnp.asarray(x) for x in (query, key, value, out, relative, null)))

    def mlp(self, units: Sequence[Unit]) -> tuple[Linear, ...]:
        """Two layers where rules read categorical variables only; otherwise two more that expand numbers and sets."""
        view = view_of(self.program, self.layout)
        return *view.layers(), *self._rule_layers(units, view)

    def output(self) -> Linear:
        """Selects the numbers of the output variable."""
        place = self.layout.places[self.program.output]
        return Linear(jnp.eye(self.layout.width, dtype=jnp.float32)[:, place], None)

    def _rule_layers(self, units: Sequence[Unit], view: Any) -> tuple[Linear, Linear]:
        columns, biases, rows = [], [], []
        for unit in units:
            if unit.clears is not None:
                for column, bias, row in self._clearing(unit, view):
                    columns.append(column)
                    biases.append(bias)
                    rows.append(row)
                continue
            column, bias = self._test(unit.tests, view)
            columns.append(column)
            biases.append(bias)
            rows.append(self._added(unit))
        for index, scale in view.resets(self.program):
            column, row = np.zeros(view.width), np.zeros(self.layout.width)
            source, factor = view.raw(index, np.sign(scale))
            column[source], row[index] = factor / abs(scale), -scale
            columns.append(column)
            biases.append(0.0)
            rows.append(row)
        first = np.array(columns, np.float32).reshape(-1, view.width).T
        second = np.array(rows, np.float32).reshape(-1, self.layout.width)
        return (
            Linear(jnp.asarray(first), jnp.asarray(np.array(biases, np.float32))),
            Linear(jnp.asarray(second), None),
        )

    def _test(self, tests: Sequence[tuple[str, frozenset[int]]], view: Any) -> tuple[np.ndarray, float]:
        """clip(S (Σ - k) + 3), see to_transformer.py."""
        shortfall = min((self._shortfall(name) for name, _ in tests), default=1.0)
        slope = 4 / shortfall
        column = np.zeros(view.width)
        for name, members in tests:
            for member in members:
                column[view.place(name, member)] += slope * view.scale
        return column, 3 - slope * len(tests)

    def _shortfall(self, name: str) -> float:
        """By how much a test that does not hold is short of 1 at least."""
        head = self.heads_by_name.get(name)
        if head is None or isinstance(self.readable[name], Numeric) or _selects_one(head):
            return 1.0
        return 1 / self.longest

    def _added(self, unit: Unit) -> np.ndarray:
        row = np.zeros(self.layout.width)
        for name, value, sign in unit.adds:
            row[self.layout.places[name]] += sign * np.array(encoded(self.readable[name], value), float)
        return row

    def _clearing(self, unit: Unit, view: Any) -> list[tuple[np.ndarray, float, np.ndarray]]:
        """Take a number away where the tests hold: clip(±x/M + Σ - k), times ∓M."""
        assert unit.clears is not None
        view.check_clearing(unit.clears)
        index = self.layout.places[unit.clears].start
        size = view.bound(unit.clears)
        found = []
        for sign in (1, -1):
            column, row = np.zeros(view.width), np.zeros(self.layout.width)
            for name, members in unit.tests:
                for member in members:
                    column[view.place(name, member)] += view.scale
            source, factor = view.raw(index, sign)
            column[source] += factor / size
            row[index] = -sign * size
            found.append((column, -float(len(unit.tests)), row))
        return found


def _selects_one(head: Head) -> bool:
    return len(head.relative) == 1
