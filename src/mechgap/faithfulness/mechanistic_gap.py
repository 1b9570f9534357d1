"""The mechanistic gap of an ensemble: everything that is measured of it, as one value and one file."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mechgap import __version__
from mechgap.compiler.to_gatv2 import Compiled
from mechgap.faithfulness.clusters import Clusters, attention_distances, find_clusters
from mechgap.faithfulness.correlation import Correlation, correlate, mean_interval
from mechgap.faithfulness.measure import Observed, internal_measures, observe_all
from mechgap.faithfulness.probes import SPLITS, Probe, probe, uniform_attention
from mechgap.networks import ClrsNet, NetConfig
from mechgap.programs import program_names, program_parameters
from mechgap.storage import read_tensors, write_tensors, write_text
from mechgap.trace import Kind, Spec, Stage
from mechgap.training.config import TrainConfig
from mechgap.training.data import TO_INIT, member_key
from mechgap.training.result import Ensemble, Table

FORMAT, FILE = "mechgap.gap/1", "gap.safetensors"
SAMPLES = 32  # of every split
SHOWN = 4  # samples of which every network's attention is kept
UNTRAINED = 8  # networks, as a baseline
UNTRAINED_SEED = 2**31  # away from the seeds that are trained
# What a compiled network may need beyond what was trained; the gap says so beside its number.
CAPABILITIES = ("processor", "edge_info", "heads", "full_adjacency", "pre_attention_bias", "message_passing_steps")
OTHERWISE = ("use_layer_norm", "simplify_decoders")  # in which they may differ as well


@dataclass(frozen=True)
class Gap:
    """How far trained networks are from the algorithm.

    Attributes:
        algorithm: what they learned.
        members: one value per network: seed, diverged, and the scores of training where there are any.
        measures: split -> measure -> [members]; the measures are described in `faithfulness.measure.observe`.
        curves: split -> measure -> [members, points], over the uniform timescale.
        baselines: split -> baseline -> measure -> [networks]: `compiled` itself, `uniform` attention over neighbours,
            `untrained` networks.
        distances: [samples, members, members], between the attentions of every two networks, on the validation split.
        shown: of the first validation samples: inputs, truth, α* and every network's attention (255 for 1) and hints.
        about: sizes, versions, how the compiled architecture differs, and whose attention α* is (`star`): the
            interpreter's; files without it were measured against the compiled network's own.
    """

    algorithm: str
    members: Table
    measures: dict[str, Table]
    curves: dict[str, Table]
    baselines: dict[str, dict[str, Table]]
    distances: np.ndarray
    shown: Table
    about: dict[str, Any]

    @property
    def sound(self) -> np.ndarray:
        """Which networks count: those that did not diverge."""
        return ~self.members["diverged"]

    def values(self, measure: str, split: str = "validation") -> np.ndarray:
        """One measure of all networks that did not diverge."""
        known = self.measures[split]
        if measure not in known:
            raise KeyError(f"No measure {measure!r} of {split!r}; there are {', '.join(sorted(known))}.")
        return known[measure][self.sound]

    @property
    def score(self) -> np.ndarray:
        """The test score of every network that did not diverge."""
        column = self.members["test_best"] if "test_best" in self.members else self.measures["test"]["score"]
        return column[self.sound]

    def summary(self, measure: str, split: str = "validation") -> dict[str, float]:
        """n, mean, std, a 95 % interval of the mean, min and max over the networks."""
        values = self.values(measure, split).astype(float)
        if not len(values):
            return {"n": 0, **dict.fromkeys(("mean", "std", "low", "high", "min", "max"), float("nan"))}
        low, high = mean_interval(values)
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        return {
            "n": len(values),
            "mean": float(values.mean()),
            "std": spread,
            "low": low,
            "high": high,
            "min": float(values.min()),
            "max": float(values.max()),
        }

    def best_equivalent(self, split: str = "validation") -> tuple[str, np.ndarray]:
        """Of the α* that the program declares as equivalent, that which the networks are nearest to, and how near."""
        own = {"itself": self.values("internal/rows", split)}
        prefix = "internal/equivalent/"
        others = {k.removeprefix(prefix): self.values(k, split) for k in self.measures[split] if k.startswith(prefix)}
        return min((own | others).items(), key=lambda item: _mean(item[1]))

    def correlations(self, split: str = "validation") -> dict[str, Correlation]:
        """The test score against each measure of faithfulness (Table 1)."""
        names = [n for n in self.measures[split] if n.startswith(("internal/", "external/"))]
        return {name: correlate(self.score, self.values(name, split)) for name in names}

    def clusters(self) -> Clusters:
        """Groups of networks that attend alike."""
        return find_clusters(self.distances[:, self.sound][:, :, self.sound])

    def other_seed(self) -> float:
        """The mean distance between the attentions of two different networks."""
        apart = self.distances.mean(0)[self.sound][:, self.sound]
        pairs = apart[~np.eye(len(apart), dtype=bool)]
        return _mean(pairs)

    def closest(self, measure: str = "internal/rows", split: str = "validation") -> int:
        """The index of the network nearest to α* (Figure 3)."""
        values = np.where(self.sound, self.measures[split][measure], np.inf)
        return int(np.argmin(values))

    def as_json(self) -> dict[str, Any]:
        """All numbers that a table shows, as plain values."""
        splits = {
            split: {name: self.summary(name, split) for name in measures} for split, measures in self.measures.items()
        }
        found = self.clusters()
        baselines = {
            split: {b: {m: _mean(x) for m, x in table.items()} for b, table in tables.items()}
            for split, tables in self.baselines.items()
        }
        return {
            "algorithm": self.algorithm,
            "networks": int(self.sound.sum()),
            "diverged": int((~self.sound).sum()),
            "score": {"mean": _mean(self.score), "max": float(max(self.score, default=np.nan))},
            "measures": splits,
            "baselines": baselines,
            "other_seed": self.other_seed(),
            "correlations": {split: {k: asdict(c) for k, c in self.correlations(split).items()} for split in splits},
            "clusters": {"cut": found.cut, "stable": found.stable},
            "about": self.about,
        }

    def save(self, folder: str | Path) -> None:
        """Write gap.safetensors, from which the gap is read again, and gap.json, for people."""
        folder = Path(folder)
        tensors: Table = {f"members/{k}": x for k, x in self.members.items()}
        for what in ("measures", "curves"):
            tensors |= {f"{what}/{s}/{k}": x for s, table in getattr(self, what).items() for k, x in table.items()}
        for split, tables in self.baselines.items():
            tensors |= {f"baselines/{split}/{b}/{k}": x for b, table in tables.items() for k, x in table.items()}
        tensors |= {f"shown/{k}": x for k, x in self.shown.items()} | {"distances": self.distances.astype(np.float16)}
        write_tensors(folder / FILE, tensors, {"format": FORMAT, "algorithm": self.algorithm, "about": self.about})
        write_text(folder / "gap.json", json.dumps(_finite(self.as_json()), indent=1) + "\n")

    def __repr__(self) -> str:
        split = "validation" if "validation" in self.measures else next(iter(self.measures))
        parts = [f"{int(self.sound.sum())} {self.algorithm} networks, score {_mean(self.score):.4f}"]
        if "internal/rows" in self.measures[split]:
            apart = _mean(self.values("internal/rows", split))
            parts.append(f"attention {apart:.3f} from the program's (0 = the same, 1 = apart)")
        if "external/meant" in self.measures[split]:
            parts.append(f"traces {_mean(self.values('external/meant', split)):.3f} right")
        return f"<Gap of {', '.join(parts)}>"


def gap(
    trained: Any,
    compiled: Compiled | None = None,
    *,
    config: TrainConfig | None = None,
    splits: Iterable[str] = SPLITS,
    samples: int = SAMPLES,
    shown: int = SHOWN,
) -> Gap:
    """Measure how faithful networks are to an algorithm.

    Args:
        trained: an `Ensemble`; or a `ClrsNet` or a `Compiled`, with `config` to say on what data.
        compiled: attention is compared with that of its program; without it only hints are compared.
        config: by default the ensemble's own.
        splits: of "train", "validation", "test".
        samples: of every split, at most.
        shown: how many validation samples to keep every network's attention of.
    """
    networks, members, config = _members(trained, config)
    networks.config.check_attention("The mechanistic gap")
    if compiled is not None and compiled.numbers.dtype != "float32":
        raise ValueError("Trained networks are float32; compile the program with dtype='float32' to compare them.")
    if compiled is not None and compiled.program.algorithm != config.algorithm:
        raise ValueError(
            f"The networks learned {config.algorithm!r}, but the compiled program runs {compiled.program.name!r}; "
            f"compile the program of the same algorithm."
        )
    if compiled is not None:
        _check_same_kinds(networks, compiled)
    untrained = _untrained(networks)
    measures: dict[str, Table] = {}
    curves: dict[str, Table] = {}
    baselines: dict[str, dict[str, Table]] = {}
    kept: tuple[Probe, Observed] | None = None
    sizes = {}
    count = len(members["seed"])
    for split in splits:
        on = probe(config, split, samples, compiled)
        seen = observe_all(_joined(networks, untrained), on, min(shown, on.trace.batch) if split == "validation" else 1)
        measures[split] = _rows(seen.measures, slice(0, count))
        curves[split] = _rows(seen.curves, slice(0, count))
        baselines[split] = {"untrained": _rows(seen.measures, slice(count, None))}
        if compiled is not None and on.meant is not None:
            look = (compiled.looks[compiled.compared],)
            itself = observe_all(jax.tree.map(lambda x: jnp.asarray(x)[None], compiled.network), on, record=look)
            uniform = internal_measures(uniform_attention(on.trace), on.batch, on.meant, on.inside)[0]
            baselines[split] |= {
                "compiled": _rows(itself.measures, slice(None)),
                "uniform": {k: np.asarray(x)[None] for k, x in uniform.items()},
            }
        sizes[split] = {"n": on.trace.nodes, "samples": on.trace.batch, "frames": on.trace.steps}
        if split == "validation":
            kept = on, jax.tree.map(lambda x: x[:count], seen)
    distances, examples = _examples(networks, kept)
    about = {
        "mechgap": __version__,
        "splits": sizes,
        "star": None if compiled is None else "interpreter",
        "compiled": None if compiled is None else _about_compiled(compiled, networks.config),
        "settings": config.as_json(),
    }
    return Gap(config.algorithm, members, measures, curves, baselines, distances, examples, about)


def _check_same_kinds(networks: ClrsNet, compiled: Compiled) -> None:
    learned, meant = (
        {v.name: f"{v.stage} of kind {v.kind}" for v in spec} for spec in (networks.spec, compiled.program.spec)
    )
    for name in {**learned, **meant}:
        one, other = learned.get(name, "nothing"), meant.get(name, "nothing")
        if one != other:
            raise ValueError(
                f"The networks know {name!r} as {one}, the compiled program as {other}. "
                f"Compile what they learned: {_compile_call(networks.spec, compiled.program.name)}."
            )


def _compile_call(learned: Spec, name: str) -> str:
    """The call that compiles a program of the library with inputs, hints and outputs as they were learned."""
    wanted = {
        "permutations": any(v.kind == Kind.PERMUTATION_POINTER for v in learned),
        "pred_as_input": any(v.name == "pred" and v.stage == Stage.INPUT for v in learned),
    }
    known = program_parameters(name) if name in program_names("graph") else ()
    given = ", ".join(f"{option}={value}" for option, value in wanted.items() if option in known)
    return (
        f"mg.compile(mg.program({name!r}, {given}))" if given else "a program with inputs, hints and outputs as theirs"
    )


def load_gap(folder: str | Path) -> Gap:
    """Read what `Gap.save` wrote."""
    tensors, header = read_tensors(Path(folder) / FILE, FORMAT)
    missing = [name for name in ("members/seed", "members/diverged", "distances") if name not in tensors]
    if missing:
        raise ValueError(f"{Path(folder) / FILE} lacks {', '.join(missing)}; measure the gap again.")
    nested: dict[str, Any] = {"members": {}, "measures": {}, "curves": {}, "baselines": {}, "shown": {}}
    for name, x in tensors.items():
        match name.split("/", 2):
            case ["members", key]:
                nested["members"][key] = x
            case ["measures" | "curves" as what, split, key]:
                nested[what].setdefault(split, {})[key] = x
            case ["baselines", split, rest]:
                baseline, key = rest.split("/", 1)
                nested["baselines"].setdefault(split, {}).setdefault(baseline, {})[key] = x
        if name.startswith("shown/"):
            nested["shown"][name.removeprefix("shown/")] = x
    distances = tensors["distances"].astype(np.float32)
    return Gap(header["algorithm"], **nested, distances=distances, about=header["about"])


def _members(trained: Any, config: TrainConfig | None) -> tuple[ClrsNet, Table, TrainConfig]:
    if isinstance(trained, Ensemble):
        return trained.networks, dict(trained.metrics), config or trained.configs[0]
    network = trained.network if isinstance(trained, Compiled) else trained
    if not isinstance(network, ClrsNet):
        raise TypeError(f"gap expects an ensemble, a compiled program or a network; got {type(trained).__name__}.")
    if config is None:
        algorithm = trained.program.algorithm if isinstance(trained, Compiled) else None
        if algorithm is None:
            raise ValueError(
                "To measure a single network, say on what data: gap(network, ..., config=TrainConfig(...))."
            )
        config = TrainConfig(algorithm=algorithm)
    members: Table = {"seed": np.zeros(1, np.int64), "diverged": np.zeros(1, bool)}
    return jax.tree.map(lambda x: jnp.asarray(x)[None], network), members, config


def _rows(table: Mapping[str, Any], rows: slice) -> Table:
    return {name: np.asarray(x)[rows] for name, x in table.items()}


def _untrained(networks: ClrsNet) -> ClrsNet:
    seeds = jnp.arange(UNTRAINED, dtype=jnp.uint32) + jnp.uint32(UNTRAINED_SEED)
    return jax.vmap(lambda seed: ClrsNet.init(networks.spec, networks.config, key=member_key(seed, TO_INIT)))(seeds)


def _joined(first: ClrsNet, second: ClrsNet) -> ClrsNet:
    return jax.tree.map(lambda a, b: jnp.concatenate([jnp.asarray(a), b]), first, second)


def _about_compiled(compiled: Compiled, trained: NetConfig) -> dict[str, Any]:
    own = compiled.network.config
    return {
        "program": compiled.program.name,
        "select": compiled.program.compared,
        "hidden": own.hidden,
        "margin": compiled.numbers.margin,
        "needs": {k: getattr(own, k) for k in CAPABILITIES if getattr(own, k) != getattr(trained, k)},
        "differs": {k: getattr(own, k) for k in OTHERWISE if getattr(own, k) != getattr(trained, k)},
    }


def _examples(networks: ClrsNet, kept: tuple[Probe, Observed] | None) -> tuple[np.ndarray, Table]:
    """The distances between networks, and what a viewer shows."""
    count = jax.tree.leaves(networks)[0].shape[0]
    if kept is None:
        return np.zeros((0, count, count), np.float32), {}
    on, seen = kept
    shown = seen.attention.shape[2]
    distances = attention_distances(seen.attention, on.inside[:, :shown])
    trace = on.trace.take(slice(0, shown))
    spec = trace.spec
    table: Table = {
        "lengths": np.asarray(trace.lengths, np.int16),
        "attention": _bytes(seen.attention),
        **{f"inputs/{name}": np.asarray(x, np.float32) for name, x in trace.inputs.items()},
        **{f"truth/{name}": np.asarray(x, np.float32) for name, x in trace.hints.items()},
    }
    for name, x in seen.hints.items():
        kind = spec[name].kind
        table[f"hints/{name}"] = (
            _bytes(x) if kind == Kind.MASK else np.asarray(x, np.float16 if kind == Kind.SCALAR else np.int16)
        )
    if on.meant is not None:
        table["star"] = _bytes(np.asarray(on.meant.star)[:, :shown])
        table["decisive"] = np.asarray(on.meant.decisive)[:, :shown]
    return distances, table


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if np.size(values) else float("nan")


def _bytes(x: Any) -> np.ndarray:
    return np.round(255 * np.clip(np.asarray(x), 0, 1)).astype(np.uint8)


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
