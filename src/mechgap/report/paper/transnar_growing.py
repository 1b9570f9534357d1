"""TransNAR's models asked at rising n, until questions no longer fit into the context."""

from mechgap.report.paper.transnar_results import MAIN, Results, means
from mechgap.report.paper.verdicts import NEVER, Details, Found, Line


def growing(results: Results) -> Found:
    """How far questions can grow, and how scores fall."""
    models = ["transformer", "transnar"]
    if not has_growing(results):
        never = results.has(*models)  # otherwise it is said that there are no such models
        return [Line("Not measured yet: questions at rising n", verdict=NEVER)] if never else [], []
    found = [results.models[name]["metrics"]["growing"] for name in models]
    sizes, rows = found[0]["evaluation"]["sizes"], []
    for name in results.algorithms("transformer"):
        cells = []
        for n in sizes:
            scores = [means([r["by_size"].get(str(n), []) for r in f["models"]], "clrs").get(name) for f in found]
            floor = means([found[1]["models"][0]["by_size"].get(str(n), [])], "floor").get(name)
            known = None not in scores and floor is not None
            cells.append(f"{scores[0]:.0f} → {scores[1]:.0f} ({floor:.0f})" if known else "")
        last, long = found[0]["last"][name], found[0]["too_long"][name]
        rows.append((name, str(last or "none"), str(long or "none"), *cells))
    context = found[0]["context"]
    header = ("algorithm", "last n that fits", "first that does not", *(f"n = {n}" for n in sizes))
    count = found[0]["evaluation"]["count"]
    title = f"Context of {context} tokens, {count} questions each, among the sizes {', '.join(map(str, sizes))}"
    return [], [Details(title, header, tuple(rows))]


def has_growing(results: Results) -> bool:
    return all("growing" in results.models.get(name, {}).get("metrics", {}) for name in MAIN)
