"""Strictness for every test: no silent promotion, and Hypothesis profiles that suit jitted code."""

import jax
from hypothesis import settings

jax.config.update("jax_numpy_dtype_promotion", "standard")
# A first example compiles; a deadline would measure the compiler.
settings.register_profile("default", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("default")
