"""Room for the variables of many algorithms in one spec, so that one network, compiled once, serves them all.

A slot is a variable of the shared spec; a variable of an algorithm fills the first free slot that looks like it (the
same stage, location, kind and number of classes). A network over the shared spec has the weights of an algorithm in its
slots and zeros in the others, and `asked` tells it which hints exist, since a predicted pointer would join nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from mechgap.algorithms.inputs import nearest
from mechgap.networks.clrs_net import ClrsNet
from mechgap.networks.config import NetConfig
from mechgap.networks.padding import pad_value
from mechgap.trace import Kind, Spec, Stage, Values, Variable

MASK_OF = "_mask"  # the end of the name of a permutation's mask: it lies beside the slot of its permutation


@dataclass(frozen=True)
class Slots:
    """How the variables of some algorithms fit into one spec.

    Attributes:
        specs: (algorithm, its variables), in the order of the algorithms' numbers.
    """

    specs: tuple[tuple[str, Spec], ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The names, in the order of their numbers."""
        return tuple(name for name, _ in self.specs)

    @cached_property
    def names(self) -> dict[str, dict[str, str]]:
        """algorithm -> variable -> slot."""
        return {name: _slots_of(spec) for name, spec in self.specs}

    @cached_property
    def spec(self) -> Spec:
        """The shared spec: as many slots of a look as the algorithm that needs most of them."""
        slots: dict[str, Variable] = {}
        for name, spec in self.specs:
            for variable in spec:
                slot = self.names[name][variable.name]
                slots.setdefault(slot, replace(variable, name=slot, permutation=False))
        order = sorted(slots, key=lambda slot: (list(Stage).index(slots[slot].stage), slot != "pos", slot))
        return Spec(tuple(slots[slot] for slot in order))

    @cached_property
    def filled(self) -> dict[str, np.ndarray]:
        """slot -> [algorithms]: 1 where the algorithm has a variable there."""
        return {
            v.name: np.array([v.name in self.names[a].values() for a in self.algorithms], np.float32) for v in self.spec
        }

    def put(self, algorithm: str, values: Mapping[str, Any], nodes: int) -> Values:
        """An algorithm's values by slot, on graphs of `nodes` nodes: [*leading, n, ...] -> [*leading, nodes, ...].

        Absent nodes are 0. Empty slots are not in the result (see `blank`).
        """
        if algorithm not in self.algorithms:
            raise ValueError(f"No slots of {algorithm!r}. {nearest(algorithm, self.algorithms)}")
        spec = dict(self.specs)[algorithm]
        return {self.names[algorithm][name]: pad_value(spec[name], np.asarray(x), nodes) for name, x in values.items()}

    def blank(self, slot: str, nodes: int) -> np.ndarray:
        """What an empty slot holds, of one sample: it is fed as zeros, and its loss is not counted, but is a number."""
        variable = self.spec[slot]
        blank = np.zeros(variable.shape(nodes), np.float32)
        if variable.kind in (Kind.MASK_ONE, Kind.CATEGORICAL, Kind.PERMUTATION_POINTER):
            blank[..., 0] = 1
        return blank


class SharedNet(eqx.Module):
    """One processor, and the encoders and decoders of many algorithms.

    Attributes:
        networks: a `ClrsNet` over the shared spec whose encoders and decoders have the algorithms in front.
        slots: which variable lies where.
    """

    networks: ClrsNet
    slots: Slots = eqx.field(static=True)

    @classmethod
    def init(cls, slots: Slots, config: NetConfig, *, key: PRNGKeyArray) -> "SharedNet":
        """Random weights, each algorithm's encoders and decoders as those of a network of its own; 0 in empty slots."""
        of_processor, of_algorithms = jax.random.split(key)
        one = ClrsNet.init(slots.spec, config, key=of_processor)
        keys = jax.random.split(of_algorithms, len(slots.algorithms))
        each = jax.vmap(lambda k: ClrsNet.init(slots.spec, config, key=k))(keys)
        return cls(eqx.tree_at(_of_algorithms, one, _emptied(_of_algorithms(each), slots.filled)), slots)

    def network(self, number: Int[Array, ""] | int) -> ClrsNet:
        """The network of one algorithm, over the shared spec; its number may be traced."""
        mine = jax.tree.map(lambda x: x[number], _of_algorithms(self.networks))
        # They are empty anyway, and no gradient may fill them.
        return eqx.tree_at(_of_algorithms, self.networks, _emptied(mine, self.asked(number)))

    def asked(self, number: Int[Array, ""] | int) -> dict[str, Array]:
        """slot -> 1 where the algorithm has such a variable, else 0."""
        return {slot: jnp.asarray(where)[number] for slot, where in self.slots.filled.items()}


def without_empty_slots(arrays: Mapping[str, Any], slots: Slots, axis: int = 0) -> dict[str, np.ndarray]:
    """The arrays of a `SharedNet` by their names, without the rows of algorithms that leave a slot empty: most rows.

    Args:
        arrays: named by the path that leads to them, e.g. "networks.encoders.pos.0.weight".
        slots: those of the network.
        axis: of the algorithms.
    """
    found = {}
    for name, x in arrays.items():
        rows = _rows(slots, name)
        found[name] = np.asarray(x) if rows is None else np.take(np.asarray(x), rows, axis)
    return found


def with_empty_slots(arrays: Mapping[str, Any], slots: Slots, axis: int = 0) -> dict[str, np.ndarray]:
    """What `without_empty_slots` left out, put back."""
    found = {}
    for name, x in arrays.items():
        rows = _rows(slots, name)
        found[name] = np.asarray(x)
        if rows is not None:
            found[name] = np.zeros((*x.shape[:axis], len(slots.algorithms), *x.shape[axis + 1 :]), x.dtype)
            found[name][(slice(None),) * axis + (rows,)] = x
    return found


def _rows(slots: Slots, name: str) -> np.ndarray | None:
    """The numbers of the algorithms that an array is for, if it has a row for each."""
    words = name.split(".")
    for part in ("encoders", "decoders"):
        slot = words[words.index(part) + 1] if part in words else None
        if slot in slots.filled:
            return np.flatnonzero(slots.filled[slot])
    return None


def _of_algorithms(net: ClrsNet) -> tuple[dict, dict]:
    return net.encoders, net.decoders


def _emptied(parts: tuple[dict, dict], filled: Mapping[str, Any]) -> tuple[dict, dict]:
    """Encoders and decoders by slot, of one algorithm or of all, with zeros where `filled` says 0."""

    def of_slot(layers: Any, full: Any) -> Any:
        return jax.tree.map(lambda x: x * jnp.reshape(full, jnp.shape(full) + (1,) * (x.ndim - jnp.ndim(full))), layers)

    encoders, decoders = ({slot: of_slot(layers, filled[slot]) for slot, layers in part.items()} for part in parts)
    return encoders, decoders


def _slots_of(spec: Spec) -> dict[str, str]:
    slots: dict[str, str] = {}
    used: dict[str, int] = {}
    permutations = {v.name for v in spec if v.kind == Kind.PERMUTATION_POINTER}
    for variable in spec:
        if variable.name == "pos":
            slots[variable.name] = "pos"
        elif variable.name.removesuffix(MASK_OF) in permutations - {variable.name}:
            slots[variable.name] = slots[variable.name.removesuffix(MASK_OF)] + MASK_OF
        else:
            classes = () if variable.classes is None else (str(variable.classes),)
            look = "_".join([variable.stage, variable.location, variable.kind, *classes])
            used[look] = used.get(look, -1) + 1
            slots[variable.name] = f"{look}_{used[look]}"
    return slots
