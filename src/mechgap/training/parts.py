"""Results as tables on disk, a part per chunk of a sweep: Parquet where pyarrow is installed, else JSON lines."""

import importlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mechgap.storage import write_bytes, write_text
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
        arrow, parquet = (importlib.import_module(package) for package in ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        path = folder / f"{name}.jsonl"
        write_text(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in table))
    else:
        path, buffer = folder / f"{name}.parquet", io.BytesIO()
        parquet.write_table(_typed(arrow, arrow.Table.from_pylist(table)), buffer)
        write_bytes(path, buffer.getvalue())
    return path


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    schedules = ("hint_weight", "output_weight")  # a number or a list: always text, so that all parts have one type
    return {
        k: json.dumps(v) if isinstance(v, list) or k in schedules else v
        for k, v in settings.items()
        if k not in ("seeds", "first_seed")
    }


def _typed(arrow: Any, table: Any) -> Any:
    """A column that is None throughout gets the type it has in other parts."""
    types = {"validation_samples": arrow.int64(), "init_from": arrow.string(), "precision": arrow.string()}
    known = [
        (f.name, types.get(f.name, arrow.float64()) if arrow.types.is_null(f.type) else f.type) for f in table.schema
    ]
    return table.cast(arrow.schema(known))
