"""The network of one algorithm, without those it shares its processor with."""

from mechgap.networks import ClrsNet
from mechgap.networks.slots import SharedNet


def own_network(shared: SharedNet, algorithm: str) -> ClrsNet:
    """A network over the algorithm's own variables, with its weights."""
    slots, spec = shared.slots.names[algorithm], dict(shared.slots.specs)[algorithm]
    mine = shared.network(shared.slots.algorithms.index(algorithm))
    encoders, decoders = (
        {v.name: part[slots[v.name]] for v in spec if slots[v.name] in part} for part in (mine.encoders, mine.decoders)
    )
    return ClrsNet(encoders, mine.processor, decoders, spec, mine.config)
