"""What functions are traced for: some forms of a computation are for one kind of device."""

import jax

CPU, GPU = "cpu", "gpu"


def present_platform() -> str:
    """The kind of device: the one that is asked for with JAX's own setting, or what there is."""
    asked = getattr(jax.config, "jax_default_device")  # noqa: B009  # its present value, inside a context manager too
    platform = asked or jax.default_backend()
    name = platform if isinstance(platform, str) else platform.platform
    return GPU if name == "cuda" else name
