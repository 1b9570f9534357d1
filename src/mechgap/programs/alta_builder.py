"""How ALTA programs are written: drafts of variables, heads, and a function or rules become a frozen program."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mechgap.programs.alta import (
    MOST_LAYERS,
    AltaProgram,
    Categorical,
    Head,
    Init,
    Numeric,
    Rule,
    SetOf,
    Text,
    Value,
    Variable,
    output_of,
)
from mechgap.programs.alta_checks import draft_problems, rule_problems, size_problems, structure_problems
from mechgap.programs.alta_rules import RuleError, as_value, member_value, minimised, rules_of_function
from mechgap.programs.alta_rules import pure as pure


def categorical(
    name: str, size: int, default: int = 0, *, from_input: Callable | None = None, from_position: Callable | None = None
) -> "Draft":
    """A variable with `size` values, which starts from the input, from the position, or from `default`."""
    return Draft(Categorical, name, {"size": size}, default, from_input, from_position)


def numeric(
    name: str,
    buckets: Iterable[float],
    default: float = 0.0,
    *,
    from_input: Callable | None = None,
    from_position: Callable | None = None,
) -> "Draft":
    """A real variable; rules see the nearest of its buckets."""
    rising = tuple(float(b) for b in buckets)
    return Draft(Numeric, name, {"buckets": rising}, float(default), from_input, from_position)


def set_of(
    name: str,
    size: int,
    sets: Iterable[Iterable[int]],
    default: Iterable[int] = (),
    *,
    from_input: Callable | None = None,
    from_position: Callable | None = None,
) -> "Draft":
    """A variable whose value is one of `sets`, each of numbers below `size`."""
    frozen = {"size": size, "sets": tuple(dict.fromkeys(frozenset(s) for s in sets))}
    return Draft(SetOf, name, frozen, frozenset(default), from_input, from_position)


def qkv(
    name: str,
    query: str,
    key: str,
    value: str,
    relative: Iterable[int] = (),
    buckets: Iterable[float] | None = None,
) -> Head:
    """A head that looks where the key matches the query."""
    return Head(name, query, key, value, frozenset(relative), None if buckets is None else tuple(map(float, buckets)))


def v_relative(name: str, value: str, position: int) -> Head:
    """A head that looks at one relative position, e.g. -1 for the one before."""
    return Head(name, None, None, value, frozenset({position}))


@dataclass(frozen=True)
class Draft:
    """A variable before the program's sizes are known."""

    kind: type
    name: str
    fields: Mapping[str, Any]
    default: Value
    from_input: Callable | None
    from_position: Callable | None

    def made(self, input_size: int, positions: int | None) -> Variable:
        """The variable, with its initial values as tables."""
        if self.from_input is not None:
            init = Init(by_input=tuple(as_value(self.from_input(i)) for i in range(input_size)))
        elif self.from_position is not None:
            init = Init(by_position=tuple(as_value(self.from_position(i)) for i in range(positions or 0)))
        else:
            init = Init(constant=as_value(self.default))
        return self.kind(name=self.name, init=init, **self.fields)


def alta_program(
    name: str,
    *,
    variables: Iterable[Draft],
    heads: Iterable[Head] = (),
    mlp: Callable | Iterable[Rule] = (),
    output: str,
    input_size: int,
    positions: int | None = None,
    halt: tuple[str, int] | None = None,
    layers: int | None = None,
    causal: bool = False,
    text: Text | None = None,
    description: str = "",
) -> AltaProgram:
    """A program; what is wrong with it is said at once, all of it.

    Args:
        variables: see `categorical`, `numeric`, `set_of`.
        heads: see `qkv`, `v_relative`.
        mlp: a function of a mapping z: `z["x"]` reads the value at the start of the MLP, `z["x"] = v` writes; or rules.
        output: the variable to read at the end.
        input_size: how many different inputs there are.
        positions: how many positions there can be, where a variable starts from its position.
        halt: (variable, value); an execution has ended when it holds at every position.
        layers: how many layers are run, where there is no halt; with one, the most (1000).
        causal: heads look only at the own and earlier positions.
        text: how text is read and written.
        description: one line.
    """
    drafts, heads = tuple(variables), tuple(heads)
    made = _made(name, drafts, heads, output, input_size, positions, halt, layers)
    own = {v.name: v for v in made}
    readable = own | {h.name: output_of(h, own[h.value]) for h in heads}
    nullable = frozenset(h.name for h in heads)
    try:
        given = rules_of_function(mlp, readable, nullable) if callable(mlp) else tuple(mlp)
    except RuleError as error:
        raise RuleError(f"Program {name!r}: {error}") from error.__cause__
    _refuse(name, list(rule_problems(given, readable, nullable, compare=not callable(mlp))))
    most = layers if layers is not None else MOST_LAYERS
    rules = minimised(given, readable, nullable)
    return AltaProgram(name, input_size, positions, made, heads, rules, output, halt, most, causal, text, description)


def _made(
    name: str,
    drafts: tuple["Draft", ...],
    heads: tuple[Head, ...],
    output: str,
    input_size: int,
    positions: int | None,
    halt: Any,
    layers: int | None,
) -> tuple[Variable, ...]:
    """The variables of drafts that fit together with everything else."""
    of_sizes = list(size_problems(input_size, positions, halt, layers))
    of_drafts = {draft.name: list(draft_problems(draft, positions)) for draft in drafts}
    doubtful = frozenset(draft for draft, found in of_drafts.items() if found or of_sizes)
    made = tuple(draft.made(input_size, positions) for draft in drafts if draft.name not in doubtful)
    ends = halt if isinstance(halt, tuple) and len(halt) == 2 else None
    fit = structure_problems(made, heads, output, ends, doubtful)
    _refuse(name, [*of_sizes, *itertools.chain.from_iterable(of_drafts.values()), *fit])
    return made


def _refuse(name: str, problems: list[str]) -> None:
    if problems:
        shown = problems[:12] + ([f"... and {len(problems) - 12} more"] if len(problems) > 12 else [])
        raise ValueError(f"Program {name!r} is not well formed:\n  " + "\n  ".join(shown))


class RuleBuilder:
    """Rules written one by one, for those who want to see each: `get` goes through values, `set` writes a rule.

        x = RuleBuilder(variables, heads)
        for done, done_left in x.get("done", "done_left"):
            if not done and done_left:
                x.set("done", 1)
        alta_program(..., mlp=x.rules)

    A rule tests everything that is being gone through where it is written. Leaving a loop early is fine.
    """

    def __init__(self, variables: Iterable[Draft], heads: Iterable[Head] = ()):
        own = {draft.name: draft.made(1, 1) for draft in variables}
        self._readable = own | {h.name: output_of(h, own[h.value]) for h in heads if h.value in own}
        self._context: dict[str, int] = {}
        self._rules: list[Rule] = []

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What was written so far."""
        return tuple(self._rules)

    def get(self, *names: str) -> Iterator[Any]:
        """Every value of a variable, or every combination of values of several."""
        for name in names:
            if name not in self._readable:
                raise ValueError(f"No variable {name!r}; there are {', '.join(self._readable)}.")
            if name in self._context or names.count(name) > 1:
                raise ValueError(f"{name!r} is being gone through already; use the value from that loop.")
        try:
            for members in itertools.product(*(self._readable[name].domain for name in names)):
                self._context |= dict(zip(names, members, strict=True))
                values = tuple(member_value(self._readable[n], m) for n, m in zip(names, members, strict=True))
                yield values[0] if len(names) == 1 else values
        finally:
            for name in names:
                self._context.pop(name, None)

    def set(self, name: str, value: Any) -> None:
        """A rule: where all that is being gone through has its present value, the variable becomes `value`."""
        tests = tuple(sorted((n, frozenset({member})) for n, member in self._context.items()))
        self._rules.append(Rule(tests, name, as_value(value)))
