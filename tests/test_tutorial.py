"""docs/tutorial.md runs as it stands there, and prints what it says."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from mechgap.cli import app

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
SECTIONS = PAGE.split("\n## ")[1:]
TRAINING = "mg.train("


def run(sections: list[str]) -> None:
    """Their blocks of Python, in one namespace."""
    names: dict[str, Any] = {}
    for block in BLOCK.findall("\n".join(sections)):
        exec(compile(block, "docs/tutorial.md", "exec"), names)


def test_it_runs_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    run([section for section in SECTIONS if TRAINING not in section])
    printed = {line.strip() for line in capsys.readouterr().out.splitlines()}
    said = [line.strip() for line in re.findall(r"^    (.+)$", BLOCK.sub("", PAGE), flags=re.MULTILINE)]
    shown = [line for line in said if line != "..." and not line.startswith("mechgap ")]
    assert len(shown) == 8
    assert [line for line in shown if line not in printed] == []


COMMANDS = [words.split() for words in re.findall(r"mechgap ([a-z][^`\n|]*)", BLOCK.sub("", PAGE))]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_its_commands_can_be_given(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command: Any = get_command(app)
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)


@pytest.mark.slow
def test_it_runs_with_its_training(capsys: pytest.CaptureFixture[str]) -> None:
    assert sum(TRAINING in section for section in SECTIONS) == 1
    run(SECTIONS)
    score, attention, traces = re.findall(r"'mean': ([\d.]+)", capsys.readouterr().out)
    assert float(score) < 0.5 < float(traces), "as the text says"
    assert 0.2 < float(attention) < 1
