"""Depth-first search: a token moves through the graph, down to white nodes and back along its stack."""

from mechgap.algorithms.graph_search import DFS_SPEC, TICK
from mechgap.programs.expressions import classes, edge, me, other, when
from mechgap.programs.graph import ALWAYS, Bool, GraphProgram, Node, Real, argmax, argmin, match


def dfs(max_nodes: int = 64) -> GraphProgram:
    """Depth-first search, all of the benchmark's hints.

    Every frame does one of four things to the top of the stack: a new root begins, a node is discovered, a white
    neighbour is pushed, or the top is popped. All nodes know what is done, because all listen to the token, the top.
    The clock counts to 2 ticks per node, of `max_nodes` at most.
    """
    white = ~other.grey & ~other.black
    first = argmin("first", other.id)
    last = argmax("last", other.id)
    token = argmin("token", other.id, where=other.top)
    lowest = argmin("lowest", other.id, where=white)
    child = argmin("child", other.id, where=white & edge.adj)
    scan = match("scan", other.id.equals(me.at))
    time = Real("time", high=2 * TICK * max_nodes + TICK)
    starts = me.id.equals(first.id)
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
            Node("to", child.id),
            Bool("has_white", child.found),
            Node("at", when(me.popped, token.s_prev, token.id)),  # where the search goes on
            Bool("done", me.popped & token.is_s),  # with this tree
            Bool("begins", ~me.entered & me.done & lowest.found),
            Bool("pushes", ~me.entered & ~me.done & scan.has_white),
            Bool("pops", ~me.entered & ~me.done & ~scan.has_white),
            Bool("ends", ~me.entered & me.done & ~lowest.found),
            Bool("is_at", me.id.equals(me.at)),
            Bool("is_root", me.begins & me.id.equals(lowest.id)),
            Bool("is_child", me.pushes & me.id.equals(scan.to)),
            Bool("is_last", me.id.equals(last.id)),
        ),
        updates={
            "top": when(me.begins, me.is_root, when(me.pushes, me.is_child, when(me.pops, me.is_at, me.top))),
            "is_s": when(me.begins, me.is_root, me.is_s),
            "is_u": when(me.entered, me.top, when(me.begins, me.is_root, when(me.pushes | me.pops, me.is_at, me.is_u))),
            "is_v": when(me.begins, me.is_root, when(me.pushes, me.is_child, when(me.pops, me.is_last, me.is_v))),
            "entered": me.begins | me.pushes,
            "popped": me.pops | (me.popped & me.ends),
            "grey": (me.grey | me.is_child | (me.entered & me.top)) & ~(me.pops & me.is_at),
            "black": me.black | (me.pops & me.is_at),
            "pi": when(me.is_child, me.at, me.pi),
            "s_prev": when(me.is_child, me.at, when(me.popped & me.top, me.id, me.s_prev)),
            "d": when(me.entered & me.top, now, me.d),
            "f": when(me.pops & me.is_at, now, me.f),
            "time": when(me.entered | me.pops, now, me.time),
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
