"""Strictness for every test: no silent promotion, and Hypothesis profiles that suit jitted code."""

import gc
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import jax
import pytest
from hypothesis import settings

from browser_pages import browser, visit  # noqa: F401  (fixtures)

jax.config.update("jax_numpy_dtype_promotion", "standard")
# A first example compiles; a deadline would measure the compiler.
settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=100, derandomize=True)  # of `make test-all`
settings.load_profile("default")

QUICKLY = "jax_disable_most_optimizations"
# Files whose slow tests are many small networks, each run for a moment: nearly all of their time is compiling.
SMALL_NETWORKS = ("test_padding", "test_slots", "test_multi_task", "test_transnar")


def pytest_configure(config: pytest.Config) -> None:
    """Compile quickly in the default run, whose programs run for a moment; most slow tests as users do."""
    jax.config.update(QUICKLY, "not slow" in config.option.markexpr)


@pytest.fixture(autouse=True, scope="module")
def _compile_small_networks_quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    before = jax.config.read(QUICKLY)
    jax.config.update(QUICKLY, before or request.path.stem in SMALL_NETWORKS)
    yield
    jax.config.update(QUICKLY, before)


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


TESTS = count(1)
MAPS = Path("/proc/self/maps")  # of memory; where there is none, no limit is known
MOST_MAPS = 25_000  # Linux grants 65 530, and a compiler that gets no more crashes


def forget_compiled_programs() -> None:
    """Let go of compiled programs, each of which takes memory maps."""
    jax.clear_caches()
    gc.collect()


@pytest.fixture(autouse=True, scope="module")
def _forget_after_a_module() -> Iterator[None]:
    yield
    forget_compiled_programs()


@pytest.fixture(autouse=True)
def _forget_when_there_are_too_many(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    # Counting takes a while, too; a slow test takes longer, and may compile hundreds of programs.
    is_due = next(TESTS) % 20 == 0 or request.node.get_closest_marker("slow") is not None
    if is_due and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        forget_compiled_programs()
