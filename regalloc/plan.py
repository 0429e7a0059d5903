"""The register plan of a kernel: ranges with a name, pinned or from a pool, whose lifetimes are the author's and are checked.

    plan = RegisterPlan("gfx950", waves=2)
    acc = plan.pin("acc", a[0:63])
    k = plan.vgprs(16, "k")
    p = plan.view("p", k[0:7], "scores, converted in place once k is spent")
    q = plan.share("q", k[8:15], "takes turns with k")
    plan.release(k)

What is returned are registers to write into instructions. There are no spills: a plan that does not fit is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType, TracebackType
from typing import overload

from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.registers import NAMED, SGPR_COUNT, Reg
from asmgen.regalloc.plantable import PlanRow as PlanRow
from asmgen.regalloc.plantable import plan_rows
from asmgen.regalloc.pool import FILE_NAMES, FILE_SIZES, PlanResources, Pool, default_align
from asmgen.regalloc.ranges import OwnedReg, PlanError, Range, Span, Taking, author_line, short_file
from asmgen.regalloc.scalarplaces import ScalarHoldings
from asmgen.regalloc.sets import RegisterSet, join
from asmgen.regalloc.shortage import Request, out_of_registers

_SCALAR_FILE_SIZE = 128  # hardware numbers, with vcc, m0, exec and their like from s102's number on

# The special scalar registers and SCC exist in every kernel and are in no pool: using one needs no owner.
_UNOWNED = Reg("scc", 0).mask | Reg("s", SGPR_COUNT, _SCALAR_FILE_SIZE - SGPR_COUNT).mask


class RegisterPlan:
    """The registers of one kernel.

    `waves` is the number of waves per SIMD (1 to 8) that the author wants; it limits the unified file to
    `Architecture.vgprs_for_waves(waves)` registers. None asks for nothing: 256 VGPRs and 256 AGPRs. `position`
    tells how many instructions have been emitted (the builder sets it) and dates the ranges for the register map.

    Raises PlanError for an unknown architecture or an impossible number of waves.
    """

    def __init__(self, arch: str, waves: int | None = None, position: Callable[[], int] | None = None) -> None:
        if arch not in ARCHITECTURES:
            raise PlanError(f"unknown architecture {arch!r}; known are {', '.join(ARCHITECTURES)}", author_line())
        profile = ARCHITECTURES[arch]
        if waves is not None and not 1 <= waves <= profile.waves_per_simd:
            raise PlanError(f"a SIMD of {arch} runs 1 to {profile.waves_per_simd} waves, not {waves}", author_line())
        self.position: Callable[[], int] = position if position is not None else lambda: 0
        self._pool = Pool(profile, waves)
        self._ranges: list[Range] = []  # by lease number
        self._live: dict[str, tuple[int, ...]] = {}  # leases by name: a register set has one a range
        self._views: dict[int, list[int]] = {}  # the leases that look into a lease, in the order of their taking
        self._held = 0  # mask of everything that a live range holds
        self._spare: dict[int, tuple[bool, bool]] = {}  # leases that end where others find no place, in that order; where a pipeline begins
        self.journal: list[Taking | int] | None = None  # if kept: what is taken from the pool, and the leases that end
        self.scalars = ScalarHoldings()

    # ---- taking ----

    @overload
    def pin(self, name: str, reg: Reg, note: str = "", align: int | None = None) -> OwnedReg: ...

    @overload
    def pin(self, name: str, reg: Sequence[Reg], note: str = "", align: int | None = None) -> RegisterSet: ...

    def pin(self, name: str, reg: Reg | Sequence[Reg], note: str = "", align: int | None = None) -> OwnedReg | RegisterSet:
        """Holds exactly these registers, of any file, under a name: one range, or several as a register set.

        Raises PlanError where a live range holds one of them, the name is taken, or `align` is given and not met;
        OutOfRegisters where the wanted number of waves leaves no such register.
        """
        where = author_line()
        self._check_name(name, where)
        if isinstance(reg, Reg):
            self._check_pin(name, reg, align, where)
            return self._hold(name, reg, "pin", note, where)
        return self._hold_set(name, reg, "pin", note, where, lambda part: self._check_pin(name, part, align, where))

    def _check_pin(self, name: str, reg: Reg, align: int | None, where: str) -> None:
        self._check_pinnable(name, reg, align, where)
        clash = next((r for r in self.live() if r.owns and r.reg.overlaps(reg)), None)
        if clash is not None:
            remedy = f"release {clash.name!r} first, or declare plan.view({name!r}, ...) or plan.share({name!r}, ...) if they are to share"
            if clash.kind == "pool":
                remedy += "; ranges pinned before the pool is used are avoided by it"
            raise PlanError(f"{name!r} at {reg} overlaps {clash.name!r} {clash.reg} ({short_file(clash.taken, where)}): {remedy}", where)
        if reg.file in FILE_SIZES and reg.last < FILE_SIZES[reg.file]:
            request = Request(name, reg.file, reg.count, align or 1, reg)
            if not request.fits(self._pool):
                raise out_of_registers(request, self._pool, self._holders(), where)

    def pooled(self, name: str, count: int, file: str = "v", granule: int = 1, note: str = "") -> RegisterSet:
        """A register set from the pool: `count` registers in runs of `granule`, the lowest that are free, wherever they lie.

        Raises OutOfRegisters where a run has no place, PlanError for a name that is taken or a count that is no multiple of `granule`.
        """
        where = author_line()
        if file not in FILE_NAMES or granule < 1 or count < 1 or count % granule:
            raise PlanError(f"{name!r} asks for {count} registers of file {file!r} in runs of {granule}; files are v, a and s, and the "
                            "count is a multiple of the run", where)
        self._check_name(name, where)
        runs = self._pool.runs(count // granule, file, granule)
        while runs is None:
            if not self._end_spare(file, name, where):
                raise out_of_registers(Request(name, file, granule, default_align(file, granule)), self._pool, self._holders(), where)
            runs = self._pool.runs(count // granule, file, granule)
        return self._hold_set(name, join(runs), "pool", note, where, lambda part: None)

    def vgprs(self, count: int, name: str, align: int | None = None, note: str = "") -> OwnedReg:
        """The lowest `count` free VGPRs from a multiple of `align` on (default: 1 for one register, else 2).

        Raises OutOfRegisters where no hole is large enough, PlanError for a name that is taken or an impossible count or alignment.
        """
        return self._take("v", count, name, align, note)

    def agprs(self, count: int, name: str, align: int | None = None, note: str = "") -> OwnedReg:
        """The same of AGPRs (default alignment: 1 for one register, else 2)."""
        return self._take("a", count, name, align, note)

    def sgprs(self, count: int, name: str, align: int | None = None, note: str = "") -> OwnedReg:
        """The same of s0 to s101 (default alignment: 1 for one register, 2 for two, else 4)."""
        return self._take("s", count, name, align, note)

    @overload
    def view(self, name: str, reg: Reg, note: str = "") -> OwnedReg: ...

    @overload
    def view(self, name: str, reg: RegisterSet, note: str = "") -> RegisterSet: ...

    def view(self, name: str, reg: Reg | RegisterSet, note: str = "") -> OwnedReg | RegisterSet:
        """A second name for registers that live ranges hold, in another order too (`K.reordered(...)`): the same bits, so reads see each
        other's writes. It ends with the first of those ranges, if it is not released before.

        Raises PlanError where nobody holds one of the registers or the name is taken.
        """
        return self._second_name(name, reg, "view", note)

    @overload
    def share(self, name: str, reg: Reg, note: str = "") -> OwnedReg: ...

    @overload
    def share(self, name: str, reg: RegisterSet, note: str = "") -> RegisterSet: ...

    def share(self, name: str, reg: Reg | RegisterSet, note: str = "") -> OwnedReg | RegisterSet:
        """Another owner of registers that live ranges hold, who takes turns with them: neither ever reads what the other wrote, which
        is checked on the placed code (checks/leases/leases.py). Ends and raises as a view does.
        """
        return self._second_name(name, reg, "share", note)

    def _second_name(self, name: str, reg: Reg | RegisterSet, kind: str, note: str) -> OwnedReg | RegisterSet:
        where = author_line()
        self._check_name(name, where)
        if isinstance(reg, Reg):
            return self._hold(name, reg, kind, note, where, self._parents(name, reg, where))
        parents = {part: self._parents(name, part, where) for part in reg.parts}
        return self._hold_set(name, reg.parts, kind, note, where, lambda part: None, parents)

    def _parents(self, name: str, reg: Reg, where: str) -> tuple[int, ...]:
        self.check(reg, where)
        if reg.mask & ~self._held:
            raise PlanError(f"{name!r} is to share {reg}, which no range holds: plan.pin it", where)
        return (reg.lease,) if isinstance(reg, OwnedReg) else tuple(r.lease for r in self._holders() if r.reg.overlaps(reg))

    # ---- giving back ----

    def release(self, held: Reg | RegisterSet | str, *more: Reg | RegisterSet | str) -> None:
        """Ends ranges, given by name or by their registers, and the views into them.

        Raises PlanError for a name or registers that no live range has, and for a part of a range.
        """
        where = author_line()
        for item in (held, *more):
            for reg in item.parts if isinstance(item, RegisterSet) else (item,):
                for found in self._find_live(reg, where):
                    self._end(found, where)

    def spare(self, *held: Reg | RegisterSet, at_need: bool = False, briefly: bool = False) -> None:
        """These ranges end where the next pipeline begins, or `at_need`, the first ones first, where others find no place, or `briefly`
        where either comes first: whoever holds them can make them again, or most likely needs them no more. A later read is refused as
        after any release."""
        where = author_line()
        for item in held:
            for reg in item.parts if isinstance(item, RegisterSet) else (item,):
                self._spare |= dict.fromkeys((found.lease for found in self._find_live(reg, where)), (at_need or briefly, not at_need))

    def keep(self, *held: Reg) -> list[Reg]:
        """These ranges are needed: they are not spare any more. Returns those that were."""
        owners = [(reg, self.owner(reg)) for reg in held]
        return [reg for reg, over in owners if over is not None and self._spare.pop(over.lease, None) is not None]

    def end_spare(self) -> None:
        """End what is spare where a pipeline begins."""
        for lease in [lease for lease, (_, at_pipeline) in self._spare.items() if at_pipeline]:
            self._end(self._ranges[lease], author_line(), "spare where a pipeline begins")

    def scope(self, name: str) -> Scope:
        """`with plan.scope("epilogue"):` releases on exit whatever was taken, pinned or viewed within and still lives."""
        return Scope(self, name)

    # ---- asking ----

    def holds(self, reg: Reg) -> bool:
        """Whether `check` has nothing to say against a register."""
        if isinstance(reg, OwnedReg):
            if not 0 <= reg.lease < len(self._ranges):
                return False
            holder = self._ranges[reg.lease]
            return holder.released is None and holder.covers(reg)
        return not reg.mask & ~self._held & ~_UNOWNED

    def check(self, reg: Reg, where: str = "") -> None:
        """Raises PlanError, at `where` or else at the author's line, for a register that nobody holds or that this lease no longer holds.

        Special registers (vcc, exec, m0, scc, ...) need no owner.
        """
        if not self.holds(reg):
            where = where or author_line()
            raise self._stale(reg, where) if isinstance(reg, OwnedReg) else self._unowned(reg, where)

    def has(self, count: int, file: str) -> bool:
        """Whether so many registers are free or spare, side by side and aligned for operands."""
        pool = self._pool
        for reg in [self._ranges[lease].reg for lease, (at_need, _) in self._spare.items() if at_need]:
            pool = pool.give(reg) if reg.file == file else pool
        return pool.find(file, count, default_align(file, count)) is not None

    def owner(self, reg: Reg) -> Range | None:
        """The live range that the register belongs to: its own lease, else the newest that holds all of it, else its first register."""
        if isinstance(reg, OwnedReg):
            holder = self._ranges[reg.lease] if 0 <= reg.lease < len(self._ranges) else None
            return holder if holder is not None and holder.live and holder.covers(reg) else None
        live = self.live()
        first = Reg(reg.file, reg.index)
        return next((r for r in reversed(live) if r.covers(reg)), None) or next((r for r in live if r.covers(first)), None)

    @property
    def arch(self) -> str:
        """The architecture's name."""
        return self._pool.arch.name

    @property
    def waves(self) -> int | None:
        """The waves per SIMD that the author asked for."""
        return self._pool.waves

    @property
    def limit(self) -> int:
        """Registers of the unified file that the plan may use."""
        return self._pool.limit

    def left(self, file: str) -> int:
        """Registers of a file that may be taken now."""
        return self._pool.free_bits(file).bit_count()

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Every range there ever was, in the order of their taking."""
        return tuple(self._ranges)

    def unused(self, name: str) -> str:
        """The name, or where a live range has it the name with the least number after it that none has."""
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        return next(one for one in itertools.chain((name,), numbered) if one not in self._live)

    def live(self) -> list[Range]:
        """The ranges that are held now, in the order of their taking."""
        return [self._ranges[lease] for lease in sorted(lease for leases in self._live.values() for lease in leases)]

    def resources(self) -> PlanResources:
        """The high-water marks for the kernel descriptor."""
        return self._pool.resources()

    def spans(self, end: int) -> list[Span]:
        """Every range that was held over at least one of the program's `end` instructions, for the register map and liveness."""
        spans = (Span(r.reg, r.name, r.first, end - 1 if r.last is None else r.last) for r in self._ranges)
        return [span for span in spans if span.first <= span.last]

    def table(self) -> list[PlanRow]:
        """One row a range, by file (v, a, s, scc) and number, then in the order of their taking."""
        return plan_rows(self._ranges)

    # ---- inside ----

    def _take(self, file: str, count: int, name: str, align: int | None, note: str) -> OwnedReg:
        where = author_line()
        self._check_name(name, where)
        if count < 1:
            raise PlanError(f"{name!r} asks for {count} {FILE_NAMES[file]}; a range has at least one register", where)
        align = default_align(file, count) if align is None else align
        self._check_align(name, align, where)
        index = self._find(file, count, align, name)
        while index is None and self._end_spare(file, name, where):
            index = self._find(file, count, align, name)
        if index is None:
            if file == "s":
                self.scalars.fail(name, count, align)
            raise out_of_registers(Request(name, file, count, align), self._pool, self._holders(), where)
        if self.journal is not None:
            self.journal.append(Taking(len(self._ranges), align, self.position()))
        return self._hold(name, Reg(file, index, count), "pool", note, where, align=align)

    def _find(self, file: str, count: int, align: int, name: str) -> int | None:
        if file == "s" and self.scalars.wanted is not None:
            return self.scalars.find(name, count, align, self._pool.free_bits("s"))
        return self._pool.find(file, count, align)

    def take_again(self, journal: Sequence[Taking | int]) -> dict[int, OwnedReg]:
        """Take and release again what a journal took and released; by former lease, the registers that are free for it now.

        Raises OutOfRegisters where they are not; then nothing is held.
        """
        ended = {entry for entry in journal if isinstance(entry, int)}
        given: dict[int, OwnedReg] = {}
        now = self.position
        for entry in journal:
            if isinstance(entry, Taking) and entry.lease in ended:
                former = self._ranges[entry.lease]
                self.position = partial(int, entry.position)
                try:
                    given[entry.lease] = self._take(former.reg.file, former.reg.count, self.unused(former.name), entry.align, former.note)
                except PlanError:
                    for reg in given.values():
                        if self.holds(reg):
                            self._end(self._ranges[reg.lease], "")
                    raise
                finally:
                    self.position = now
            elif isinstance(entry, int) and entry in given:
                over, former = self._ranges[given[entry].lease], self._ranges[entry]
                self.position = partial(int, (former.last or 0) + 1)
                self._end(over, former.released or "")
                self.position = now
        return given

    def _hold(self, name: str, reg: Reg, kind: str, note: str, where: str, parents: tuple[int, ...] = (),
              align: int | None = None) -> OwnedReg:
        lease = len(self._ranges)
        owned = OwnedReg(reg.file, reg.index, reg.count, lease)
        self._ranges.append(Range(lease, name, owned, kind, note, where, self.position(), parents))
        self._live[name] = (*self._live.get(name, ()), lease)
        for parent in parents:
            self._views.setdefault(parent, []).append(lease)
        if self._ranges[-1].owns:
            self._held |= owned.mask
            if reg.file in FILE_SIZES and reg.last < FILE_SIZES[reg.file]:
                self._pool = self._pool.take(reg)
                if reg.file == "s":
                    self.scalars.take(lease, name, reg, align)
        return owned

    def _hold_set(self, name: str, parts: Sequence[Reg], kind: str, note: str, where: str, check: Callable[[Reg], None],
                  parents: Mapping[Reg, tuple[int, ...]] = MappingProxyType({})) -> RegisterSet:
        """Hold every part under the one name, or none."""
        if not parts:
            raise PlanError(f"{name!r} is a register set without a register", where)
        held: list[OwnedReg] = []
        try:
            for part in parts:
                check(part)
                held.append(self._hold(name, part, kind, note, where, parents.get(part, ())))
        except PlanError:
            for reg in held:
                self._end(self._ranges[reg.lease], where)
            raise
        return RegisterSet(tuple(held))

    def _end_spare(self, file: str, name: str, where: str) -> bool:
        """End the first spare range of a file, for who wants registers; whether there was one."""
        lease = next((lease for lease, (at_need, _) in self._spare.items() if at_need and self._ranges[lease].reg.file == file), None)
        if lease is not None:
            self._end(self._ranges[lease], where, f"the taking of {name!r}, for which no register was free")
        return lease is not None

    def _end(self, over: Range, where: str, ended_by: str = "") -> None:
        self._spare.pop(over.lease, None)
        for view in self._views.pop(over.lease, ()):
            # A view of two views goes with the first of them.
            if self._ranges[view].live:
                self._end(self._ranges[view], where, f"end of {over.name!r}, which it was a view of")
        self._ranges[over.lease] = over.ended(where, self.position() - 1, ended_by)
        left = tuple(lease for lease in self._live[over.name] if lease != over.lease)
        if left:
            self._live[over.name] = left
        else:
            del self._live[over.name]
        if over.owns:
            if self.journal is not None:
                self.journal.append(over.lease)
            self._held &= ~over.reg.mask
            if over.reg.file in FILE_SIZES and over.reg.last < FILE_SIZES[over.reg.file]:
                self._pool = self._pool.give(over.reg)
                self.scalars.end(over.lease)

    def _end_since(self, lease: int, ended_by: str, where: str) -> None:
        for taken in reversed(self.live()):
            if taken.lease >= lease and self._ranges[taken.lease].live:
                self._end(taken, where, ended_by)

    def _holders(self) -> list[Range]:
        return [r for r in self.live() if r.owns]

    def _check_name(self, name: str, where: str) -> None:
        if not name:
            raise PlanError("a range needs a name: the plan, the register map and the errors speak of it", where)
        if name in self._live:
            holder = self._ranges[self._live[name][0]]
            raise PlanError(f"a live range is named {name!r} already: {holder.reg}, {short_file(holder.taken, where)}; "
                            f"release it first, or choose another name", where)

    def _check_align(self, name: str, align: int, where: str) -> None:
        if align < 1 or align & (align - 1):
            raise PlanError(f"{name!r} asks for an alignment of {align}; alignments are 1, 2, 4, 8, ...", where)

    def _check_pinnable(self, name: str, reg: Reg, align: int | None, where: str) -> None:
        if isinstance(reg, OwnedReg):
            self.check(reg, where)
        special = reg.file == "scc" or reg.file == "s" and reg.index >= SGPR_COUNT
        size = {"s": _SCALAR_FILE_SIZE, "scc": 1}[reg.file] if special else FILE_SIZES.get(reg.file, 0)
        if reg.count < 1 or reg.index < 0 or reg.last >= size:
            raise PlanError(f"{name!r} is pinned to {reg}, which is not inside one register file: v0 to v255, a0 to a255, "
                            f"s0 to s101, or {', '.join(sorted(NAMED))}", where)
        if align is not None:
            self._check_align(name, align, where)
            if reg.index % align:
                raise PlanError(f"{name!r} is pinned to {reg}, which does not begin at a multiple of {align}", where)

    def _find_live(self, held: Reg | str, where: str) -> list[Range]:
        if isinstance(held, str):
            if held in self._live:
                return [self._ranges[lease] for lease in self._live[held]]
            former = next((r for r in reversed(self._ranges) if r.name == held), None)
            if former is None:
                raise PlanError(f"no range is named {held!r}; live are {', '.join(self._live) or 'none'}", where)
            raise PlanError(f"{held!r} {former.reg} was released already, {short_file(former.released or '', where)}", where)
        if isinstance(held, OwnedReg):
            self.check(held, where)
            holder = self._ranges[held.lease]
        else:
            # Of a range and a view of the same extent the range is meant: it is the older one.
            found = next((r for r in self.live() if r.reg == held), None) or self.owner(held)
            if found is None:
                raise self._unowned(held, where)
            holder = found
        if holder.reg != held:
            raise PlanError(f"{held} is not the range {holder.name!r} {holder.reg} ({short_file(holder.taken, where)}): a range is "
                            f"released whole; take its parts as ranges of their own where they end apart", where)
        return [holder]

    def _stale(self, reg: OwnedReg, where: str) -> PlanError:
        former = self._ranges[reg.lease] if 0 <= reg.lease < len(self._ranges) else None
        if former is None or not former.covers(reg):
            return PlanError(f"{reg} was handed out by another register plan, not by this one", where)
        sentence = f"{reg} is used after its release: it was {former.name!r} ({short_file(former.taken, where)}), " \
                   f"released {_at(former, where)}"
        # The new owner is looked up without the lease.
        heir = self.owner(Reg(reg.file, reg.index, reg.count))
        if heir is not None:
            sentence += f", and {heir.name!r} holds it since {short_file(heir.taken, where)}"
        return PlanError(sentence, where)

    def _unowned(self, reg: Reg, where: str) -> PlanError:
        registers = [Reg(reg.file, index) for index in range(reg.index, reg.last + 1)]
        part = next((register for register in registers if not register.mask & (self._held | _UNOWNED)), reg)
        what = f"{part} of {reg}" if part != reg else str(reg)
        former = next((r for r in reversed(self._ranges) if r.reg.overlaps(part) and not r.live), None)
        if former is None:
            return PlanError(f"no range of the plan holds {what}: pin it (plan.pin) or take it from the pool", where)
        return PlanError(f"no range of the plan holds {what}: {former.name!r} held it until its release {_at(former, where)}", where)


def _at(former: Range, where: str) -> str:
    location = short_file(former.released or "", where)
    return f"at {location}" + (f" ({former.ended_by})" if former.ended_by else "")


class Scope:
    """What `RegisterPlan.scope` returns: a context that releases on exit what was taken within, latest first."""

    def __init__(self, plan: RegisterPlan, name: str) -> None:
        self._plan = plan
        self._name = name
        self._first_lease = 0

    def __enter__(self) -> RegisterPlan:
        self._first_lease = len(self._plan._ranges)
        return self._plan

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._plan._end_since(self._first_lease, f"end of scope {self._name!r}", author_line())
