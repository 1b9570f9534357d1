"""Result folders without any training: everything a study leaves, drawn at random but shaped like the real thing."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from mechgap.faithfulness.causal import ABOUT
from mechgap.faithfulness.landscape import Landscape, save_landscapes
from mechgap.faithfulness.mechanistic_gap import Gap
from mechgap.storage import write_tensors
from mechgap.training.checkpoint import HISTORY, write_json

HINTS = {
    "bfs": {"reach_h": "mask", "pi_h": "pointer"},
    "dfs": {"pi_h": "pointer", "color": "categorical", "d": "scalar", "s": "mask_one", "time": "graph"},
}
SPLITS = {"train": 16, "validation": 16, "test": 64}
POINTS = 12


def write_folder(
    folder: Path,
    *,
    seeds: int = 5,
    algorithm: str = "bfs",
    needs: dict[str, Any] | None = None,
    steps: int = 6,
    n: int = 7,
    samples: int = 3,
    heads: int = 1,
    lost: int = 0,
    shift: float = 0.0,
) -> Path:
    """A whole result folder; dfs has no compiled program, as in the library. `shift` makes networks less faithful."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    gap = make_gap(rng, seeds, algorithm, needs or {}, steps, n, samples, heads, lost, shift)
    gap.save(folder)
    score = gap.members["test_best"]
    settings = {"algorithm": algorithm, "seeds": seeds, "hidden": 32, "p": [0.1, 0.5]}
    write_json(folder / "config.json", {"configs": [settings]})
    versions = {"python": "3.12.3", "mechgap": "0.1.0", "jax": "0.10.2"}
    write_json(folder / "manifest.json", {"versions": versions, "device": {"kind": "cpu"}, "times": {"train_s": 3.5}})
    rows = zip(gap.members["seed"].tolist(), gap.members["diverged"].tolist(), score.tolist(), strict=True)
    write_json(
        folder / "metrics.json",
        [{"seed": s, "diverged": d, "validation": x, "test_best": x, "test_last": x} for s, d, x in rows],
    )
    step = np.arange(50, 1050, 50)
    decay = np.exp(-step / 300)[:, None]
    history = {
        "step": step,
        "loss": (0.02 + 2 * decay * rng.uniform(0.8, 1.2, (1, seeds))).astype(np.float32),
        "validation": (1 - 0.5 * decay * rng.uniform(0.8, 1.2, (1, seeds))).astype(np.float32),
        "diverged": np.zeros((len(step), seeds), bool),
    }
    write_tensors(folder / "history.safetensors", history, {"format": HISTORY})
    if algorithm != "dfs":
        write_causal(folder, rng, score)
    save_landscapes(folder, make_landscapes(algorithm))
    return folder


def make_gap(
    rng: np.random.Generator,
    seeds: int,
    algorithm: str,
    needs: dict[str, Any],
    steps: int,
    n: int,
    samples: int,
    heads: int,
    lost: int,
    shift: float,
) -> Gap:
    """A gap whose numbers are plausible: scores near 0.97, distances around 0.5, three families of attention."""
    compiled, hints = algorithm != "dfs", HINTS[algorithm]
    score = np.clip(0.97 + 0.02 * rng.standard_normal(seeds), 0, 1)
    score_free = rng.standard_normal(seeds)
    far = np.clip(0.5 + shift + 0.05 * (0.3 * score_free + rng.standard_normal(seeds)), 0, 1)
    names = {f"external/{order}" for order in ("meant", "printed")}
    names |= {f"external/{order}/{h}" for order in ("meant", "printed") for h in hints} | {
        f"hint_score/{h}" for h in hints
    }
    inner = ("rows", "decisive", "idle", "eq24", "mean_head", "mixture", "equivalent/all neighbours")
    names |= {f"internal/{x}" for x in inner} if compiled else set()

    def measure(name: str) -> np.ndarray:
        if name == "score":
            return score.astype(np.float32)
        base = far * (0.7 if "decisive" in name else 0.5 if "equivalent" in name else 2 / n if "eq24" in name else 1.0)
        noise = 0.01 * rng.standard_normal(seeds)
        return np.clip(base + noise if name.startswith("internal") else 0.95 - shift + noise, 0, 1).astype(np.float32)

    measures = {split: {name: measure(name) for name in sorted({*names, "score"})} for split in SPLITS}
    progress = np.linspace(0, 0.2, POINTS)
    drawn = [x for x in names if x in ("internal/rows", "internal/decisive") or x.startswith("external")]
    curves = {
        split: {
            x: np.clip(measures[split][x][:, None] + (progress if "internal" in x else -progress) - 0.1, 0, 1).astype(
                np.float32
            )
            for x in drawn
        }
        for split in SPLITS
    }
    ones = {x: np.float32([0.0 if x.startswith("internal") else 1.0]) for x in {*names, "score"}}
    uniform = {x: np.float32([0.7]) for x in names if x.startswith("internal")}
    untrained = {x: np.full(8, 0.65 if x.startswith("internal") else 0.3, np.float32) for x in {*names, "score"}}
    tables = {"untrained": untrained} | ({"compiled": ones, "uniform": uniform} if compiled else {})
    shown, distances = make_shown(rng, seeds, hints, steps, n, samples, heads, compiled)
    diverged = np.arange(seeds) >= seeds - lost
    about = {
        "mechgap": "0.1.0",
        "splits": {split: {"n": size, "samples": 32, "frames": steps + 1} for split, size in SPLITS.items()},
        "compiled": {"program": algorithm, "hidden": 32, "margin": 27.5, "needs": needs} if compiled else None,
        "settings": {"algorithm": algorithm},
    }
    members = {"seed": np.arange(seeds), "diverged": diverged, "test_best": score, "validation": score}
    return Gap(algorithm, members, measures, curves, {s: dict(tables) for s in SPLITS}, distances, shown, about)


def make_shown(
    rng: np.random.Generator,
    seeds: int,
    hints: dict[str, str],
    steps: int,
    n: int,
    samples: int,
    heads: int,
    compiled: bool,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What the viewer shows: attention between a family's own and uniform, over a random graph."""
    joined = np.triu(rng.random((samples, n, n)) < 0.35, 1)
    adj = joined | joined.swapaxes(1, 2) | np.eye(n, dtype=bool)
    target = np.argmax(rng.random((steps, samples, n, n)) * adj, axis=-1)
    star = np.eye(n)[target][:, :, None]
    uniform = (adj / adj.sum(-1, keepdims=True))[None, :, None]
    families = np.stack([np.eye(n)[np.argmax(rng.random((steps, samples, n, n)) * adj, axis=-1)] for _ in range(3)])
    family = families[rng.integers(0, 3, seeds)][:, :, :, None]
    mix = rng.dirichlet((2, 3, 4), seeds)[:, :, None, None, None, None, None]
    attention = np.repeat(mix[:, 0] * star + mix[:, 1] * family + mix[:, 2] * uniform, heads, axis=3)
    attention *= rng.gamma(4.0, 0.25, attention.shape)  # as hard to compress as trained attention is
    attention /= attention.sum(-1, keepdims=True)
    shown: dict[str, np.ndarray] = {
        "lengths": np.array([steps + 1 - (i % 3) for i in range(samples)], np.int16),
        "attention": np.round(255 * attention).astype(np.uint8),
        "inputs/adj": adj.astype(np.float32),
        "inputs/A": adj.astype(np.float32),
        "inputs/pos": np.tile(np.arange(n, dtype=np.float32) / n, (samples, 1)),
        "inputs/s": np.eye(n, dtype=np.float32)[rng.integers(0, n, samples)],
    }
    if compiled:
        shown |= {"star": (255 * star).astype(np.uint8), "decisive": rng.random((steps, samples, 1, n)) < 0.4}
    for name, kind in hints.items():
        shown |= {f"{where}/{name}": x for where, x in _hint(rng, kind, seeds, steps, samples, n).items()}
    rows = attention[:, :, :, 0].astype(np.float32)
    apart = np.stack([0.5 * np.abs(rows - one).sum(-1).mean((1, 3)) for one in rows])
    return shown, np.moveaxis(apart, -1, 0).astype(np.float32)


def _hint(rng: np.random.Generator, kind: str, seeds: int, steps: int, samples: int, n: int) -> dict[str, np.ndarray]:
    frames, flip = (steps + 1, samples), lambda shape: rng.random((seeds, *shape)) < 0.05
    match kind:
        case "mask":
            truth = np.sort(rng.random((*frames, n)) < 0.5, axis=0).astype(np.float32)
            return {"truth": truth, "hints": np.where(flip(truth[1:].shape), 90, 255 * truth[1:]).astype(np.uint8)}
        case "pointer":
            truth = rng.integers(0, n, (*frames, n)).astype(np.float32)
            return {"truth": truth, "hints": np.where(flip(truth[1:].shape), 0, truth[1:]).astype(np.int16)}
        case "categorical":
            classes = rng.integers(0, 3, (*frames, n))
            predicted = np.where(flip(classes[1:].shape), 0, classes[1:]).astype(np.int16)
            return {"truth": np.eye(3, dtype=np.float32)[classes], "hints": predicted}
        case "mask_one":
            at = rng.integers(0, n, frames)
            predicted = np.where(flip(at[1:].shape), 0, at[1:]).astype(np.int16)
            return {"truth": np.eye(n, dtype=np.float32)[at], "hints": predicted}
        case "scalar":
            truth = rng.random((*frames, n)).astype(np.float32)
        case _:
            truth = np.tile(np.linspace(0, 1, steps + 1, dtype=np.float32)[:, None], (1, samples))
    noise = 0.04 * rng.standard_normal((seeds, *truth[1:].shape))
    return {"truth": truth, "hints": (truth[1:] + noise).astype(np.float16)}


def write_causal(folder: Path, rng: np.random.Generator, score: np.ndarray) -> None:
    """Scores under every swap: the more is replaced, the worse."""
    splits: dict[str, Any] = {}
    for split in ("validation", "test"):
        for i, condition in enumerate(ABOUT):
            values = np.clip(score - 0.03 * i + 0.005 * rng.standard_normal(len(score)), 0, 1)
            splits.setdefault(split, {})[condition] = {"score": values.tolist(), "hints": (0.9 * values).tolist()}
    (folder / "causal.json").write_text(json.dumps({"splits": splits, "about": ABOUT}))


def make_landscapes(algorithm: str, points: int = 21) -> list[Landscape]:
    """A flat bowl, a steep one and a tilted plane."""
    steep = {"learned": 3.0, "initial": 0.3} | ({} if algorithm == "dfs" else {"compiled": 40.0})
    found = []
    for name, slope in steep.items():
        for scale, half in (("general", 1.0), ("local", 0.1)):
            axis = np.linspace(-half, half, points).astype(np.float32)
            squares = axis[:, None] ** 2 + 0.6 * axis[None, :] ** 2 + 0.5 * axis[:, None] * axis[None, :]
            loss = slope * squares + (2.0 + 0.2 * axis[:, None] if name == "initial" else 0.02)
            rises = {str(r): slope * r * r for r in (0.01, 0.05, 0.1, 0.5)} | {"loss": 0.02}
            found.append(Landscape(name, scale, axis, loss.astype(np.float32), rises))
    return found
