"""Text models that answer the benchmark's questions in words, with or without a reasoner to look at (TransNAR)."""

from mechgap.training.transnar.compiled_reasoner import CompiledReasoner
from mechgap.training.transnar.config import EvaluationConfig, TextTrainingConfig
from mechgap.training.transnar.loop import train_text_models
from mechgap.training.transnar.reasoner import Reasoner
from mechgap.training.transnar.result import TextModels, load_text_models, save_text_models
from mechgap.training.transnar.shared_reasoner import SharedReasoner

__all__ = [
    "CompiledReasoner",
    "EvaluationConfig",
    "Reasoner",
    "SharedReasoner",
    "TextModels",
    "TextTrainingConfig",
    "load_text_models",
    "save_text_models",
    "train_text_models",
]
