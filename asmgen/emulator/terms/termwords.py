"""Integer instructions on terms: the meanings of `semantics.meaning` on patterns of the run with the term of each.

A word's term is by lane; 0 is none: the run's own value, a constant. What is no polynomial is a function of the terms it is made of.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.cells import UNKNOWN, Handles
from asmgen.emulator.semantics.integers import ARRAYS
from asmgen.emulator.terms.polynomials import Polynomials, Term
from asmgen.emulator.terms.truthtables import Expression, expression_of

Array = Any
_FIELDS = 4
"""Fields of a mask with holes at most: each is a difference of quotients."""
_TABLE_SOURCES = 3


class TermTable:
    """Terms by number. UNKNOWN is what data of memory decides."""

    def __init__(self) -> None:
        self.algebra = Polynomials()
        self.terms: list[Term | None] = [None, None]
        self._numbers: dict[Term, int] = {}
        self._known: dict[Any, int] = {}

    def number(self, term: Term | None) -> int:
        """Of a term; UNKNOWN of None."""
        if term is None:
            return UNKNOWN
        found = self._numbers.get(term)
        if found is None:
            found = self._numbers[term] = len(self.terms)
            self.terms.append(term)
        return found

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Drop the other terms, in order."""
        self.terms = [term for term, stays in zip(self.terms, alive, strict=True) if stays]
        self._numbers = {term: number for number, term in enumerate(self.terms) if term is not None}
        self._known.clear()

    def constants(self, value: Array) -> Handles:
        """The numbers of constants; those that are negative as signed numbers are."""
        pattern = np.asarray(value)
        signed = pattern.astype(np.uint64) if pattern.dtype == bool else pattern.view(f"i{pattern.dtype.itemsize}")
        unique, back = np.unique(signed, return_inverse=True)
        ids = np.array([self.number(Polynomials.number(int(one))) for one in unique], np.uint32)
        return ids[back].reshape(pattern.shape)

    def applied(self, operation: tuple[Any, ...], make: Callable[..., Term | None], *sources: Handles) -> Handles:
        """An operation on terms, once for each combination that occurs; UNKNOWN of whatever is."""
        only = [_only(part) for part in sources]
        if None not in only:
            number = self._one(operation, make, tuple(only))  # type: ignore[arg-type]
            return np.full(np.broadcast_shapes(*(part.shape for part in sources)), number, np.uint32)
        arrays = np.broadcast_arrays(*sources)
        rows = np.stack([part.reshape(-1) for part in arrays], axis=-1)
        if rows.shape[1] <= 2:  # as one number each they are sorted faster, in the same order
            packed = rows[:, 0].astype(np.uint64) << 32 | rows[:, -1]
            _, first, back = np.unique(packed, return_index=True, return_inverse=True)
            unique = rows[first]
        else:
            unique, back = np.unique(rows, axis=0, return_inverse=True)
        ids = np.array([self._one(operation, make, tuple(row)) for row in unique.tolist()], np.uint32)
        return ids[back.reshape(-1)].reshape(arrays[0].shape)

    def _one(self, operation: tuple[Any, ...], make: Callable[..., Term | None], row: tuple[int, ...]) -> int:
        key = operation, row
        found = self._known.get(key)
        if found is None:
            given = [self.terms[number] for number in row]
            found = self._known[key] = UNKNOWN if None in given else self.number(make(*given))
        return found


def _only(ids: Handles) -> int | None:
    """The one number that all are, if they are."""
    first = ids.flat[0] if ids.size else None
    return None if first is None or (ids != first).any() else int(first)


@dataclass(frozen=True)
class TermWord:
    """A pattern of the run and its terms; None: a constant."""

    value: Array
    ids: Handles | None = None


@dataclass(frozen=True)
class TermFlag:
    """A truth of the run, and its term, 0 or 1; None: a constant."""

    value: Array
    ids: Handles | None = None


class TermWords:
    """The domain of terms (`semantics.domain.Domain`)."""

    def __init__(self, table: TermTable) -> None:
        self.table = table
        self.algebra = table.algebra

    def ids_of(self, word: TermWord | TermFlag) -> Handles:
        """Terms of a word, of a constant too."""
        return self.table.constants(word.value) if word.ids is None else word.ids

    def is_constant(self, number: int) -> bool:
        """Whether a term is the same in all launches, by its number."""
        term = self.table.terms[number]
        return term is not None and self.algebra.constant(term) is not None

    def _made(self, name: str, value: Array, make: Callable[..., Term | None], *words: TermWord | TermFlag, more: Any = ()) -> TermWord:
        if all(word.ids is None for word in words):
            return TermWord(value)
        return TermWord(value, self.table.applied((name, more), make, *(self.ids_of(word) for word in words)))

    def width(self, a: TermWord) -> int:
        """In bits."""
        return ARRAYS.width(a.value)

    def number(self, number: int, like: TermWord) -> TermWord:
        """A constant."""
        return TermWord(ARRAYS.number(number, like.value))

    def lanes(self, numbers: Sequence[int]) -> TermWord:
        """A constant for each lane."""
        return TermWord(ARRAYS.lanes(numbers))

    def resized(self, a: TermWord, bits: int, signed: bool = False) -> TermWord:
        """Extended, a term is what the narrow register holds; cut, it is the same."""
        value, width = ARRAYS.resized(a.value, bits, signed), self.width(a)
        if bits <= width:
            return TermWord(value, a.ids)
        extend = self.algebra.as_signed if signed else self.algebra.truncated
        return self._made("extended", value, lambda term: extend(term, width), a, more=(width, signed))

    def inverted(self, a: TermWord) -> TermWord:
        """-1 - a."""
        return self._made("not", ARRAYS.inverted(a.value), lambda term: self.algebra.sub(Polynomials.number(-1), term), a)

    def and_(self, a: TermWord, b: TermWord) -> TermWord:
        """With a field of ones, by quotients; of bits that are known, bit by bit."""
        width = self.width(a)
        return self._made("and", ARRAYS.and_(a.value, b.value), lambda x, y: self._and(x, y, width), a, b, more=width)

    def _and(self, x: Term, y: Term, width: int) -> Term | None:
        algebra = self.algebra
        for term, other in ((x, y), (y, x)):
            mask = algebra.constant(other)
            if mask is None:
                if algebra.bounds(other) == (-1, 0):  # a sign: all ones or none
                    return algebra.times(algebra.mul(other, algebra.truncated(term, width)), -1)
                continue
            mask &= (1 << width) - 1
            low = (mask & -mask).bit_length() - 1
            ones = mask >> max(low, 0)
            if not mask:
                return ()
            if not ones & ones + 1:
                high = low + ones.bit_length()
                upper = term if high == width else algebra.truncated(term, high)
                return algebra.sub(upper, algebra.truncated(term, low)) if low else upper
            bits = algebra.as_bits(term, width)
            if bits is not None:
                return self._from_bits([bit if mask >> place & 1 else () for place, bit in enumerate(bits)])
            held = algebra.truncated(term, width)
            return self._without_fields(held, mask ^ (1 << width) - 1) or self._function("and", held, other, width=width)
        return self._of_bits("and", x, y, width, lambda p, q: () if not p or not q else p if q == algebra.number(1) else
                             q if p == algebra.number(1) else p if p == q else None)

    def _without_fields(self, held: Term, mask: int) -> Term | None:
        """A number without the bits of a mask, each field of these by quotients: which of them leaves out something is told apart. None for
        many fields."""
        fields = [(one.start(), one.end()) for one in re.finditer("1+", f"{mask:b}"[::-1])]
        if len(fields) > _FIELDS:
            return None
        algebra, total = self.algebra, held
        for low, high in fields:
            part = algebra.sub(algebra.quotient(held, low), algebra.times(algebra.quotient(held, high), 1 << high - low))
            total = algebra.add(total, part, -(1 << low))
        return total

    def _from_bits(self, bits: Sequence[Term]) -> Term:
        total: Term = ()
        for place, bit in enumerate(bits):
            total = self.algebra.add(total, bit, 1 << place)
        return total

    def _of_bits(self, name: str, x: Term, y: Term, width: int, combine: Callable[[Term, Term], Term | None]) -> Term | None:
        """Bit by bit where all bits are known; else a function."""
        algebra = self.algebra
        parts = [algebra.as_bits(term, width) for term in (x, y)]
        if parts[0] is not None and parts[1] is not None:
            found = [combine(p, q) for p, q in zip(*parts, strict=True)]
            if None not in found:
                return self._from_bits([bit for bit in found if bit is not None])
        return self._function(name, x, y, width=width)

    def _function(self, name: str, *terms: Term, width: int, more: Sequence[Any] = ()) -> Term:
        held = [self.algebra.truncated(term, width) for term in terms]
        highest = [self.algebra.bounds(term)[1] for term in held]
        high = (1 << width) - 1
        if name == "and":
            high = min(high, *highest)
        elif name in ("or", "xor"):
            high = min(high, (1 << max(highest).bit_length()) - 1)
        return self.algebra.function(f"{name}{width}", *held, *more, high=high)

    def _apart(self, x: Term, y: Term) -> bool:
        masks = [self.algebra.possible_bits(term) for term in (x, y)]
        return masks[0] is not None and masks[1] is not None and not masks[0] & masks[1]

    def or_(self, a: TermWord, b: TermWord) -> TermWord:
        """The sum of what has no ones in common."""
        width = self.width(a)
        return self._made("or", ARRAYS.or_(a.value, b.value), lambda x, y: self._or(x, y, width), a, b, more=width)

    def _or(self, x: Term, y: Term, width: int) -> Term | None:
        x, y = (self.algebra.truncated(term, width) for term in (x, y))
        if self._apart(x, y):
            return self.algebra.add(x, y)
        one = self.algebra.number(1)
        return self._of_bits("or", x, y, width, lambda p, q: one if one in (p, q) else p or q if not p or not q else p if p == q else None)

    def xor(self, a: TermWord, b: TermWord) -> TermWord:
        """The sum of what has no ones in common, or bit by bit."""
        width = self.width(a)
        return self._made("xor", ARRAYS.xor(a.value, b.value), lambda x, y: self._xor(x, y, width), a, b, more=width)

    def _xor(self, x: Term, y: Term, width: int) -> Term | None:
        x, y = (self.algebra.truncated(term, width) for term in (x, y))
        if self._apart(x, y):
            return self.algebra.add(x, y)
        return self._of_bits("xor", x, y, width, self.algebra.xor_bits)

    def bitwise(self, table: int, *sources: TermWord) -> TermWord:
        """Of three sources as `and`, `or` and `xor`, where the table is such; else a function."""
        width, value = self.width(sources[0]), ARRAYS.bitwise(table, *(source.value for source in sources))
        found = expression_of(table) if len(sources) == _TABLE_SOURCES else None
        if found is not None:
            return TermWord(value, self._expressed(found, sources).ids)
        return self._made("bitwise", value, lambda *terms: self._function("bitwise", *terms, width=width, more=(table,)), *sources,
                          more=(table, width))

    def _expressed(self, expression: Expression, sources: Sequence[TermWord]) -> TermWord:
        if isinstance(expression, int):
            return sources[expression]
        name, *parts = expression
        given = [self._expressed(part, sources) for part in parts]
        acts: dict[str, Callable[..., TermWord]] = {"not": self.inverted, "and": self.and_, "or": self.or_, "xor": self.xor}
        return acts[name](*given)

    def add(self, a: TermWord, b: TermWord) -> TermWord:
        """The sum, whether it wraps or not."""
        return self._made("add", ARRAYS.add(a.value, b.value), self.algebra.add, a, b)

    def sub(self, a: TermWord, b: TermWord) -> TermWord:
        """The difference, whether it wraps or not."""
        return self._made("sub", ARRAYS.sub(a.value, b.value), self.algebra.sub, a, b)

    def mul(self, a: TermWord, b: TermWord) -> TermWord:
        """The product, whether it wraps or not."""
        return self._made("mul", ARRAYS.mul(a.value, b.value), self.algebra.mul, a, b)

    def add_carry(self, a: TermWord, b: TermWord, carry: TermFlag | None = None) -> tuple[TermWord, TermFlag]:
        """The sum, and the carry as a difference of quotients."""
        value, out = ARRAYS.add_carry(a.value, b.value, carry.value if carry is not None else None)
        given: list[TermWord | TermFlag] = [a, b, *([carry] if carry is not None else [])]
        return self._with_carry(value, out, given, 1)

    def sub_borrow(self, a: TermWord, b: TermWord, borrow: TermFlag | None = None) -> tuple[TermWord, TermFlag]:
        """The difference, and the borrow as a difference of quotients."""
        value, out = ARRAYS.sub_borrow(a.value, b.value, borrow.value if borrow is not None else None)
        given: list[TermWord | TermFlag] = [a, b, *([borrow] if borrow is not None else [])]
        return self._with_carry(value, out, given, -1)

    def _with_carry(self, value: Array, out: Array, given: list[TermWord | TermFlag], sign: int) -> tuple[TermWord, TermFlag]:
        algebra, width = self.algebra, int(value.dtype.itemsize) * 8

        def total(first: Term, *more: Term) -> Term:
            for one in more:
                first = algebra.add(first, one, sign)
            return first

        def carried(first: Term, *more: Term) -> Term:
            found = algebra.sub(algebra.quotient(total(first, *more), width), algebra.quotient(first, width))
            for one in more:
                found = algebra.add(found, algebra.quotient(one, width), -sign)
            return algebra.times(found, sign)

        if all(one.ids is None for one in given):
            return TermWord(value), TermFlag(out)
        ids = [self.ids_of(one) for one in given]
        return (TermWord(value, self.table.applied(("sum", sign), total, *ids)),
                TermFlag(out, self.table.applied(("carry", sign, width), carried, *ids)))

    def shl(self, a: TermWord, count: TermWord) -> TermWord:
        """Times a power of two."""
        return self._shifted("shl", ARRAYS.shl(a.value, count.value), a, count)

    def shr(self, a: TermWord, count: TermWord) -> TermWord:
        """A quotient of what the register holds."""
        return self._shifted("shr", ARRAYS.shr(a.value, count.value), a, count)

    def sar(self, a: TermWord, count: TermWord) -> TermWord:
        """A quotient of what the register holds as a signed number."""
        return self._shifted("sar", ARRAYS.sar(a.value, count.value), a, count)

    def _shifted(self, name: str, value: Array, a: TermWord, count: TermWord) -> TermWord:
        width, algebra = self.width(a), self.algebra

        def make(term: Term, by: Term) -> Term | None:
            steps = algebra.constant(by)
            if steps is None:
                return self._function(name, term, by, width=width)
            steps &= width - 1
            if name == "shl":
                return algebra.times(term, 1 << steps)
            if name == "sar" and steps == width - 1:
                return self._sign(algebra.as_signed(term, width), width)
            return algebra.shift((algebra.as_signed if name == "sar" else algebra.truncated)(term, width), steps)

        return self._made(name, value, make, a, count, more=width)

    def _sign(self, term: Term, width: int) -> Term:
        """-1 where a number of so many bits is negative, else 0: one variable, so what is added for a sign cancels a wrap."""
        low, high = self.algebra.bounds(term)
        if low >= 0 or high < 0:
            return self.algebra.number(-(high < 0))
        return self.algebra.function(f"floor / 2^{width - 1}", term, low=-1, high=0)

    def extreme(self, least: bool, signed: bool, a: TermWord, b: TermWord) -> TermWord:
        """One of both where bounds decide, else a function."""
        value, width, algebra = ARRAYS.extreme(least, signed, a.value, b.value), self.width(a), self.algebra

        def make(x: Term, y: Term) -> Term:
            held = [(algebra.as_signed if signed else algebra.truncated)(term, width) for term in (x, y)]
            apart = algebra.bounds(algebra.sub(held[0], held[1]))
            if apart[0] >= 0 or apart[1] <= 0:
                return held[1 if (apart[0] >= 0) == least else 0]
            (first, last), (low, high) = (algebra.bounds(term) for term in held)
            choose = min if least else max
            return algebra.function("min" if least else "max", *sorted(held), low=choose(first, low), high=choose(last, high))

        return self._made("extreme", value, make, a, b, more=(least, signed, width))

    def compare(self, relation: str, signed: bool, a: TermWord, b: TermWord) -> TermFlag:
        """1 or 0 where bounds decide, else a function of what the registers hold."""
        value, width, algebra = ARRAYS.compare(relation, signed, a.value, b.value), self.width(a), self.algebra

        def make(x: Term, y: Term) -> Term:
            held = [(algebra.as_signed if signed else algebra.truncated)(term, width) for term in (x, y)]
            low, high = algebra.bounds(algebra.sub(held[0], held[1]))
            signs = [sign for sign, may_be in ((-1, low < 0), (0, low <= 0 <= high), (1, high > 0)) if may_be]
            found = {RELATIONS[relation](sign, 0) for sign in signs}
            return algebra.number(int(found.pop())) if len(found) == 1 else algebra.function(relation, *held, high=1)

        return self._flag((relation, signed, width), value, make, a, b)

    def _flag(self, operation: tuple[Any, ...], value: Array, make: Callable[..., Term], *given: TermWord | TermFlag) -> TermFlag:
        if all(one.ids is None for one in given):
            return TermFlag(value)
        return TermFlag(value, self.table.applied(operation, make, *map(self.ids_of, given)))

    def select(self, condition: TermFlag, yes: TermWord, no: TermWord) -> TermWord:
        """A function, as other sizes may select otherwise; the run's own one where the condition is the same in all launches."""
        value = ARRAYS.select(condition.value, yes.value, no.value)
        if yes.ids is None and no.ids is None and (condition.ids is None or (yes.value == no.value).all()):
            return TermWord(value)
        own = np.where(condition.value, self.ids_of(yes), self.ids_of(no))
        if condition.ids is None:
            return TermWord(value, own)
        constant = np.isin(condition.ids, [number for number in np.unique(condition.ids).tolist() if self.is_constant(number)])
        if constant.all():
            return TermWord(value, own)
        found = self.table.applied(("select",), self.algebra.selection, condition.ids, self.ids_of(yes), self.ids_of(no))
        return TermWord(value, np.where(constant, own, found))

    def bit(self, a: TermWord, place: int) -> TermFlag:
        """1 or 0: a quotient's last bit."""
        width, algebra = self.width(a), self.algebra
        return self._flag(("bit", place, width), ARRAYS.bit(a.value, place),
                          lambda term: algebra.truncated(algebra.quotient(algebra.truncated(term, width), place), 1), a)

    def nonzero(self, a: TermWord) -> TermFlag:
        """As a comparison."""
        return self.compare("lg", False, a, self.number(0, a))

    def contrary(self, flag: TermFlag) -> TermFlag:
        """1 - flag."""
        return self._flag(("contrary",), ARRAYS.contrary(flag.value), lambda term: self.algebra.sub(self.algebra.number(1), term), flag)

    def count_ones(self, a: TermWord) -> TermWord:
        """A function."""
        width = self.width(a)
        return self._made("ones", ARRAYS.count_ones(a.value), lambda term: self._function("ones", term, width=width), a, more=width)

    def bit_length(self, a: TermWord) -> TermWord:
        """A function."""
        width = self.width(a)
        return self._made("length", ARRAYS.bit_length(a.value), lambda term: self._function("length", term, width=width), a, more=width)

    def permuted(self, a: TermWord, b: TermWord, selectors: TermWord) -> TermWord:
        """A function."""
        return self._made("permuted", ARRAYS.permuted(a.value, b.value, selectors.value),
                          lambda *terms: self._function("permuted", *terms, width=32), a, b, selectors)


def _functions(width: int) -> dict[str, Callable[..., int]]:
    """Of numbers of so many bits."""
    size = 1 << width

    def signed(x: int) -> int:
        return (x ^ size >> 1) - (size >> 1)

    return {
        f"and{width}": lambda x, y: x & y, f"or{width}": lambda x, y: x | y, f"xor{width}": lambda x, y: x ^ y,
        f"ones{width}": lambda x: x.bit_count(), f"length{width}": lambda x: x.bit_length(),
        f"shl{width}": lambda x, by: (x << (by & width - 1)) % size, f"shr{width}": lambda x, by: x >> (by & width - 1),
        f"sar{width}": lambda x, by: (signed(x) >> (by & width - 1)) % size,
        f"bitwise{width}": lambda *given: _table(given[-1], given[:-1], width),
        f"permuted{width}": lambda a, b, selectors: sum(_byte(a, b, selectors >> 8 * n & 255) << 8 * n for n in range(4)),
    }


RELATIONS: dict[str, Callable[..., Any]] = {"eq": operator.eq, "lg": operator.ne, "lt": operator.lt, "le": operator.le,
                                            "gt": operator.gt, "ge": operator.ge}
"""What comparisons are functions of, by the middle part of their mnemonics."""

FUNCTIONS: dict[str, Callable[..., int]] = {
    "min": min, "max": max, "sum": lambda term: term, "select": lambda flag, yes, no: yes if flag else no, **RELATIONS,
    **_functions(16), **_functions(32), **_functions(64)}
"""The functions of variables, for those who compute terms."""


def _table(table: int, sources: Sequence[int], width: int) -> int:
    rows = [sum((source >> place & 1) << len(sources) - 1 - n for n, source in enumerate(sources)) for place in range(width)]
    return sum((table >> row & 1) << place for place, row in enumerate(rows))


def _byte(a: int, b: int, select: int) -> int:
    both = a << 32 | b
    if select >= 12:
        return 255 * (select > 12)
    return both >> 8 * select & 255 if select < 8 else 255 * (both >> 16 * (select - 8) + 15 & 1)
