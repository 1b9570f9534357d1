"""A sweep from its file to its tables: two settings of one algorithm, two seeds each, in two ensembles."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mechgap.training import Ensemble, TrainConfig, load_result, loop
from mechgap.training.config import run_name
from mechgap.training.parts import part_rows, write_part
from mechgap.training.sweep import Sweep, read_sweep, run_sweep, submit_sweep
from test_training import compile_quickly as compile_quickly

DOCUMENT = """
name = "tiny"
chunk = 2
[settings]
algorithm = "bfs"
seeds = 2
steps = 4
eval_every = 2
batch = 2
sizes = [4]
validation_samples = 4
length_generalize = false
hidden = 4
[grid]
learning_rate = [1e-2, 1e-3]
[slurm]
timeout_min = 30
slurm_partition = "long"
"""

Rows = list[dict[str, Any]]


def read_parts(folder: Path) -> dict[str, Rows]:
    """The rows of every part, by its name; read by no code of ours."""
    found = {}
    for path in sorted((folder / "parts").iterdir()):
        if path.suffix == ".parquet":
            found[path.stem] = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
        else:
            assert path.suffix == ".jsonl", path
            found[path.stem] = [json.loads(line) for line in path.read_text().splitlines()]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def sweep(folder: Path) -> Sweep:
    (folder / "tiny.toml").write_text(DOCUMENT)
    return read_sweep(folder / "tiny.toml")


@pytest.fixture(scope="module")
def shards(sweep: Sweep, folder: Path) -> list[tuple[list[Ensemble], dict[str, Rows]]]:
    """What each of two machines returns, and the parts that lie in the folder after it."""
    runs = folder / "runs"
    return [(run_sweep(sweep, runs, shard=f"{i}/2", quiet=True), read_parts(runs)) for i in (1, 2)]


@pytest.mark.slow
def test_shards_are_disjoint_and_complete(shards: list, sweep: Sweep) -> None:
    (first, after_first), (second, after_both) = shards
    trained = [[run_name(ensemble.configs, None) for ensemble in part] for part in (first, second)]
    assert [len(names) for names in trained] == [1, 1]
    assert list(after_first) == trained[0], "a machine writes its own parts only"
    assert set(after_both) == {*trained[0], *trained[1]} == {run_name(chunk, None) for chunk in sweep.chunks()}
    members = [(row["learning_rate"], row["seed"]) for part in after_both.values() for row in part]
    assert sorted(members) == [(1e-3, 0), (1e-3, 1), (1e-2, 0), (1e-2, 1)]


@pytest.mark.slow
def test_a_part_holds_settings_and_scores_of_every_network(shards: list, folder: Path) -> None:
    for ensembles, parts in shards:
        (ensemble,) = ensembles
        (config,) = ensemble.configs
        kept = load_result(folder / "runs" / run_name(ensemble.configs, None))
        for i, row in enumerate(parts[run_name(ensemble.configs, None)]):
            for name in ("algorithm", "steps", "batch", "hidden", "learning_rate", "hint_mode", "edge_info"):
                assert row[name] == getattr(config, name), name
            assert json.loads(row["sizes"]) == [4]
            assert (row["seed"], row["diverged"]) == (i, False)
            for name in ("test_best", "test_last", "validation", "loss", "best_step"):
                assert row[name] == ensemble.metrics[name][i] == kept.metrics[name][i], name
            assert not {"seeds", "first_seed", "setting"} & set(row), "a row is one network"
            assert 0 < row["loss"] < 100
            assert row["best_step"] in (2, 4)


@pytest.mark.slow
def test_a_rerun_trains_nothing(shards: list, sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = folder / "runs"
    results = {path: path.stat().st_mtime_ns for path in runs.glob("*/*") if path.parent.name != "parts"}
    monkeypatch.setattr(loop, "step_programs", refuse)
    again = run_sweep(sweep, runs, quiet=True)
    assert len(again) == 2
    for (ensembles, _), ensemble in zip(shards, again, strict=True):
        assert all(np.array_equal(x, ensemble.metrics[k]) for k, x in ensembles[0].metrics.items())
    assert {path: path.stat().st_mtime_ns for path in results} == results
    assert read_parts(runs) == shards[-1][1]


def refuse(*_: Any) -> None:
    raise AssertionError("this trains again")


class FakeExecutor:
    """What `submit_sweep` uses of submitit, run on the spot."""

    made: list["FakeExecutor"] = []  # noqa: RUF012

    def __init__(self, folder: str) -> None:
        self.folder, self.parameters, self.shards = folder, {}, []
        self.made.append(self)

    def update_parameters(self, **parameters: Any) -> None:
        self.parameters |= parameters

    def map_array(self, function: Callable[[str], int], shards: list[str]) -> list[int]:
        self.shards = shards
        return [function(shard) for shard in shards]


@pytest.fixture
def submitit(monkeypatch: pytest.MonkeyPatch) -> type[FakeExecutor]:
    module = ModuleType("submitit")
    module.AutoExecutor = FakeExecutor
    monkeypatch.setitem(sys.modules, "submitit", module)
    FakeExecutor.made.clear()
    return FakeExecutor


@pytest.mark.slow
def test_slurm_gets_one_job_per_shard(
    shards: list, sweep: Sweep, folder: Path, submitit: type[FakeExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "step_programs", refuse)
    jobs = submit_sweep(sweep, folder / "runs", 3, timeout_min=60, slurm_gres="gpu:1")
    (executor,) = submitit.made
    assert executor.folder == str(folder / "runs" / "slurm")
    assert executor.parameters == {"timeout_min": 60, "slurm_gres": "gpu:1", "slurm_partition": "long"}
    assert executor.shards == ["1/3", "2/3", "3/3"]
    assert jobs == [1, 1, 0], "two ensembles, three machines"


def test_without_submitit_its_extra_is_named(sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ImportError, match=r"needs submitit: pip install 'mechgap\[slurm\]'"):
        submit_sweep(sweep, folder / "runs", 2)


CONFIG = TrainConfig(seeds=2, output_weight=((0, 0.0), (5, 1.0)))
METRICS = {
    "seed": np.arange(2),
    "setting": np.zeros(2, int),
    "test_best": np.array([0.5, 1.0]),
    "loss": np.array([np.nan, 0.25]),
    "diverged": np.array([True, False]),
}


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_part_is_read_back_as_written(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs mechgap[parquet]")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write_part(tmp_path / "parts", "part", [CONFIG], METRICS)
    assert path == tmp_path / "parts" / f"part.{kind}"
    rows = read_parts(tmp_path)["part"]
    assert rows == part_rows([CONFIG], METRICS)
    assert [(row["algorithm"], row["seed"], row["test_best"]) for row in rows] == [("bfs", 0, 0.5), ("bfs", 1, 1.0)]
    assert [(row["diverged"], row["loss"]) for row in rows] == [(True, None), (False, 0.25)]
    assert rows[0]["output_weight"] == "[[0, 0.0], [5, 1.0]]"
    assert rows[0]["hint_weight"] == "1.0"


def test_parts_fit_together_where_a_column_is_empty(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs mechgap[parquet]")
    other = TrainConfig(seeds=2, validation_samples=8, init_from="start.safetensors", precision="highest")
    write_part(tmp_path, "one", [CONFIG], {**METRICS, "loss": np.full(2, np.nan)})
    write_part(tmp_path, "two", [other], METRICS)
    one, two = (parquet.read_schema(tmp_path / f"{name}.parquet") for name in ("one", "two"))
    assert one.equals(two)
    assert parquet.read_table(tmp_path).num_rows == 4


def test_a_part_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_part(tmp_path, "part", [CONFIG], METRICS)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_part(tmp_path, "part", [CONFIG], {**METRICS, "test_best": np.zeros(2)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
