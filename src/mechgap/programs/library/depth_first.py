"""Depth-first search: a token moves through the graph, down to white nodes and back along its stack."""

from mechgap.algorithms.depth_first import STRONGLY_CONNECTED_COMPONENTS_SPEC, TOPOLOGICAL_SORT_SPEC
from mechgap.algorithms.graph_search import DFS_SPEC, TICK
from mechgap.programs.expressions import Expression, back_edge, classes, edge, kept, me, other, when
from mechgap.programs.graph import (
    ALWAYS,
    Bool,
    GraphProgram,
    Node,
    Real,
    Select,
    StateVariable,
    argmax,
    argmin,
    match,
)
from mechgap.trace import Spec

STARTS = me.id.equals(argmin("first", other.id).id)
CHILD = argmin("child", other.id, where=other.white & edge.adj)
LOWEST = argmin("lowest", other.id, where=other.white)


def dfs(max_nodes: int = 1024) -> GraphProgram:
    """Depth-first search, all of the benchmark's hints.

    The clock counts to 2 ticks per node, of `max_nodes` at most.
    """
    time = Real("time", high=2 * TICK * max_nodes + TICK)
    now = me.time + TICK
    return _search(
        "dfs",
        DFS_SPEC,
        entered=me.begins | me.pushes,
        state=(Node("pi"), Real("d", high=time.high), Real("f", high=time.high), time),
        updates={
            "pi": when(me.is_child, me.at, me.pi),
            "d": when(me.is_found, now, me.d),
            "f": when(me.is_left, now, me.f),
            "time": me.time + TICK * me.entered + TICK * me.pops,  # never both
        },
        hints={"pi_h": me.pi, "d": me.d, "f": me.f, "time": me.time},
        outputs={"pi": me.pi},
    )


def topological_sort() -> GraphProgram:
    """A depth-first search that puts a node in front of the chain when it is popped; only roots are discovered in a
    frame of their own.
    """
    head = argmin("head", other.id, where=other.is_head)
    return _search(
        "topological_sort",
        TOPOLOGICAL_SORT_SPEC,
        entered=me.begins,
        state=(Node("topo"), Bool("is_head", STARTS)),
        selects=(head,),
        updates={
            "topo": when(me.is_left & head.black, head.id, me.topo),  # at first, a white node stands for the head
            "is_head": me.is_left | (me.is_head & ~me.pops),
        },
        hints={"topo_h": me.topo, "topo_head_h": me.is_head},
        outputs={"topo": me.topo, "topo_head": me.is_head},
    )


def strongly_connected_components(max_nodes: int = 1024) -> GraphProgram:
    """A search, and a second one against the edges, from the node that was left last on: its trees are the components.

    A node sees its own side of an edge alone. So the other side is remembered where the benchmark shows it, in the hint
    `A_t`, which is given in the first frame and fed back from then on.
    """
    time = Real("time", high=4 * TICK * max_nodes + TICK)
    now = me.time + TICK
    back_child = argmin("back_child", other.id, where=other.white & edge.A_t)
    latest = argmax("latest", other.f, where=other.is_next)  # of equal ones nobody asks: they are not next
    root = argmin("root", other.id, where=other.is_s)
    return _search(
        "strongly_connected_components",
        STRONGLY_CONNECTED_COMPONENTS_SPEC,
        entered=me.begins | (me.pushes & ~me.second),
        state=(Node("component"), Real("d", high=time.high), Real("f", high=time.high), time, Bool("second")),
        selects=(back_child, latest, root),
        lets=(
            Bool("turns", me.begins & ~LOWEST.found),  # all are black for the first time
            Bool("is_next", me.turns | (me.second & me.white)),
        ),
        child=when(me.second, back_child.id, CHILD.id),
        has_child=when(me.second, back_child.found, CHILD.found),
        root=when(me.second | me.turns, latest.id, LOWEST.id),
        has_root=LOWEST.found | ~me.second,
        updates={
            "component": when(me.second & me.is_at & ~me.done, root.id, me.component),
            "d": when(me.is_found, now, me.d),
            "f": when(me.is_left, now, me.f),
            "time": me.time + TICK * me.entered + TICK * me.pops,
            "second": me.second | me.turns,
            "black": (me.black & ~me.turns) | me.is_left,
        },
        hints={
            "scc_id_h": me.component,
            "A_t": kept(back_edge.adj, edge.A_t),
            "d": me.d,
            "f": me.f,
            "time": me.time,
            "phase": me.second,
        },
        outputs={"scc_id": me.component},
    )


def _search(
    name: str,
    spec: Spec,
    entered: Expression,
    state: tuple[StateVariable, ...],
    updates: dict[str, Expression],
    hints: dict[str, Expression],
    outputs: dict[str, Expression],
    selects: tuple[Select, ...] = (),
    lets: tuple[StateVariable, ...] = (),
    child: Expression = CHILD.id,
    has_child: Expression = CHILD.found,
    root: Expression = LOWEST.id,
    has_root: Expression = LOWEST.found,
) -> GraphProgram:
    """A search, and what else is kept and shown of it; whom it goes on to, and where the next tree begins.

    Every frame does one of four things to the top of the stack: a new root begins, a node is discovered, a white
    neighbour is pushed, or the top is popped. All nodes know what is done, because all listen to the token, the top.
    """
    first = argmin("first", other.id)
    last = argmax("last", other.id)
    token = argmin("token", other.id, where=other.top)
    scan = match("scan", other.id.equals(me.at))
    return GraphProgram(
        name=name,
        spec=spec,
        state=(
            Bool("top", STARTS),
            Bool("is_s", STARTS),
            Bool("is_u", STARTS),
            Bool("is_v", STARTS),
            Bool("entered", ALWAYS),  # the top is to be discovered
            Bool("popped"),
            Bool("grey"),
            Bool("black"),
            Node("s_prev"),
            *state,
        ),
        selects=(CHILD, first, last, token, LOWEST, scan, *selects),
        lets=(
            Bool("white", ~me.grey & ~me.black),
            Node("to", child),
            Bool("has_white", has_child),
            Node("at", when(me.popped, token.s_prev, token.id)),  # where the search goes on
            Bool("done", me.popped & token.is_s),  # with this tree
            Bool("is_at", me.id.equals(me.at)),
            Bool("begins", ~me.entered & me.done & has_root),
            Bool("pushes", ~me.entered & ~me.done & scan.has_white),
            Bool("pops", ~me.entered & ~me.done & ~scan.has_white),
            Bool("ends", ~me.entered & me.done & ~has_root),
            Bool("is_found", me.entered & me.top),
            Bool("is_root", me.begins & me.id.equals(root)),
            Bool("is_parent", me.pushes & me.is_at),
            Bool("is_child", me.pushes & me.id.equals(scan.to)),
            Bool("is_left", me.pops & me.is_at),
            *lets,
        ),
        updates={
            "top": me.is_root | me.is_child | me.is_left | (me.top & (me.entered | me.ends)),
            "is_s": me.is_root | (me.is_s & ~me.begins),
            "is_u": me.is_found | me.is_root | me.is_parent | me.is_left | (me.is_u & me.ends),
            "is_v": me.is_root | me.is_child | (me.pops & me.id.equals(last.id)) | (me.is_v & (me.entered | me.ends)),
            "entered": entered,
            "popped": me.pops | (me.popped & me.ends),
            "grey": me.is_child | me.is_found | (me.grey & ~me.is_left),
            "black": me.black | me.is_left,
            "s_prev": when(me.is_child, me.at, when(me.popped & me.top, me.id, me.s_prev)),
            **updates,
        },
        hints={
            "color": classes(1 - me.grey - me.black, me.grey, me.black),
            "s_prev": me.s_prev,
            "s": me.is_s,
            "u": me.is_u,
            "v": me.is_v,
            "s_last": me.top,
            **hints,
        },
        outputs=outputs,
        full=True,
        undirected=False,
        compared="child",
        algorithm=name,
    )
