"""The variables that several families of algorithms have."""

from mechgap.trace import Kind, Location, Stage, Variable

POSITION = Variable("pos", Stage.INPUT, Location.NODE, Kind.SCALAR)
ORDER_HINT = Variable("pred_h", Stage.HINT, Location.NODE, Kind.POINTER)


def node_mark(name: str) -> Variable:
    """A hint that marks one node: where a variable of the algorithm stands."""
    return Variable(name, Stage.HINT, Location.NODE, Kind.MASK_ONE)
