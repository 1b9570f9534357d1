"""The results of TransNAR's study as the comparison with the paper reads them: gains, and tables of scores."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from mechgap.report.paper.verdicts import PERCENT
from mechgap.training.checkpoint import read_json
from mechgap.training.transnar.evaluation import AS_TRAINED, POSITIONS
from mechgap.training.transnar.presets import COMPILED, Study, read_study
from mechgap.training.transnar.result import CONFIG, METRICS
from mechgap.training.transnar.study import STUDY, notes_of
from mechgap.training.transnar.summary import read_reasoners, read_summary

FOLDER, DEMONSTRATION = "transnar", "transnar-demo"
STUDIES = {"quick": "quick", "full": "h200"}
MEAN = "mean"
MAIN = ("transnar", "transformer")
COUNTED = tuple(f"{name}_counted_positions" for name in MAIN)
ERRORS = 2  # standard errors that a gain must exceed, and an excess over the best constant answer
SAME = ("algorithms", "sizes", "width", "layers", "hidden", "samples")  # settings that make results comparable
ALIKE = ("steps", "epochs", "tokens", "learning_rate", "schedule", "precision")  # of models that are compared
DRAWN = ("count", "seed")  # of an evaluation: which questions there are of one size
LEVEL = 0.95
LEARNED = 70  # percent, from which the paper's panel on sizes of training begins
TWINS = ("graham_scan", "jarvis_march")  # have the same answers
WITHOUT_GAIN = ("binary_search", "minimum")  # in the paper
ALONE = "the trained reasoner alone"
CLOSER = (
    "Scores of {names} are of positions that lie up to four times as close together as those of training, in short "
    "questions most: no verdict compares them with others, and training and questions are to be repeated."
)

# Item -> the models that it needs.
NEEDED = {
    "grid": (
        *("transformer", "transnar", "transformer_counted_positions", "transnar_counted_positions"),
        "transnar_shuffled",
    ),
    "controls": (
        *("transformer", "transformer_deep", "transnar", "transnar_shuffled"),
        *("transnar_first", "transnar_last", "transnar_every_second"),
    ),
    "claims": ("transformer", "transnar"),
    "compiled": ("transnar_eight", "transnar_compiled"),
    "unseen": ("transformer", "transnar", "transnar_unseen"),
    "distillation": ("transformer", "transnar", "student", "student_of_right_answers"),
    "growing": ("transformer", "transnar"),
    "reasoners": (),
}


@dataclass(frozen=True)
class Gain:
    """A difference of scores in points: its mean over algorithms, the standard error of that, and how many they are."""

    mean: float
    error: float
    count: int

    @property
    def counts(self) -> bool:
        """Whether it is more than chance among algorithms."""
        return self.mean > ERRORS * self.error

    @property
    def words(self) -> str:
        """What it is, in words."""
        if abs(self.mean) <= ERRORS * self.error:
            return "within two standard errors"
        return f"a {'gain' if self.counts else 'loss'} of more than two standard errors{self.reserve}"

    @property
    def reserve(self) -> str:
        """Two standard errors over few algorithms are less than Student's t asks for."""
        low, high = self.ends
        return "; the 95 % interval has 0 in it" if low <= 0 <= high else ""

    @property
    def ends(self) -> tuple[float, float]:
        """Of the 95 % interval of Student's t."""
        far = float(stats.t.ppf((1 + LEVEL) / 2, self.count - 1)) * self.error
        return self.mean - far, self.mean + far

    @property
    def interval(self) -> str:
        """The ends; nothing where there is one algorithm."""
        return " to ".join(map(points, self.ends)) if self.count > 1 else ""

    def __str__(self) -> str:
        return points(self.mean)


class Results:
    """The files of a study, and the sums that all items need."""

    def __init__(self, folder: str | Path) -> None:
        self.models = read_summary(Path(folder) / FOLDER)
        self.reasoners = read_reasoners(Path(folder) / FOLDER)
        self.demonstration = _read_demonstration(Path(folder) / DEMONSTRATION)

    def has(self, *names: str) -> bool:
        """Whether all of these were trained and asked."""
        return all("scores" in self.models.get(name, {}).get("metrics", {}) for name in names)

    def sizes(self, *names: str) -> list[int]:
        """n of the evaluation, at which all of these models were asked."""
        asked = [self.models[name]["metrics"]["scores"]["evaluation"]["sizes"] for name in names]
        return [n for n in asked[0] if all(n in some for some in asked)] if asked else []

    def algorithms(self, name: str) -> list[str]:
        """What it was asked about."""
        return list(self.models[name]["config"]["algorithms"])

    def table(
        self, name: str, n: int, key: str = "clrs", asked: str = AS_TRAINED, seeds: slice = slice(None)
    ) -> dict[str, float]:
        """Algorithm -> the mean over seeds, in percent."""
        runs = self.models[name]["metrics"]["scores"]["models"][asked][seeds]
        return means([run["by_size"][str(n)] for run in runs], key)

    def beside(self, name: str, n: int, who: str, key: str = "clrs") -> dict[str, float]:
        """The same of the reasoner alone, or of the algorithms themselves."""
        run = self.models[name]["metrics"]["scores"].get(who)
        return {} if run is None else means([run["by_size"][str(n)]], key)

    def gain(
        self,
        name: str,
        other: str,
        n: int,
        key: str = "clrs",
        names: Iterable[str] | None = None,
        of_other: slice = slice(None),
    ) -> Gain:
        """How much better the first one is, over the algorithms that both know; than some seeds of the other one."""
        apart = np.array(list(self.apart(name, other, n, key, names, (slice(None), of_other)).values()))
        error = float(apart.std(ddof=1) / np.sqrt(len(apart))) if len(apart) > 1 else np.inf
        return Gain(float(apart.mean()), error, len(apart))

    def gains_by_seed(
        self, name: str, other: str, n: int, key: str = "clrs", names: Iterable[str] | None = None
    ) -> list[float]:
        """The same of the first seed of each, of the second, and so on; none where one has more than the other."""
        counts = {len(self.models[one]["metrics"]["scores"]["models"][AS_TRAINED]) for one in (name, other)}
        if len(counts) > 1:
            return []
        seeds = [slice(i, i + 1) for i in range(counts.pop())]
        apart = [self.apart(name, other, n, key, names, (seed, seed)) for seed in seeds]
        return [float(np.mean(list(differences.values()))) for differences in apart]

    def apart(
        self,
        name: str,
        other: str,
        n: int,
        key: str = "clrs",
        names: Iterable[str] | None = None,
        seeds: tuple[slice, slice] = (slice(None), slice(None)),
    ) -> dict[str, float]:
        """Algorithm -> how much better the first one is; those that have the same answers are one."""
        mine, theirs = (self.table(one, n, key, seeds=some) for one, some in zip((name, other), seeds, strict=True))
        return merged({a: mine[a] - theirs[a] for a in names or mine if a in theirs})

    def networks(self, *names: str, of_other: slice = slice(None)) -> str:
        """How many each; of the last one, some."""
        runs = [self.models[name]["metrics"]["scores"]["models"][AS_TRAINED] for name in names]
        counts = [*map(len, runs[:-1]), len(runs[-1][of_other])]
        return " and ".join(map(str, counts if len(set(counts)) > 1 else counts[:1]))

    def asked_closer(self, *names: str) -> list[str]:
        """Which were asked with positions that lie closer together than those of their training."""
        drawn = [name for name in names if self.has(name) and self.models[name]["config"]["random_positions"]]
        return [name for name in drawn if self.models[name]["metrics"]["scores"].get("positions") != POSITIONS]

    def comparable(self, *names: str) -> bool:
        """Whether these are of the size that is said to be compared; how long they were trained is said beside."""
        planned = planned_study().models
        return all(self.models[name]["config"][key] == planned[name].as_json()[key] for name in names for key in SAME)

    def unlike(self, *names: str) -> list[str]:
        """What these models differ in of what must be alike to compare them."""
        differing = [key for key in ALIKE if len({self.models[name]["config"][key] for name in names}) > 1]
        asked = {tuple(self.models[name]["metrics"]["scores"]["evaluation"].get(k) for k in DRAWN) for name in names}
        others = {"questions to answer": len(asked) > 1, "reasoner": self._looks_at_different_trainings(names)}
        return [*differing, *(what for what, differs in others.items() if differs)]

    def _looks_at_different_trainings(self, names: Sequence[str]) -> bool:
        """Whether models look at one reasoner by its name, and at different trainings of it."""
        found: dict[str, set[str | None]] = {}
        for about in (self.models[name] for name in names):
            if about.get("reasoner", COMPILED) != COMPILED:
                found.setdefault(about["reasoner"], set()).add(about.get("looks_at"))
        return any(len(trainings) > 1 for trainings in found.values())

    def floor(self, name: str, n: int) -> float:
        """The mean over algorithms of what the best constant answers get."""
        return average(self.beside(name, n, "exact", "floor"))

    def how_trained(self, names: Sequence[str]) -> str:
        """How long these models and the reasoner were trained, beside what was planned and what the paper has."""
        ran = [name for name in names if self.has(name)]
        if not ran:
            return ""
        steps = sorted({self.models[name]["manifest"]["steps"] for name in ran})
        config = self.models[ran[0]]["config"]
        said = (
            f"Trained for {' or '.join(map(str, steps))} steps of {config['tokens']} tokens on {config['samples']} "
            f"questions of every algorithm and size"
        )
        known = {about["name"]: about["config"]["steps"] for about in self.reasoners.values() if "name" in about}
        looked_at = {self.models[name].get("looks_at") for name in ran if "reasoner" in self.models[name]}
        if looked_at and looked_at <= set(known):
            taken = " or ".join(map(str, sorted({known[name] for name in looked_at if name is not None})))
            said += f", beside a reasoner of {taken} steps"
        paper = next(iter(read_study("paper").models.values()))
        learned = round(paper.samples * paper.train_share)
        made = self.models[ran[0]]["manifest"]
        device, jax = made.get("device", {}).get("kind", "unknown"), made.get("versions", {}).get("jax", "unknown")
        dates = " and ".join(sorted({self.models[name]["manifest"].get("date", "-") for name in ran}))
        where = f"Device: {device}, jax {jax}, {dates}."
        names = " and of ".join(map(model_name, self.asked_closer(*ran)))
        closer = f" {CLOSER.format(names=names)}" if names else ""
        return f"{said}; the paper has {paper.epochs} epochs over {learned} of them. {where}{closer}"

    def learned(self, name: str, other: str) -> str:
        """How far training came: what two models know at sizes that they were trained on; empty where none is asked."""
        sizes = [n for n in self.sizes(name, other) if n in self.models[name]["config"]["sizes"]]
        said = []
        for n in sizes:
            mine, theirs = (average(self.table(one, n)) for one in (name, other))
            scores = f"{model_name(name)} has {mine:.1f} and {model_name(other)} {theirs:.1f} %"
            said.append(f"At n = {n}, a size of training, {scores} (best constant answers {self.floor(name, n):.1f})")
            if max(mine, theirs) < LEARNED:
                said[-1] += (
                    f": neither has learned it; the paper's panel for sizes of training begins at {LEARNED} %. All "
                    f"verdicts are on models whose training, though ended, was too short for that"
                )
        return " ".join(f"{one}." for one in said)

    def below_floor(self, name: str, other: str) -> str:
        """At which sizes two models know less than the best constant answer; empty for none."""
        sizes = [
            str(n)
            for n in self.sizes(name, other)
            if max(average(self.table(one, n)) for one in (name, other)) < self.floor(name, n)
        ]
        if not sizes:
            return ""
        return (
            f"At n = {', '.join(sizes)} both {model_name(name)} and {model_name(other)} are below the best constant "
            f"answer on average: there a difference between them says little, and no difference does not say that the "
            f"paper is wrong, but that nothing shows after this training."
        )


def means(runs: Sequence[Sequence[Mapping[str, Any]]], key: str) -> dict[str, float]:
    """Algorithm -> the mean over runs, in percent; what is not known is left out."""
    found: dict[str, list[float]] = {}
    for row in (row for rows in runs for row in rows):
        if row["name"] != MEAN and row[key] is not None:
            found.setdefault(row["name"], []).append(PERCENT * row[key])
    return {name: float(np.mean(values)) for name, values in found.items()}


def _read_demonstration(place: Path) -> dict[str, dict[str, Any]]:
    """Model -> its settings and metrics, of the small ones that come along; nothing where they are not."""
    notes = notes_of(place) if any(place.glob(STUDY.format("*"))) else {}
    files = {"config": CONFIG, "metrics": METRICS}
    return {
        name: {key: read_json(place / note["place"] / file) for key, file in files.items()}
        for name, note in notes.items()
    }


def merged(scores: Mapping[str, float]) -> dict[str, float]:
    """Algorithm -> score, with those that have the same answers as one: counted twice, they would narrow intervals."""
    if not all(name in scores for name in TWINS):
        return dict(scores)
    others = {name: score for name, score in scores.items() if name not in TWINS}
    return {" with ".join(TWINS): float(np.mean([scores[name] for name in TWINS])), **others}


def average(scores: Mapping[str, float]) -> float:
    """The mean over algorithms, of which those that have the same answers count as one."""
    return float(np.mean(list(merged(scores).values())))


def above_constant(
    scores: Mapping[str, float], floors: Mapping[str, float], errors: Mapping[str, float]
) -> tuple[list[str], list[str]]:
    """Algorithms above the best constant answer by more than two standard errors over questions, and by less."""
    more = sorted(name for name, score in scores.items() if score > floors[name])
    surely = [name for name in more if scores[name] - floors[name] > ERRORS * errors.get(name, np.inf)]
    return surely, [name for name in more if name not in surely]


def points(x: float) -> str:
    return f"{x:+.1f}"  # also -0.0: on which side of nothing it is


def model_name(name: str) -> str:
    words = name.replace("_", " ")
    return words.replace("transnar", "TransNAR").replace("transformer", "Transformer")


def score_name(key: str) -> str:
    return {"clrs": "CLRS"}.get(key, key)


@cache
def planned_study() -> Study:
    """What is compared."""
    return read_study(STUDIES["full"])
