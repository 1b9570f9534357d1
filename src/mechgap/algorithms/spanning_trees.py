"""Minimum spanning trees: Prim."""

from jaxtyping import Array

from mechgap.algorithms.definition import Algorithm, Run
from mechgap.algorithms.distributions import ErdosRenyi
from mechgap.algorithms.shortest_paths import grow_tree, queue_spec


def mst_prim(inputs: dict[str, Array], steps: int) -> Run:
    """The node nearest to the tree joins it; its edges offer their own length."""
    return grow_tree(inputs, steps, "key", cumulative=False)


MST_PRIM = Algorithm(
    "mst_prim", queue_spec("key"), mst_prim, ErdosRenyi(weighted=True, source=True), max_steps=lambda n: n + 1
)
