"""Programs in which a value improves until it cannot: distances, widths, hops, labels."""

from mechgap.algorithms.graph_search import GRAPH_INPUTS, PARENT, PARENT_HINT, SOURCE
from mechgap.algorithms.shortest_paths import BELLMAN_FORD_SPEC
from mechgap.algorithms.variables import POSITION
from mechgap.programs.expressions import edge, me, minimum, other, when
from mechgap.programs.graph import Bool, GraphProgram, Node, Real, argmax, argmin, match, mean
from mechgap.trace import Kind, Location, Spec, Stage, Variable

HEAVIEST = 1.01  # above the benchmark's largest weight, sqrt(1 + 1e-3)


def bellman_ford(max_distance: float = 8.0) -> GraphProgram:
    """Shortest paths: a node takes the smallest of its neighbours' distances plus the edge, if that is an improvement.

    A node that is not reached has the distance `max_distance`, and shows 0, as the benchmark does.
    """
    elsewhere = (
        argmin("best offer", other.dist + edge.A, where=other.msk),
        match("own parent", other.id.equals(me.pi)),
        mean("all neighbours"),
    )
    via = argmin("via", other.dist + edge.A, where=other.msk, below=me.dist, idle=elsewhere)
    return GraphProgram(
        name="bellman_ford",
        spec=BELLMAN_FORD_SPEC,
        state=(
            Bool("msk", init=me.s),
            Real("dist", when(me.s, 0, max_distance), 0, max_distance, high_is_infinite=True),
            Node("pi"),
        ),
        selects=(via,),
        updates={
            "msk": me.msk | via.msk,
            "dist": when(via.is_me, me.dist, via.dist + via.edge.A),
            "pi": when(via.is_me, me.pi, via.id),
        },
        hints={"pi_h": me.pi, "d": me.dist - max_distance * ~me.msk, "msk": me.msk},
        outputs={"pi": me.pi},
        weights={"A": (0.0, HEAVIEST)},
        algorithm="bellman_ford",
    )


def widest_path() -> GraphProgram:
    """Widest paths: the width of a path is its narrowest edge; a node listens to whoever offers the widest."""
    via = argmax("via", minimum(other.width, edge.A), above=me.width)
    width = Variable("width", Stage.HINT, Location.NODE, Kind.SCALAR)
    return GraphProgram(
        name="widest_path",
        spec=Spec((POSITION, SOURCE, *GRAPH_INPUTS, PARENT_HINT, width, PARENT)),
        state=(Real("width", HEAVIEST * me.s, 0, HEAVIEST), Node("pi")),
        selects=(via,),
        updates={
            "width": when(via.is_me, me.width, minimum(via.width, via.edge.A)),
            "pi": when(via.is_me, me.pi, via.id),
        },
        hints={"pi_h": me.pi, "width": me.width},
        outputs={"pi": me.pi},
        weights={"A": (0.0, HEAVIEST)},
    )


def k_hop(hops: int = 2) -> GraphProgram:
    """Which nodes are at most `hops` edges away: the source has fuel for that many, and every edge burns one unit."""
    via = argmax("via", other.fuel - 1, above=me.fuel)
    within = Variable("within_h", Stage.HINT, Location.NODE, Kind.MASK)
    result = Variable("within", Stage.OUTPUT, Location.NODE, Kind.MASK)
    return GraphProgram(
        name="k_hop",
        spec=Spec((POSITION, SOURCE, *GRAPH_INPUTS, within, result)),
        state=(Real("fuel", (hops + 1) * me.s, 0, hops + 1, resolution=1),),
        selects=(via,),
        updates={"fuel": when(via.is_me, me.fuel, via.fuel - 1)},
        hints={"within_h": me.fuel > 0},
        outputs={"within": me.fuel > 0},
        weights={"A": (0.0, HEAVIEST)},
    )


def connected_components() -> GraphProgram:
    """Every node ends with the lowest node of its component: it takes the lowest label around it."""
    lowest = argmin("lowest", other.label, below=me.label)
    label = Variable("label_h", Stage.HINT, Location.NODE, Kind.POINTER)
    result = Variable("label", Stage.OUTPUT, Location.NODE, Kind.POINTER)
    return GraphProgram(
        name="connected_components",
        spec=Spec((POSITION, *GRAPH_INPUTS, label, result)),
        state=(Node("label"),),
        selects=(lowest,),
        updates={"label": lowest.label},
        hints={"label_h": me.label},
        outputs={"label": me.label},
        weights={"A": (0.0, HEAVIEST)},
    )
