"""CLRS-Text on the command line, as files, and in its document."""

import doctest
import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import mechgap as mg
from mechgap.algorithms.text import dataset
from mechgap.algorithms.text.dataset import DatasetConfig, read_rows, write_dataset
from mechgap.algorithms.text.writing import MOST_DECIMALS, Example
from mechgap.cli import app
from mechgap.report.text_tables import sizes_of

PAGE = Path(__file__).parents[1] / "docs" / "text.md"
SMALL = DatasetConfig(("minimum",), (4,), 4)
runner = CliRunner()


def said(*words: str) -> str:
    done = runner.invoke(app, ["text", *words], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.output


def with_predictions(path: Path, predictions: list[str], keep: tuple[str, ...] = ("question", "answer")) -> Path:
    rows = [{k: row[k] for k in keep} for row in read_rows(path)]
    out = path.with_name("answers.jsonl")
    out.write_text("".join(json.dumps({**r, "prediction": p}) + "\n" for r, p in zip(rows, predictions, strict=True)))
    return out


def test_sample_prints_the_text() -> None:
    output = said("sample", "minimum", "--n", "4", "--count", "4", "--seed", "7")
    assert output == "".join(e.text for e in mg.text.sample("minimum", 4, 4, seed=7))
    assert "trace | min:" in said("sample", "minimum", "--n", "4", "--count", "4", "--hints")


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_written_files_have_the_published_columns(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"data{suffix}"
    words = ("--algorithms", "minimum", "--sizes", "4", "--count", "4", "--seed", "7")
    assert f"wrote 4 questions and answers to {path}" in said("write", "--out", str(path), *words).replace("\n", "")
    rows = read_rows(path)
    assert [list(row) for row in rows] == [list(dataset.COLUMNS)] * 4
    for row, example in zip(rows, mg.text.sample("minimum", 4, 4, seed=7), strict=True):
        assert row["text"] == row["question"] + row["answer"] == example.text
        assert (row["algo_name"], row["length"], row["use_hints"]) == ("minimum", 4, False)
    if suffix == ".parquet":
        schema = pyarrow.parquet.read_schema(path)
        assert [str(field.type) for field in schema] == ["string"] * 4 + ["int32", "bool"]
        assert json.loads(schema.metadata[b"mechgap"])["seed"] == 7


def test_more_rows_than_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "ROWS_AT_ONCE", 3)
    write_dataset(tmp_path / "data.parquet", SMALL)
    assert [row["text"] for row in read_rows(tmp_path / "data.parquet")] == [
        e.text for e in mg.text.sample("minimum", 4, 4)
    ]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_nothing_is_half_written(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"data{suffix}"
    path.write_text("what was there")

    def breaks(*_: object, **__: object) -> Iterator[Example]:
        yield Example("q", "a", "minimum", 4)
        raise OSError("the disk is full")

    monkeypatch.setattr(dataset, "ROWS_AT_ONCE", 1)
    monkeypatch.setattr(dataset, "examples_of", breaks)
    with pytest.raises(OSError, match="disk is full"):
        write_dataset(path, SMALL)
    assert path.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [path]


def test_score_prints_a_table(tmp_path: Path) -> None:
    write_dataset(tmp_path / "data.jsonl", SMALL)
    right = [row["answer"] for row in read_rows(tmp_path / "data.jsonl")]
    answers = [right[0], "x", "[1]", right[3]]
    output = said("score", str(with_predictions(tmp_path / "data.jsonl", answers)))
    row = next(line for line in output.splitlines() if "minimum" in line)
    assert [cell.strip() for cell in row.strip("│ ").split("│")][:5] == ["minimum", "4", "75.0", "75.0", "50.0"]
    retraced = said("score", str(with_predictions(tmp_path / "data.jsonl", answers, keep=("question",))))
    assert retraced == output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sample", "bsf"), "CLRS-Text has no algorithm 'bsf'. Did you mean 'bfs'"),
        (("sample", "bfs", "--n", "0"), "n must be a whole number of at least 1; got 0"),
        (("sample", "bfs", "--seed", "-1"), "seed must be from 0 to 4294967295"),
        (("write", "--out", "x.jsonl", "--seed", "-1"), "seed must be from 0 to 4294967295"),
        (
            ("write", "--out", "x.jsonl", "--algorithms", "minimum,minimum"),
            "The algorithms of a data set must be different; got minimum, minimum. Name each once",
        ),
        (("write", "--out", "x.csv"), "must end in .parquet or .jsonl; got 'x.csv'"),
        (("write", "--out", "no/such/x.jsonl"), "the folder no/such does not exist"),
        (("write", "--out", "x.jsonl", "--algorithms", "bfs,bsf"), "no algorithm 'bsf'. Did you mean 'bfs'"),
        (("write", "--out", "x.jsonl", "--sizes", "8-4"), "such as 4-8,12; got '8-4'"),
        (("write", "--out", "x.jsonl", "--sizes", "four"), "such as 4-8,12; got 'four'"),
        (("write", "--out", "x.jsonl", "--count", "0"), "a count of at least 1; got"),
        (
            ("write", "--out", "x.jsonl", "--sizes", "2-4"),
            "No samples of kmp_matcher with n = 2: A needle of 1 and a longer haystack need n >= 3",
        ),
        (("score", "nothing.jsonl"), "No file nothing.jsonl"),
        (("score", "nothing.txt"), "must end in .parquet or .jsonl"),
    ],
)
def test_a_mistake_ends_in_its_message(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(app, ["text", *words])
    assert done.exit_code != 0
    assert isinstance(done.exception, ValueError | OSError)
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []


MINIMUM = "minimum:\nkey: [0.5 0.25]\nmin:\n"
ROW = {"question": MINIMUM, "answer": "1\n\n", "prediction": "1"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": "[1"}, "The right answer of row 2 cannot be read: the brackets are unbalanced"),
        ({"answer": ""}, "The right answer of row 2 cannot be read: a value is missing"),
        ({"answer": 1}, "The right answer of row 2 must be text; got 1"),
        ({"question": 5}, "'question' in row 2 of .*answers.jsonl must be text; got 5"),
        ({"prediction": 1}, "'prediction' in row 2 of .*answers.jsonl must be text; got 1. Give a string"),
        ({"question": "minimum:"}, "The question in row 2 of .*answers.jsonl cannot be read: A question must be three"),
    ],
)
def test_a_bad_row_is_named(changes: dict, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # annotations are checked in tests only
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (ROW, {**ROW, **changes})))
    done = runner.invoke(app, ["text", "score", str(path)])
    assert isinstance(done.exception, ValueError)
    assert re.search(message, str(done.exception))


def test_only_newlines_end_a_row(tmp_path: Path) -> None:
    odd = [{**ROW, "note": f"one{end}two"} for end in ("\u2028", "\u2029", "\x85")]
    (tmp_path / "rows.jsonl").write_text(
        "\n".join(json.dumps(row, ensure_ascii=False) for row in odd), encoding="utf-8", newline=""
    )
    assert read_rows(tmp_path / "rows.jsonl") == odd


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"question": "bfs:"}', "Row 1 of .* has no 'prediction'; it has 'question'"),
        ("{", "Line 1 of .* is not JSON .*Write one object per line"),
        ("[1]", r"Line 1 of .* must be an object of columns; got '\[1\]'"),
        ("", "has no rows"),
    ],
)
def test_a_bad_file_is_named(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text(lines)
    with pytest.raises(ValueError, match=message):
        read_rows(tmp_path / "answers.jsonl", ("question", "prediction"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            b'{"a": "b"}\n{"a": "\xff"}',
            "Line 2 of .* is not UTF-8 .byte 0xff at place 7.. Save the file as UTF-8",
        ),
        ("a.parquet", b"no Parquet at all", "a.parquet cannot be read as Parquet .*Write it anew, or as .jsonl"),
    ],
)
def test_bad_bytes_are_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_rows(tmp_path / name)


def test_sizes() -> None:
    assert sizes_of("4-6, 12,5") == (4, 5, 6, 12)


def test_the_documents_examples_run() -> None:
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


@pytest.mark.slow
def test_the_documents_sizes() -> None:
    for row in re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE.read_text(), flags=re.MULTILINE):
        n, characters, mean, most = map(int, row)
        texts = [e.text for name in mg.text.ALGORITHMS for e in mg.text.sample(name, n, 40)]
        tokens = [len(mg.text.encode(text)) for text in texts]
        assert round(statistics.mean(map(len, texts))) == characters
        assert (round(statistics.mean(tokens)), max(tokens)) == (mean, most)


def test_the_documents_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^    mechgap text (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    assert [words.split()[0] for words in commands] == ["sample", "sample", "write", "score"]
    write_dataset("data.jsonl", SMALL)
    with_predictions(tmp_path / "data.jsonl", ["0"] * 4)
    for words in commands:
        said(*words.split())
    assert len(read_rows("data.parquet")) == 16


def test_how_many_decimals_there_may_be() -> None:
    done = runner.invoke(app, ["text", "sample", "bfs", "--decimals", "20"])
    assert done.exit_code == 2
    assert "Invalid value for '--decimals'" in done.output
    assert str(MOST_DECIMALS) in done.output
