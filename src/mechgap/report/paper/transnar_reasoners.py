"""What TransNAR's reasoners know without any text model."""

from collections.abc import Iterable, Mapping
from typing import Any

from mechgap.report.paper.transnar_results import Results, above_constant, average, means, planned_study
from mechgap.report.paper.verdicts import NEVER, SHOWN, SMALL, Details, Found, Line
from mechgap.training.transnar.summary import ASKED_ALONE


def reasoners(results: Results) -> Found:
    """What reasoners know without any text model."""
    planned = planned_study().reasoners
    asked = {name: results.reasoners[name] for name in planned if ASKED_ALONE in results.reasoners.get(name, {})}
    lines = []
    for name, about in asked.items():
        by_size, config = about[ASKED_ALONE]["by_size"], about["config"]
        scores, floors = ({n: average(means([rows], key)) for n, rows in by_size.items()} for key in ("clrs", "floor"))
        said = ", ".join(f"{score:.1f} ({floors[n]:.1f}) at {n}" for n, score in scores.items())
        count, network = len(config["algorithms"]), config["network"]["processor"]
        label = f"{name.replace('_', ' ')}: {network}, {count} algorithms, CLRS score (best constant answer)"
        verdict = SHOWN if config == planned[name].as_json() else SMALL
        lines.append(Line(label, "", said, networks=str(config["seeds"]), verdict=verdict))
        above = ", ".join(f"{_above(rows)} at {n}" for n, rows in by_size.items())
        label = f"{name.replace('_', ' ')}: algorithms surely above the best constant answer, of {count}"
        lines.append(Line(label, "", above, networks=str(config["seeds"]), verdict=verdict))
    if missing := [name for name in planned if name not in asked]:
        lines.append(Line(f"Not measured yet: {', '.join(missing)}", verdict=NEVER))
    trained = [
        (
            name.replace("_", " "),
            about["config"]["network"]["processor"],
            str(about["config"]["steps"]),
            str(about["config"]["batch"] * about["config"]["algorithms_per_step"]),
            f"{about['manifest']['times']['train_s']:.0f}",
            about["manifest"]["device"]["kind"],
        )
        for name, about in asked.items()
    ]
    header = ("reasoner", "processor", "steps", "samples a step", "s to train", "device")
    return lines, [Details("How they were trained", header, tuple(trained)), *_reasoner_tables(asked)]


def _above(rows: list[Mapping[str, Any]]) -> int:
    """Of how many algorithms surely more is right than in the best constant answers."""
    surely, _ = above_constant(*(means([rows], key) for key in ("clrs", "floor", "error")))
    return len(surely)


def _reasoner_tables(asked: Mapping[str, Any]) -> Iterable[Details]:
    """Scores by algorithm, a table for every number of nodes."""
    for n in sorted({int(n) for about in asked.values() for n in about[ASKED_ALONE]["by_size"]}):
        rows = {name: about[ASKED_ALONE]["by_size"].get(str(n), []) for name, about in asked.items()}
        scores = {name: means([mine], "clrs") for name, mine in rows.items()}
        floors = {name: floor for mine in rows.values() for name, floor in means([mine], "floor").items()}
        cells = [
            (one, *(f"{mine[one]:.1f}" if one in mine else "" for mine in scores.values()), f"{floors[one]:.1f}")
            for one in sorted(floors)
        ]
        header = ("algorithm", *(name.replace("_", " ") for name in scores), "best constant answer")
        yield Details(f"CLRS score of their own answers in percent at n = {n}", header, tuple(cells))
