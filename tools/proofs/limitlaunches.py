"""Launches at the limits of a contract, and what terms of addresses are there: whether what may wrap at 2^32 does.

Bounds of single parameters exclude most wraps. What is left depends on rules between parameters. So each size and stride in turn is made as
large as the contract allows, then the others, in two orders; there, terms are computed exactly for workgroups and lanes at the ends and
between, all at once. These launches are not run: most would take more memory than a GPU has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.author.contract.contract import KernelContract, Values
from asmgen.emulator.terms.accesses import AddressSequence
from asmgen.emulator.terms.decisions import Decision
from asmgen.emulator.terms.identities import Identities
from asmgen.emulator.terms.polynomials import QUOTIENT, WORD, Term
from asmgen.isa.arch import LANES
from asmgen.isa.errors import AsmgenError
from asmgen.tools.proofs.addressrun import AddressReport
from asmgen.tools.proofs.comparedsides import TRUTH, ends_of
from asmgen.tools.proofs.contractlimits import limit_launches
from asmgen.tools.proofs.exactnumbers import Numbers
from asmgen.tools.proofs.guards import Guards, ProgramWays
from asmgen.tools.proofs.idleparts import FormsSeen, IdleParts
from asmgen.tools.proofs.launchvalues import APART, given_numbers
from asmgen.tools.proofs.limitsamples import Samples, Truths
from asmgen.tools.proofs.termvalues import Makings, TermValues, ones
from asmgen.tools.proofs.wrappingparts import WrapFormula, WrappingAccess, signs_of, wrapped_part

Lack = tuple[str, Any]
"""What no launch followed did: of which kind it is (`IDLE`, `WAY`, `SIDE`, `TURN`), and what names it in all launches."""
IDLE, WAY, SIDE, TURN = "idle", "way", "side", "turn"
_IDS = ("workgroup.", "item.")
_CORNERS, _DRAWN, _SEED = 32, 16, 5
"""Samples of each wave of each launch: all ends of three ids, of lanes and of beginnings of tensors, and drawn ones."""
_SHOWN = 16
"""Samples that tell functions apart of which an address is made."""
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
    would wrap there by the formula of the other way, and is judged by its own one in a launch that went it. `forms` of functions are what
    these were in all launches; `others` are functions that are none of their forms at the limits, with what to say of each. `program` says
    where the program's branches lead, once a launch of it was followed."""

    formulas: set[tuple[bytes, ...]] = field(default_factory=set)
    ways: set[tuple[int, int, bool]] = field(default_factory=set)
    needed: dict[tuple[int, int, bool], tuple[str, str]] = field(default_factory=dict)
    forms: FormsSeen = field(default_factory=FormsSeen)
    others: dict[bytes, str] = field(default_factory=dict)
    program: ProgramWays | None = None

    def idle(self) -> str | None:
        """What to say of a function that did nothing in any launch, if there is one that does something at the limits."""
        return next((said for function, said in self.others.items() if self.forms.left[function]), None)

    def unseen(self) -> tuple[str, str] | None:
        """An access and a branch, whose other way no launch went on to the access."""
        return next((texts for way, texts in self.needed.items() if way not in self.ways), None)


Meets = Callable[[Samples], Truths]


class LimitCheck:
    """Of the sequences of one launch, at the limits of the contract. `judged` is what launches before showed: what they checked is not
    checked again."""

    def __init__(self, report: AddressReport, contract: KernelContract, build: Values, judged: SeenAtLimits | None = None) -> None:
        self.judged = SeenAtLimits() if judged is None else judged
        self.report, self._contract, self._build = report, contract, build
        x, y, z = contract.workgroup
        self.waves = -(-x * y * z // LANES)
        self.guards = Guards(report, self.judged.program, self.waves)
        self.judged.program = self.guards.ways
        self._makings, self._identities = Makings(report.algebra), Identities(report.algebra)
        self._parts: dict[Term, Term] = {}
        self._inner: dict[Term, Term] = {}
        self._states: dict[Term, bytes] = {}
        self._marked, self._looked = 0, 0
        self._ends_beside = ends_of(report, self.guards)
        self._idle = IdleParts(report, self._ends_beside, contract, self._makings, self._identities, self.judged.forms)
        self._forms = self._idle.forms()
        self._signs = signs_of(report.algebra)
        self._numbers = {one.name: report.parameters[one.name] for one in contract.parameters
                         if one.kind == "run" and one.type is float and one.name in report.parameters}
        self._names: dict[Term, frozenset[str]] = {}
        self._wanted: dict[tuple[int, int, bool], tuple[Decision, frozenset[int], tuple[Decision, ...]]] = {}
        self.launches = 0

    def wrap(self, until: float = math.inf) -> Wrap | str | None:
        """The first wrap, in the order of limits; why it cannot be told, as where the processor's time is `until`; or None. Offsets of
        buffers wrap where they then lie in range."""
        parts = self._formulas()
        if not parts:
            return None
        launches = self.limits(one.part for one in parts)
        self.launches = len(launches)
        if not launches:
            return "no launch at the contract's limits was found"
        samples, found, unknown = self.samples(launches), list[tuple[int, Wrap]](), ""
        for formula in parts:
            if time.process_time() > until:
                return f"the time was over before {len(parts)} formulas that may wrap were computed at the contract's limits"
            try:
                first = self._first(samples, formula) if not formula.compared else None
                if formula.inner and first is None:
                    self._note_idle(samples, formula, launches)
                dropped = self._first(samples, formula, dropped=True) if first is None and not formula.inner else None
            except (KeyError, TypeError, ValueError) as error:
                unknown = unknown or f"what may wrap is made of what is not followed ({error})"
                continue
            if first is not None and formula.inner:
                unknown = unknown or f"a number wraps before it is shifted or compared, of which the {formula.sequence.what} of " \
                    f"`{formula.sequence.instruction.text}` is made, with {dict(launches[int(samples.launches[first[0]])])}"
            elif dropped is not None:
                unknown = unknown or f"the offset of `{formula.sequence.instruction.text}` wraps beyond the buffer's end, and should lie " \
                    f"before it, with {dict(launches[int(samples.launches[dropped[0]])])}"
            elif first is not None:
                row, off = first
                x, y, z = (int(one) for one in samples.ids[row])
                number = int(samples.launches[row])
                found.append((number, Wrap(formula.sequence, launches[number], (x, y, z), int(samples.items[row]), off)))
        if found:
            lost = "code goes on at computed addresses: whether what may wrap is reached is not known"
            return min(found, key=lambda one: one[0])[1] if self.guards.known else lost
        return unknown or None

    def meeting(self, launches: Sequence[Mapping[str, Any]], lacks: Mapping[Lack, Meets]) -> dict[Lack, Truths]:
        """By what lacks, of `lacks`: in which of these launches it is met, by the terms."""
        waves = range(self.waves) if any(kind in (WAY, TURN) for kind, _ in lacks) else sorted({0, self.waves - 1})
        samples, found = self.samples(launches, waves) if lacks and launches else None, dict[Lack, Truths]()
        for lack, there in lacks.items() if samples is not None else ():
            assert samples is not None
            try:
                found[lack] = np.bincount(samples.launches[there(samples)], minlength=len(launches)) > 0
            except (KeyError, TypeError, ValueError):
                continue  # made of what no launch says
        return found

    def lacks(self, selected: Mapping[int, Collection[bool]]) -> dict[Lack, Meets]:
        """What lacks in the launches followed, with where it is met: functions that did nothing, and do at the limits; ways that legal
        launches need; of scalar selections, which took the sides `selected`, those that none took."""
        found = dict[Lack, Meets]()
        for number in self._idle.forms():
            if self._idle.name(number) in self.judged.others:
                found[IDLE, self._idle.state([number])] = partial(self._acts, number)
        for way, needed in self._wanted.items():
            if way not in self.judged.ways:
                found[WAY, way] = partial(self._goes, *needed)
        for instruction, terms in self.report.decisions.flags.items():
            sides = selected.get(instruction, ())
            for held in sides if len(sides) == 1 else ():
                found.update({(SIDE, (instruction, self._identities.of(term))): partial(self._differs, term, held) for term in terms})
        return found

    def _acts(self, number: int, samples: Samples) -> Truths:
        """Where it shows that a function acts, else where it does: in a launch of more rounds more is compared."""
        shown = self._idle.shows(number, samples.values, samples.waves, self.waves)
        return shown if shown.any() else ~samples.values.is_formed(number, self._idle.forms()[number])

    @staticmethod
    def _differs(term: Term, held: bool, samples: Samples) -> Truths:
        return np.asarray(samples.values.of(term) != held, bool)

    def _goes(self, decision: Decision, waves: frozenset[int], leading: tuple[Decision, ...], samples: Samples) -> Truths:
        """Where waves that come to an access by decisions make one the other way."""
        there = np.isin(samples.waves, [*waves]) & self.otherwise(decision, samples)
        for other in leading:
            there &= ~self.otherwise(other, samples)
        return there

    def named(self, term: Term) -> bytes:
        """The same for a term in all launches."""
        return self._identities.of(term)

    def limits(self, terms: Iterable[Term]) -> tuple[dict[str, Any], ...]:
        """The launches at limits where the sizes of which terms are made are as large as they may be, and all that have no default. What is
        no size, as the factor of C, is as in this launch: another one may leave out all rows of C."""
        involved = frozenset[str]().union(*map(self._given, terms))
        sizes = [parameter.name for parameter in self._contract.parameters if parameter.kind == "run" and parameter.type is int
                 and (parameter.name in involved or not parameter.default_from)]
        return tuple(map(self._with_numbers, limit_launches(self._contract, self._build, sizes)))

    def _with_numbers(self, launch: dict[str, Any]) -> dict[str, Any]:
        """A launch with the numbers of this one, where the contract allows them."""
        try:
            return dict(self._contract.resolve_run(launch | self._numbers, near=False))
        except AsmgenError:
            return launch

    def _numbers_in(self, terms: Iterable[Term | None]) -> bytes:
        """What names the numbers that are no sizes, of which terms are made: others lead to other limits."""
        names = frozenset[str]().union(*(self._given(term) for term in terms if term is not None))
        return repr([(name, number) for name, number in self._numbers.items() if name in names]).encode()

    def _formulas(self) -> list[WrapFormula]:
        """What may wrap and was not checked before."""
        found, new = dict[tuple[bytes, ...], WrapFormula](), set[tuple[bytes, ...]]()
        guards, records, beside = self.guards, dict[int, list[AddressSequence]](), dict[int, list[AddressSequence]]()
        for sequence in self.report.sequences:
            if sequence.what in ("records", "offset"):
                (records if sequence.what == "records" else beside).setdefault(id(sequence.instruction), []).append(sequence)
            at = guards.position(sequence.instruction)
            self.judged.ways.update((at, *way) for wave in sequence.waves for way in guards.went(sequence.instruction, wave))
        for sequence in self.report.sequences:
            at = guards.position(sequence.instruction)
            terms = sequence.terms if sequence.what in ("address", "offset") else ()
            wraps = [(part, inner, place, term) for place, term in enumerate(terms) if term is not None
                     for part, inner in ((self._part(term), False), (self._within(term), True)) if part]
            ends = records.get(id(sequence.instruction), []) if wraps else []
            name, offsets = self._ends(ends, sequence), beside.get(id(sequence.instruction), [])
            for part, inner, place, term in wraps:
                for wave in sequence.waves:
                    if sequence.what == "address" and not inner and self._as_offset(offsets, wave, place, part):
                        continue
                    leading = guards.of(sequence.instruction, wave, place)
                    either = tuple(one for one in guards.before(sequence.instruction, wave, place) if self._compares(one, part))
                    ways = (*sorted(map(self._text, leading)), b"", *map(self._text, either))
                    key = (self._identities.of(part), self._inside(part) if inner else b"", name, *ways)
                    parts = (side for decision in (*leading, *either) for side in decision.parts)
                    numbers = self._numbers_in((term, *(one for end in ends for one in end.terms), *parts))
                    seen = (*key, sequence.what.encode(), self._identities.of(term), b"%d" % (wave % self.waves), numbers)
                    if seen in self.judged.formulas:
                        continue
                    formula = found.setdefault(key, WrapFormula(part, sequence, leading, either, inner=inner))
                    access = WrappingAccess(term, self._records(ends, wave, place) if sequence.what == "offset" else frozenset())
                    formula.accesses.setdefault(access, set()).add(wave % self.waves)
                    formula.others[at] = sequence.instruction.text
                    new.add(seen)
        self.judged.formulas.update(new)
        return [*found.values(), *self._sides()]

    def _sides(self) -> Iterator[WrapFormula]:
        """Sides of comparisons, data and lane masks that are made of what did nothing."""
        idle = sum(1 << number for number in self._forms)
        for end in self._ends_beside:
            part = tuple(one for one in end.term if self._makings.of((one,)) & idle)
            key = end.what.encode(), b"%d" % end.position, self._identities.of(part), self._inside(part), self._numbers_in((end.term,))
            if part and key not in self.judged.formulas:
                self.judged.formulas.add(key)
                there = AddressSequence(self.report.program.instructions[end.position], end.what, tuple(end.waves), (end.term,))
                yield WrapFormula(part, there, (), (), inner=True, compared=frozenset(wave % self.waves for wave in end.waves))

    def _as_offset(self, offsets: Sequence[AddressSequence], wave: int, place: int, part: Term) -> bool:
        """Whether an address wraps where its offset does, which is judged by the buffer's end."""
        terms = [one.terms[place] for one in offsets if wave in one.waves and place < len(one.terms)]
        return any(term is not None and self._part(term) == part for term in terms)

    @staticmethod
    def _records(ends: Sequence[AddressSequence], wave: int, place: int) -> frozenset[Term | None]:
        return frozenset(one.terms[min(place, len(one.terms) - 1)] for one in ends if wave in one.waves)

    def _part(self, term: Term) -> Term:
        if term not in self._parts:
            self._parts[term] = wrapped_part(self.report, term)
        return self._parts[term]

    def _without(self, term: Term) -> Term:
        """The monomials of a sum that say where it wraps, or where numbers did that were shifted into it. What is added for a number's sign
        takes such a wrap away, so it goes with it: what is left is what the sum should be."""
        cut = self.report.algebra.cut
        found = [one for one in term if not cut.isdisjoint(one[0])]
        for monomial, coefficient in found[:]:
            for number in cut.intersection(monomial).intersection(self._signs):
                rest = list(monomial)
                rest[rest.index(number)] = self._signs[number]
                found += {(tuple(sorted(rest)), -coefficient)}.intersection(term)
        return self._part(term) + tuple(found)

    def _within(self, term: Term) -> Term:
        """The monomials of an address that another wraps within."""
        if term not in self._inner:
            variables = self.report.algebra.variables
            for number in range(self._looked, len(variables)):  # each is made of earlier ones
                wraps = any(isinstance(part, tuple) and self._without(part) for part in variables[number].made_of)
                self._marked |= (wraps or number in self.report.algebra.cut or number in self._forms) << number
            self._looked, own = len(variables), self._part(term)
            self._inner[term] = tuple(one for one in term if one not in own and self._makings.of((one,)) & self._marked)
        return self._inner[term]

    def _inside(self, part: Term) -> bytes:
        """Not empty. What its functions were in launches before makes it another formula to check."""
        if part not in self._states:
            self._states[part] = b"in" + self._idle.state(number for number in ones(self._makings.of(part)) if number in self._forms)
        return self._states[part]

    def _ends(self, records: Sequence[AddressSequence], sequence: AddressSequence) -> bytes:
        """What names the ends of the buffers that a sequence's instruction accesses."""
        waves = set(sequence.waves)
        terms = {term for one in records if not waves.isdisjoint(one.waves) for term in one.terms if term is not None}
        return b"".join(sorted(self._identities.of(term) for term in terms))

    def _text(self, decision: Decision) -> bytes:
        """The same in all launches of a program, and for no other branch."""
        first, second = map(self._identities.of, decision.parts)
        return f"{self.guards.position(decision.branch)} {decision.held} {decision.name} ".encode() + first + second

    def _compares(self, decision: Decision, part: Term) -> bool:
        """Whether a branch compares arguments that may wrap in the part."""
        names = self._given(part)
        return any(name in names and not name.startswith(_IDS) for one in decision.parts for name in self._given(one))

    def _given(self, term: Term) -> frozenset[str]:
        if term not in self._names:
            self._names[term] = frozenset(variable.name for _, variable in self._makings.variables(term) if variable.given)
        return self._names[term]

    def samples(self, launches: Sequence[Mapping[str, Any]], of: Sequence[int] | None = None) -> Samples:
        """Of each wave of each launch, or those `of` a workgroup: workgroups and lanes at all ends with tensors at both kinds of
        beginnings, and drawn ones."""
        chance = np.random.default_rng(_SEED)
        corners = np.arange(_CORNERS + _DRAWN)
        chosen = np.arange(self.waves) if of is None else np.array(of)
        shape = len(launches), len(chosen), len(corners)
        drawn = np.broadcast_to(corners >= _CORNERS, shape)
        grids = np.array([self._contract.grid_of(launch) for launch in launches], np.int64)
        ids = [np.where(drawn, chance.integers(np.broadcast_to(sizes, shape)), (corners >> axis & 1) * (sizes - 1))
               for axis, sizes in enumerate(grids.T[:, :, None, None])]
        lanes = np.where(drawn, chance.integers(LANES, size=shape), (corners >> 3 & 1) * (LANES - 1))
        places = np.broadcast_arrays(np.arange(shape[0])[:, None, None], chosen[:, None], corners >> 4 & 1)
        numbers, waves, begins = (one.reshape(-1) for one in places)
        groups, items = np.stack(ids, -1).reshape(-1, len(ids)), waves * LANES + lanes.reshape(-1)
        _, each = np.unique(np.column_stack([numbers, groups, items, begins]), axis=0, return_index=True)  # an axis may have one workgroup
        numbers, groups, waves, items, begins = (one[each] for one in (numbers, groups, waves, items, begins))
        given = given_numbers(self.report.algebra, launches, numbers, groups, items, begins)
        return Samples(numbers, groups, waves, items, TermValues(self._makings, given, len(items)))

    def _note_idle(self, samples: Samples, formula: WrapFormula, launches: Sequence[Mapping[str, Any]]) -> None:
        """Note functions of an address that did nothing in launches, and do something at the limits: it is not known that they should."""
        own = self._makings.of(formula.part)
        while left := [number for number in self._unnoted() if own >> number & 1]:
            first = self._first(samples, formula, samples.formed({number: self._forms[number] for number in self._unnoted()}))
            if first is None:
                return
            part = samples.part(self._showing(samples, left, first[0]))
            alone = [number for number in left if self._first(part, formula, part.formed({number: self._forms[number]})) is not None]
            found = alone or [number for number in left if not samples.values.is_formed(number, self._forms[number])[first[0]]]
            for number in found:  # else several do it together, as two masks of the same bits
                self.judged.others[self._idle.name(number)] = f"`{self.report.algebra.variables[number].name}`, of which the " \
                    f"{formula.sequence.what} of `{formula.sequence.instruction.text}` is made, did nothing in all launches followed, " \
                    f"and does something with {dict(launches[int(samples.launches[first[0]])])}"

    def _unnoted(self) -> list[int]:
        """Functions that did nothing, and are not noted. All of them are formed at once, whichever an address is made of."""
        return [number for number in self._forms if self._idle.name(number) not in self.judged.others]

    def _showing(self, samples: Samples, numbers: Sequence[int], first: int) -> NDArray[np.int64]:
        """A few samples, of each of these functions some in which it does something, and the `first` one with a change."""
        rows = [np.array([first])]
        for number in numbers:
            acts = np.flatnonzero(~samples.values.is_formed(number, self._forms[number]))
            rows.append(acts[np.linspace(0, len(acts) - 1, min(_SHOWN, len(acts))).astype(np.int64)])
        return np.unique(np.concatenate(rows))

    def _first(self, samples: Samples, formula: WrapFormula, otherwise: TermValues | None = None,
               dropped: bool = False) -> tuple[int, int] | None:
        """The first sample with a wrap, and by how much it is off. Where a wave would go another way to the access, that is noted, and is
        no wrap. For an inner part, by how much it is off what it is `otherwise`, by default without wraps. With `dropped` an offset that
        should lie before its buffer's end."""
        values = samples.values
        left = np.isin(samples.waves, [*formula.waves])
        for decision in formula.leading:
            left &= ~self.otherwise(decision, samples)
        if not left.any():
            return None
        off: Numbers = values.of(formula.part)
        if formula.inner:
            off = off - (otherwise or samples.unwrapped(self._without)).of(formula.part)
        rows = np.flatnonzero(left & (off != 0))
        if formula.sequence.what == TRUTH and rows.size:
            rows = rows[self._in_its_round(values, formula, off[rows], rows) | self._decides_otherwise(values, formula, otherwise)[rows]]
        if rows.size and formula.accesses:
            rows = rows[self._falling(samples, formula, off[rows], rows, dropped)]
        for decision in formula.open if rows.size else ():
            other = self.otherwise(decision, samples)[rows]
            if other.any():
                self._need(decision, formula)
                rows = rows[~other]
        return (int(rows[0]), int(off[rows[0]])) if rows.size else None

    @staticmethod
    def _in_its_round(values: TermValues, formula: WrapFormula, off: Numbers, rows: NDArray[np.int64]) -> Truths:
        """Where a side of a comparison is not below 0 as launches show it: what is left of a loop is, in rounds that a launch has not."""
        (side,) = formula.sequence.terms
        return np.asarray(values.of(side or (), rows) >= off, bool)

    def _decides_otherwise(self, values: TermValues, formula: WrapFormula, otherwise: TermValues | None) -> Truths:
        """Where a comparison in no loop has another truth than as launches show it, whatever its sides are."""
        found, at = np.zeros(values.samples, bool), formula.sequence.instruction
        if otherwise is not None and not self.guards.in_loop(at):
            waves = formula.sequence.waves
            for term in {one for wave in waves for one in self.report.truths.get((id(at), wave), ()) if one is not None}:
                found |= values.of(term) != otherwise.of(term)
        return found

    def _near(self, values: TermValues, term: Term, rows: NDArray[np.int64]) -> Truths:
        """Where an address, if nothing of it is cut, lies beside its pointer: farther than pointers are apart, it would look like one at
        another pointer, and is in a tensor that cannot exist."""
        variables = self.report.algebra.variables
        whole = tuple((monomial, coefficient) for monomial, coefficient in term if coefficient % WORD
                      or not any(variables[number].name.startswith(QUOTIENT) for number in monomial))
        pointers = [(monomial, coefficient) for monomial, coefficient in whole if coefficient == 1 and len(monomial) == 1
                    and variables[monomial[0]].given and variables[monomial[0]].high >= WORD]
        if len(pointers) != 1:
            return np.ones(len(rows), bool)
        return np.asarray(abs(values.of(tuple(one for one in whole if one not in pointers), rows)) < APART, bool)

    def _falling(self, samples: Samples, formula: WrapFormula, off: Numbers, rows: NDArray[np.int64], dropped: bool) -> Truths:
        """Where one of the accesses falls, in some samples."""
        found = np.zeros(len(rows), bool)
        for access, waves in formula.accesses.items():
            here = np.flatnonzero(~found & np.isin(samples.waves[rows], [*waves]))
            found[here] = self._falls(samples.values, access, formula, off[here], rows[here], dropped) if here.size else False
        return found

    def _falls(self, values: TermValues, access: WrappingAccess, formula: WrapFormula, off: Numbers, rows: NDArray[np.int64],
               dropped: bool) -> Truths:
        """Where an access that is `off` is meant for a tensor that can exist, and is not dropped: a buffer instruction reads 0 beyond the
        buffer's end, and writes nothing. Or where it is meant to lie before that end."""
        term = access.term
        meant = values.of(term, rows).astype(object) - (values.of(self._part(term), rows) + off.astype(object) if formula.inner else off)
        falls = np.asarray(meant % APART < _MEMORY, bool) & self._near(values, term, rows)
        if falls.any() and access.records and None not in access.records and not formula.inner:
            offset, ends = values.of(term, rows) % WORD, [most for most in access.records if most is not None]
            within = [np.asarray((meant >= 0) & (meant < values.of(most, rows) - values.of(self._part(most), rows)) if dropped
                                 else offset < values.of(most, rows) % WORD, bool) for most in ends]
            falls &= np.logical_or.reduce(within)
        elif dropped:
            falls[:] = False
        return falls

    def _need(self, decision: Decision, formula: WrapFormula) -> None:
        """Note that legal launches go the other way from a branch to accesses. Who looks for one needs waves that come to the branch."""
        way, waves = (self.guards.position(decision.branch), not decision.held), frozenset(formula.waves)
        self.judged.needed.update({(at, *way): (text, decision.branch.text) for at, text in formula.others.items()})
        before = next((met for wave in sorted(waves) if (met := self.guards.met(decision.branch, wave))), ())
        self._wanted.update({(at, *way): (decision, waves, (*formula.leading, *before)) for at in formula.others})

    def otherwise(self, decision: Decision, samples: Samples) -> Truths:
        """Where a decision is another one. Where that is not known, it is the same."""
        key = decision.name, decision.parts, decision.held
        if key not in samples.otherwise:
            try:
                first, second = (samples.values.of(part) for part in decision.parts)
                samples.otherwise[key] = decision.holds(first, second) != decision.held
            except (KeyError, TypeError, ValueError):
                samples.otherwise[key] = np.zeros(samples.values.samples, bool)
        return samples.otherwise[key]
