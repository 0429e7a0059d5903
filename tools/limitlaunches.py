"""Launches at the limits of a contract, and what terms of addresses are there: whether what may wrap at 2^32 does.

Bounds of single parameters exclude most wraps. What is left depends on rules between parameters. So each size and stride in turn is made as
large as the contract allows, then the others, in two orders; there, terms are computed exactly for workgroups and lanes at the ends and
between. These launches are not run: most would take more memory than a GPU has.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asmgen.author.contract.contract import Formula, KernelContract, Values
from asmgen.emulator.machine.floatmode import float_mode
from asmgen.emulator.semantics.floats import FLOAT
from asmgen.emulator.semantics.valuconversions import CONVERT
from asmgen.emulator.terms.accesses import AddressSequence
from asmgen.emulator.terms.decisions import Decision
from asmgen.emulator.terms.polynomials import WORD, Polynomials, Term
from asmgen.emulator.terms.termwords import FUNCTIONS
from asmgen.isa.arch import LANES
from asmgen.tools.addressrun import AddressReport
from asmgen.tools.contractlimits import limit_launches
from asmgen.tools.guards import Guards

_IDS = ("workgroup.", "item.")
_SAMPLES, _FEW_SAMPLES, _SEED = 24, 8, 5
_MODE = 0x3C0  # as kernels start: f32 denormals flushed, nearest even
_POINTERS, _APART, _ADDRESSES = 1 << 44, 1 << 40, 1 << 48
_LOWER = (0, WORD - 4096)
"""The lower words of addresses at which tensors begin, of samples in turn: with the latter, the upper word needs a carry at once."""
_MEMORY = 1 << 39
"""Bytes that no tensor exceeds: a GPU has fewer than 512 GiB (docs/facts)."""


@dataclass(frozen=True)
class Wrap:
    """An access that wraps in a legal launch: `parameters`, the workgroup's ids, the work-item, and by how many bytes it is elsewhere."""

    sequence: AddressSequence
    parameters: Mapping[str, Any]
    workgroup: tuple[int, int, int]
    item: int
    off: int


@dataclass
class SeenAtLimits:
    """What launches of one program showed so far. `formulas` are those that were checked at the limits, with the decisions before them;
    `ways` (instruction, branch, what SCC was) those that led waves to accesses; `needed` such ways that legal launches need: the access
    would wrap there by the formula of the other way, and is judged by its own one in a launch that went it."""

    formulas: set[tuple[str, ...]] = field(default_factory=set)
    ways: set[tuple[int, int, bool]] = field(default_factory=set)
    needed: dict[tuple[int, int, bool], tuple[str, str]] = field(default_factory=dict)

    def unseen(self) -> tuple[str, str] | None:
        """An access and a branch, whose other way no launch went on to the access."""
        return next((texts for way, texts in self.needed.items() if way not in self.ways), None)


@dataclass
class _Formula:
    """A part of addresses that wraps off, where `waves` come by decisions: without `leading` they would not, from `open` both ways lead
    there. `others` are instructions with the same part and decisions."""

    part: Term
    sequence: AddressSequence
    leading: tuple[Decision, ...]
    open: tuple[Decision, ...]
    waves: list[int] = field(default_factory=list)
    others: dict[int, str] = field(default_factory=dict)


def word_of(value: Any) -> int:
    """The 32 bits of an argument that is a number."""
    return int(np.float32(value).view(np.uint32)) if isinstance(value, float) else int(value) % WORD


class TermFunctions(dict[str, Any]):
    """The functions that terms are made of; those of floats by the emulator's semantics."""

    def __init__(self) -> None:
        super().__init__(FUNCTIONS)

    def __missing__(self, name: str) -> Any:
        function = FLOAT.get(name) or CONVERT[name]
        source = np.float32 if name.endswith("f32") else np.uint32

        def computed(*given: int) -> int:
            with np.errstate(all="ignore"):
                result = function(float_mode(_MODE), *(np.array([one], np.uint32).view(source) for one in given))
            return int(np.asarray(result).view(np.uint32)[0])

        return computed


def wrapped_part(report: AddressReport, term: Term) -> Term:
    """What a wrap takes away from a term: its monomials with quotients by powers of two, whose coefficients are multiples of 2^32, and
    with what products of 24 bits leave out. Multiples of 2^48 are bits that no address has: a descriptor's base is cut to 48."""
    variables, lost = report.algebra.variables, report.algebra.lost
    return tuple((monomial, coefficient) for monomial, coefficient in term if not lost.isdisjoint(monomial) or coefficient % WORD == 0
                 and coefficient % _ADDRESSES and any(variables[number].name.startswith("floor / 2^") for number in monomial))


def not_restored(algebra: Polynomials, term: Term, part: Term, values: Mapping[int, int]) -> Term:
    """The part without upper halves of products whose lower halves stand in the term beside them: 2^32 floor(mul64(x, y) / 2^32) and
    mul32(x, y) are the whole product, which code makes by two instructions. `values` has what the variables of the term are."""

    def lower(number: int, upper: int) -> bool:
        variable = algebra.variables[number]
        inner = algebra.variables[upper].made_of[0]
        product = inner[0][0][0] if isinstance(inner, tuple) and len(inner) == 1 and len(inner[0][0]) == 1 else None
        return variable.name == "mul32" and product is not None and algebra.variables[product].name == "mul64" \
            and values[product] % WORD == values[number]

    def restored(monomial: tuple[int, ...], coefficient: int) -> bool:
        return any(coefficient == WORD * other and any(
            lower(number, upper) and sorted((*monomial[:place], *monomial[place + 1:])) == sorted((*low[:at], *low[at + 1:]))
            for at, number in enumerate(low) for place, upper in enumerate(monomial) if algebra.variables[upper].name == "floor / 2^32")
                   for low, other in term)

    return tuple((monomial, coefficient) for monomial, coefficient in part if not restored(monomial, coefficient))


class LimitCheck:
    """Of the sequences of one launch, at the limits of the contract. `judged` is what launches before showed: what they checked is not
    checked again."""

    def __init__(self, report: AddressReport, contract: KernelContract, build: Values, judged: SeenAtLimits | None = None) -> None:
        self.judged = SeenAtLimits() if judged is None else judged
        self._report, self._contract, self._build = report, contract, build
        self._number = {variable.name: number for number, variable in enumerate(report.algebra.variables) if variable.given}
        self._functions = TermFunctions()
        self._guards = Guards(report)
        self._texts: dict[tuple[int, str, tuple[Term, Term], bool], str] = {}
        self._names: dict[Term, frozenset[str]] = {}
        self.launches, self._frozen = 0, ""

    def wrap(self, until: float = math.inf) -> Wrap | str | None:
        """The first wrap, in the order of limits; why it cannot be told, as where the processor's time is `until`; or None. Offsets of
        buffers wrap where they then lie in range."""
        parts = self._formulas()
        if not parts:
            return None
        involved = frozenset[str]().union(*(self._given(one.part) for one in parts))
        sizes = [parameter.name for parameter in self._contract.parameters if parameter.kind == "run" and parameter.type is int
                 and (parameter.name in involved or not parameter.default_from)]
        for launch in limit_launches(self._contract, self._build, sizes):
            self.launches += 1
            for formula in parts:
                if time.process_time() > until:
                    return f"the time was over before {len(parts)} formulas that may wrap were computed at the contract's limits"
                try:
                    found = self._at(launch, formula)
                except (KeyError, TypeError, ValueError) as error:
                    return f"what may wrap is made of what is not followed ({error})"
                if found is not None:
                    lost = "code goes on at computed addresses: whether what may wrap is reached is not known"
                    return found if self._guards.known else lost
        if self._frozen:
            return self._frozen
        return None if self.launches else "no launch at the contract's limits was found"

    def _formulas(self) -> list[_Formula]:
        """What may wrap and was not checked before."""
        found: dict[tuple[str, ...], _Formula] = {}
        algebra, position = self._report.algebra, self._guards.position
        records: dict[int, list[AddressSequence]] = {}
        for sequence in self._report.sequences:
            if sequence.what == "records":
                records.setdefault(id(sequence.instruction), []).append(sequence)
            at = position(sequence.instruction)
            self.judged.ways.update((at, *way) for way in self._guards.went(sequence.instruction, sequence.waves[0]))
        for sequence in self._report.sequences:
            at = position(sequence.instruction)
            ends = sorted({str(one.terms) for one in records.get(id(sequence.instruction), []) if set(one.waves) & set(sequence.waves)})
            terms = sequence.terms if sequence.what in ("address", "offset") else ()
            parts = {wrapped_part(self._report, term): place for place, term in reversed([*enumerate(terms)]) if term is not None}
            for part, place in parts.items():
                for wave in sequence.waves if part else ():
                    leading = self._guards.of(sequence.instruction, wave, place)
                    either = tuple(one for one in self._guards.before(sequence.instruction, wave, place) if self._compares(one, part))
                    key = (algebra.text(part), *ends, "", *sorted(map(self._text, leading)), "", *map(self._text, either))
                    formula = found.setdefault(key, _Formula(part, sequence, leading, either))
                    formula.waves.append(wave)
                    formula.others[at] = sequence.instruction.text
        new = [formula for key, formula in found.items() if key not in self.judged.formulas]
        self.judged.formulas.update(found)
        return new

    def _text(self, decision: Decision) -> str:
        """The same in all launches of a program, and for no other branch."""
        key = id(decision.branch), decision.name, decision.parts, decision.held
        if key not in self._texts:
            first, second = map(self._report.algebra.text, decision.parts)
            self._texts[key] = f"{self._guards.position(decision.branch)} {decision.held} {decision.name} {first} {second}"
        return self._texts[key]

    def _compares(self, decision: Decision, part: Term) -> bool:
        """Whether a branch compares arguments that may wrap in the part."""
        names = self._given(part)
        return any(name in names and not name.startswith(_IDS) for one in decision.parts for name in self._given(one))

    def _given(self, term: Term) -> frozenset[str]:
        if term not in self._names:
            self._names[term] = self._found(term)
        return self._names[term]

    def _found(self, term: Term) -> frozenset[str]:
        names, waiting, seen = set[str](), [number for monomial, _ in term for number in monomial], set[int]()
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            variable = self._report.algebra.variables[number]
            if variable.given:
                names.add(variable.name)
            for inner in variable.made_of:
                waiting += [number for monomial, _ in inner for number in monomial] if isinstance(inner, tuple) else []
        return frozenset(names)

    def _at(self, launch: dict[str, Any], formula: _Formula) -> Wrap | None:
        """A wrap of the formula in a launch. Where a wave would go another way to the access, that is noted, and is no wrap."""
        part, sequence = formula.part, formula.sequence
        chance = random.Random(_SEED)
        grid = self._contract.grid_of(launch)
        x, y, z = self._contract.workgroup
        waves = -(-x * y * z // LANES)
        fixed, pointers = dict[int, int](), dict[int, int]()
        for name, number in self._number.items():
            if name.startswith(_IDS):
                continue
            if self._report.algebra.variables[number].high < WORD:
                if not isinstance(launch[name], str):
                    fixed[number] = word_of(launch[name])
            else:
                pointers[number] = _POINTERS + (len(pointers) + 1) * _APART
        strides = self._strides(part)
        for sample in range(_SAMPLES if not strides else _FEW_SAMPLES):
            ids = [(0, size - 1)[sample >> axis & 1] if sample < 8 else chance.randrange(size) for axis, size in enumerate(grid)]
            lane = (LANES - 1, 0)[sample & 1] if sample < 8 else chance.randrange(LANES)
            wave = chance.choice(formula.waves)
            item = wave % waves * LANES + lane
            given = fixed | {number: start + _LOWER[sample >> 1 & 1] for number, start in pointers.items()}
            for axis, name in enumerate("xyz"):
                if f"workgroup.{name}" in self._number:
                    given[self._number[f"workgroup.{name}"]] = ids[axis]
            for bit in range(10):
                if f"item.{bit}" in self._number:
                    given[self._number[f"item.{bit}"]] = item >> bit & 1
            if self._other_way(formula.leading, given) is not None:
                continue
            meant, off = self._meant(sequence, part, given, strides)
            if off and meant % _APART < _MEMORY and not self._dropped(sequence, part, given):
                other = self._other_way(formula.open, given)
                if other is None and (chosen := self._selected_otherwise(formula, given)) is not None:
                    self._frozen = self._frozen or f"where `{sequence.instruction.text}` wraps, `{chosen.branch.text}` selects otherwise " \
                        "than in the launch that was followed"
                    continue
                if other is not None:
                    way = self._guards.position(other.branch), not other.held
                    self.judged.needed.update({(at, *way): (text, other.branch.text) for at, text in formula.others.items()})
                    continue
                return Wrap(sequence, launch, (ids[0], ids[1], ids[2]), item, off)
        return None

    def _selected_otherwise(self, formula: _Formula, given: dict[int, int]) -> Decision | None:
        """A selection of scalars that the formula may have as the launch did, and that is another one there: of what is made of the same
        arguments."""
        names = self._given(formula.part)
        for wave in formula.waves:
            of = [decision for decision, sources in self._report.decisions.selections(wave)
                  if (used := frozenset[str]().union(*(self._given(one or ()) for one in sources))) and used <= names]
            other = self._other_way(of, given)
            if other is not None:
                return other
        return None

    def _other_way(self, decisions: Sequence[Decision], given: dict[int, int]) -> Decision | None:
        """The first that is another one there. Where that is not known, it is the same."""
        algebra, values = self._report.algebra, dict(given)
        for decision in decisions:
            try:
                first, second = (algebra.value(part, values, self._functions) for part in decision.parts)
            except (KeyError, TypeError, ValueError):
                continue
            if decision.holds(first, second) != decision.held:
                return decision
        return None

    def _strides(self, part: Term) -> list[int]:
        """Where products are functions, as they are too long for polynomials: the variables that are strides; else none."""
        found, waiting, strides = set[int](), [number for monomial, _ in part for number in monomial], []
        long = False
        named = {parameter.name for parameter in self._contract.parameters if isinstance(parameter.default_from, Formula)}
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            variable = self._report.algebra.variables[number]
            long = long or variable.name.startswith("mul")
            if variable.given and variable.name in named:
                strides.append(number)
            for inner in variable.made_of:
                waiting += [one for monomial, _ in inner for one in monomial] if isinstance(inner, tuple) else []
        return strides if long else []

    def _meant(self, sequence: AddressSequence, part: Term, given: dict[int, int], strides: list[int]) -> tuple[int, int]:
        """The address or offset without a wrap, and by how much it is off: what `part` is, or, as addresses are affine in strides, the
        difference from what they are for strides of 1 and 2, carried on."""
        term = next(one for one in sequence.terms if one is not None and wrapped_part(self._report, one) == part)
        algebra = self._report.algebra
        if not strides:
            values = dict(given)
            there = algebra.value(term, values, self._functions)
            off = algebra.value(not_restored(algebra, term, part, values), values, self._functions)
            return there - off, off

        def at(values: dict[int, int]) -> int:
            return algebra.value(term, given | values, self._functions)

        ones = dict.fromkeys(strides, 1)
        first = at(ones)
        meant = first + sum((given[number] - 1) * (at(ones | {number: 2}) - first) for number in strides)
        return meant, (at({}) - meant) % _ADDRESSES

    def _dropped(self, sequence: AddressSequence, part: Term, given: dict[int, int]) -> bool:
        """Whether a buffer instruction's access lies beyond the buffer's end even so: it reads 0 then, and writes nothing."""
        records = [one for one in self._report.sequences if one.instruction is sequence.instruction and one.what == "records"
                   and set(one.waves) & set(sequence.waves)]
        offsets = [one for one in self._report.sequences if one.instruction is sequence.instruction and one.what == "offset"
                   and set(one.waves) & set(sequence.waves)]
        algebra, functions = self._report.algebra, self._functions
        for offset in offsets:
            for place, term in enumerate(offset.terms):
                if term is None or wrapped_part(self._report, term) != part:
                    continue
                most = [one.terms[min(place, len(one.terms) - 1)] for one in records]
                return bool(most) and all(end is not None and algebra.value(term, given, functions) % WORD
                                          >= algebra.value(end, given, functions) % WORD for end in most)
        return False
