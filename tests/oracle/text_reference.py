"""CLRS-Text as the reference package writes it. Import `reference` first."""

import warnings

import repaired  # noqa: F401  the answers of naive_string_matcher
from clrs._src import samplers, specs
from clrs._src.clrs_text import clrs_utils

ALGORITHMS = tuple(specs.CLRS_30_ALGS)


def written(name: str, n: int, seed: int, count: int, decimals: int | None, hints: bool) -> list[list[str]]:
    """[question, answer] of the first samples of a seed."""
    warnings.simplefilter("ignore", DeprecationWarning)  # the samplers of hulls take the cross product of 2-vectors
    sampler, _ = samplers.build_sampler(
        name, num_samples=-1, length=n, seed=seed, track_max_steps=False, truncate_decimals=decimals
    )
    drawn = (sampler.next(batch_size=1) for _ in range(count))
    return [list(clrs_utils.format_clrs_example(name, sample, use_hints=hints)) for sample in drawn]
