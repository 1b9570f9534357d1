"""The page of an execution: that it holds what the interpreter did; and where heads look, and which rules fire."""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import mechgap as mg
from mechgap.cli import app
from mechgap.programs.alta import Rule
from mechgap.programs.alta_builder import alta_program, categorical, v_relative
from mechgap.programs.alta_interpreter import UNDEFINED, AltaTrace, fired, members_of, selected
from mechgap.report.alta_page import execution_data, write_page
from mechgap.report.alta_tables import cell_text

runner = CliRunner()
TEXTS = {
    "parity_sequential_relative": ("1011", "0", "110"),
    "addition": ("789+456", "1+1", "95+5"),
    "sort": ("3 1 2", "2", "1 1 9 4"),  # numbers and sets
    "dyck_2": ("([])", "(]", "()"),
    "scan_parser": ("jump twice and walk left", "walk", "turn left after run"),
}
LONG_COMMAND = "jump around left thrice and walk opposite right thrice"


program_named = cache(mg.program)  # making one takes seconds where there are many rules


def executed(name: str, texts: Sequence[str] | None = None) -> AltaTrace:
    program = program_named(name)
    return program.interpret([program.encode(text) for text in texts or TEXTS[name]])


@pytest.mark.parametrize("name", TEXTS)
def test_a_rule_fires_where_each_of_its_tests_holds(name: str) -> None:
    trace = executed(name)
    program, readable = trace.program, trace.program.readable
    for seen in trace.attended:
        members = {n: members_of(v, seen[n]) for n, v in readable.items()}
        found = fired(program, seen)
        for rule, where in zip(program.rules, found, strict=True):
            slow = np.ones(where.shape, bool)
            for tested, holds in rule.tests:
                slow &= np.isin(members[tested], sorted(holds))
            np.testing.assert_array_equal(where, slow)


@pytest.mark.parametrize("name", TEXTS)
def test_the_rules_that_fire_write_the_next_stream(name: str) -> None:
    trace = executed(name)
    program = trace.program
    for k, seen in enumerate(trace.attended):
        counts = (k < trace.layers)[:, None] & (np.arange(trace.lengths.max()) < trace.lengths[:, None])
        expected = {v.name: trace.streams[k][v.name].copy() for v in program.variables}
        for rule, where in zip(program.rules, fired(program, seen), strict=True):
            expected[rule.target][where & counts] = rule.value
        for variable in program.variables:
            after = trace.streams[k + 1][variable.name]
            np.testing.assert_array_equal(np.where(counts, after, 0), np.where(counts, expected[variable.name], 0))


def test_undefined_values_hold_in_no_test() -> None:
    everything = frozenset({0, 1})
    program = alta_program(
        "undefined",
        variables=(categorical("x", 2, from_input=lambda i: i),),
        heads=(v_relative("left", "x", -1),),
        mlp=[Rule((("left", everything),), "x", 1)],
        output="x",
        layers=1,
        input_size=2,
    )
    trace = program.interpret([[0, 0, 0]])
    assert trace.attended[0]["left"].tolist() == [[UNDEFINED, 0, 0]]
    assert fired(program, trace.attended[0]).tolist() == [[[False, True, True]]]


def test_a_rule_without_tests_fires_everywhere() -> None:
    program = alta_program(
        "always", variables=(categorical("x", 2),), mlp=[Rule((), "x", 1)], output="x", layers=1, input_size=1
    )
    trace = program.interpret([[0], [0, 0]])
    assert fired(program, trace.attended[0]).all()


def test_heads_look_where_the_key_matches_the_query() -> None:
    trace = executed("addition")
    inside = np.arange(trace.lengths.max()) < trace.lengths[:, None]
    for head in trace.program.heads:
        looked_at = selected(trace.program, head, trace.streams[1], inside)
        for b, i, j in np.ndindex(looked_at.shape):
            matches = head.query is None or trace.streams[1][head.query][b, i] == trace.streams[1][head.key][b, j]
            near = not head.relative or j - i in head.relative
            assert looked_at[b, i, j] == (inside[b, j] and matches and near)


def frames(kept: dict[str, Any]) -> list[np.ndarray]:
    """What the page's script makes of stored differences."""
    found = [np.array(kept["start"])]
    for flat in kept["changes"]:
        after = found[-1].copy()
        for row, position, code in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            after[row, position] = code
        found.append(after)
    return found


@pytest.mark.parametrize("name", ["parity_sequential_relative", "addition"])
def test_the_data_are_what_the_interpreter_did(name: str) -> None:
    trace = executed(name, TEXTS[name][:1])
    program, data = trace.program, execution_data(trace)
    length, layers = int(trace.lengths[0]), int(trace.layers[0])
    assert (data["layers"], data["length"], data["variables"]) == (layers, length, len(program.variables))
    assert [row["name"] for row in data["rows"]] == list(program.readable)
    streams, outputs = frames(data["stream"]), frames(data["outputs"])
    assert len(streams) == len(outputs) == layers + 1
    for r, row in enumerate(data["rows"]):
        variable, head = program.variable(row["name"]), r - len(program.variables)
        for k in range(layers + 1):
            if head < 0:
                meant = [cell_text(variable, x) for x in trace.streams[k][row["name"]][0]]
                codes = streams[k][r]
            else:
                meant = [cell_text(variable, x) for x in trace.attended[k - 1][row["name"]][0]] if k else ["∅"] * length
                codes = outputs[k][head]
            assert [row["texts"][code] for code in codes] == meant


@pytest.mark.parametrize("name", ["parity_sequential_relative", "addition"])
def test_the_data_say_where_heads_look_and_which_rules_fire(name: str) -> None:
    trace = executed(name, TEXTS[name][:1])
    program, data = trace.program, execution_data(trace)
    inside = np.ones((1, int(trace.lengths[0])), bool)
    for k in range(data["layers"]):
        for head, number in zip(program.heads, data["attention"][k], strict=True):
            rows = [list(data["places"][place]) for place in data["matrices"][number]]
            looked_at = selected(program, head, trace.streams[k], inside)[0]
            assert rows == [np.flatnonzero(row).tolist() for row in looked_at]
        where = fired(program, trace.attended[k])[:, 0]
        assert {rule: list(data["places"][place]) for rule, place in data["fired"][k]} == {
            int(rule): np.flatnonzero(where[rule]).tolist() for rule in np.flatnonzero(where.any(1))
        }
        for rule, _ in data["fired"][k]:
            assert f"{data['rules'][rule]['does']} if {data['rules'][rule]['when']}" == str(program.rules[rule])
    assert all(data["places"][place] == () for place in data["wrong"])


def test_numbers_and_sets_show_what_rules_see_of_them() -> None:
    data = execution_data(executed("sort", ["3 1 2"]))
    texts = {row["name"]: row["texts"] for row in data["rows"]}
    assert texts["same"] == ["∅", "{0} [0]", "{0, 1} [1]", "{0, 2} [2]", "{0, 3} [3]"]
    assert any(re.fullmatch(r"0\.\d+ \[\d+\]", text) for text in texts["smaller"])


def test_a_batch_shows_its_first_sequence() -> None:
    alone, first = (execution_data(executed("addition", texts)) for texts in (["1+1"], ["1+1", "789+456"]))
    assert first == alone


def page_of(out: Path) -> tuple[str, dict[str, Any]]:
    html = out.read_text()
    return html, json.loads(re.search(r'id="page-data">(.*?)</script>', html, re.DOTALL)[1])


def test_the_command_writes_one_page_that_loads_nothing(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = runner.invoke(app, ["alta", "run", "addition", "789+456", "--html", str(out), "--show", "carry"])
    assert done.exit_code == 0, done.output
    assert f"wrote {out}" in done.output.replace("\n", "")
    html, data = page_of(out)
    for words in ("addition: 789+456", "the sum of two numbers", ">1245<", "232", "of the compiled MLP"):
        assert words in html
    assert data["shown"] == ["carry"]
    assert data["rows"] == json.loads(json.dumps(execution_data(executed("addition", ["789+456"]))))["rows"]
    assert not re.search(r"https?://", html)
    assert not re.search(r"<(link|img|iframe)\b|<script[^>]+src=|@import|url\(", html)
    assert "shift-reduce" not in html.lower()


def test_the_parser_has_its_table(tmp_path: Path) -> None:
    write_page(executed("scan_parser", TEXTS["scan_parser"][:1]), "a command", tmp_path / "page.html")
    html, _ = page_of(tmp_path / "page.html")
    assert re.search(r"<td>reduce S and S</td>\s*<td>S</td>\s*<td>\(\(\(jump\) twice\) and", html)


@pytest.mark.slow
def test_a_long_execution_makes_a_small_page(tmp_path: Path) -> None:
    write_page(executed("scan", [LONG_COMMAND]), LONG_COMMAND, tmp_path / "page.html")
    size = (tmp_path / "page.html").stat().st_size
    print(f"{size / 1e3:.0f} kB")
    assert size < 300e3


def test_hundreds_of_layers_make_a_small_page(tmp_path: Path) -> None:
    bits = "10110" * 60
    write_page(executed("parity_sequential_relative", [bits]), bits, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 300e3


def test_an_execution_that_went_wrong_is_shown(tmp_path: Path) -> None:
    program = program_named("addition")
    trace = program.interpret([program.encode("789+456")], layers=2)
    write_page(trace, "789+456", tmp_path / "page.html")
    html, data = page_of(tmp_path / "page.html")
    assert "has not ended after 2 layers" in html
    assert "1245" not in html
    assert data["layers"] == 2


def test_undefined_reads_are_marked(tmp_path: Path) -> None:
    program = alta_program(
        "reads_undefined",
        variables=(categorical("x", 2, from_input=lambda i: i),),
        heads=(v_relative("left", "x", -1),),
        mlp=[Rule((("left", frozenset({0})),), "x", 1)],
        output="x",
        layers=1,
        input_size=2,
    )
    write_page(program.interpret([[1, 1]]), "<1 1>", tmp_path / "page.html")
    html, data = page_of(tmp_path / "page.html")
    assert "a rule reads an undefined value" in html
    assert [data["places"][place] for place in data["wrong"]] == [[0]]
    assert "<h1>reads_undefined: &lt;1 1&gt;</h1>" in html


def test_a_program_that_runs_no_layer(tmp_path: Path) -> None:
    trace = program_named("parity_sequential_relative").interpret([[2]])  # the start alone is done
    assert trace.layers[0] == 0
    write_page(trace, "", tmp_path / "page.html")
    _, data = page_of(tmp_path / "page.html")
    assert (data["layers"], data["fired"], data["outputs"]["start"]) == (0, [], [[0], [0]])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("addition", "1+1", "--html", "no/such/page.html"), "the folder no/such does not exist"),
        (("addition", "1-1", "--html", "page.html"), "two numbers, e.g. '789+456'; got '1-1'"),
        (("addition", "1+1", "--show", "carrie", "--html", "page.html"), "has no variable 'carrie'"),
        (("bfs", "1", "--html", "page.html"), "'bfs' is a graph program"),
    ],
)
def test_a_mistake_writes_nothing(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(app, ["alta", "run", *words])
    assert done.exit_code != 0
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []
