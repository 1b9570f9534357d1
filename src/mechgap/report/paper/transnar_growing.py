"""TransNAR's models asked at rising n, until questions no longer fit into the context."""

from collections.abc import Mapping, Sequence
from typing import Any

from mechgap.report.paper.transnar_results import MAIN, Results, average, means, model_name
from mechgap.report.paper.verdicts import NEVER, SHOWN, Details, Found, Line
from mechgap.training.transnar.study import GROWING

PLAIN_FIRST = MAIN[::-1]
Models = Mapping[str, Mapping[str, Any]]  # name -> its configuration and metrics


def growing(results: Results) -> Found:
    """How far questions can grow, and how scores fall: of the study's models, and of small ones."""
    lines, details = [], []
    for models, words in ((_asked(results.models), ""), (_asked(results.demonstration), "small models")):
        if models:
            lines.append(_means_line(models, words))
            details.append(_table(models, words))
    never = [model_name(name) for name in PLAIN_FIRST if results.has(name) and name not in _asked(results.models)]
    if never:  # of others it is said that there are no such models
        lines.append(Line(f"Not measured yet: {' and '.join(never)} at rising n", verdict=NEVER))
    return lines, details


def at_times_the_largest(results: Results, factor: int) -> tuple[str, str]:
    """Means of the small models at so many times the largest n of their training, and how many networks they are.

    Both are empty where they were not asked.
    """
    models = _asked(results.demonstration)
    if len(models) < len(MAIN):
        return "", ""
    largest = max(n for about in models.values() for n in about["config"]["sizes"])
    scores, floors = _scores(models, factor * largest)
    if not floors:
        return "", ""
    said = ", ".join(f"{model_name(name)} {average(mine):.1f}" for name, mine in scores.items())
    words = (
        f"small models at {factor * largest} = {factor} x {largest}: {said} (best constant answer "
        f"{average(floors):.1f}), for {', '.join(floors)}"
    )
    return words, _networks(models)


def _asked(models: Models) -> Models:
    return {name: models[name] for name in PLAIN_FIRST if GROWING in models.get(name, {}).get("metrics", {})}


def _scores(models: Models, n: int) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Model -> algorithm -> its score, and algorithm -> the best constant answer's; nothing that does not fit."""
    runs = {
        name: [run["by_size"].get(str(n), []) for run in about["metrics"][GROWING]["models"]]
        for name, about in models.items()
    }
    return {name: means(some, "clrs") for name, some in runs.items()}, means(next(iter(runs.values())), "floor")


def _sizes(models: Models) -> Sequence[int]:
    sizes: Sequence[int] = next(iter(models.values()))["metrics"][GROWING]["evaluation"]["sizes"]
    return sizes


def _networks(models: Models) -> str:
    return " and ".join(dict.fromkeys(str(len(about["metrics"][GROWING]["models"])) for about in models.values()))


def _means_line(models: Models, words: str) -> Line:
    said = []
    for n in _sizes(models):
        scores, floors = _scores(models, n)
        if floors:
            means_of_all = " → ".join(f"{average(mine):.1f}" for mine in scores.values())
            said.append(f"{means_of_all} ({average(floors):.1f}) at {n}")
    who = " → ".join(map(model_name, models))
    label = f"{who}, mean CLRS score of the algorithms that still fit (best constant answer)"
    networks = _networks(models)
    verdict = f"{SHOWN}: {words}" if words else SHOWN
    return Line(f"{words}: {label}" if words else label, "", ", ".join(said), networks=networks, verdict=verdict)


def _table(models: Models, words: str) -> Details:
    """The n at which the context is full, and scores, for every algorithm."""
    found = next(iter(models.values()))
    asked, config, sizes = found["metrics"][GROWING], found["config"], _sizes(models)
    by_size = {n: _scores(models, n) for n in sizes}
    rows = []
    for name, last in asked["last"].items():
        cells = (_cell(scores, floors, name) for scores, floors in by_size.values())
        rows.append((name, str(last or "none"), str(asked["too_long"][name] or "none of these"), *cells))
    header = ("algorithm", "last n that fits", "first that does not", *(f"n = {n}" for n in sizes))
    who = " → ".join(map(model_name, models))
    small = f"The {words} of the demonstration, {config['layers']} layers of width {config['width']}: " if words else ""
    title = (
        f"{small}{who} (best constant answer), CLRS score in percent. Context of {asked['context']} tokens, trained on "
        f"n of at most {max(config['sizes'])}, {asked['evaluation']['count']} questions each"
    )
    return Details(title, header, tuple(rows))


def _cell(scores: Mapping[str, Mapping[str, float]], floors: Mapping[str, float], name: str) -> str:
    if name not in floors:
        return ""
    return f"{' → '.join(f'{mine[name]:.0f}' for mine in scores.values())} ({floors[name]:.0f})"
