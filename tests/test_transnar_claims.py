"""TransNAR beside what its paper and its summary say in words, and at rising n."""

import json
from pathlib import Path
from typing import Any

import pytest

from made_up_results import rows, verdicts, write
from mechgap.report.paper.transnar import transnar_table


def grown(score: float, sizes: dict[int, tuple[str, ...]]) -> dict[str, Any]:
    """What a model asked at rising n is worth, with the algorithms that fit at every n."""
    by_size = {str(n): rows(names, {"": score}) for n, names in sizes.items()}
    names, last = sizes[min(sizes)], max(sizes)
    return {
        "evaluation": {"sizes": list(sizes), "count": 8},
        "context": 256,
        "last": {name: max(n for n, some in sizes.items() if name in some) for name in names},
        "too_long": {name: None if name in sizes[last] else last for name in names},
        "models": [{"by_size": by_size}],
    }


def test_the_claims_of_the_paper_and_of_its_summary(tmp_path: Path) -> None:
    write(tmp_path, "transformer", {"": 0.4, "graham_scan": 0.0, "jarvis_march": 0.0})
    gained = {"": 0.45, "graham_scan": 0.7, "jarvis_march": 0.7, "mst_prim": 0.7, "minimum": 0.4, "binary_search": 0.65}
    write(tmp_path, "transnar", gained)
    found = verdicts("claims", tmp_path)
    assert found["Large gains, at any of the sizes"] == "reproduced"
    assert found["graham_scan: answers emerge"] == "reproduced"
    assert found["mst_prim: answers emerge"].startswith("differs: at no size is TransNAR above")
    assert found["minimum: no gain"].startswith("shown: within two standard errors over questions, ")
    assert found["binary_search: no gain"] == (
        "differs: there is a gain of more than two standard errors over questions"
    )
    assert found["4x larger inputs"].startswith("cannot be as printed")


def test_what_questions_could_make_is_no_excess(tmp_path: Path) -> None:
    """Scores of one algorithm have a standard error of a point, differences of two models 1.4."""
    write(tmp_path, "transformer", {"": 0.4, "graham_scan": 0.0, "mst_prim": 0.0, "dfs": 0.2, "bfs": 0.2})
    write(tmp_path, "transnar", {"": 0.4, "graham_scan": 0.315, "mst_prim": 0.33, "dfs": 0.42, "bfs": 0.45})
    lines = {line.label: line for line in transnar_table("transnar-claims", tmp_path).lines}
    emerge = lines["graham_scan: answers emerge"]
    assert emerge.ours == "0.0 → 31.5 ± 1.0 at 10 (floor 30.0), 0.0 → 31.5 ± 1.0 at 14 (floor 30.0)"
    assert emerge.verdict.startswith("differs: at no size is TransNAR above the best constant answer by more than two")
    assert lines["mst_prim: answers emerge"].verdict == "reproduced"
    large = lines["Large gains, at any of the sizes"]
    assert large.ours == "2 of 9: bfs, mst_prim; by no more than two standard errors: dfs"
    assert large.verdict == (
        "differs: by more than two standard errors over questions, fewer than 3 algorithms, which we call several"
    )


@pytest.mark.parametrize(
    ("transnar", "spread", "says"),
    [
        (0.52, 0.0, "reproduced"),
        (0.45, 0.0, "differs: it is above all our intervals"),
        (0.45, 0.2, "shown: neither reached nor excluded"),
    ],
)
def test_the_gain_of_the_summary_is_reached_excluded_or_neither(
    transnar: float, spread: float, says: str, tmp_path: Path
) -> None:
    write(tmp_path, "transformer", 0.4)
    write(tmp_path, "transnar", {"": transnar, "bfs": transnar + spread, "dfs": transnar - spread})
    assert verdicts("claims", tmp_path)["Gain in CLRS score, points of the mean over algorithms"].startswith(says)


def test_what_is_known_at_rising_n_is_shown_without_what_was_never_asked(tmp_path: Path) -> None:
    for name in ("transformer", "transnar"):
        write(tmp_path, name, 0.5)
    assert verdicts("growing", tmp_path) == {"Not measured yet: Transformer and TransNAR at rising n": "never run"}
    path = tmp_path / "transnar" / "transformer.json"
    about = json.loads(path.read_text())
    about["metrics"]["growing"] = grown(0.2, {16: ("minimum", "dfs"), 20: ("minimum",)})
    path.write_text(json.dumps(about))
    compared = transnar_table("transnar-growing", tmp_path)
    line, never = compared.lines
    assert line.label.startswith("Transformer, mean CLRS score of the algorithms that still fit")
    assert (line.ours, line.verdict) == ("20.5 (30.0) at 16, 20.0 (30.0) at 20", "shown")
    assert (never.label, never.verdict) == ("Not measured yet: TransNAR at rising n", "never run")
    (table,) = compared.details
    assert table.rows == (("minimum", "20", "none of these", "20 (30)", "20 (30)"), ("dfs", "16", "20", "21 (30)", ""))
    assert "n of at most 12, 8 questions each" in table.title


def test_small_models_stand_apart_at_rising_n(tmp_path: Path) -> None:
    """They need no results of the study, and answer the question of four times larger inputs."""
    place = tmp_path / "transnar-demo"
    for number, (name, score) in enumerate((("transformer", 0.1), ("transnar", 0.2))):
        (place / name).mkdir(parents=True)
        (place / f"study-{name}.json").write_text(json.dumps({"number": number, "place": name}))
        config = {"sizes": [4, 12], "layers": 4, "width": 96}
        (place / name / "config.json").write_text(json.dumps(config))
        metrics = {"growing": grown(score, {16: ("minimum",), 48: ("minimum",)})}
        (place / name / "metrics.json").write_text(json.dumps(metrics))
    small, never = transnar_table("transnar-growing", tmp_path).lines
    assert small.label.startswith("small models: Transformer → TransNAR, mean CLRS score")
    assert (small.ours, small.verdict) == ("10.0 → 20.0 (30.0) at 16, 10.0 → 20.0 (30.0) at 48", "shown: small models")
    assert never.label == "Not measured yet: transformer, transnar"
    said = {line.label: line for line in transnar_table("transnar-claims", tmp_path).lines}["4x larger inputs"]
    assert said.ours == (
        "small models at 48 = 4 x 12: Transformer 10.0, TransNAR 20.0 (best constant answer 30.0), for minimum"
    )
    assert said.verdict.startswith("cannot be as printed")
