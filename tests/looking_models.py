"""Untrained text models that look at an untrained reasoner through open gates."""

from dataclasses import replace

import equinox as eqx
import jax

from mechgap.training.transnar import TextModels, TextTrainingConfig
from mechgap.training.transnar.loop import initial_model
from small_text_models import made_reasoner

KNOWN = ("bfs", "insertion_sort")
CONFIG = TextTrainingConfig.from_settings(
    {
        **{"algorithms": KNOWN, "sizes": (4, 5), "buckets": (64,), "context": 256, "max_position": 512},
        **{"width": 12, "layers": 2, "heads": 2, "hidden": 16, "cross_attention": "every_second"},
    }
)
MANIFEST = {"parameters": 1}


def looking(config: TextTrainingConfig = CONFIG) -> TextModels:
    """TransNAR."""
    reasoner = made_reasoner(*KNOWN)
    model = initial_model(config, reasoner, 0)
    gates = jax.random.normal(jax.random.key(7), model.crosses.gates.shape)
    opened = eqx.tree_at(lambda m: m.crosses.gates, model, gates)
    return TextModels(config, (opened,), (reasoner,), {"loss": [1.0]}, MANIFEST)


def plain() -> TextModels:
    """The Transformer."""
    config = replace(CONFIG, cross_attention="none")
    return TextModels(config, (initial_model(config, None, 0),), (None,), {"loss": [1.0]}, MANIFEST)
