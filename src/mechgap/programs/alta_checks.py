"""What can be known to be wrong with an ALTA program when it is made."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from mechgap.programs.alta import Categorical, Head, Numeric, Rule, SetOf, Variable, is_float32


def rule_problems(
    rules: Iterable[Rule], readable: Mapping[str, Variable], nullable: frozenset[str], compare: bool
) -> Iterator[str]:
    """What is wrong with rules: unknown names, values out of range, two rules that write one variable at once.

    Rules of a function need not be compared with each other: no two paths through it are taken at once.
    """
    by_target: dict[str, list[Rule]] = {}
    for rule in rules:
        names = [name for name, _ in rule.tests]
        for twice in sorted({name for name in names if names.count(name) > 1}):
            yield f"a rule tests {twice!r} twice: '{rule}'."
        for name, values in rule.tests:
            if name not in readable:
                yield f"a rule tests {name!r}, which does not exist: '{rule}'."
            elif not values or not values <= set(readable[name].domain):
                last = len(readable[name].domain) - 1
                yield f"a rule tests {name!r} for {sorted(values)}; it has the values 0..{last}."
        if rule.target in nullable:
            yield f"a rule writes {rule.target!r}, the output of a head; only variables can be written: '{rule}'."
        elif rule.target not in readable:
            yield f"a rule writes {rule.target!r}, which does not exist: '{rule}'."
        elif not readable[rule.target].holds(rule.value):
            yield f"'{rule}': {rule.value!r} is not a value of {readable[rule.target]}{_hint(readable[rule.target])}."
        else:
            by_target.setdefault(rule.target, []).append(rule)
    for group in by_target.values() if compare else ():
        yield from _conflicts(group)


def _conflicts(rules: list[Rule]) -> Iterator[str]:
    for i, rule in enumerate(rules):
        mine = dict(rule.tests)
        for other in rules[i + 1 :]:
            if all(mine[n] & values for n, values in other.tests if n in mine):
                both = f"'{rule}' and '{other}'"
                yield f"two rules write {rule.target!r} at once: {both}. Let one variable tell them apart."


def size_problems(input_size: int, positions: int | None, halt: Any, layers: int | None) -> Iterator[str]:
    """What is wrong with the sizes and the end of a program."""
    if not isinstance(input_size, int) or input_size < 1:
        yield f"input_size must be 1 or more; got {input_size!r}."
    if positions is not None and (not isinstance(positions, int) or positions < 1):
        yield f"positions must be 1 or more, or None; got {positions!r}."
    if halt is None and layers is None:
        yield "give layers, how many are run, or halt, (variable, value)."
    if layers is not None and (not isinstance(layers, int) or layers < 0):
        yield f"layers must be a whole number that is not negative; got {layers!r}."
    if halt is not None and (not isinstance(halt, tuple) or len(halt) != 2):
        yield f"halt must be (variable, value); got {halt!r}."


def draft_problems(draft: Any, positions: int | None) -> Iterator[str]:
    """What is wrong with a draft, so that no variable can be made of it."""
    if draft.from_input is not None and draft.from_position is not None:
        yield f"{draft.name!r} starts from the input and from the position; give one."
    if draft.from_position is not None and positions is None:
        yield f"{draft.name!r} starts from its position; say how many there can be, positions=."
    if draft.kind is Categorical and (not isinstance(draft.fields["size"], int) or draft.fields["size"] < 1):
        yield f"{draft.name!r} needs 1 value or more; got {draft.fields['size']!r}."
    if draft.kind is Numeric and not _are_buckets(draft.fields["buckets"]):
        yield f"{draft.name!r} needs buckets that rise, all of them float32; got {list(draft.fields['buckets'])}."
    if draft.kind is SetOf and any(i not in range(draft.fields["size"]) for s in draft.fields["sets"] for i in s):
        yield f"{draft.name!r} holds sets of numbers below {draft.fields['size']}; some are not."


def structure_problems(
    variables: Sequence[Variable],
    heads: Sequence[Head],
    output: str,
    halt: tuple[str, int] | None,
    doubtful: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """What does not fit together. Of `doubtful` variables only the name is known, so nothing is said against it."""
    own, outputs = {v.name: v for v in variables}, {h.name for h in heads}
    names = [v.name for v in variables] + [h.name for h in heads] + sorted(doubtful)
    for twice in sorted({n for n in names if names.count(n) > 1}):
        yield f"the name {twice!r} is given twice; every variable and head needs its own."
    for v in variables:
        values = v.init.by_input or v.init.by_position or (v.init.constant,)
        bad = [x for x in values if not v.holds(x)]
        if bad:
            yield f"{v.name!r} cannot start as {bad[0]!r}: that is not a value of '{v}'{_hint(v)}."
    for h in heads:
        for role, name in (("query", h.query), ("key", h.key), ("value", h.value)):
            if name in outputs:
                yield (
                    f"head {h.name!r} reads {name!r} as its {role}, the output of a head of the same layer, which is "
                    f"not there yet; copy it into a variable first, and read that in the next layer."
                )
            elif name is not None and name not in own and name not in doubtful:
                yield f"head {h.name!r} reads {name!r} as its {role}; there are {', '.join(own)}."
        if (h.query is None) != (h.key is None):
            yield f"head {h.name!r} needs both a query and a key, or neither."
        yield from _head_problems(h, own)
    if output not in own and output not in doubtful:
        yield f"the output {output!r} is not a variable; there are {', '.join(own)}."
    elif output in own and not isinstance(own[output], Categorical):
        yield f"the output {output!r} must be categorical."
    if halt is None or halt[0] in doubtful:
        return
    if halt[0] not in own or not isinstance(own[halt[0]], Categorical):
        yield f"halt reads {halt[0]!r}, which is not a categorical variable; there are {', '.join(own)}."
    elif not own[halt[0]].holds(halt[1]):
        yield f"halt waits for {halt[0]} = {halt[1]!r}, which is not one of its values."


def _head_problems(head: Head, own: Mapping[str, Variable]) -> Iterator[str]:
    query, key, value = (own.get(n) if n is not None else None for n in (head.query, head.key, head.value))
    if isinstance(query, Numeric):
        yield f"head {head.name!r} cannot compare numbers: its query {query.name!r} must be categorical or a set."
    if key is not None and not isinstance(key, Categorical):
        yield f"head {head.name!r} needs a categorical key; {key.name!r} is not."
    if isinstance(query, Categorical | SetOf) and isinstance(key, Categorical) and query.size != key.size:
        yield f"head {head.name!r} compares {query.name!r} ({query.size} values) with {key.name!r} ({key.size} values)."
    if isinstance(value, SetOf):
        yield f"head {head.name!r} cannot average sets: its value {value.name!r} must be categorical or a number."
    counts = value is None or isinstance(value, Numeric)  # what is not known is said elsewhere
    if head.buckets is not None and not (counts and _are_buckets(head.buckets)):
        yield f"head {head.name!r}: buckets are for numbers, and rise; got {list(head.buckets)}."
    if any(not isinstance(distance, int) for distance in head.relative):
        yield f"head {head.name!r}: relative positions are whole numbers; got {sorted(head.relative)}."


def _are_buckets(buckets: Sequence[float]) -> bool:
    rise = all(a < b for a, b in pairwise(buckets))
    return len(buckets) > 0 and rise and all(is_float32(b) for b in buckets)


def _hint(variable: Variable) -> str:
    return ", or it lies halfway between two of its buckets" if isinstance(variable, Numeric) else ""
