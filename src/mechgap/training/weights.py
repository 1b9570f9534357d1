"""Networks as files: safetensors with a leading member axis, and a header from which the network is rebuilt."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mechgap.networks import ClrsNet, NetConfig
from mechgap.storage import read_tensors, write_tensors
from mechgap.trace import Kind, Location, Spec, Stage, Variable

FORMAT = "mechgap.network/1"


def named(tree: PyTree) -> dict[str, Any]:
    """The arrays of a tree by the path that leads to them, e.g. "processor.value.weight"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_dotted(path): leaf for path, leaf in leaves}


def renamed(skeleton: PyTree, arrays: Mapping[str, Any], what: str) -> Any:
    """A tree like the skeleton with these arrays; every missing, unexpected or misshapen one is named at once."""
    wanted = named(skeleton)
    problems = [f"missing: {name}, of shape {tuple(x.shape)}" for name, x in wanted.items() if name not in arrays]
    problems += [f"unexpected: {name}" for name in arrays if name not in wanted]
    problems += [
        f"{name} must be {x.dtype}{list(x.shape)}; got {arrays[name].dtype}{list(arrays[name].shape)}"
        for name, x in wanted.items()
        if name in arrays and (arrays[name].shape, arrays[name].dtype) != (x.shape, x.dtype)
    ]
    if problems:
        shown = problems[:8] + ([f"... and {len(problems) - 8} more"] if len(problems) > 8 else [])
        raise ValueError(f"{what} does not fit:\n  " + "\n  ".join(shown))
    return jax.tree.unflatten(jax.tree.structure(skeleton), [arrays[name] for name in wanted])


def save_networks(path: str | Path, networks: ClrsNet, about: Mapping[str, Any] | None = None) -> None:
    """Write networks (one, or several with a leading axis); the header holds spec, architecture and `about`."""
    header = {
        "format": FORMAT,
        "spec": [asdict(v) for v in networks.spec],
        "config": asdict(networks.config),
        "about": dict(about or {}),
    }
    write_tensors(path, {name: np.asarray(x) for name, x in named(networks).items()}, header)


def load_networks(path: str | Path) -> tuple[ClrsNet, dict[str, Any]]:
    """Read what `save_networks` wrote, in the precision it was written in: the networks and `about`."""
    tensors, header = read_tensors(path, FORMAT)
    spec = Spec(tuple(variable_of(v) for v in header["spec"]))
    # Whatever JAX is set to: it would round float64 to float32, and say nothing.
    with jax.enable_x64(any(x.dtype == np.float64 for x in tensors.values())):
        skeleton = skeleton_of(spec, NetConfig(**header["config"]))
        count = _members(skeleton, tensors)
        if count is not None:
            skeleton = jax.tree.map(lambda x: jax.ShapeDtypeStruct((count, *x.shape), x.dtype), skeleton)
        arrays = {name: jnp.asarray(x) for name, x in tensors.items()}
    return renamed(skeleton, arrays, f"The network in {path}"), header["about"]


def skeleton_of(spec: Spec, config: NetConfig) -> Any:
    """The shapes of one network."""
    return jax.eval_shape(lambda key: ClrsNet.init(spec, config, key=key), jax.random.key(0))


def digest(network: PyTree) -> str:
    """A hash of a network's weights and names."""
    sha = hashlib.sha256()
    for name, x in sorted(named(network).items()):
        sha.update(f"{name} {x.dtype} {x.shape}".encode())
        sha.update(np.ascontiguousarray(x).tobytes())
    return sha.hexdigest()


def starting_point(given: Any, spec: Spec, config: NetConfig) -> ClrsNet:
    """The weights of a network as those of an architecture; what does not fit is an error.

    Args:
        given: a file name, a network, or anything that has one as `.network`, such as a compiled program.
        spec: the variables of the network to train.
        config: its architecture.
    """
    network = network_of(given)
    differing = [f.name for f in fields(NetConfig) if getattr(network.config, f.name) != getattr(config, f.name)]
    differing = [name for name in differing if name not in ("precision", "encoder_init")]
    if differing:
        changes = ", ".join(f"{name} = {getattr(network.config, name)!r}" for name in differing)
        raise ValueError(f"init_from has another architecture than these settings. To train it, set {changes}.")
    if set(network.spec) != set(spec):
        odd = sorted({v.name for v in set(network.spec) ^ set(spec)})
        raise ValueError(f"init_from was made for other variables than the algorithm's; they differ in {odd}.")
    skeleton = skeleton_of(spec, config)
    given_as, trained_as = (tree.dtype for tree in (network, skeleton))
    if given_as != trained_as:
        raise ValueError(
            f"init_from has {given_as} weights, and networks are trained in {trained_as} here; they are not rounded "
            f"in silence. Compile with dtype='{trained_as}', or round them yourself: "
            f"jax.tree.map(lambda x: x.astype('{trained_as}'), network)."
        )
    return renamed(skeleton, named(network), "init_from")


def network_of(given: Any) -> ClrsNet:
    """The network that is meant: itself, that of a compiled program, or that in a file."""
    if isinstance(given, str | Path):
        return load_networks(given)[0]
    network = getattr(given, "network", given)
    if not isinstance(network, ClrsNet):
        raise TypeError(f"init_from must be a file, a network or a compiled program; got {type(given).__name__}.")
    return network


def _dotted(path: Iterable[Any]) -> str:
    return ".".join(str(getattr(k, "name", getattr(k, "key", getattr(k, "idx", k)))) for k in path)


def _members(skeleton: Any, tensors: Mapping[str, Any]) -> int | None:
    """How many networks a file holds; None for one without a member axis."""
    for name, x in named(skeleton).items():
        if name in tensors and tensors[name].ndim > x.ndim:
            return int(tensors[name].shape[0])
    return None


def variable_of(values: dict[str, Any]) -> Variable:
    """A variable from the plain values of its fields."""
    words = {
        "stage": Stage(values["stage"]),
        "location": Location(values["location"]),
        "kind": Kind(values["kind"]),
    }
    return Variable(**{**values, **words})
