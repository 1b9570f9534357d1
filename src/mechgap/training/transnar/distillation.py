"""Distillation: a trained text model answers questions, and another one, which looks at no reasoner, learns from that.

The teacher's answers are taken as they are, right or wrong. What a student can learn beyond a plain Transformer is what
it is told about sizes that it has no right answers of.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mechgap.algorithms import text
from mechgap.algorithms.text import Example
from mechgap.training.config import hashed_name
from mechgap.training.transnar.config import EvaluationConfig, TextTrainingConfig
from mechgap.training.transnar.data import Group, load_groups, save_groups
from mechgap.training.transnar.evaluation import answers
from mechgap.training.transnar.result import TextModels

AT_ONCE = 256  # questions


def taught_groups(
    config: TextTrainingConfig,
    groups: Sequence[Group],
    teacher: TextModels,
    taught_by: str = "",
    folder: str | Path | None = None,
) -> tuple[Group, ...]:
    """Questions whose extra sizes are answered by the first model of a result; kept in a file of the folder.

    Args:
        config: of the student: it says which sizes.
        groups: all questions, with right answers.
        teacher: who answers.
        taught_by: the teacher's fingerprint, for the file.
        folder: where the file lies; None for nowhere.
    """
    own = [group for group in groups if group.size not in config.extra_sizes]
    extra = [group for group in groups if group.size in config.extra_sizes]
    what = [config.algorithms, config.extra_sizes, config.extra_samples, config.data_seed, taught_by]
    path = None if folder is None else Path(folder) / f"{hashed_name('taught', json.dumps(what))}.safetensors"
    if path is not None and path.exists():
        return (*own, *load_groups(path))
    taught = answered(extra, teacher)
    if path is not None:
        save_groups(path, taught)
    return (*own, *taught)


def answered(groups: Sequence[Group], teacher: TextModels) -> tuple[Group, ...]:
    """The same questions with a teacher's answers."""
    examples = [example for group in groups for example in examples_of(group)]
    evaluation = EvaluationConfig(together=AT_ONCE)
    said = iter(answers(teacher.models[0], teacher.config, teacher.reasoners[0], examples, evaluation))
    return tuple(
        replace(group, ids=tuple(_with_answer(ids[:start], next(said)) for ids, start in _questions(group)))
        for group in groups
    )


def examples_of(group: Group) -> list[Example]:
    """Questions and answers as texts."""
    pairs = [(text.decode(ids[:start]), text.decode(ids[start:])) for ids, start in _questions(group)]
    return [Example(question, answer, group.algorithm, group.size) for question, answer in pairs]


def share_right(taught: Sequence[Group], groups: Sequence[Group]) -> dict[str, float]:
    """How good the answers of some questions are, by the right ones: the mean CLRS score of every size."""
    found: dict[int, list[float]] = {}
    for mine, theirs in zip(taught, groups, strict=True):
        for said, right in zip(examples_of(mine), examples_of(theirs), strict=True):
            found.setdefault(mine.size, []).append(text.score(said.answer, right.answer).clrs)
    return {str(n): float(np.mean(scores)) for n, scores in sorted(found.items())}


def _questions(group: Group) -> list[tuple[np.ndarray, int]]:
    return list(zip(group.ids, group.starts.tolist(), strict=True))


def _with_answer(question: np.ndarray, answer: str) -> np.ndarray:
    return np.concatenate([question, np.array([*text.encode(answer), text.EOS], np.uint8)])
