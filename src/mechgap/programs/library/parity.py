"""Whether a sequence of bits has an even or odd number of ones, in four ways."""

from typing import Any

from mechgap.programs.alta import AltaProgram, Head, Text
from mechgap.programs.alta_builder import alta_program, categorical, numeric, qkv, v_relative

START = END = 2  # the token before, or after, the bits


def parity_sequential_absolute(positions: int = 256) -> AltaProgram:
    """One bit per layer, from left to right; a position finds its left neighbour by its index."""

    return alta_program(
        "parity_sequential_absolute",
        description="parity, one bit per layer, by absolute positions",
        variables=(
            categorical("parity", 2, from_input=lambda x: x),
            categorical("done", 2, from_position=lambda i: i == 0),
            categorical("idx", positions, from_position=lambda i: i),
            categorical("idx_left", positions, from_position=lambda i: max(0, i - 1)),
        ),
        heads=(qkv("parity_left", "idx_left", "idx", "parity"), qkv("done_left", "idx_left", "idx", "done")),
        mlp=_take_over,
        output="parity",
        halt=("done", 1),
        input_size=2,
        positions=positions,
        text=Text(_bits, lambda outputs: str(outputs[-1])),
    )


def parity_sequential_relative() -> AltaProgram:
    """One bit per layer, from left to right; a position looks at the one before it. The sequence begins with START."""

    return alta_program(
        "parity_sequential_relative",
        description="parity, one bit per layer, by relative positions",
        variables=(
            categorical("parity", 2, from_input=lambda x: x if x != START else 0),
            categorical("done", 2, from_input=lambda x: x == START),
        ),
        heads=(v_relative("parity_left", "parity", -1), v_relative("done_left", "done", -1)),
        mlp=_take_over,
        output="parity",
        halt=("done", 1),
        input_size=3,
        text=Text(lambda text: [START, *_bits(text)], lambda outputs: str(outputs[-1])),
    )


def parity_sum_mod_2(ones: int = 200) -> AltaProgram:
    """Count the ones in one layer: the end, which all positions look at together with the ones, is 1 of `count + 1`."""

    def step(z: Any) -> None:
        z["parity"] = (round(1 / z["end_share"]) - 1) % 2

    return alta_program(
        "parity_sum_mod_2",
        description="parity, by counting the ones at once",
        variables=_counting(ones),
        heads=(_share(),),
        mlp=step,
        output="parity",
        layers=1,
        input_size=3,
        text=Text(lambda text: [*_bits(text, ones), END], lambda outputs: str(outputs[-1])),
    )


def parity_sum_mod_2_intermediate(ones: int = 200, scale: float = 1.0, staged: bool = False) -> AltaProgram:
    """The same in two layers: the count is written down first, and its parity read off it.

    Args:
        ones: the most that are counted.
        scale: what the end is worth: the head finds scale / (count + 1). ALTA's program for trace supervision has 1000,
            with which the values up to 20 ones are 2.4 apart at least, so that noise of 0.1 hides none of them.
        staged: a variable says which of both is to be done, as in that program; without it both layers do both.
    """

    def count(z: Any) -> None:
        z["count"] = round(scale / z["end_share"]) - 1

    def both(z: Any) -> None:
        count(z)
        z["parity"] = z["count"] % 2

    def in_turn(z: Any) -> None:
        if z["counted_up"]:
            z["parity"] = z["count"] % 2
        else:
            count(z)
            z["counted_up"] = 1

    return alta_program(
        "parity_sum_mod_2_intermediate",
        description="parity, by counting the ones and then taking the count modulo 2",
        variables=(
            *_counting(ones, scale),
            categorical("count", ones + 1),
            *((categorical("counted_up", 2),) if staged else ()),
        ),
        heads=(_share(),),
        mlp=in_turn if staged else both,
        output="parity",
        layers=2,
        input_size=3,
        text=Text(lambda text: [*_bits(text, ones), END], lambda outputs: str(outputs[-1])),
    )


def _take_over(z: Any) -> None:
    """Once the left neighbour knows the parity until there, so does this position."""
    if not z["done"] and z["done_left"]:
        z["parity"] = z["parity_left"] ^ z["parity"]
        z["done"] = 1


def _counting(ones: int, scale: float = 1.0) -> tuple:
    return (
        categorical("parity", 2),
        categorical("counted", 2, from_input=lambda x: x in (1, END)),
        categorical("yes", 2, 1),
        numeric("is_end", _shares(ones, scale), from_input=lambda x: scale * (x == END)),
    )


def _share() -> Head:
    return qkv("end_share", "yes", "counted", "is_end")


def _shares(ones: int, scale: float) -> tuple[float, ...]:
    """The mean of `is_end` over the ones and the end: scale / (count + 1)."""
    return tuple(scale / (count + 1) for count in range(ones, -1, -1))


def _bits(text: str, most_ones: int | None = None) -> list[int]:
    kept = [c for c in text if not c.isspace()]
    wrong = [c for c in kept if c not in "01"]
    if wrong or not kept:
        raise ValueError(f"Parity is of bits, e.g. '1011'; got {text!r}.")
    if most_ones is not None and kept.count("1") > most_ones:
        raise ValueError(
            f"This program counts up to {most_ones} ones; got {kept.count('1')}. Build it with more, ones=."
        )
    return [int(c) for c in kept]
