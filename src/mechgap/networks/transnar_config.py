"""What decides the shapes and the wiring of TransNAR's text model."""

from dataclasses import dataclass

from mechgap.networks.rotary import MOST_POSITIONS

CROSS_ATTENTION = ("all", "first", "last", "every_second", "none")
READS = ("final", "per_layer")


@dataclass(frozen=True)
class TransNARConfig:
    """What is fixed about a text model.

    Attributes:
        vocabulary: how many tokens there are.
        width: of the residual stream.
        layers: how many, cross-attention blocks not counted.
        heads: of every attention; their width is width / heads, an even number.
        hidden: width of the feed-forward networks.
        context: the most tokens of a sequence.
        max_position: positions are below it.
        cross_attention: after which layers tokens look at the reasoner: "all", "first", "last", "every_second" (the
            second, the fourth, ...) or "none".
        reads: "final": all of them see one state of the reasoner; "per_layer": layer t sees state t.
        node_width, edge_width: of the reasoner's states.
        rotary_base: the angles of positions fall from 1 to about 1 / rotary_base.
    """

    vocabulary: int
    width: int = 384
    layers: int = 6
    heads: int = 6
    hidden: int = 1536
    context: int = 1024
    max_position: int = 8192
    cross_attention: str = "all"
    reads: str = "final"
    node_width: int = 128
    edge_width: int = 128
    rotary_base: float = 10_000.0

    def __post_init__(self) -> None:
        problems = [f"{n} must be a whole number of at least 1; got {v!r}." for n, v in self._sizes() if not _counts(v)]
        if not problems and self.width % (2 * self.heads):
            fits = [h for h in range(1, self.width + 1) if self.width % (2 * h) == 0]
            problems.append(
                f"width must be an even multiple of heads; got width = {self.width}, heads = {self.heads}. "
                + (f"Set heads to one of {', '.join(map(str, fits))}." if fits else "Set width to an even number.")
            )
        if not problems and self.context > self.max_position:
            problems.append(
                f"context must not exceed max_position; got context = {self.context}, max_position = "
                f"{self.max_position}. Every token of a sequence has a position of its own."
            )
        if not problems and self.max_position > MOST_POSITIONS:
            problems.append(
                f"max_position must be at most {MOST_POSITIONS}, up to which angles are exact; got {self.max_position}."
            )
        if not problems and self.cross_attention == "every_second" and self.layers < 2:
            problems.append('cross_attention = "every_second" needs at least 2 layers; got layers = 1.')
        if not self.rotary_base > 1:
            problems.append(f"rotary_base must be above 1; got {self.rotary_base!r}.")
        for name, valid in (("cross_attention", CROSS_ATTENTION), ("reads", READS)):
            if getattr(self, name) not in valid:
                expected = ", ".join(repr(v) for v in valid)
                problems.append(f"{name} must be one of {expected}; got {getattr(self, name)!r}.")
        if problems:
            raise ValueError("Bad TransNARConfig:\n  " + "\n  ".join(problems))

    def _sizes(self) -> list[tuple[str, object]]:
        names = ("vocabulary", "width", "layers", "heads", "hidden", "context", "max_position", "node_width")
        return [(name, getattr(self, name)) for name in (*names, "edge_width")]

    @property
    def units(self) -> tuple[tuple[int, int, bool], ...]:
        """The stack as repeated units: (how often, of how many layers, whether cross-attention follows the unit)."""
        n = self.layers
        units = {
            "all": ((n, 1, True),),
            "first": ((1, 1, True), (n - 1, 1, False)),
            "last": ((n - 1, 1, False), (1, 1, True)),
            "every_second": ((n // 2, 2, True), (n % 2, 1, False)),
            "none": ((n, 1, False),),
        }[self.cross_attention]
        return tuple(unit for unit in units if unit[0])

    @property
    def looking(self) -> tuple[int, ...]:
        """The layers after which tokens look at the reasoner, counted from 0."""
        ends: list[int] = []
        here = 0
        for count, size, looks in self.units:
            ends += [here + size * (i + 1) - 1 for i in range(count)] if looks else []
            here += count * size
        return tuple(ends)


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
