"""Integers that are linear in loop counters and the core number, so that many iterations are interpreted at once.

An `Affine` behaves like a Python int as long as what is asked of it has one answer for all values of its variables.
A question that hasn't (``i < 7`` for ``i`` from 0 to 9, ``i % 2``) raises `Undecided`, which says where the answer
changes; the caller cuts the variable's range there and asks again.
"""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen(eq=False)
class Var:
    """A variable and its range: integers from `lo` to `hi` inclusive. `kind` is ``core`` or ``loop``."""

    kind: str
    key: tuple[Any, ...]
    lo: int
    hi: int


class Undecided(Exception):
    """A question about an `Affine` that has several answers.

    `var` is the variable to cut: at `cut` (the answer may change from `cut` - 1 to `cut`), into residues of
    `modulus`, or, when neither is given, into single values.
    """

    def __init__(self, var: Var, cut: int | None = None, modulus: int | None = None) -> None:
        super().__init__(f"{var.kind} {var.key} in [{var.lo}, {var.hi}]: cut {cut}, modulus {modulus}")
        self.var = var
        self.cut = cut
        self.modulus = modulus


Terms = tuple[tuple[Var, int], ...]


def make(const: int, terms: Terms) -> int | Affine:
    """The plain int where no variable is left, else an `Affine`."""
    return Affine(const, terms) if terms else const


class Affine:
    """``const + sum(coefficient * variable)``."""

    __slots__ = ("const", "hi", "lo", "terms")

    def __init__(self, const: int, terms: Terms) -> None:
        self.const = const
        self.terms = terms
        lo = hi = const
        for var, c in terms:
            if c > 0:
                lo, hi = lo + c * var.lo, hi + c * var.hi
            else:
                lo, hi = lo + c * var.hi, hi + c * var.lo
        self.lo = lo
        self.hi = hi

    def coefficient(self, var: Var) -> int:
        """The coefficient of `var` (0 where it doesn't occur)."""
        return next((c for v, c in self.terms if v is var), 0)

    def __repr__(self) -> str:
        return f"Affine({self.const}" + "".join(f" + {c}*{v.key}" for v, c in self.terms) + ")"

    # -- linear arithmetic -------------------------------------------------------------------------------------
    def __add__(self, other: Any) -> int | Affine:
        if isinstance(other, Affine):
            found = dict(self.terms)
            for var, c in other.terms:
                found[var] = found.get(var, 0) + c
            return make(self.const + other.const, tuple((v, c) for v, c in found.items() if c))
        return Affine(self.const + int(other), self.terms)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return Affine(-self.const, tuple((v, -c) for v, c in self.terms))

    def __pos__(self) -> Affine:
        return self

    def __sub__(self, other: Any) -> int | Affine:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> int | Affine:
        return self.__neg__().__add__(other)

    def __mul__(self, other: Any) -> int | Affine:
        if isinstance(other, Affine):
            raise Undecided(self.terms[-1][0])
        k = int(other)
        return make(self.const * k, tuple((v, c * k) for v, c in self.terms) if k else ())

    __rmul__ = __mul__

    def __lshift__(self, bits: int) -> int | Affine:
        return self * (1 << bits)

    def __abs__(self) -> int | Affine:
        return -self if self < 0 else self

    # -- division ----------------------------------------------------------------------------------------------
    def _linear_quotient(self, k: int) -> int | Affine | None:
        """The floored quotient by `k` where it is linear or constant."""
        if all(c % k == 0 for _, c in self.terms):
            return make(self.const // k, tuple((v, c // k) for v, c in self.terms))
        if self.lo // k == self.hi // k:
            return self.lo // k
        return None

    def __floordiv__(self, other: Any) -> int | Affine:
        if isinstance(other, Affine):
            raise Undecided(other.terms[-1][0])
        k = int(other)
        if k < 0:
            return self.__neg__().__floordiv__(-k)
        found = self._linear_quotient(k)
        if found is None:
            raise self._by_residue(k)
        return found

    def __mod__(self, other: Any) -> int | Affine:
        return self.__sub__(self.__floordiv__(other) * other)

    def _by_residue(self, k: int) -> Undecided:
        """Where a quotient by positive `k` changes: at a cut if the range spans few multiples, else by residue."""
        if len(self.terms) == 1:
            (var, c) = self.terms[0]
            if abs(c) * (var.hi - var.lo) < 2 * k:
                return Undecided(var, self._crossing((self.lo // k + 1) * k))
        var, c = next(((v, c) for v, c in reversed(self.terms) if c % k), self.terms[-1])
        return Undecided(var, modulus=k) if k <= MAX_MODULUS else Undecided(var)

    def __rfloordiv__(self, other: Any) -> int:
        raise Undecided(self.terms[-1][0])

    __rmod__ = __rfloordiv__
    __truediv__ = __rfloordiv__
    __rtruediv__ = __rfloordiv__
    __rlshift__ = __rfloordiv__
    __rrshift__ = __rfloordiv__

    def __rshift__(self, bits: int) -> int | Affine:
        return self.__floordiv__(1 << bits)

    def __and__(self, mask: Any) -> int | Affine:
        m = int(mask)
        if m < 0 or m & (m + 1):
            raise Undecided(self.terms[-1][0])
        return self.__mod__(m + 1)

    __rand__ = __and__

    def _other_bits(self, other: Any) -> int:
        raise Undecided(self.terms[-1][0])

    __or__ = __ror__ = __xor__ = __rxor__ = _other_bits

    # -- questions ---------------------------------------------------------------------------------------------
    def _crossing(self, value: int) -> int:
        """Smallest value of the only variable from which the expression is on the other side of `value`."""
        ((_, c),) = self.terms
        if c > 0:
            return -((self.const - value) // c)
        return (self.const - value) // -c + 1

    def _undecided(self, value: int) -> Undecided:
        """For a comparison with `value` whose answer changes within the range."""
        if len(self.terms) == 1:
            return Undecided(self.terms[0][0], self._crossing(value))
        core = next((v for v, _ in self.terms if v.kind == "core"), None)
        return Undecided(core if core is not None else self.terms[0][0])

    def _less(self, value: int) -> bool:
        """self < value."""
        if self.hi < value:
            return True
        if self.lo >= value:
            return False
        raise self._undecided(value)

    def __lt__(self, other: Any) -> bool:
        d = self - other
        return d._less(0) if isinstance(d, Affine) else d < 0

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __gt__(self, other: Any) -> bool:
        d = self - other
        return not d._less(1) if isinstance(d, Affine) else d > 0

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (int, Affine)):
            return NotImplemented
        d = self - other
        if not isinstance(d, Affine):
            return d == 0
        if d.lo > 0 or d.hi < 0:
            return False
        return not d._less(0) and d._less(1)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.const, self.terms))

    def __bool__(self) -> bool:
        return self != 0

    def require_plain(self) -> None:
        """Raises `Undecided`: the caller needs one number for the whole range."""
        raise self._undecided(self.lo + 1)

    def __index__(self) -> int:
        raise self._undecided(self.lo + 1)

    __int__ = __index__

    def __float__(self) -> float:
        raise self._undecided(self.lo + 1)


#: The largest modulus for which a loop is unrolled into residues; beyond, iterations are taken one by one.
MAX_MODULUS = 8
