"""What CLRS-Text says about each algorithm: which inputs, which outputs, and which of its hints.

A question is three lines, an answer is one and ends in an empty line:

    bfs:
    s: 3, A: [[1 0], [0 1]]
    pi:
    [0 1]

With hints the question also gives the first frame of what the answer is made of, and the answer all frames between
the first and the last, before a bar:

    insertion_sort:
    key: [0.7 0.2 0.5], initial_trace: [0.7 0.2 0.5]
    trace | pred:
    [0.2 0.7 0.5] | [0.2 0.5 0.7]
"""

from dataclasses import dataclass

from mechgap.algorithms import algorithm, benchmark_names
from mechgap.algorithms.definition import Algorithm
from mechgap.algorithms.inputs import DERIVED, nearest
from mechgap.trace import Stage, Variable

ALGORITHMS = benchmark_names()

START = "initial_trace: "
TRACE = "trace | "
BAR = " | "
COMMA = ", "

# Whose graphs are written as whole numbers: 0 and 1. (The benchmark draws those of the components as reals.)
UNWEIGHTED = ("articulation_points", "bfs", "bridges", "dfs", "topological_sort")
# With hints, these hints are written in place of the outputs...
_HINTS_WRITTEN = {
    "binary_search": ("low", "high"),
    "find_maximum_subarray_kadane": ("best_low", "best_high"),
    "kmp_matcher": ("s",),
    "naive_string_matcher": ("s",),
    "quickselect": ("pivot",),
}
# ... and their last frame is the answer; only string matchers answer with their output, under the hint's name.
_ANSWERED_BY_OUTPUT = ("kmp_matcher", "naive_string_matcher")
_IN_PARENTHESES = ("binary_search", "find_maximum_subarray_kadane")


@dataclass(frozen=True)
class Layout:
    """How one algorithm is written.

    Attributes:
        algorithm: whose questions and answers these are.
        inputs: the inputs that are written, in order.
        answers: the variables that an answer consists of, by the names under which they are asked for.
        frames: with hints, by hint the variable as which its frames are written; else empty.
        last_frame: whether the answer is the last frame of the hints, not the outputs.
        parentheses: whether frames and the answer stand in parentheses.
    """

    algorithm: Algorithm
    inputs: tuple[Variable, ...]
    answers: dict[str, Variable]
    frames: dict[str, Variable]
    last_frame: bool = False
    parentheses: bool = False

    @property
    def hints(self) -> bool:
        """Whether hints are written; one algorithm, segments_intersect, has none to write."""
        return bool(self.frames)

    @property
    def heading(self) -> str:
        """The question's last line, without its colon."""
        names = self.enclosed(COMMA.join(self.answers))
        return TRACE + names if self.hints else names

    def enclosed(self, text: str) -> str:
        """The text, in parentheses where this algorithm has them."""
        return f"({text})" if self.parentheses else text


def layout(name: str, hints: bool = False) -> Layout:
    """How the algorithm of that name is written, with or without hints."""
    if name not in ALGORITHMS:
        raise ValueError(f"CLRS-Text has no algorithm {name!r}. {nearest(name, ALGORITHMS)}")
    spec = algorithm(name).spec
    inputs = tuple(v for v in spec.at(Stage.INPUT) if v.name not in DERIVED)
    outputs = {v.name: v for v in spec.at(Stage.OUTPUT)}
    if not hints:
        return Layout(algorithm(name), inputs, outputs, {})
    if name not in _HINTS_WRITTEN:
        frames = {f"{out}_h": v for out, v in outputs.items() if f"{out}_h" in spec.names(Stage.HINT)}
        return Layout(algorithm(name), inputs, outputs, frames)
    frames = {hint: spec[hint] for hint in _HINTS_WRITTEN[name]}
    answers = dict(zip(frames, outputs.values(), strict=True)) if name in _ANSWERED_BY_OUTPUT else frames
    by_hint = name not in _ANSWERED_BY_OUTPUT
    return Layout(algorithm(name), inputs, answers, frames, by_hint, name in _IN_PARENTHESES)
