"""Is the MLP that is compiled from rules a strict coordinate-wise local minimum of its training loss? (ALTA B.)

    L(θ) = α R(θ) + Σ_n |f(θ, z_n) - f(θ̂, z_n)|₁,   f(θ, z) = z + W2 clip(W1 z + b),   R = Σ|w| or Σw²    (Eq. 4, 17)

A coordinate of W1, b or W2 belongs to one rule, so that moving it changes one hidden unit at most. Every coordinate is
moved to both sides and the loss computed anew: nothing here uses what the paper proves, or what docs/theory.md does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from mechgap.programs.alta import Categorical, Rule, Variable
from mechgap.programs.minimal import Assignments

Regulariser = Literal["L1", "L2"]
STEP = 2.0**-12  # of a coordinate; the loss is piecewise linear, but for a squared regulariser, with kinks at integers


@dataclass(frozen=True)
class RuleMlp:
    """The MLP of a rule set (Eq. 8-10), with one hidden unit per rule.

    Attributes:
        first: W1 [rules, numbers], 1 where a rule tests for a value.
        bias: b1 [rules], 1 - the number of its tests.
        second: W2 [numbers, rules], -1 at the target's old value, 1 at its new one.
    """

    first: np.ndarray
    bias: np.ndarray
    second: np.ndarray

    def hidden(self, z: np.ndarray) -> np.ndarray:
        """[examples, rules]: which rules fire."""
        return np.clip(z @ self.first.T + self.bias, 0, 1)

    def __call__(self, z: np.ndarray) -> np.ndarray:
        return z + self.hidden(z) @ self.second.T

    def size(self, regulariser: Regulariser) -> float:
        """R(θ)."""
        return float(sum(np.sum(_size(w, regulariser)) for w in (self.first, self.bias, self.second)))


@dataclass(frozen=True)
class Descent:
    """A way down: a coordinate that can be moved without the loss rising.

    Attributes:
        rule: whose hidden unit it belongs to.
        weight: "W1", "b1" or "W2".
        index: of the number of the stream, for W1 and W2.
        direction: 1 or -1.
        change: of the loss, per unit that it is moved.
    """

    rule: Rule
    weight: str
    index: int | None
    direction: int
    change: float

    def __str__(self) -> str:
        place = self.weight if self.index is None else f"{self.weight}[{self.index}]"
        return f"{place} of '{self.rule}' {'+' if self.direction > 0 else '-'}: loss {self.change:+.3g} per unit"


def compile_plain(rules: Sequence[Rule], readable: Mapping[str, Variable]) -> RuleMlp:
    """The parameters of Eq. 8-10: variables are categorical, every test is of one value, one of the target's own.

    A rule that writes the value it tests for is refused. Its column of W2 would be -1 + 1 = 0: a unit without effect,
    of which the other weights could be moved freely.
    """
    starts, width = {}, 0
    for name, variable in readable.items():
        if not isinstance(variable, Categorical):
            raise ValueError(f"The theory is of categorical variables; {name!r} is none.")
        starts[name], width = width, width + variable.size
    first, second = np.zeros((len(rules), width)), np.zeros((width, len(rules)))
    for i, rule in enumerate(rules):
        tests = {name: next(iter(values)) for name, values in rule.tests}
        if rule.target not in tests or any(len(values) > 1 for _, values in rule.tests):
            raise ValueError(f"'{rule}' is not plain: give one value per test, and test {rule.target!r} itself.")
        if tests[rule.target] == rule.value:
            raise ValueError(f"'{rule}' changes nothing: {rule.target} is {rule.value} already. Leave it out.")
        first[i, [starts[name] + member for name, member in tests.items()]] = 1
        second[starts[rule.target] + tests[rule.target], i] -= 1
        second[starts[rule.target] + rule.value, i] += 1
    return RuleMlp(first, 1 - first.sum(1), second)


def encode(shown: Assignments, readable: Mapping[str, Variable]) -> np.ndarray:
    """[assignments, numbers]: one-hot; nothing where the output of a head is undefined (Eq. 1)."""
    parts = [np.eye(v.size + 1)[shown.column(name)][:, :-1] for name, v in readable.items()]  # type: ignore[union-attr]
    return np.concatenate(parts, axis=1)


def loss(mlp: RuleMlp, meant: np.ndarray, z: np.ndarray, alpha: float, regulariser: Regulariser) -> float:
    """Eq. 17."""
    return alpha * mlp.size(regulariser) + float(np.abs(mlp(z) - meant).sum())


def ways_down(
    rules: Sequence[Rule],
    shown: Assignments,
    readable: Mapping[str, Variable],
    *,
    alpha: float = 0.5,
    regulariser: Regulariser = "L1",
) -> list[Descent]:
    """Every coordinate of the compiled MLP that can be moved to a side without the loss rising; empty at a minimum.

    Args:
        rules: plain, see `alta_rules.plain`.
        shown: what the MLP is given.
        readable: the variables, see `AltaProgram.readable`.
        alpha: the weight of the regulariser. The paper: below 1, and below 1 / (2 K) for L2, where K is the largest
            of all parameters.
        regulariser: "L1", or "L2" for the sum of squares.
    """
    _check_one_at_a_time(rules, shown)
    mlp, z = compile_plain(rules, readable), encode(shown, readable)
    fires, found = mlp.hidden(z), []
    for j, rule in enumerate(rules):
        before, effect = z @ mlp.first[j] + mlp.bias[j], np.abs(mlp.second[:, j]).sum()
        for direction in (1, -1):
            step = direction * STEP
            moved = np.clip(before + step, 0, 1) - fires[:, j]  # how the unit of every example changes with the bias
            places: list[tuple[str, int | None, float, np.ndarray]] = [("b1", None, mlp.bias[j], effect * moved)]
            for i in range(z.shape[1]):
                places.append(("W1", i, mlp.first[j, i], effect * np.where(z[:, i] > 0, moved, 0)))
                places.append(("W2", i, mlp.second[i, j], step * fires[:, j]))
            for name, index, weight, error in places:
                grown = _size(weight + step, regulariser) - _size(weight, regulariser)
                change = alpha * grown + float(np.abs(error).sum())
                if change <= 0:
                    found.append(Descent(rule, name, index, direction, change / STEP))
    return found


def is_well_shown(rules: Sequence[Rule], shown: Assignments) -> bool:
    """What holds exactly where the compiled MLP is a strict coordinate-wise local minimum (docs/theory.md).

    Every rule fires on some example, and every rule of two or more tests has an example on which exactly one fails.
    """
    _check_one_at_a_time(rules, shown)
    for rule in rules:
        failed = np.sum([~shown.holds([test]) for test in rule.tests], axis=0)
        if not (failed == 0).any() or (len(rule.tests) > 1 and not (failed == 1).any()):
            return False
    return True


def _check_one_at_a_time(rules: Sequence[Rule], shown: Assignments) -> None:
    """Of rules for one target at most one may fire (B.1): the MLP would take its old value away twice."""
    fires = [shown.holds(rule.tests) for rule in rules]
    for (i, one), (j, other) in combinations(enumerate(rules), 2):
        if one.target == other.target and (fires[i] & fires[j]).any():
            raise ValueError(
                f"'{one}' and '{other}' fire on the same example and write {one.target!r} twice. Leave out one of "
                "them, or give it a test that the other one fails."
            )


def _size(weight: Any, regulariser: Regulariser) -> Any:
    return np.abs(weight) if regulariser == "L1" else np.square(weight)
