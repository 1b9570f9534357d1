"""Programs in which a flag spreads from node to node."""

from mechgap.algorithms.graph_search import BFS_SPEC
from mechgap.programs.expressions import me, other, when
from mechgap.programs.graph import Bool, GraphProgram, Node, argmin, match, mean


def bfs() -> GraphProgram:
    """Breadth-first search: an unreached node joins through its lowest reached neighbour, and keeps that parent."""
    elsewhere = (
        argmin("lowest reached", other.id, where=other.reach),
        match("own parent", other.id.equals(me.pi)),
        mean("all neighbours"),
    )
    parent = argmin("parent", other.id, where=other.reach & ~me.reach, idle=elsewhere)
    return GraphProgram(
        name="bfs",
        spec=BFS_SPEC,
        state=(Bool("reach", init=me.s), Node("pi")),
        selects=(parent,),
        updates={
            "reach": me.reach | parent.reach,
            "pi": when(parent.is_me, me.pi, parent.id),
        },
        hints={"reach_h": me.reach, "pi_h": me.pi},
        outputs={"pi": me.pi},
        algorithm="bfs",
    )
