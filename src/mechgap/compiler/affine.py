"""Affine forms over named features: what a linear layer computes, before it is a matrix."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mechgap.compiler.errors import NotExpressible
from mechgap.programs.expressions import Constant, Expression, Not, Product, Read, Scaled, Sum, When


class Feature(NamedTuple):
    """A number that a layer reads: an input or a hidden channel, at a place (me, other, edge, or a select's sender)."""

    place: str
    name: str
    hidden: bool = False


class Affine:
    """Σ coefficient * feature + constant."""

    def __init__(self, terms: Mapping[Feature, float] | None = None, constant: float = 0.0):
        self.terms = {f: c for f, c in (terms or {}).items() if c != 0}
        self.constant = float(constant)

    def __add__(self, other: "Affine | float") -> "Affine":
        if not isinstance(other, Affine):
            return Affine(self.terms, self.constant + other)
        terms = dict(self.terms)
        for feature, coefficient in other.terms.items():
            terms[feature] = terms.get(feature, 0.0) + coefficient
        return Affine(terms, self.constant + other.constant)

    def __mul__(self, factor: float) -> "Affine":
        return Affine({f: factor * c for f, c in self.terms.items()}, factor * self.constant)

    __rmul__ = __mul__

    def __neg__(self) -> "Affine":
        return self * -1.0

    def __sub__(self, other: "Affine | float") -> "Affine":
        return self + (-other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.terms == other.terms and self.constant == other.constant

    def __hash__(self) -> int:
        return hash((frozenset(self.terms.items()), self.constant))

    def at(self, place: str) -> "Affine":
        """The same form read at another node."""
        return Affine({f._replace(place=place): c for f, c in self.terms.items()}, self.constant)

    def __repr__(self) -> str:
        parts = [f"{c:+g} {f.place}.{f.name}" for f, c in self.terms.items()]
        return " ".join([*parts, f"{self.constant:+g}"])


def lower(expression: Expression, read: Callable[[Read], Affine]) -> Affine:
    """An expression as an affine form, if it is one; a truth value counts as 0 or 1."""
    match expression:
        case Constant(x):
            return Affine(constant=x)
        case Read():
            return read(expression)
        case Sum(a, b):
            return lower(a, read) + lower(b, read)
        case Scaled(factor, a):
            return factor * lower(a, read)
        case Not(a):
            return Affine(constant=1.0) - lower(a, read)
        case When(condition, a, b):
            step = lower(a, read) - lower(b, read)
            if not step.terms:
                return lower(b, read) + step.constant * lower(condition, read)
        case Product():
            raise no_product(expression)
    raise NotExpressible(f"'{expression}' is not linear, and stands where one step needs a linear value.")


def no_product(product: Product) -> NotExpressible:
    """The error for a product of two values."""
    return NotExpressible(
        f"'{product}' is a product of two values; a ReLU network computes no product exactly. "
        f"Make one of '{product.left}' and '{product.right}' a constant, or write the choice as when(...)."
    )
