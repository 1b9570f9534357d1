"""Depth-first search: a token moves through the graph, down to white nodes and back along its stack."""

from mechgap.algorithms.graph_search import DFS_SPEC, TICK
from mechgap.programs.expressions import classes, edge, me, other, when
from mechgap.programs.graph import ALWAYS, Bool, GraphProgram, Node, Real, argmax, argmin, match


def dfs(max_nodes: int = 1024) -> GraphProgram:
    """Depth-first search, all of the benchmark's hints.

    Every frame does one of four things to the top of the stack: a new root begins, a node is discovered, a white
    neighbour is pushed, or the top is popped. All nodes know what is done, because all listen to the token, the top.
    The clock counts to 2 ticks per node, of `max_nodes` at most.
    """
    first = argmin("first", other.id)
    last = argmax("last", other.id)
    token = argmin("token", other.id, where=other.top)
    lowest = argmin("lowest", other.id, where=other.white)
    child = argmin("child", other.id, where=other.white & edge.adj)
    scan = match("scan", other.id.equals(me.at))
    starts = me.id.equals(first.id)
    time = Real("time", high=2 * TICK * max_nodes + TICK)
    now = me.time + TICK
    return GraphProgram(
        name="dfs",
        spec=DFS_SPEC,
        state=(
            Bool("top", starts),
            Bool("is_s", starts),
            Bool("is_u", starts),
            Bool("is_v", starts),
            Bool("entered", ALWAYS),  # the top was begun or pushed in the last frame, and is to be discovered
            Bool("popped"),
            Bool("grey"),
            Bool("black"),
            Node("pi"),
            Node("s_prev"),
            Real("d", high=time.high),
            Real("f", high=time.high),
            time,
        ),
        selects=(child, first, last, token, lowest, scan),
        lets=(
            Bool("white", ~me.grey & ~me.black),
            Node("to", child.id),
            Bool("has_white", child.found),
            Node("at", when(me.popped, token.s_prev, token.id)),  # where the search goes on
            Bool("done", me.popped & token.is_s),  # with this tree
            Bool("is_at", me.id.equals(me.at)),
            Bool("begins", ~me.entered & me.done & lowest.found),
            Bool("pushes", ~me.entered & ~me.done & scan.has_white),
            Bool("pops", ~me.entered & ~me.done & ~scan.has_white),
            Bool("ends", ~me.entered & me.done & ~lowest.found),
            Bool("is_found", me.entered & me.top),
            Bool("is_root", me.begins & me.id.equals(lowest.id)),
            Bool("is_parent", me.pushes & me.is_at),
            Bool("is_child", me.pushes & me.id.equals(scan.to)),
            Bool("is_left", me.pops & me.is_at),
        ),
        updates={
            "top": me.is_root | me.is_child | me.is_left | (me.top & (me.entered | me.ends)),
            "is_s": me.is_root | (me.is_s & ~me.begins),
            "is_u": me.is_found | me.is_root | me.is_parent | me.is_left | (me.is_u & me.ends),
            "is_v": me.is_root | me.is_child | (me.pops & me.id.equals(last.id)) | (me.is_v & (me.entered | me.ends)),
            "entered": me.begins | me.pushes,
            "popped": me.pops | (me.popped & me.ends),
            "grey": me.is_child | me.is_found | (me.grey & ~me.is_left),
            "black": me.black | me.is_left,
            "pi": when(me.is_child, me.at, me.pi),
            "s_prev": when(me.is_child, me.at, when(me.popped & me.top, me.id, me.s_prev)),
            "d": when(me.is_found, now, me.d),
            "f": when(me.is_left, now, me.f),
            "time": me.time + TICK * me.entered + TICK * me.pops,  # never both
        },
        hints={
            "pi_h": me.pi,
            "color": classes(1 - me.grey - me.black, me.grey, me.black),
            "d": me.d,
            "f": me.f,
            "s_prev": me.s_prev,
            "s": me.is_s,
            "u": me.is_u,
            "v": me.is_v,
            "s_last": me.top,
            "time": me.time,
        },
        outputs={"pi": me.pi},
        full=True,
        undirected=False,
        compared="child",
        algorithm="dfs",
    )
