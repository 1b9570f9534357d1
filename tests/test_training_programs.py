"""Compiled programs: one per plan, shapes and settings, and traced with the settings of whoever asked for it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from mechgap.networks import pairwise
from mechgap.training.data import run_once
from mechgap.training.ensemble import initial_state, plan_of
from mechgap.training.members import make_members
from mechgap.training.programs import make_mesh, step_programs
from mechgap.training.weights import named
from test_training import TINY
from test_training import compile_quickly as compile_quickly

Program = Callable[..., Any]


class Asked:
    """Compiles the step of a tiny plan, and knows how often and under which precision it was traced in plain form."""

    def __init__(self) -> None:
        config = replace(TINY, sizes=(4,), hidden=4, batch=2, seeds=1, hint_mode="none")
        self.plan, self.members = plan_of(config), make_members([config])
        self.state = run_once(lambda: initial_state(self.plan, self.members, None))
        self.plain: list[str | None] = []

    def step(self) -> Program:
        self.plain.clear()
        return step_programs(self.plan, (4,), self.state, self.members, make_mesh(1, None))[4]

    def weights(self, program: Program) -> dict[str, np.ndarray]:
        copy = jax.tree.map(lambda x: x.copy(), self.state)  # a step uses up what it is given
        return {name: np.asarray(x) for name, x in named(program(copy, self.members)[0].network).items()}


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    asked, definition = Asked(), pairwise.plain_attention_scores

    def counted(*arrays: Any) -> Any:
        asked.plain.append(pairwise._setting("jax_default_matmul_precision"))
        return definition(*arrays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairwise, "plain_attention_scores", counted)
        yield asked


@pytest.mark.slow
def test_every_pairwise_form_has_a_program_of_its_own(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    with pairwise.use_form("recompute"):
        recomputed = asked.step()
        assert not asked.plain
    with pairwise.use_form("plain"):
        plain = asked.step()
        assert asked.plain, "the form is that of the thread that asked, in whichever thread a program is compiled"
    assert plain is not recomputed
    monkeypatch.setenv(pairwise.VARIABLE, "plain")
    assert asked.step() is plain
    monkeypatch.setenv(pairwise.VARIABLE, "recompute")
    assert asked.step() is recomputed
    assert not asked.plain, "nothing is traced twice"
    ours, theirs = asked.weights(plain), asked.weights(recomputed)
    for name, x in ours.items():
        np.testing.assert_allclose(x, theirs[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_steps_are_traced_in_the_precision_of_whoever_asks(asked: Asked) -> None:
    with pairwise.use_form("plain"):
        usual = asked.step()
        with jax.default_matmul_precision("highest"):
            highest = asked.step()
            assert set(asked.plain) == {"highest"}
            assert asked.step() is highest
        assert asked.step() is usual is not highest


def test_an_unknown_form_is_refused(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pairwise.VARIABLE, "plane")
    with pytest.raises(ValueError, match="MECHGAP_PAIRWISE must be one of 'plain', 'recompute', 'kernel'; got 'plane'"):
        asked.step()
