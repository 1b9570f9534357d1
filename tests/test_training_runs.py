"""Runs that are killed, shared among devices, or part of a sweep. Each process compiles once, then reads the cache."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mechgap.training import TrainConfig, load_result
from mechgap.training.config import run_name
from mechgap.training.sweep import make_sweep, my_share, preset_names, read_sweep
from mechgap.training.weights import named

SETTINGS = {
    "algorithm": "bfs",
    "seeds": 4,
    "steps": 400,
    "eval_every": 10,
    "batch": 4,
    "sizes": [4],
    "validation_samples": 8,
    "length_generalize": False,
    "hidden": 8,
}
PROGRAM = """
import json, sys
from mechgap.training import TrainConfig, fit
fit([TrainConfig.from_settings(json.loads(sys.argv[1]))], folder=sys.argv[2], checkpoint_seconds=float(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


def start(folder: Path, cache: Path, devices: int = 1, settings: dict = SETTINGS, every: float = 0) -> subprocess.Popen:
    flags = f"--xla_backend_optimization_level=0 --xla_force_host_platform_device_count={devices}"
    environment = {
        **os.environ,
        "XLA_FLAGS": flags,
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-c", PROGRAM, json.dumps(settings), str(folder), str(every)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> None:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def place(folder: Path, settings: dict = SETTINGS) -> Path:
    return folder / run_name([TrainConfig.from_settings(settings)], None)


def contents(folder: Path) -> dict[str, bytes]:
    """All results but the manifest, which has times."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "manifest.json"}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    finish(start(folder, cache))
    return place(folder)


def kill_and_resume(folder: Path, cache: Path, kills: int) -> int:
    """Kill a run at random moments of its training, then let it end; how many kills found it unfinished."""
    met = 0
    checkpoint = place(folder) / "checkpoint.safetensors"
    for _ in range(kills):
        process = start(folder, cache)
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and not (checkpoint.exists() and checkpoint.stat().st_mtime_ns != before):
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.1))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            met += 1
        process.communicate()
    finish(start(folder, cache))
    return met


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 6])
def test_a_killed_run_ends_as_one_never_killed(tmp_path: Path, cache: Path, unbroken: Path, kills: int) -> None:
    assert kill_and_resume(tmp_path, cache, kills) >= 1
    assert contents(place(tmp_path)) == contents(unbroken), "bit for bit"


@pytest.mark.slow
def test_a_run_on_four_devices_is_the_run_on_one(tmp_path: Path, cache: Path, unbroken: Path) -> None:
    finish(start(tmp_path, cache, devices=4))
    manifests = [json.loads((f / "manifest.json").read_text()) for f in (place(tmp_path), unbroken)]
    assert [m["device"]["used"] for m in manifests] == [4, 1]
    rows = [json.loads((f / "metrics.json").read_text()) for f in (place(tmp_path), unbroken)]
    for ours, theirs in zip(*rows, strict=True):
        assert ours["seed"] == theirs["seed"]
        for name in ("loss", "validation", "test_best", "test_last"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-4), name
    sharded, whole = (load_result(f) for f in (place(tmp_path), unbroken))
    for kind in ("networks", "last"):
        expected = named(getattr(whole, kind))
        for name, x in named(getattr(sharded, kind)).items():
            np.testing.assert_allclose(x, expected[name], rtol=1e-4, atol=1e-6, err_msg=f"{kind} {name}")


DOCUMENT = {
    "chunk": 6,
    "settings": {"seeds": 4, "hidden": 8},
    "grid": {"algorithm": ["bfs", "dfs"], "learning_rate": [1e-3, 1e-4]},
}


def test_a_sweep_packs_settings_of_equal_shape() -> None:
    chunks = make_sweep(DOCUMENT, "test").chunks()
    assert [[(c.algorithm, c.learning_rate, c.first_seed, c.seeds) for c in chunk] for chunk in chunks] == [
        [("bfs", 1e-3, 0, 4), ("bfs", 1e-4, 0, 2)],
        [("bfs", 1e-4, 2, 2)],
        [("dfs", 1e-3, 0, 4), ("dfs", 1e-4, 0, 2)],
        [("dfs", 1e-4, 2, 2)],
    ]
    shares = [my_share(chunks, f"{i}/3") for i in (1, 2, 3)]
    assert sorted(run_name(c, None) for share in shares for c in share) == sorted(run_name(c, None) for c in chunks)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"setings": {}}, "A sweep has no 'setings'. Did you mean 'settings'"),
        ({"hidden": 4}, "A sweep has no 'hidden'.*Settings go below"),
        ({"chunk": 0}, "chunk must be a whole number of members, 1 or more; got 0"),
        ({"grid": {"hidden": 4}}, "lists the values of each setting; hidden is 4"),
        ({"grid": {"hiden": [4]}}, "No setting 'hiden'. Did you mean 'hidden'"),
        ({"settings": {"steps": -1}}, "steps must be a whole number"),
    ],
)
def test_a_bad_sweep_is_refused(document: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_sweep(document, "test")


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_a_bad_shard_is_refused(shard: str) -> None:
    with pytest.raises(ValueError, match="shard must be i/N with i from 1 to N"):
        my_share([], shard)


def test_an_unknown_sweep_names_the_presets() -> None:
    with pytest.raises(ValueError, match=r"No file and no preset 'baselin'. Did you mean 'baseline'"):
        read_sweep("baselin")


def test_presets_hold_the_papers_settings() -> None:
    presets = {name: read_sweep(name).configs for name in preset_names()}
    assert {c.hint_mode for c in presets["trace_ablation"]} == {"none"}
    assert {(c.hidden, c.seeds) for c in presets["minimal"]} == {(4, 1024)}
    assert {c.regularisation_weight for c in presets["regularisation"]} == {1e-3, 1e-4}
    assert {(c.steps, c.learning_rate) for c in presets["grokking"]} == {(50_000, 5e-5)}
    assert {(c.sizes, c.simplify_decoders, c.test_size) for c in presets["architecture"]} == {((16,), True, 16)}
    assert {(c.edge_info, c.pre_attention_bias) for c in presets["architecture"]} == {
        *((True, True), (True, False), (False, True), (False, False))
    }
    assert {c.algorithm for c in presets["disparity"]} == {"bfs_sequential", "dfs_simplified"}
    (bellman_ford,) = (c for c in presets["baseline"] if c.algorithm == "bellman_ford")
    assert bellman_ford == TrainConfig(
        algorithm="bellman_ford",
        seeds=128,
        steps=10_000,
        batch=32,
        sizes=(4, 7, 11, 13, 16),
        eval_every=50,
        hidden=128,
        heads=1,
        learning_rate=1e-4,
        grad_clip=1.0,
    )
    assert read_sweep("grokking", {"seeds": 2, "steps": 5}).configs[0].steps == 5
