"""Results of TransNAR's study with made-up scores."""

import json
from pathlib import Path
from typing import Any

from mechgap.report.paper.transnar import transnar_table
from mechgap.training.transnar.presets import read_study

STUDY = read_study("h200")
FLOOR = 0.3


def rows(names: tuple[str, ...], score: dict[str, float]) -> list[dict[str, Any]]:
    """Scores that differ a little by algorithm, so that there are errors."""
    found = []
    for i, name in enumerate(names):
        clrs = score.get(name, score[""]) + 0.01 * (i % 3)
        found.append(
            {"name": name, "count": 64, "shape": 0.9, "parse": 1.0, "clrs": clrs, "error": 0.01, "floor": FLOOR}
        )
    return [*found, {**found[0], "name": "mean"}]


def write(folder: Path, name: str, score: dict[str, float] | float, **changes: Any) -> None:
    """A model whose scores are made up, the same at all sizes."""
    config = STUDY.models[name]
    by_algorithm = score if isinstance(score, dict) else {"": score}
    sizes = {str(n): rows(config.algorithms, by_algorithm) for n in STUDY.evaluation.sizes}
    run = {"by_size": sizes, "seconds": 1.0}
    seen = [a for a in config.algorithms if name != "transnar_unseen" or a not in ("dfs", "mst_prim")]
    alone = {n: [row for row in some if row["name"] in seen] for n, some in sizes.items()}
    scores = {
        "evaluation": {"sizes": list(STUDY.evaluation.sizes), "count": 64},
        "positions": "as in training",
        "models": {"as trained": [run] * config.seeds},
        "exact": run,
        **({"reasoner": {"by_size": alone, "seconds": 1.0}} if config.looks else {}),
    }
    manifest = {"parameters": 1_000_000, "steps": 10, "date": "2000-01-01", "times": {"train_s": [1.0]}}
    about = {
        "number": list(STUDY.models).index(name),
        "config": {**config.as_json(), **changes},
        "metrics": {"scores": scores},
        "manifest": {**manifest, "stand_ins": {"dfs": "bfs", "mst_prim": "bellman_ford"}},
    }
    (folder / "transnar").mkdir(parents=True, exist_ok=True)
    (folder / "transnar" / f"{name}.json").write_text(json.dumps(about))


def verdicts(name: str, folder: Path) -> dict[str, str]:
    return {line.label: line.verdict for line in transnar_table(f"transnar-{name}", folder).lines}
