"""Feedback -> Trace -> Feedback -> Trace on the reference's own samples, nothing lost. Used by test_oracle_live.py.

Prints one line per algorithm. Needs mechgap's sources on PYTHONPATH, beside dm-clrs.
"""

import reference  # before anything that imports numpy

# isort: split
import numpy as np
from clrs._src import samplers, specs

from mechgap.algorithms import algorithm
from mechgap.interop.clrs import from_feedback, to_feedback
from mechgap.trace import Stage, Trace

NODES, BATCH = 8, 5


def main() -> None:
    for name in specs.CLRS_30_ALGS:
        check(specs.SPECS[name], samplers.build_sampler(name, num_samples=BATCH, length=NODES, seed=0)[0].next())
        print(name, flush=True)
    check(*with_permutations("insertion_sort"))
    print("permutations", flush=True)
    for name in reference.ALGORITHMS:
        check_our_spec(name, NODES)
        check_few_nodes(name)
    print("our specs", flush=True)


def with_permutations(name: str) -> tuple[specs.Spec, samplers.Feedback]:
    sampler, spec = samplers.build_sampler(name, num_samples=BATCH, length=NODES, seed=0)
    spec, batches = samplers.process_permutations(spec, iter([sampler.next()]), enforce_permutations=True)
    return spec, next(batches)


def check(spec: specs.Spec, feedback: samplers.Feedback) -> None:
    trace = from_feedback(feedback, spec)
    again = to_feedback(trace)
    assert_same_feedback(again, feedback)
    assert_same_trace(from_feedback(again, spec), trace)


def check_our_spec(name: str, nodes: int) -> None:
    """Our spec says what the benchmark's says, in the same order at each stage; a trace by either is the same."""
    feedback = reference.sampler(name, num_samples=BATCH, length=nodes, seed=0).next()
    ours, theirs = (from_feedback(feedback, spec) for spec in (algorithm(name).spec, specs.SPECS[name]))
    assert [ours.spec.at(stage) for stage in Stage] == [theirs.spec.at(stage) for stage in Stage]
    assert_same_values(ours, theirs)


def check_few_nodes(name: str) -> None:
    """The squeezed shapes of one node become a proper trace, which then survives the round trip."""
    traits, spec = reference.ALGORITHMS[name], algorithm(name).spec
    fewest = max(traits.least, traits.draws_from)
    check_our_spec(name, fewest)
    trace = from_feedback(reference.sampler(name, num_samples=BATCH, length=fewest, seed=0).next(), spec)
    assert trace.nodes == fewest + (name == "optimal_bst")  # a node per gap between keys
    assert_same_trace(from_feedback(to_feedback(trace), spec), trace)


def assert_same_feedback(one: samplers.Feedback, other: samplers.Feedback) -> None:
    assert types(one) == types(other), (types(one), types(other))
    assert_same_arrays(reference.flat(one), reference.flat(other))


def types(feedback: samplers.Feedback) -> list[tuple[str, str, str]]:
    points = [*feedback.features.inputs, *feedback.features.hints, *feedback.outputs]
    return [(point.name, point.location, point.type_) for point in points]


def assert_same_trace(one: Trace, other: Trace) -> None:
    assert one.spec == other.spec, (one.spec, other.spec)
    assert_same_values(one, other)


def assert_same_values(one: Trace, other: Trace) -> None:
    for stage in ("inputs", "hints", "outputs"):
        assert_same_arrays(getattr(one, stage), getattr(other, stage))
    assert_same_arrays({"lengths": one.lengths}, {"lengths": other.lengths})


def assert_same_arrays(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert list(one) == list(other), (list(one), list(other))
    for name in one:
        assert one[name].dtype == other[name].dtype, name
        assert np.array_equal(one[name], other[name]), name


if __name__ == "__main__":
    main()
