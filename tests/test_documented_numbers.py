"""Numbers in the pages that people read are those of the files under results/."""

import json
import re
import statistics
from operator import itemgetter
from pathlib import Path

import pytest

from mechgap.faithfulness.sequence_result import SequenceResult, read_result
from mechgap.report.paper.transnar import transnar_table
from mechgap.report.paper.transnar_results import WITHOUT_GAIN, Gain, Results, above_constant, average, means

ROOT = Path(__file__).parents[1]
ALGORITHMS = ("bfs", "bellman_ford")
DISTANCES = {
    "all rows": "internal/rows",
    "decisive rows": "internal/decisive",
    "idle rows": "internal/idle",
    "Eq. 24 to the letter": "internal/eq24",
    "hints right (`external/meant`)": "external/meant",
}
MISSED = "not reached"  # of a target, in the page's words


def read(name: str, algorithm: str) -> object:
    return json.loads((ROOT / "results" / algorithm / name).read_text())


def rows(page: str) -> dict[str, list[str]]:
    lines = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    return {row[0].removeprefix("| "): [cell.removesuffix(" |") for cell in row[1:]] for row in cells}


def score(algorithm: str, kind: str) -> str:
    values = [100 * network[kind] for network in read("metrics.json", algorithm)]
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f} ({max(values):.2f})"


@pytest.mark.parametrize("row", DISTANCES)
def test_distances_to_the_compiled_network(row: str) -> None:
    found = [read("gap.json", name)["measures"][split] for name in ALGORITHMS for split in ("validation", "test")]
    meant = [f"{x['mean']:.3f} [{x['low']:.3f}, {x['high']:.3f}]" for x in (m[DISTANCES[row]] for m in found)]
    assert rows("docs/faithfulness.md")[row] == meant


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_scores(algorithm: str) -> None:
    assert rows("docs/performance.md")[algorithm][:2] == [score(algorithm, "test_best"), score(algorithm, "test_last")]


def test_the_score_in_the_readme() -> None:
    (said,) = re.findall(r"reach (\S+ ± \S+ \(max \S+\))", (ROOT / "README.md").read_text())
    assert said.replace("max ", "") == score("bfs", "test_best")


def measured_rates() -> list[dict]:
    return json.loads((ROOT / "results/tracing.json").read_text())["rows"]


def ratios(nodes: int, what: str = "trace") -> dict[str, float]:
    """By algorithm, how many times as fast as the reference."""
    return {row["algorithm"]: row[what] / row[f"reference_{what}"] for row in measured_rates() if row["nodes"] == nodes}


def printed(found: dict[str, float]) -> dict[str, str]:
    return {name: f"{ratio:.0f}" for name, ratio in found.items()}


def targets_of_tracing() -> list[str]:
    """What the page says came out: of the first five, of all thirty at n = 16, of four at n = 64."""
    _, said = (ROOT / "docs/performance.md").read_text().split("Targets and what came out:")
    return [" ".join(point.split()) for point in said.strip().split("\n\n")[0].removeprefix("- ").split("\n- ")]


def test_rates_of_tracing() -> None:
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs/performance.md").read_text().splitlines()
        if re.match(r"\| \w+ \| \d+ \| \d+ \|", line) and line.count("x |") == 3
    ]
    rates = ("trace", "reference_trace", "draw", "reference_draw")
    for row, said in zip(measured_rates(), shown, strict=True):
        a, b, c, d = (f"{row[rate]:,.0f}" for rate in rates)
        ratios_of = ("trace", "trace_fastest", "draw")
        a_ratio, fastest, b_ratio = (f"{row[ours] / row[f'reference_{ours}']:.0f}x" for ours in ratios_of)
        label = [row["algorithm"], str(row["nodes"]), str(row["batch"])]
        assert said == [*label, a, b, a_ratio, fastest, c, d, b_ratio, f"{row['device']:,.0f}"]


def test_targets_of_tracing_of_the_first_five() -> None:
    said, _, _ = targets_of_tracing()
    names = said.split(":")[0].split(", ")
    least = [
        min(ratios(n, what)[name] for name in names for n in sizes)
        for sizes, what in (((16, 64), "trace"), ((16,), "draw"), ((64,), "draw"))
    ]
    assert re.findall(r"\((\d+)x and more\)", said) == [f"{int(ratio)}" for ratio in least]
    asked = [int(x) for x in re.findall(r"(\d+)x at", said)]
    assert len(asked) == 3
    assert (MISSED in said) == any(ratio < target for ratio, target in zip(least, asked, strict=True))


def test_targets_of_tracing_at_16_nodes() -> None:
    """Counted before rounding: 49.7 is printed as 50, and is not 50."""
    _, said, _ = targets_of_tracing()
    (asked,), (reached,) = re.findall(r"asked (\d+)x for \d+ of them", said), re.findall(r"\*\*(\d+)\*\*", said)
    found = ratios(16)
    assert len(found) == 30
    others = {name: ratio for name, ratio in found.items() if ratio < int(asked)}
    assert int(reached) == len(found) - len(others)
    (listed,) = re.findall(r"The others are (.*?)\. ", said + " ")
    assert dict(re.findall(r"(\w+) \((\d+)x", listed)) == printed(others)


def test_targets_of_tracing_at_64_nodes() -> None:
    _, _, said = targets_of_tracing()
    ((asked, listed),) = re.findall(r"A at n = 64, (\d+)x: ([^.]*)", said)
    reached, _, missed = listed.partition(MISSED)
    reached, missed = (dict(re.findall(r"(\w+) (\d+)x", part)) for part in (reached, missed))
    found = {name: ratio for name, ratio in ratios(64).items() if name in reached | missed}
    assert len(found) == 4
    assert reached == printed({name: ratio for name, ratio in found.items() if ratio >= int(asked)})
    assert missed == printed({name: ratio for name, ratio in found.items() if ratio < int(asked)})


TO_SUM, TO_LEFT = "parity_sum_mod_2", "parity_sequential_relative"


def nearest_heads(result: SequenceResult) -> list[dict[str, float] | None]:
    """To both programs' heads over all places, then at the answering one: the nearest; None where none was measured."""
    heads = [result.gaps["0"][name]["heads"] for name in (TO_SUM, TO_LEFT)]
    found = heads + [[head.get("answering") for head in some] for some in heads]
    return [None if None in some else min(some, key=itemgetter("distance")) for some in found]


def transformers_that_learned_parity() -> dict[str, SequenceResult]:
    folders = sorted((ROOT / "results/alta").iterdir())
    return {path.name: read_result(path) for path in folders if path.name.startswith(("relative", "absolute"))}


def test_heads_of_transformers_that_learned_parity() -> None:
    shown, networks = rows("docs/learnability.md"), transformers_that_learned_parity()
    assert len(networks) == 8
    for network, result in networks.items():
        cells = []
        for head in nearest_heads(result):
            before = "–" if head is None or "untrained" not in head else f"{head['untrained']:.2f}"
            cells.append("–" if head is None else f"{head['distance']:.2f} ({before}, {head['uniform']:.2f})")
        measured = result.measured
        said = f"{measured['texts']} texts" if measured["version"] > 1 else "the old way"
        assert shown[network] == [*cells, said]


def test_in_which_transformers_a_head_comes_nearer_to_a_programs() -> None:
    page = (ROOT / "docs/learnability.md").read_text()
    ((least, said),) = re.findall(r"before training, by more than (\S+), (in `relative.*?, or farther\.)", page, re.S)
    nearer: list[set[str]] = [set(), set(), set(), set()]
    for name, result in transformers_that_learned_parity().items():
        if result.measured["version"] > 1:
            for which, head in zip(nearer, nearest_heads(result), strict=True):
                which |= {name} if head["untrained"] - head["distance"] > float(least) else set()
    everywhere, answering = said.split("At the answering place")
    to_sum, to_left = answering.split("to that of Sum + Modulo")
    assert [set(re.findall(r"`(\w+)`", part)) for part in (everywhere, "", to_sum, to_left)] == nearer
    assert nearer[0] == {"relative_40_shared"}
    assert "alone, to that of Sum + Modulo" in everywhere


def test_what_trace_supervision_of_sum_and_modulo_comes_to() -> None:
    page, found = (
        (ROOT / "docs/learnability.md").read_text(),
        read_result(ROOT / "results/alta/parity_sum_mod_2_traced"),
    )
    page, (metrics,) = " ".join(page.split()), found.metrics
    (said,) = re.findall(r"\*\*(\S+) % of texts of up to 20 bits are right, (\S+) % of longer ones and (\S+) %", page)
    slices = ("length <= 20", "length > 20", "ones > 20")
    assert said == tuple(f"{100 * metrics[name]:.1f}" for name in slices)
    curve = {ones: shares[0] for ones, shares in found.curves["right by ones"].items()}
    (wrong,) = (ones for ones, share in curve.items() if ones <= 20 and share < 1)
    assert curve[wrong] == 0
    assert f"All texts whose number of ones is {wrong} are wrong, and all others with up to 20 are right" in page
    (also, first) = re.findall(r"Of more ones, (\d+) are right as well, and from (\d+) to 40 it always says 0", page)[0]
    assert [curve[ones] for ones in range(21, int(first))] == [1.0] == [curve[int(also)]]
    always = found.curves["mean prediction by ones"]
    assert {always[ones][0] for ones in range(int(first), 41)} == {0.0}
    vectors = 67204
    assert (
        f"{100 * metrics['vectors right']:.1f} % of its vectors are right: 191 of the 67 204 of its traces are not"
        in page
    )
    assert (1 - metrics["vectors right"]) * vectors == pytest.approx(191, abs=0.01)
    others = [metrics[f"sharpness {sharpness}, length <= 20"] for sharpness in ("1", "0.25", "0.0625", "0.015625")]
    expected = "has {:.1f} % of texts of up to 20 bits right beside heads as compiled, {:.1f}, {:.1f} and {:.1f} % with"
    assert expected.format(*(100 * share for share in others)) in page
    changes = " ".join((ROOT / "CHANGELOG.md").read_text().split())
    assert "({:.1f} / {:.1f} / {:.1f} %)".format(*(100 * metrics[name] for name in slices)) in changes


def test_scores_of_the_demonstrations_models() -> None:
    models = ("transformer", "transnar")
    metrics = [json.loads((ROOT / f"results/transnar-demo/{name}/metrics.json").read_text()) for name in models]
    shown = rows("docs/transnar.md")
    asked = [found["scores"]["models"]["as trained"][0]["by_size"] for found in metrics]
    for cells in zip(*(asked[0][n] for n in asked[0]), *(asked[1][n] for n in asked[1]), strict=True):
        half = len(cells) // 2
        scores = [
            f"{100 * x:.1f}"
            for plain, looking in zip(cells[:half], cells[half:], strict=True)
            for x in (plain["clrs"], looking["clrs"], looking["floor"])
        ]
        assert shown[cells[0]["name"]] == scores
    grown = [found["growing"]["models"][0]["by_size"] for found in metrics]
    for n, last in grown[1].items():
        plain, looking = grown[0][n][-1], last[-1]
        scores = [plain["clrs"], looking["clrs"], looking["floor"]]
        assert shown[n] == [str(looking["count"]), *(f"{100 * x:.1f}" for x in scores)]


def test_where_the_demonstrations_model_looks() -> None:
    found = json.loads((ROOT / "results/transnar-demo/looking.json").read_text())
    manifest = json.loads((ROOT / "results/transnar-demo/transnar/manifest.json").read_text())
    assert found["model"] == manifest["fingerprints"][0]
    shown, page = rows("docs/transnar.md"), (ROOT / "docs/transnar.md").read_text()
    assert f"counts over {found['questions']} questions of every algorithm at n = {found['n']}, " in page
    assert {f"{100 * row['random']:.1f}" for row in found["rows"]} == set(
        re.findall(r"random looks have (\S+)\. ", page)
    )
    for row in found["rows"]:
        best = row["best"]
        means = [(share[0], dealt[0]) for share, dealt in zip(row["share"], row["dealt"], strict=True)]
        cells = [f"{100 * share:.1f} ({100 * dealt:.1f})" for share, dealt in (*means, (best["share"], best["dealt"]))]
        cells[-1] = f"layer {best['layer']}, head {best['head']}: {cells[-1]}"
        assert shown[f"{row['algorithm']}, `{row['aim']}`"] == [str(row["tokens"]), *cells]
    assert sum("`named` |" in line or "`about` |" in line for line in page.splitlines()) == len(found["rows"]) + 2


def test_what_came_out_of_the_study_of_transnar() -> None:
    """The numbers of the paragraph, in their order and with their signs, are those of the committed results."""
    results = Results(ROOT / "results")
    plain, shuffled, deep = (
        (one, "transformer") if one != "deep" else ("transnar", "transformer_deep")
        for one in ("transnar", "transnar_shuffled", "deep")
    )
    others = [name for name in results.algorithms("transnar") if name not in WITHOUT_GAIN]
    known = results.beside("transnar_unseen", 10, "reasoner")
    never = [name for name in results.algorithms("transnar_unseen") if name not in known]

    def whole(gain: Gain) -> list[float]:
        return [gain.mean, *gain.ends]

    def drawn(name: str, n: int) -> Gain:
        """Randomised above counted positions."""
        return results.gain(name, f"{name}_counted_positions", n)

    expected = [*whole(results.gain(*plain, 10)), *whole(results.gain(*plain, 14))]
    expected += [results.gain(*shuffled, n).mean for n in (10, 14)]
    expected += [results.gain(*plain, n, names=others).mean for n in (10, 14)]
    expected += [average(results.table(name, n)) for n in (12, 14) for name in plain]
    expected += [average(results.beside("transnar", 14, "exact", "floor"))]
    expected += [number for name in plain for number in whole(drawn(name, 10))]
    expected += [-drawn(name, 12).mean for name in plain]  # "cost them"
    expected += whole(results.gain(*plain, 12))
    expected += [number for n in (10, 12, 14) for number in whole(results.gain(*deep, n))]
    expected += whole(results.gain("transnar_unseen", "transformer", 10, names=never))
    expected += whole(results.gain("student", "transformer", 10))
    (said,) = re.findall(r"The paper's main claim.*?(?=\n\n)", (ROOT / "docs/transnar.md").read_text(), re.S)
    assert re.findall(r"-?\d+\.\d", said) == [f"{number:.1f}" for number in expected]

    counted = [f"{name}_counted_positions" for name in plain]
    assert "with counted positions TransNAR's gain is within two standard errors at all sizes" in said
    assert {results.gain(*counted, n).words for n in results.sizes(*counted)} == {"within two standard errors"}
    exact = ("transnar_compiled", "transnar_eight")
    assert re.search(r"exact reasoner is neither better nor worse than a trained one by more than two standard", said)
    assert {results.gain(*exact, n).words for n in results.sizes(*exact)} == {"within two standard errors"}
    above = {line.label: line.ours for line in transnar_table("transnar-grid", ROOT / "results").lines}
    assert "about three algorithms (binary_search, insertion_sort, minimum), at 10\nas well" in said
    for n in (10, 12):
        names = above[f"TransNAR above the best constant answer, algorithms, n = {n}"]
        assert names.split(";")[0] == "3 of 9: binary_search, insertion_sort, minimum"
    for n, words in ((10, "+{:.1f} points of CLRS score over its"), (14, "no sure gain at 14 (+{:.1f}, ")):
        assert words.format(results.gain(*plain, n).mean) in (ROOT / "README.md").read_text()


def test_what_reasoners_of_all_thirty_algorithms_know() -> None:
    results, page = Results(ROOT / "results"), (ROOT / "docs/transnar.md").read_text()
    (said,) = re.findall(r"Two more learned all thirty.*?\. `mechgap", page, re.S)
    rows = [results.reasoners[name]["asked"]["by_size"]["16"] for name in ("thirty", "thirty_gatv2")]
    scores, floors = ([average(means([some], key)) for some in rows] for key in ("clrs", "floor"))
    assert re.findall(r"\d+\.\d", said) == [f"{number:.1f}" for number in (*scores, floors[0])]
    steps = [results.reasoners[name]["config"]["steps"] for name in ("thirty", "thirty_gatv2")]
    assert re.findall(r"([\d ]+) steps", said) == [f" {step:,}".replace(",", " ") for step in steps]
    surely = [len(above_constant(*(means([some], key) for key in ("clrs", "floor", "error")))[0]) for some in rows]
    assert "surely\nabove these they are on {} and {} algorithms".format(*surely) in said


def test_two_askings_of_one_reasoner_differ_by_little() -> None:
    """The page says by how much."""
    results = Results(ROOT / "results")
    again, apart, single = results.reasoners["trained"]["asked"]["by_size"], [], []
    for n, rows in again.items():
        mine, theirs = means([rows], "clrs"), results.beside("transnar", int(n), "reasoner")
        apart.append(abs(average(mine) - average(theirs)))
        single += [abs(mine[name] - theirs[name]) for name in theirs]
    assert (
        "its means differ by up to 0.1, and single algorithms by up to 0.5,"
        in transnar_table("transnar-reasoners", ROOT / "results").item.about
    )
    assert (f"{max(apart):.1f}", f"{max(single):.1f}") == ("0.1", "0.5")
