"""Settings and reasoners that are small enough for tests of text models."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mechgap.networks.slots import SharedNet
from mechgap.training.multi_task import MultiTaskConfig
from mechgap.training.multi_task.pool import slots_of, sources_of
from mechgap.training.transnar import SharedReasoner, TextTrainingConfig

SMALL = {
    "algorithms": ("bfs", "minimum"),
    "sizes": (4, 5),
    "samples": 6,
    "buckets": (64,),
    "tokens": 256,
    "steps": 6,
    "warmup": 2,
    "width": 8,
    "layers": 2,
    "heads": 2,
    "hidden": 16,
    "context": 64,
    "max_position": 128,
}
CONFIG = TextTrainingConfig.from_settings(SMALL)
PLAIN = replace(CONFIG, cross_attention="none")


def made_reasoner(*names: str, frames: int = 4, hidden: int = 8, processor: str = "triplet_gmpnn") -> SharedReasoner:
    """An untrained one: what must hold, holds for any weights."""
    settings = {"algorithms": names, "hint_mode": "none", "frames": frames, "hidden": hidden}
    of_processor = {"triplet_features": 2} if processor == "triplet_gmpnn" else {}
    config = MultiTaskConfig.from_settings({**settings, "processor": processor, **of_processor})
    slots, rng = slots_of(sources_of(config)), np.random.default_rng(1)
    shapes = eqx.filter_eval_shape(lambda key: SharedNet.init(slots, config.network, key=key), jax.random.key(0))
    drawn = jax.tree.map(lambda x: jnp.asarray(0.5 * rng.normal(size=x.shape), jnp.float32), shapes)
    return SharedReasoner(drawn, frames)
