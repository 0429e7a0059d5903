"""Functions in addresses that did nothing in the launches followed, as a mask that left out no bit: whether they should do something for
other sizes, no launch showed.

A quotient by a power of two may have been 0 or -1, as where a difference has a borrow, a minimum one of its sides, an `and` one of its
sides or 0, an `or` the sum of both, and a conversion from floats may have given the integer back of which these were made. Where it was
that in each lane of each launch, that is its form. At the limits of the contract it may be another one. What a launch gives has forms
too: an axis of the grid with one workgroup is 0, and an argument may be the same number as another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from asmgen.author.contract.contract import KernelContract
from asmgen.emulator.terms.identities import Identities
from asmgen.emulator.terms.polynomials import QUOTIENT, WORD, Polynomials, Term
from asmgen.emulator.terms.termwords import FUNCTIONS, RELATIONS
from asmgen.isa.arch import LANES
from asmgen.tools.proofs.addressrun import AddressReport
from asmgen.tools.proofs.comparedsides import End
from asmgen.tools.proofs.launchvalues import given_numbers
from asmgen.tools.proofs.shownparts import ShownParts
from asmgen.tools.proofs.termvalues import Makings, TermValues, ones

_SAMPLES = 4096
"""Lanes of a launch that are looked at, some of each wave: what acts in others alone is taken to be idle."""
_NO_FORMS = ("sum",)
"""A sum is itself."""
_SUMS = ("or", "xor")
_FROM_FLOATS, _TO_FLOATS = ("v_cvt_u32_f32", "v_cvt_i32_f32"), ("v_cvt_f32_u32", "v_cvt_f32_i32", "v_cvt_f32_ubyte")
_WORKGROUP = "workgroup."


def forms_of(algebra: Polynomials, number: int) -> tuple[Term, ...]:
    """What a function of integers is where it does nothing; nothing for other variables."""
    variable = algebra.variables[number]
    if variable.given:
        return _given_forms(algebra, number)
    if variable.name.startswith(QUOTIENT):
        borrow = (algebra.number(-1),) if variable.low < 0 else ()
        return ((), *borrow) if variable.name != f"{QUOTIENT}0" else ()
    if variable.name.startswith(_FROM_FLOATS):
        return _converted(algebra, number)
    if variable.name not in FUNCTIONS or variable.name in _NO_FORMS:
        return ()
    if variable.name in RELATIONS:
        return ((), algebra.number(1))
    sides = tuple(part for part in variable.made_of if isinstance(part, tuple))
    if variable.name == "select":
        return sides[1:]
    if variable.name.startswith("and"):
        return (*sides, ())
    return (*sides, algebra.add(sides[0], sides[1])) if variable.name.startswith(_SUMS) else sides


def _converted(algebra: Polynomials, number: int) -> tuple[Term, ...]:
    """The integers of which the floats were made that a variable converts."""
    found, waiting, seen = list[Term](), [number], {number}
    while waiting:
        variable = algebra.variables[waiting.pop()]
        parts = [part for part in variable.made_of if isinstance(part, tuple)]
        if variable.name.startswith(_TO_FLOATS):
            found += parts
            continue
        more = {inner for part in parts for monomial, _ in part for inner in monomial} - seen
        seen |= more
        waiting += sorted(more)
    return tuple(dict.fromkeys(found))


def _given_forms(algebra: Polynomials, number: int) -> tuple[Term, ...]:
    """An axis of the grid may have had one workgroup, and an argument may have been the same as others, as strides and sizes are."""
    name = algebra.variables[number].name
    if name.startswith(_WORKGROUP):
        return ((),)
    if not _is_size(algebra, number):
        return ()
    return tuple((((other,), 1),) for other in range(len(algebra.variables)) if other != number and _is_size(algebra, other))


def _is_size(algebra: Polynomials, number: int) -> bool:
    variable = algebra.variables[number]
    return variable.given and variable.high < WORD and not variable.name.startswith((_WORKGROUP, "item."))


@dataclass
class FormsSeen:
    """By the identity of a function: the identities of the forms that it had in all launches followed."""

    left: dict[bytes, frozenset[bytes]] = field(default_factory=dict)

    def met(self, function: bytes, forms: frozenset[bytes]) -> None:
        """A launch ran, in which it had these."""
        self.left[function] = self.left.get(function, forms) & forms


class IdleParts:
    """Of the addresses and the other ends of terms of one launch, of which `seen` is told: what did nothing in it, nor in those before."""

    def __init__(self, report: AddressReport, ends: Sequence[End], contract: KernelContract, makings: Makings, identities: Identities,
                 seen: FormsSeen) -> None:
        self._algebra, self._makings, self._identities, self._seen = report.algebra, makings, identities, seen
        self._shown = ShownParts(report, ends, makings)
        self._functions: dict[int, bytes] = {}
        for number, held in self._held(report, ends, contract):
            self._functions[number] = identities.of((((number,), 1),))
            seen.met(self._functions[number], frozenset(map(identities.of, held)))

    def forms(self) -> dict[int, tuple[Term, ...]]:
        """By variable, those left."""
        found = {}
        for number, function in self._functions.items():
            left = self._seen.left[function]
            held = tuple(form for form in forms_of(self._algebra, number) if self._identities.of(form) in left)
            if held:
                found[number] = held
        return found

    def name(self, number: int) -> bytes:
        """The same in all launches."""
        return self._functions[number]

    def state(self, numbers: Iterable[int]) -> bytes:
        """Which forms of these are left."""
        return b"".join(sorted(self._functions[number] + b"".join(sorted(self._seen.left[self._functions[number]])) for number in numbers))

    def shows(self, number: int, values: TermValues, waves: NDArray[np.int64], each: int) -> NDArray[np.bool_]:
        """The samples of another launch, with waves of a workgroup of `each`, that show that a function is none of the forms left."""
        return self._shown.shows(number, self.forms()[number], values, waves, each=each)

    def _is_held(self, number: int, form: Term, values: TermValues, here: NDArray[np.bool_], waves: NDArray[np.int64]) -> bool:
        """Whether nothing in the launch shows that a function is not a form. What a launch gives shows itself."""
        if values.is_formed(number, (form,))[here].all():
            return True
        function = self._identities.of((((number,), 1),))
        left = self._seen.left.get(function)
        if self._algebra.variables[number].given or left is not None and self._identities.of(form) not in left:
            return False
        return not self._shown.shows(number, (form,), values, waves, here).any()

    def _held(self, report: AddressReport, ends: Sequence[End], contract: KernelContract) -> Iterator[tuple[int, list[Term]]]:
        """The functions in addresses and other ends, each with the forms that it has in all lanes of waves that came there, as shows.
        A row may be limited to the last one in waves that store nothing then: at the limits it is not known which lanes are left."""
        made, total = dict[frozenset[int], int](), 0
        for sequence in report.sequences:
            if sequence.what in ("address", "offset"):
                waves_there = report.reached[id(sequence.instruction)]
                for term in sequence.terms:
                    made[waves_there] = made.get(waves_there, 0) | (self._makings.of(term) if term is not None else 0)
        for end in ends:
            made[end.waves] = made.get(end.waves, 0) | self._makings.of(end.term)
        for mask in made.values():
            total |= mask
        waves, values = self._samples(report, contract, sorted({wave for group in made for wave in group}))
        there = {group: np.isin(waves, [*group]) for group in made}
        where = dict[frozenset[frozenset[int]], NDArray[np.bool_]]()
        for number in ones(total):
            forms = forms_of(self._algebra, number)
            if not forms:
                continue
            groups = frozenset(group for group, mask in made.items() if mask >> number & 1)
            if groups not in where:
                where[groups] = np.logical_or.reduce([there[group] for group in groups])
            try:
                yield number, [form for form in forms if self._is_held(number, form, values, where[groups], waves)]
            except (KeyError, TypeError, ValueError):
                continue  # made of what no launch says: nor is it known at the limits

    def _samples(self, report: AddressReport, contract: KernelContract, waves: Sequence[int]) -> tuple[NDArray[np.int64], TermValues]:
        """The waves' lanes, with tensors at both kinds of beginnings."""
        x, y, z = contract.workgroup
        each, grid = -(-x * y * z // LANES), contract.grid_of(report.parameters)
        lanes = np.unique(np.linspace(0, LANES - 1, max(2, min(LANES, _SAMPLES // (2 * max(1, len(waves)))))).astype(np.int64))
        of_waves, of_lanes, begins = (one.reshape(-1) for one in np.meshgrid(np.array(waves, np.int64), lanes, np.arange(2), indexing="ij"))
        linear = of_waves // each
        ids = np.stack([linear % grid[0], linear // grid[0] % grid[1], linear // grid[0] // grid[1]], -1)
        items = of_waves % each * LANES + of_lanes
        given = given_numbers(self._algebra, [report.parameters], np.zeros(len(items), np.int64), ids, items, begins)
        return of_waves, TermValues(self._makings, given, len(items))
