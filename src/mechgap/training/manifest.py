"""What a result was made with."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax

from mechgap import __version__

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy")


def made_with(devices: int = 1) -> dict[str, Any]:
    """Versions and device, for the manifest of a result."""
    device = jax.local_devices()[0]
    return {
        "versions": {
            "python": platform.python_version(),
            "mechgap": __version__,
            **{name: _version(name) for name in PACKAGES},
        },
        "device": {"platform": device.platform, "kind": device.device_kind, "used": devices},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder of sources
        return "unknown"
