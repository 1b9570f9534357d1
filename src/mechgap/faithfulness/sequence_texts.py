"""How many texts a training on sequences was tested on, slice by slice."""

from collections.abc import Mapping
from functools import cache

from mechgap.faithfulness.sequence_presets import SequenceStudy
from mechgap.faithfulness.sequence_result import SHARPNESSES, SequenceResult, seen_ones, with_heads
from mechgap.programs.tasks import PARITY_TESTS, parity_task, published_file, scan_task


def texts_in(result: SequenceResult) -> Mapping[str, int]:
    """Slice -> how many texts it has, as a result says; of one of before, which does not, they are made again."""
    manifest = result.manifest
    return manifest["texts"] if "texts" in manifest else count_texts(result.study, manifest.get("tests", 1))


def count_texts(study: SequenceStudy, tests: int = PARITY_TESTS) -> Mapping[str, int]:
    """The texts of every slice of a study's test set; nothing where a published split is not here.

    Args:
        study: what was tested.
        tests: the test set of parity that was in use, see `PARITY_TESTS`.
    """
    if study.split is None:
        return _bits(study.train_length, study.each, tests)
    file = published_file(study.split)
    if file is not None and not file.exists():
        return {}
    (commands,) = scan_task(study.split).tests.values()
    return {"test": len(commands)}


@cache
def _bits(longest: int, each: int, tests: int) -> Mapping[str, int]:
    slices = parity_task(longest, 2 * longest, each=each).tests
    sizes = {name: len(texts) for name, texts in slices.items()}
    sizes |= {with_heads(sharpness, longest): sizes[f"length <= {longest}"] for sharpness in SHARPNESSES}
    longer = f"length > {longest}"
    if tests < PARITY_TESTS:  # they were what is left of a test set of `each` texts for every number of ones
        return sizes | {longer: each * (2 * longest + 1) - sizes[f"length <= {longest}"]}
    return sizes | {seen_ones(longest): sum(text.count("1") <= longest for text in slices[longer])}
