"""docs/training.md says what the code does: its settings, its sweep, its examples."""

import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mechgap.cli import app
from mechgap.training import TrainConfig
from mechgap.training.config import NUMERIC
from mechgap.training.multi_task import MultiTaskConfig
from mechgap.training.sweep import make_sweep, preset_names
from test_training import compile_quickly as compile_quickly

PAGE = (Path(__file__).parents[1] / "docs" / "training.md").read_text()
ROWS = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in PAGE.splitlines() if "|" in line]
SETTINGS = {row[0].removesuffix(" °"): row for row in ROWS if len(row) == 5}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_table_has_every_setting_and_its_default() -> None:
    names = [f.name for f in fields(TrainConfig)]
    assert [name for name in SETTINGS if name in names] == names
    for field in fields(TrainConfig):
        shown = {"true": True, "false": False, "none": None}
        said = SETTINGS[field.name][1]
        if field.name != "p":
            assert shown.get(said, said) == (field.default if said in shown else str_of(field.default)), field.name
        assert (" °" in SETTINGS[field.name][0]) == (field.name in (*NUMERIC, "seeds", "first_seed")), field.name


def test_the_table_of_many_algorithms_has_every_setting_and_its_default() -> None:
    table = {row[0]: row[1] for row in ROWS if len(row) == 3}
    settings = {f.name: f.default for f in fields(MultiTaskConfig) if f.name != "network"}
    assert [name for name in table if name in settings] == list(settings)
    assert len(COMMANDS) == 2
    for name, default in settings.items():
        if name not in ("algorithms", "p"):
            assert table[name].capitalize() == str(default), name


COMMANDS = re.findall(r"^    mechgap (train --algorithms .*)$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_for_many_algorithms_can_be_given(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(config: MultiTaskConfig, **_: object) -> None:
        raise RuntimeError(f"to train on {','.join(config.algorithms)} for {config.steps} steps")

    monkeypatch.setattr("mechgap.report.ensembles.train_together", told)
    with pytest.raises(RuntimeError, match=r"to train on \w+,.*,\w+ for 300 steps"):
        CliRunner().invoke(app, shlex.split(command), catch_exceptions=False)


def str_of(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_the_table_names_presets_that_vary_what_it_says() -> None:
    named = {word for row in SETTINGS.values() for word in re.findall(r"`(\w+)`", row[3])}
    assert named == set(preset_names())


def test_the_sweep_is_one() -> None:
    (text,) = blocks("toml")
    sweep = make_sweep(tomllib.loads(text), "study")
    assert len(sweep.configs) == 8
    assert {config.regularisation for config in sweep.configs} == {"L1", "L2"}
    assert dict(sweep.slurm) == {"timeout_min": 120, "slurm_gres": "gpu:1"}


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks("python"):
        exec(block, names)
    assert (tmp_path / "small" / "metrics.json").exists()
    assert len(names["networks"].processor.value.weight) == 2
