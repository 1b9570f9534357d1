"""Strictness for every test: no silent promotion, and Hypothesis profiles that suit jitted code."""

import gc
from collections.abc import Iterator

import jax
import pytest
from hypothesis import settings

from browser_pages import browser, visit  # noqa: F401  (fixtures)

jax.config.update("jax_numpy_dtype_promotion", "standard")
# A first example compiles; a deadline would measure the compiler.
settings.register_profile("default", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    """Compile quickly in the default run, whose programs run for a moment; `make test-all` compiles as users do."""
    jax.config.update("jax_disable_most_optimizations", "not slow" in config.option.markexpr)


# Files that take longest, in this order: they start first, so that in the end no worker goes on alone for long.
LONGEST = (
    *("alta", "gap_report", "circuits", "training", "transnar_training", "multi_task", "faithfulness", "cli"),
    *("training_reference", "golden", "compiler", "pairwise", "sequences", "transnar_study", "text", "padding"),
    *("faithfulness_more", "slots", "networks_reference", "networks", "transnar", "export", "transnar_page", "sweep"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first; the order within a file stays."""
    places = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs() -> Iterator[None]:
    """Let go of a module's compiled programs: thousands of them in one process exhaust its memory maps."""
    yield
    jax.clear_caches()
    gc.collect()
