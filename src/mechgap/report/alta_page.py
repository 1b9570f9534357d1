"""An execution of an ALTA program as one HTML page: the stream, the attention and the rules, layer by layer."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.compiler.alta_units import units_of
from mechgap.programs.alta import Categorical, Rule, Variable
from mechgap.programs.alta_interpreter import AltaTrace, Stream, fired, members_of, selected
from mechgap.report.alta_tables import UNDEFINED, cell_text, parse_steps
from mechgap.report.page import render_page, script_json
from mechgap.storage import write_text

SCRIPTS = ("states", "stream", "attention", "rules", "start")
CONTENTS = {"answer": "Answer", "execution": "Layer by layer", "parse": "Parse", "program": "Program"}


def write_page(trace: AltaTrace, given: str, out: str | Path, names: Sequence[str] = ()) -> None:
    """Write a page about the execution of the first sequence; one that went wrong is shown, too.

    Args:
        given: what the program was given, as text.
        out: the HTML file.
        names: variables whose values are shown; by default all.
    """
    write_text(out, render(trace, given, names))


def render(trace: AltaTrace, given: str, names: Sequence[str] = ()) -> str:
    """The page as text."""
    program, data, problem = trace.program, execution_data(trace), _problem(trace)
    data["shown"] = list(names) or [row["name"] for row in data["rows"]]
    parse = parse_steps(trace) if program.name == "scan_parser" else []
    values = {
        "title": f"{program.name}: {given}",
        "description": program.description,
        "problem": problem,
        "answer": None if problem else _answer(trace),
        "facts": _facts(trace, len(data["rules"])),
        "parse": parse,
        "program": program,
        "brackets": any(not isinstance(v, Categorical) for v in program.readable.values()),
        "contents": [(id, name) for id, name in CONTENTS.items() if id != "parse" or parse],
        "data": script_json(data),
    }
    return render_page("execution_page", SCRIPTS, values)


def execution_data(trace: AltaTrace) -> dict[str, Any]:
    """What the page's scripts are given of the first sequence.

    Returns:
        layers, length, variables: how many.
        rows: the variables, then the outputs of heads: name, note, and the texts of all their values, ∅ first.
        stream: of the variables, before the first layer and after each, in the form of `_differences`.
        outputs: of the heads, likewise: nothing, then what they read in each layer.
        places: sets of positions, each once; everything below refers to them by number.
        matrices: of attention, each once: a row per position, the places it looks at.
        attention: per layer, the matrix of every head.
        heads: where they look and what they read, in words.
        rules: those that fire, by their number in the program.
        fired: per layer, pairs of rule and places.
        wrong: per layer, the places where a rule reads an undefined value.
    """
    program, length, layers = trace.program, int(trace.lengths[0]), int(trace.layers[0])
    streams = [_first(stream, length) for stream in trace.streams[: layers + 1]]
    attended = [_first(seen, length) for seen in trace.attended[:layers]]
    places: dict[tuple[int, ...], int] = {}
    matrices: list[list[int]] = []
    known: dict[bytes, int] = {}

    def place(where: np.ndarray) -> int:
        return places.setdefault(tuple(np.flatnonzero(where).tolist()), len(places))

    def matrix(looked_at: np.ndarray) -> int:
        key = looked_at.tobytes()
        if key not in known:
            known[key] = len(matrices)
            matrices.append([place(row) for row in looked_at])
        return known[key]

    def in_layer(seen: Stream) -> list[tuple[int, int]]:
        found = fired(program, seen)[:, 0]
        return [(int(rule), place(found[rule])) for rule in np.flatnonzero(found.any(1))]

    inside = np.ones((1, length), bool)
    attention = [[matrix(selected(program, h, s, inside)[0]) for h in program.heads] for s in streams[:layers]]
    rules = [in_layer(seen) for seen in attended]
    rows, stream, outputs = _values(trace, streams, attended)
    return {
        "layers": layers,
        "length": length,
        "variables": len(program.variables),
        "rows": rows,
        "stream": _differences(stream),
        "outputs": _differences(outputs),
        "attention": attention,
        "heads": [str(head).partition(" = ")[2] for head in program.heads],
        "rules": {rule: _rule(program.rules[rule]) for layer in rules for rule, _ in layer},
        "fired": rules,
        "wrong": [place(used[0, :length]) for used in trace.used_undefined[:layers]],
        "matrices": matrices,
        "places": list(places),
    }


def _first(stream: Stream, length: int) -> Stream:
    return {name: x[:1, :length] for name, x in stream.items()}


def _values(
    trace: AltaTrace, streams: Sequence[Stream], attended: Sequence[Stream]
) -> tuple[list[dict[str, Any]], np.ndarray, np.ndarray]:
    """The rows of the stream, and the numbers of their texts: of variables and of outputs, [layers + 1, rows, L]."""
    program, layers, length = trace.program, len(attended), int(trace.lengths[0])
    rows, variables, outputs = [], [], []
    for name, variable in program.readable.items():
        is_output = name in program.nullable
        values = np.array([s[name][0] for s in (attended if is_output else streams)])
        texts, codes = _coded(variable, values.reshape(layers + (not is_output), length))
        rows.append({"name": name, "note": _note(trace, name), "texts": texts})
        if is_output:
            outputs.append(np.concatenate([np.zeros((1, length), int), codes]))  # before the first layer: ∅
        else:
            variables.append(codes)
    return rows, np.stack(variables, 1), np.array(outputs).reshape(-1, layers + 1, length).swapaxes(0, 1)


def _coded(variable: Variable, values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The texts of a variable's values, ∅ first, and which of them each value has."""
    distinct, inverse = np.unique(values, return_inverse=True)
    shown = [_text(variable, value) for value in distinct]
    texts = list(dict.fromkeys([UNDEFINED, *shown]))
    return texts, np.array([texts.index(text) for text in shown], int)[inverse].reshape(values.shape)


def _text(variable: Variable, value: Any) -> str:
    """A value, and in brackets what rules call it, where that is something else."""
    text = cell_text(variable, value)
    if isinstance(variable, Categorical) or text == UNDEFINED:
        return text
    return f"{text} [{members_of(variable, np.asarray(value))}]"


def _note(trace: AltaTrace, name: str) -> str:
    program = trace.program
    notes = ["head"] if name in program.nullable else []
    notes += ["output"] if name == program.output else []
    notes += [f"ends at {program.halt[1]}"] if program.halt and name == program.halt[0] else []
    return ", ".join(notes)


def _differences(codes: np.ndarray) -> dict[str, Any]:
    """[frames, rows, L] as the first frame, and for every other what has changed: row, position, code, row, ..."""
    changes = []
    for before, after in pairwise(codes):
        where = np.argwhere(before != after)
        changes.append(np.column_stack([where, after[tuple(where.T)]]).ravel().tolist())
    return {"start": codes[0].tolist(), "changes": changes}


def _rule(rule: Rule) -> dict[str, Any]:
    does, _, when = str(rule).partition(" if ")
    return {"does": does, "when": when, "target": rule.target, "reads": [name for name, _ in rule.tests]}


def _problem(trace: AltaTrace) -> str | None:
    try:
        trace.check()
    except ValueError as error:
        return str(error)
    return None


def _answer(trace: AltaTrace) -> str:
    outputs = trace.outputs[0]
    return trace.program.decode(outputs) if trace.program.text is not None else " ".join(map(str, outputs))


def _facts(trace: AltaTrace, used: int) -> list[tuple[str, int, str]]:
    """Name, number and a remark."""
    p = trace.program
    if p.halt is None:
        ends = "as many as it always takes"
    else:
        ends = f"{'until' if trace.halted[0] else 'without'} {p.halt[0]} = {p.halt[1]} everywhere"
    return [
        ("layers", int(trace.layers[0]), ends),
        ("positions", int(trace.lengths[0]), "in this input"),
        ("variables", len(p.variables), f"{p.output} is the output"),
        ("heads", len(p.heads), "look at earlier positions only" if p.causal else "look at all positions"),
        ("rules", len(p.rules), f"{used} of them fired"),
        ("units for rules", len(units_of(p)), "of the compiled MLP"),
    ]
