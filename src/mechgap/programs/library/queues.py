"""Programs that grow a tree by taking the best node out of a queue: Dijkstra's and Prim's."""

from collections.abc import Callable

from mechgap.algorithms.shortest_paths import queue_spec
from mechgap.programs.expressions import Expression, edge, me, other, when
from mechgap.programs.graph import Bool, GraphProgram, Node, Real, Select, argmin
from mechgap.programs.library.relaxation import HEAVIEST


def dijkstra(max_distance: float = 8.0) -> GraphProgram:
    """Shortest paths: the nearest node of the queue is final, and offers its distance plus the edge to its neighbours.

    Distances are below `max_distance`.
    """
    return _grown_tree("dijkstra", "d", max_distance, lambda nearest, along: nearest.d + along)


def mst_prim() -> GraphProgram:
    """A minimum spanning tree: the node of the queue that is cheapest to reach joins, and offers its edges."""
    return _grown_tree("mst_prim", "key", HEAVIEST, lambda _, along: along)


def _grown_tree(name: str, key: str, most: float, offer: Callable[[Select, Expression], Expression]) -> GraphProgram:
    value = getattr(me, key)
    nearest = argmin("nearest", getattr(other, key), where=other.queued)
    via = argmin("via", other.id, where=other.taken & edge.adj & ~me.marked & ~me.taken)
    return GraphProgram(
        name=name,
        spec=queue_spec(key),
        state=(
            Real(key, high=most),
            Bool("marked"),
            Bool("queued", me.s),
            Bool("is_u", me.s),
            Node("pi"),
        ),
        selects=(via, nearest),
        lets=(
            Bool("taken", nearest.found & me.id.equals(nearest.id)),
            Real("offer", offer(nearest, via.edge.A), 0, most + HEAVIEST),
            Bool("takes", via.found & (~me.queued | (me.offer < value))),
        ),
        updates={
            key: when(me.takes, me.offer, value),
            "marked": me.marked | me.taken,
            "queued": (me.queued & ~me.taken) | me.takes,
            "is_u": when(nearest.found, me.taken, me.is_u),
            "pi": when(me.takes, nearest.id, me.pi),
        },
        hints={"pi_h": me.pi, key: value, "mark": me.marked, "in_queue": me.queued, "u": me.is_u},
        outputs={"pi": me.pi},
        weights={"A": (0.0, HEAVIEST)},
        full=True,
        algorithm=name,
    )
