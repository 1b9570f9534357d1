"""Results as tables on disk: one part per chunk of a sweep, as Parquet where pyarrow is installed, else as JSON lines.

The only file that knows pyarrow.
"""

import importlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mechgap.training.checkpoint import rows
from mechgap.training.config import TrainConfig
from mechgap.training.result import Table


def part_rows(configs: Sequence[TrainConfig], metrics: Table) -> list[dict[str, Any]]:
    """One row per member: its settings and its metrics. Lists become JSON text."""
    described = [_flat(config.as_json()) for config in configs]
    return [{**described[row["setting"]], **{k: v for k, v in row.items() if k != "setting"}} for row in rows(metrics)]


def write_part(folder: Path, name: str, configs: Sequence[TrainConfig], metrics: Table) -> Path:
    """Write one part, atomically; a reader scans folder/*.parquet (or *.jsonl)."""
    folder.mkdir(parents=True, exist_ok=True)
    table = part_rows(configs, metrics)
    try:
        arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        path, temporary = folder / f"{name}.jsonl", folder / f".{name}.jsonl.new"
        temporary.write_text("".join(json.dumps(row) + "\n" for row in table))
    else:
        path, temporary = folder / f"{name}.parquet", folder / f".{name}.parquet.new"
        parquet.write_table(arrow.Table.from_pylist(table), temporary)
    os.replace(temporary, path)
    return path


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    schedules = ("hint_weight", "output_weight")  # a number or a list: always text, so that all parts have one type
    return {
        k: json.dumps(v) if isinstance(v, list) or k in schedules else v
        for k, v in settings.items()
        if k not in ("seeds", "first_seed")
    }
