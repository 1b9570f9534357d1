"""CLRS-Text: the strings are the reference generator's, and come back as what they were written from.

`make golden` writes the strings; tests/oracle/make_text_golden.py says how.
"""

import doctest
import gzip
import hashlib
import json
import math
import re
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mechgap as mg
import test_text_live
from mechgap.algorithms.distributions import BenchmarkStream
from mechgap.algorithms.text import brackets, parsing, scores, tokens, writing
from mechgap.algorithms.text.layout import layout
from mechgap.algorithms.text.sampling import inputs_of
from mechgap.algorithms.text.scores import Score
from mechgap.algorithms.text.writing import Question, truncated

GOLDEN = json.loads(gzip.decompress((Path(__file__).with_name("golden") / "text.json.gz").read_bytes()))
CASES = {
    f"{c['algorithm']}, n = {c['n']}, {c['decimals']} decimals{', hints' * c['hints']}": c for c in GOLDEN["cases"]
}
# Every algorithm and size is compiled, which takes about a second.
QUICK_AT_16 = ("bfs", "insertion_sort")
STRINGS = [
    (c["algorithm"], *pair)
    for c in GOLDEN["cases"]
    for pair in c["written"]
    if not any(text.startswith("sha256") for text in pair)
]


def kept(text: str) -> str:
    """As make_text_golden.py keeps it."""
    return text if len(text) <= GOLDEN["long"] else "sha256 " + hashlib.sha256(text.encode()).hexdigest()


def marks(case: dict) -> list:
    quick = case["n"] == 4 or (case["n"] == 16 and case["algorithm"] in QUICK_AT_16)
    return [] if quick else [pytest.mark.slow]


def drawn(name: str, n: int, count: int, seed: int) -> dict[str, np.ndarray]:
    return inputs_of(name, n, count, BenchmarkStream(seed), 3)


def one(inputs: dict[str, np.ndarray], sample: int) -> dict[str, np.ndarray]:
    return {k: x[sample : sample + 1] for k, x in inputs.items()}


def assert_equal(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    assert list(ours) == list(theirs)
    for name, x in ours.items():
        assert (x.dtype, x.shape) == (theirs[name].dtype, theirs[name].shape), name
        np.testing.assert_array_equal(x, theirs[name], err_msg=name)


@pytest.mark.parametrize("case", [pytest.param(c, id=name, marks=marks(c)) for name, c in CASES.items()])
def test_strings_are_the_references(case: dict) -> None:
    options = {key: case[key] for key in ("seed", "hints", "decimals")}
    ours = mg.text.sample(case["algorithm"], case["n"], case["count"], **options)
    assert [[kept(e.question), kept(e.answer)] for e in ours] == case["written"]
    assert {(e.algorithm, e.length, e.hints) for e in ours} == {(case["algorithm"], case["n"], case["hints"])}


def test_golden_strings_are_of_all_thirty() -> None:
    assert sorted({c["algorithm"] for c in GOLDEN["cases"]}) == sorted(mg.text.ALGORITHMS)
    assert len(mg.text.ALGORITHMS) == 30
    assert {c["n"] for c in GOLDEN["cases"]} == {4, 5, 16, 64}
    assert sum(2 * len(c["written"]) for c in GOLDEN["cases"]) == 1560


def test_the_page_says_what_is_compared_live() -> None:
    said = " ".join((Path(__file__).parents[1] / "docs" / "text.md").read_text().split())
    strings = sum(2 * count for name in mg.text.ALGORITHMS for _, _, _, count, _, _ in test_text_live.cases(name))
    different = test_text_live.DIFFERENT
    assert f"of {strings} strings" in said
    assert f"{sum(different.values())} differ, all at n = 64" in said
    without_hints, with_hints = (
        said.split("Without hints these are")[1].split("With vectorised sorts")[0].split("with hints")
    )
    named = {
        (name, 64, 3, hints): int(count)
        for hints, part in ((False, without_hints), (True, with_hints))
        for name, count in re.findall(r"(\w+) \((\d+)\)", part)
    }
    assert named == different


@pytest.mark.parametrize("name", mg.text.ALGORITHMS)
def test_answers_come_back_as_outputs(name: str) -> None:
    inputs = drawn(name, 4, 4, 2024)  # as in the golden files, so that nothing is compiled anew
    trace = mg.algorithm(name).trace(**inputs)
    written = mg.text.examples(name, inputs)
    assert [e.question for e in written] == [e.question for e in mg.text.sample(name, 4, 4, seed=2024)]
    questions = [mg.text.parse(e.question) for e in written]
    assert mg.text.right_answers(questions) == [e.answer for e in written]
    for sample, (question, example) in enumerate(zip(questions, written, strict=True)):
        assert_equal(question.inputs, one(inputs, sample))
        meant = one(trace.outputs, sample)
        if "pred" in meant:
            meant = {"pred": np.sort(inputs["key"][sample : sample + 1])}
        assert_equal(mg.text.parse_answer(example.answer, question), meant)


@given(name=st.sampled_from(mg.text.ALGORITHMS), n=st.integers(4, 24), seed=st.integers(0, 2**31))
def test_questions_come_back(name: str, n: int, seed: int) -> None:
    inputs = drawn(name, n, 1, seed)
    text = mg.text.write(Question(name, inputs))
    again = mg.text.parse(text)
    assert_equal(again.inputs, inputs)
    assert mg.text.write(again) == text
    assert again.nodes == len(inputs["pos"][0])


@pytest.mark.parametrize("value", [-0.0, 0.57, -1.001, 0.001, 1e-05, 123456.789, 0.1 + 0.2, 1e16])
def test_numbers_come_back(value: float) -> None:
    inputs = {"key": np.array([[value, 0.5]]), "pos": np.array([[0.0, 0.5]])}
    again = mg.text.parse(mg.text.write(Question("minimum", inputs)))
    assert math.copysign(1, again.inputs["key"][0, 0]) == math.copysign(1, value)
    assert_equal(again.inputs, {"pos": inputs["pos"], "key": inputs["key"]})


def test_golden_strings_come_back() -> None:
    for name, question, answer in STRINGS:
        read = mg.text.parse(question)
        assert read.algorithm == name
        assert mg.text.write(read) == question
        assert mg.text.split(question + answer) == (question, answer)
        outputs = mg.text.parse_answer(answer, read)
        assert list(outputs) == list(read.layout.answers)


def test_inputs_are_cut_before_they_are_traced() -> None:
    keys = np.array([[0.5004, 0.5009, 0.5001, 0.7]] * 4)  # after the cut, the first of three equal keys is the least
    (example, *_) = mg.text.examples("minimum", {"key": keys})
    assert example.text == "minimum:\nkey: [0.5 0.5 0.5 0.7]\nmin:\n0\n\n"
    (example, *_) = mg.text.examples("minimum", {"key": keys}, decimals=None)
    assert example.text == "minimum:\nkey: [0.5004 0.5009 0.5001 0.7]\nmin:\n2\n\n"


def test_cutting_twice_is_cutting_once() -> None:
    x = np.random.RandomState(0).normal(size=10_000)
    once = truncated(x, 3)
    np.testing.assert_array_equal(once, np.trunc(x * 1000) / 1000)
    np.testing.assert_array_equal(truncated(once, 3), once)
    np.testing.assert_array_equal(truncated(np.arange(1000) / 1000, 3), np.arange(1000) / 1000)


def test_inputs_of_other_dtypes_are_written_alike() -> None:
    examples = mg.text.sample("bfs", 4, 4, seed=2024)
    inputs = {name: x.astype(np.float32) for name, x in drawn("bfs", 4, 4, 2024).items()}
    assert mg.text.examples("bfs", inputs) == examples


RIGHT = "[3 3 0 3]\n\n"
PAIR, MATRIX, KEYS = "0, 3\n\n", "[[0 1], [-1 0]]\n\n", "[0.12 0.5 0.7]\n\n"
TRACE = "(0, 1), (0, 0) | (0, 2)\n\n"
SCORED = {
    "right": (RIGHT, RIGHT, (1, 1, 1)),
    "without the empty line": ("[3 3 0 3]", RIGHT, (1, 1, 1)),
    "half right": ("[3 0 0 0]", RIGHT, (1, 1, 0.5)),
    "all wrong": ("[0 0 1 0]", RIGHT, (1, 1, 0)),
    "too short": ("[3 3 0]", RIGHT, (0, 1, 0)),
    "too long": ("[3 3 0 3 3]", RIGHT, (0, 1, 0)),
    "a number for a list": ("3", RIGHT, (0, 1, 0)),
    "a list for a number": ("[3]", "3\n\n", (0, 1, 0)),
    "a letter": ("[3 3 0 x]", RIGHT, (1, 0, 0.75)),
    "a sentence": ("I do not know", RIGHT, (0, 0, 0)),
    "an unclosed bracket": ("[3 3 0 3", RIGHT, (0, 1, 0)),
    "a stray bracket": ("3 3 0 3]", RIGHT, (0, 1, 0)),
    "nothing": ("", RIGHT, (0, 1, 0)),
    "no number": ("[3 3 0 0.5.1]", RIGHT, (1, 1, 0.75)),
    "another spelling": ("[0.120 .5 0.7]", KEYS, (1, 1, 2 / 3)),
    "a pair": (PAIR, PAIR, (1, 1, 1)),
    "half a pair": ("0, 2", PAIR, (1, 1, 0.5)),
    "one of a pair": ("0", PAIR, (0, 1, 0)),
    "a matrix": (MATRIX, MATRIX, (1, 1, 1)),
    "a matrix, three quarters": ("[[0 1], [0 0]]", MATRIX, (1, 1, 0.75)),
    "a ragged matrix": ("[[0 1], [-1]]", MATRIX, (0, 1, 0)),
    "a missing row": ("[[0 1]]", MATRIX, (0, 1, 0)),
    "rows without commas": ("[[0 1] [-1 0]]", MATRIX, (0, 1, 0)),
    "a trace": (TRACE, TRACE, (1, 1, 1)),
    "another trace, the same answer": ("(1, 1) | (0, 2)", TRACE, (1, 1, 1)),
    "no trace": ("(0, 2)", TRACE, (0, 1, 0)),
    "no parentheses": ("(0, 1) | 0, 2", TRACE, (0, 1, 0)),
    "no spaces around the bar": ("(1, 1)|(0, 2)", TRACE, (1, 1, 1)),
    "nothing before the bar": ("| (0, 2)", TRACE, (1, 1, 1)),
    "a bar that nobody asked for": ("x|[3 3 0 3]", RIGHT, (0, 0, 0)),
    "a bar and a space that nobody asked for": ("x |[3 3 0 3]", RIGHT, (0, 0, 0)),
    "a trace that nobody asked for": ("0, 1 | 0, 3", PAIR, (0, 0, 0)),
    "1e-05 where it is right": ("[1e-05 0.1]", "[1e-05 0.1]\n\n", (1, 1, 1)),
}


@pytest.mark.parametrize(("answer", "right", "meant"), SCORED.values(), ids=SCORED)
def test_scores(answer: str, right: str, meant: tuple) -> None:
    assert mg.text.score(answer, right) == Score(*meant)


def test_a_question_is_scored_by_executing_it() -> None:
    examples = mg.text.sample("bfs", 4, 4, seed=2024)
    question = mg.text.parse(examples[0].question)
    assert mg.text.score(examples[0].answer, question) == Score(1, 1, 1)
    assert mg.text.score("[0 0 0]", question) == Score(0, 1, 0)
    assert mg.text.score(examples[1].answer, examples[1]) == Score(1, 1, 1)


def test_floor_is_the_best_constant_answer() -> None:
    assert mg.text.floor(["[0 1]", "[0 2]", "[0 2]", "[1 1]"]) == (3 + 2) / 8
    assert mg.text.floor(["[0 1]", "[0 1 2]", "[0 1 3]"]) == pytest.approx((1 + 2 * 5 / 6) / 3)  # a constant per shape
    assert mg.text.floor(["5"]) == 1
    answers = ["[0 1]", "[0 2]", "[0 2]", "[1 1]"]
    constant = max(
        np.mean([mg.text.score(f"[{a} {b}]", right).clrs for right in answers]) for a in (0, 1) for b in (1, 2)
    )
    assert mg.text.floor(answers) == constant


def test_table_of_scores() -> None:
    said = ["[0 1]", "[0 0]", "x", "3"]
    right = ["[0 1]", "[0 1]", "3", "3"]
    bfs, minimum, mean = mg.text.score_table(said, right, ["bfs", "bfs", "minimum", "minimum"])
    assert (bfs.name, bfs.count, bfs.shape, bfs.parse, bfs.clrs, bfs.floor) == ("bfs", 2, 1, 1, 0.75, 1)
    assert (minimum.shape, minimum.parse, minimum.clrs) == (1, 0.5, 0.5)
    assert (mean.name, mean.count, mean.clrs) == ("mean", 4, 0.625)
    assert bfs.error == 0.25
    assert mean.error == pytest.approx(np.hypot(0.25, 0.5) / 2)


def test_tokens_are_as_they_were() -> None:
    """Trained models depend on them."""
    assert len(mg.text.VOCABULARY) == len(set(mg.text.VOCABULARY)) == 146
    digest = hashlib.sha256(json.dumps(mg.text.VOCABULARY).encode()).hexdigest()
    assert digest.startswith("2ad79a73139e3737")
    assert [mg.text.VOCABULARY[i] for i in (mg.text.PAD, mg.text.BOS, mg.text.EOS)] == ["<pad>", "<bos>", "<eos>"]


def test_tokens_say_what_the_text_says() -> None:
    assert sum(len(mg.text.encode(q + a)) for _, q, a in STRINGS) < 0.5 * sum(len(q + a) for _, q, a in STRINGS)
    for _, question, answer in STRINGS:
        asked, said = mg.text.encode(question), mg.text.encode(answer)
        assert mg.text.decode(asked) == question
        assert mg.text.decode(said) == answer
        assert [*asked, *said] == [*mg.text.encode(question + answer)]  # no token crosses from one to the other


CHARACTERS = sorted({c for word in mg.text.VOCABULARY[3:] for c in word})


@given(st.text(st.sampled_from(CHARACTERS)))
def test_any_text_of_these_characters_comes_back(text: str) -> None:
    assert mg.text.decode(mg.text.encode(text)) == text


@given(st.lists(st.integers(0, len(mg.text.VOCABULARY) - 1)))
def test_any_ids_say_a_text(ids: list[int]) -> None:
    before_the_end = ids[: ids.index(mg.text.EOS)] if mg.text.EOS in ids else ids
    silent = (mg.text.PAD, mg.text.BOS)
    assert mg.text.decode(ids) == "".join(mg.text.VOCABULARY[i] for i in before_the_end if i not in silent)


def test_batches_are_padded() -> None:
    pairs = [(q, a) for _, q, a in STRINGS[:40]]
    batch = mg.text.batch(pairs, length=512)
    assert batch.ids.shape == batch.in_answer.shape == (40, 512)
    assert batch.ids.dtype == np.int32
    for row, in_answer, length, (question, answer) in zip(*batch, pairs, strict=True):
        assert row[0] == mg.text.BOS
        assert row[length - 1] == mg.text.EOS
        assert np.all(row[length:] == mg.text.PAD)
        assert not np.any(row[:length] == mg.text.PAD)
        assert mg.text.decode(row) == question + answer
        assert mg.text.decode(row[in_answer]) == answer
        assert in_answer.sum() == len(mg.text.encode(answer)) + 1
    assert mg.text.batch(pairs).ids.shape[1] == batch.lengths.max()
    prompt = mg.text.batch([(pairs[0][0], "")])
    assert mg.text.EOS not in prompt.ids
    assert not prompt.in_answer.any()


@pytest.mark.parametrize("module", [brackets, parsing, scores, tokens, writing], ids=lambda m: m.__name__)
def test_examples_in_docstrings(module: object) -> None:
    assert doctest.testmod(module).failed == 0


BFS = "bfs:\ns: 1, A: [[0 1], [1 0]]\npi:\n"
DFS = "dfs:\nA: [[0 1], [1 0]]\npi:\n"
SORT = "quicksort:\nkey: [0.5 0.25]\npred:\n"
LCS = "lcs_length:\nstring: [0 0 1], key: [0 3 1]\nb:\n"
SEGMENTS = "segments_intersect:\nx: [0 1 0 1], y: [0 1 1 0]\nintersect:\n"
STARTED = "quicksort:\nkey: [0.5 0.25], initial_trace: [0.5 0.25]\ntrace | pred:\n"
SEARCH = "binary_search:\nkey: [0.1 0.2], target: 0.1, initial_trace: (0, 1)\ntrace | (low, high):\n"


def asked(text: str, old: str, new: str) -> object:
    assert text.count(old) == 1
    return lambda: mg.text.parse(text.replace(old, new))


def answered(question: str, answer: str) -> object:
    return lambda: mg.text.parse_answer(answer, mg.text.parse(question))


BAD = {
    "unknown algorithm": (asked(BFS, "bfs", "bsf"), r"no algorithm 'bsf'. Did you mean 'bfs'"),
    "a variant": (asked(BFS, "bfs", "bfs_sequential"), r"no algorithm 'bfs_sequential'. .*Valid: activity"),
    "no inputs": (
        asked(BFS, "s: 1, A: [[0 1], [1 0]]\n", ""),
        r"three lines .*; got 2 ended lines in 'bfs:.*all three",
    ),
    "empty inputs": (asked(BFS, "s: 1, A: [[0 1], [1 0]]", ""), r"must be three lines .*ALGORITHM:, INPUTS, OUTPUTS:"),
    "no heading": (asked(BFS, "pi:\n", ""), r"must be three lines .*; got 2 ended"),
    "no newline at the end": (asked(BFS, "pi:\n", "pi:"), r"each end in a newline .*; got 2 ended"),
    "with its answer": (asked(BFS, "pi:\n", "pi:\n[0 0]\n\n"), r"got 5 ended .* mg.text.split\(text\) cuts it off"),
    "nothing": (lambda: mg.text.parse(""), r"three lines .*; got 0 ended lines in ''"),
    "split too little": (lambda: mg.text.split("bfs:\n"), r"three lines .*; got 1 ended"),
    "no colon": (asked(BFS, "bfs:", "bfs"), r"The line 'bfs' must end in a colon. Write 'bfs:'"),
    "another heading": (asked(BFS, "pi:", "Pi:"), r"must ask for 'pi' in its third line; got 'Pi'. Write 'pi:'"),
    "a trace without a start": (asked(BFS, "pi:", "trace | pi:"), r"end the inputs with , initial_trace: FRAME"),
    "missing input": (
        asked(BFS, "s: 1, ", ""),
        r"inputs of 'bfs' must be s: ..., A: ... in this order; got 'A'. Write",
    ),
    "unknown input": (asked(BFS, "s: 1", "t: 1"), r"must be s: ..., A: ... in this order; got 't', 'A'"),
    "twice": (asked(BFS, "s: 1, ", "s: 1, s: 1, "), r"in this order; got 's', 's', 'A'"),
    "no name": (asked(BFS, "s: 1", "1"), r"in this order; got '1', 'A'"),
    "too few rows": (
        asked(DFS, "[[0 1], [1 0]]", "[[0 1]]"),
        r"'A' of 'dfs' must be a matrix of 1 rows of 1; got .*of 2",
    ),
    "ragged": (asked(BFS, "[1 0]", "[1]"), r"matrix of 2 rows of 2; got a matrix of 2 rows of different lengths"),
    "a list for a matrix": (asked(BFS, "[[0 1], [1 0]]", "[0 1]"), r"must be a matrix of 2 rows of 2; got a list of 2"),
    "wrong number of values": (
        asked(LCS, "[0 3 1]", "[0 3]"),
        r"'key' of 'lcs_length' must be a list of 3 .*; got a list of 2",
    ),
    "illicit character": (
        asked(SORT, "0.25", "0.2x"),
        r"'key' of 'quicksort' has the illicit character 'x' at place 8 of",
    ),
    "unclosed": (
        asked(SORT, "0.25]", "0.25"),
        r"brackets are unbalanced: 1 of them is never closed; got 'key: \[0.5 0.25'",
    ),
    "closed twice": (
        asked(SORT, "0.25]", "0.25]]"),
        r"unbalanced: '\]' at place 15 closes nothing; .*Write key: \.\.\.",
    ),
    "not a number": (asked(SORT, "0.25", "0.2.5"), r"has '0.2.5', which is not a number. Write 0.5"),
    "not a whole number": (
        asked(BFS, "s: 1", "s: 1.5"),
        r"'s' of 'bfs' has '1.5', which is not a whole number. Write 3",
    ),
    "several numbers": (asked(BFS, "s: 1", "s: 1 2"), r"a value is not one number, list or matrix; got '1 2'"),
    "no value": (asked(BFS, "s: 1", "s: "), r"in this order; got 's:', 'A'. Write s: \.\.\., A"),
    "nested too deeply": (asked(SORT, "[0.5 0.25]", "[[[0.5 0.25]]]"), r"a list holds more than numbers"),
    "source out of range": (asked(BFS, "s: 1", "s: 2"), r"'s' of 'bfs' must hold whole numbers from 0 to 1; got 2"),
    "negative weight": (asked(BFS, "[1 0]", "[-1 0]"), r"'A' must not have negative weights; got -1"),
    "no such letter": (asked(LCS, "[0 3 1]", "[0 4 1]"), r"whole numbers from 0 to 3; got 4"),
    "strings out of order": (asked(LCS, "[0 0 1]", "[0 1 0]"), r"'string' must be 0 along the first string"),
    "three points": (
        asked(SEGMENTS, "x: [0 1 0 1], y: [0 1 1 0]", "x: [0 1 0], y: [0 1 1]"),
        r"'x' must have 4 nodes, \[B, 4\]; got 3",
    ),
    "a first frame where there is none": (
        asked(SEGMENTS, "\nintersect", ", initial_trace: 0\nintersect"),
        r"must be x: ..., y: ... in this order; got 'x', 'y', 'initial_trace'",
    ),
    "first frame of letters": (
        asked(STARTED, "initial_trace: [0.5 0.25]", "initial_trace: banana ]]"),
        r"the initial_trace of 'quicksort' has the illicit character 'b' at place 0",
    ),
    "first frame of the wrong length": (
        asked(STARTED, "initial_trace: [0.5 0.25]", "initial_trace: [0.5]"),
        r"in the initial_trace of 'quicksort' must be a list of 2 values; got a list of 1",
    ),
    "first frame without parentheses": (
        asked(SEARCH, "(0, 1)", "0, 1"),
        r"the initial_trace of 'binary_search' must stand in parentheses; got '0, 1'. Write \(low, high\)",
    ),
    "half a first frame": (asked(SEARCH, "(0, 1)", "(0)"), r"must have 2 values \(low, high\); got 1, '0'"),
    "first frame out of range": (asked(SEARCH, "(0, 1)", "(0, 2)"), r"'high' in .* from 0 to 1; got 2"),
    "carriage returns": (
        asked(BFS, "bfs:", "bfs:\r"),
        r"A question must end its lines in '\\n'; got '\\r' at place 4. Take these out",
    ),
    "carriage returns in an answer": (answered(BFS, "[0 1]\r\n"), r"must end its lines in '\\n'; got '\\r' at place 5"),
    "a question that is a number": (lambda: mg.text.parse(3), r"A question must be text; got 3. Give a string"),
    "a number to split": (lambda: mg.text.split(3), r"must be text; got 3"),
    "more digits than are held": (
        asked(BFS, "[1 0]", f"[1{'0' * 30} 0]"),
        r"'A' of 'bfs' has '10*', which 64 bits do not hold. Write 9223372036854775807 at most",
    ),
    "near zero": (
        asked(SORT, "0.25", "1e-101"),
        r"'key' must be 0 or at least 1e-100 in size; got 1e-101 at \[0, 1\]. Scale the inputs up, or write 0",
    ),
    "large number": (
        asked(SORT, "0.25", "1e101"),
        r"'key' must be from -1e\+100 to 1e\+100; got 1e\+101 at \[0, 1\]",
    ),
    "answer of the wrong length": (
        answered(BFS, "[0 0 0]"),
        r"'pi' in the answer to 'bfs' must be a list of 2 .*; got a list of 3",
    ),
    "answer out of range": (answered(BFS, "[0 2]"), r"must hold whole numbers from 0 to 1; got 2"),
    "answer with a letter": (
        answered(SORT, "[0.25 a]"),
        r"answer to 'quicksort' has the illicit character 'a' at place 6",
    ),
    "unclosed answer": (answered(SORT, "[0.25 0.5"), r"In the answer to 'quicksort', the brackets are unbalanced"),
    "answer of reals": (answered(BFS, "[0 0.5]"), r"has '0.5', which is not a whole number"),
    "too many outputs": (answered(BFS, "[0 1], 1"), r"must have 1 values \(pi\); got 2, .*Separate them by ', '"),
    "two answers": (answered(BFS, "[0 1]\n[0 1]"), r"must be one line; got 2. Give one answer at a time"),
    "answer without a trace": (
        answered(SEARCH, "(0, 1)"),
        r"must have a trace and then ' \| '.*; got '\(0, 1\)'. Write TRACE",
    ),
    "no parentheses": (answered(SEARCH, " | 0, 1"), r"must stand in parentheses; got '0, 1'. Write \(low, high\)"),
    "no token": (lambda: mg.text.encode("bfs:\nQ"), r"No token for 'Q' at place 5; .* Take it out"),
    "a number is missing": (answered(BFS, ""), r"In the answer to 'bfs', a value is missing; got ''. Write a number"),
    "no such id": (lambda: mg.text.decode([146]), r"Ids must be from 0 to 145; got 146"),
    "ids that are not whole": (
        lambda: mg.text.decode([3.7]),
        r"whole numbers, \[length\]; got float64 of shape \(1,\)",
    ),
    "several rows of ids": (lambda: mg.text.decode([[3], [4]]), r"got int64 of shape \(2, 1\). Give one row"),
    "nothing to encode": (lambda: mg.text.encode(None), r"What is encoded must be text; got None. Give a string"),
    "too long for the length": (lambda: mg.text.batch([(SORT, "")], 5), r"length = 5. Give length=1\d or more"),
    "empty batch": (lambda: mg.text.batch([]), r"A batch needs a text.*; got 0 texts"),
    "unequal lists": (lambda: mg.text.score_table(["1"], ["1", "2"], ["bfs"]), r"got 1 answers, 2 questions and 1 alg"),
    "no text to score": (lambda: mg.text.score(None, "3"), r"The answer must be text; got None. Give a string"),
    "no text in a row": (
        lambda: mg.text.score_table(["1", 2], ["1", "2"], ["bfs", "bfs"]),
        r"The answer of row 2 must be text; got 2",
    ),
    "no right answer": (lambda: mg.text.score("3", None), r"The right answer must be text; got None"),
    "an empty right answer": (lambda: mg.text.score("x", ""), r"The right answer cannot be read: a value is missing"),
    "a right answer without values": (
        lambda: mg.text.score("[]", "[]"),
        r"right answer cannot be read: a list has no values.*; got '\[\]'. Write a number, \[a b\]",
    ),
    "an unreadable right answer": (
        lambda: mg.text.score_table(["1", "1"], ["1", "[1"], ["bfs", "bfs"]),
        r"The right answer of row 2 cannot be read: the brackets are unbalanced.*; got '\[1'. Write",
    ),
    "a right answer of letters": (
        lambda: mg.text.score("3", "[1 abc]"),
        r"The right answer cannot be read: 'abc' is no number; got '\[1 abc\]'. Write a number",
    ),
    "a ragged right answer": (
        lambda: mg.text.floor(["[[1 2], [3 4]]", "[[1 2], [3]]"]),
        r"The right answer of row 2 cannot be read: .*the rows of a matrix differ in length",
    ),
    "a floor of nothing": (lambda: mg.text.floor([]), r"A floor needs a right answer, at least one; got none"),
    "no such seed": (lambda: mg.text.sample("bfs", 4, seed=-1), r"seed must be from 0 to 4294967295, .*; got -1"),
    "large numbers to write": (
        lambda: mg.text.examples("minimum", {"key": [[0.5, 1e306]]}),
        r"'key' must be from -1e\+100 to 1e\+100; got 1e\+306",
    ),
    "no decimals": (
        lambda: mg.text.examples("minimum", {"key": [[0.5]]}, decimals=0),
        r"decimals must be from 1 to 13, or None to keep them all; got 0",
    ),
    "decimals of points": (
        lambda: mg.text.sample("graham_scan", 4, decimals=-1),
        r"decimals must be from 1 to 13, or None to keep them all; got -1",
    ),
    "points that are always in a line": (
        lambda: mg.text.sample("graham_scan", 32, decimals=1),
        r"draws of 32 points with 1 decimals only 0 have no three in a line; ask for fewer nodes or more decimals",
    ),
    "no nodes": (lambda: mg.text.sample("bfs", 0), r"n must be a whole number of at least 1; got 0"),
    "half a node": (lambda: mg.text.sample("bfs", 4.5), r"n must be a whole number of at least 1; got 4.5"),
    "n as text": (lambda: mg.text.sample("bfs", "4"), r"n must be a whole number of at least 1; got '4'"),
    "no samples": (lambda: mg.text.sample("bfs", 4, 0), r"count must be a whole number of at least 1; got 0"),
    "half a sample": (lambda: mg.text.sample("bfs", 4, 1.5), r"count must be a whole number of at least 1; got 1.5"),
    "half a seed": (lambda: mg.text.sample("bfs", 4, seed=1.5), r"seed must be from 0 to 4294967295, .*; got 1.5"),
    "half a decimal": (
        lambda: mg.text.sample("minimum", 4, decimals=2.5),
        r"decimals must be from 1 to 13, or None to keep them all; got 2.5",
    ),
    "too few nodes": (lambda: mg.text.sample("kmp_matcher", 2), r"n >= 3; got n = 2"),
    "unknown to the writer": (
        lambda: mg.text.examples("bsf", {}),
        r"CLRS-Text has no algorithm 'bsf'. Did you mean 'bfs'",
    ),
    "bad inputs": (lambda: mg.text.examples("bfs", {"A": np.eye(4)[None]}), r"'bfs' needs the inputs 's'"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD)
def test_a_mistake_says_what_to_do(call, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # annotations are checked in tests only
    with pytest.raises(ValueError, match=message):
        call()


def test_leading_zeros_are_read_however_many_there_are() -> None:
    """Python by itself refuses to read thousands of digits."""
    for zeros in ("0", "000", "0" * 5000):
        assert mg.text.parse(BFS.replace("s: 1", f"s: {zeros}1")).inputs["s"].tolist() == [[0, 1]]
        assert mg.text.parse(BFS.replace("s: 1", f"s: {zeros}")).inputs["s"].tolist() == [[1, 0]]


def test_layouts_with_and_without_hints() -> None:
    assert layout("kmp_matcher", hints=True).heading == "trace | s"
    assert not layout("segments_intersect", hints=True).hints
