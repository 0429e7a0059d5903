"""When registers run out: the sentence that says what was needed, what there is, who has it and what would work.

Every fix that is offered was tried on the pool first; none is a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.regalloc.pool import FILE_NAMES, FILE_SIZES, Pool, default_align
from asmgen.regalloc.ranges import PlanError, Range, short_file

_OWNERS_SHOWN = 4
_OTHER_FILE = {"v": "a", "a": "v"}


@dataclass(frozen=True)
class Request:
    """What was asked of the pool: `count` registers of `file` from a multiple of `align` on, or exactly the pinned `reg`."""

    name: str
    file: str
    count: int
    align: int
    reg: Reg | None = None

    def fits(self, pool: Pool) -> bool:
        """Whether the pool can serve it."""
        if self.reg is None:
            return pool.find(self.file, self.count, self.align) is not None
        bits = ((1 << self.count) - 1) << self.reg.index
        return pool.free_bits(self.file) & bits == bits


@dataclass(frozen=True)
class Fix:
    """One change that would make the request fit.

    `action` is "other file" (take the request itself from the other half of the unified file), "move" (move the ranges `names` there),
    "waves" (ask for `waves` per SIMD) or "release" (release the ranges `names` before).
    """

    action: str
    text: str
    names: tuple[str, ...] = ()
    waves: int = 0


class OutOfRegisters(PlanError):
    """No hole of the file is large enough. `request`, `hole` (None: nothing is free) and `fixes` (cheapest first) say it as data."""

    def __init__(self, sentence: str, where: str, request: Request, hole: Reg | None, fixes: tuple[Fix, ...]) -> None:
        super().__init__(sentence, where)
        self.request = request
        self.hole = hole
        self.fixes = fixes


def out_of_registers(request: Request, pool: Pool, holders: Sequence[Range], where: str) -> OutOfRegisters:
    """The error for a request that does not fit; `holders` are the live ranges that are no views."""
    hole = pool.largest_hole(request.file, request.align)
    fixes = _fixes(request, pool, holders, where)
    sentences = [_asked(request, pool, hole), _owners(request, holders, where)]
    if request.file != "s":
        sentences.append(_occupancy(request, pool))
    sentences.append(_advice(fixes))
    return OutOfRegisters(" ".join(sentence for sentence in sentences if sentence), where, request, hole, fixes)


def _asked(request: Request, pool: Pool, hole: Reg | None) -> str:
    kind, room = FILE_NAMES[request.file], pool.room(request.file)
    why = ""
    if room < FILE_SIZES[request.file]:
        other = pool.high["a"] if request.file == "v" else pool.accum_offset
        waves = "" if pool.waves is None else f" that {_waves(pool.waves)} leave{'s' if pool.waves == 1 else ''} to each wave"
        why = f" ({pool.limit} registers{waves}" + (f", less {other} {FILE_NAMES[_OTHER_FILE[request.file]]})" if other else ")")
    if request.reg is not None:
        return f"{request.name!r} is pinned to {request.reg}, beyond the {room} {kind} there may be{why}."
    at = f" from a multiple of {request.align} on" if request.align > 1 else ""
    free = pool.free_bits(request.file).bit_count()
    if hole is None:
        largest = f"none of the {room} is free{why}" if not free else f"none of the {free} free ones lies so{why}"
    else:
        largest = f"the largest hole is {hole} ({hole.count}); {free} of {room} are free{why}"
    return f"{request.name!r} needs {request.count} {kind}{at}, but {largest}."


def _owners(request: Request, holders: Sequence[Range], where: str) -> str:
    own = [r for r in holders if r.reg.file == request.file and r.reg.last < FILE_SIZES[request.file]]
    own.sort(key=lambda r: (-r.reg.count, r.reg.index))
    if not own:
        return ""
    listed = ", ".join(f"{r.name!r} {r.reg} ({r.reg.count}, {short_file(r.taken, where)})" for r in own[:_OWNERS_SHOWN])
    more = len(own) - _OWNERS_SHOWN
    return f"Biggest owners: {listed}{f' and {more} smaller' if more > 0 else ''}."


def _occupancy(request: Request, pool: Pool) -> str:
    """The nearest step: how many registers the kernel would use in all, and how many waves run with as many."""
    whole = Pool(pool.arch, None, pool.held, pool.high)
    index = request.reg.index if request.reg is not None else whole.find(request.file, request.count, request.align)
    if index is None:
        return (f"No occupancy step helps: one wave per SIMD has {pool.arch.vgpr_total} registers, "
                f"at most {FILE_SIZES[request.file]} of them {FILE_NAMES[request.file]}.")
    total = whole.take(Reg(request.file, index, request.count)).total
    waves = pool.arch.waves_for_vgprs(total)
    step = pool.arch.vgprs_for_waves(waves)
    return f"With it the kernel would use {total} registers in all: {_waves(waves)} (up to {step} registers)."


def _waves(waves: int) -> str:
    return f"{waves} wave{'s' if waves > 1 else ''} per SIMD"


def _fixes(request: Request, pool: Pool, holders: Sequence[Range], where: str) -> tuple[Fix, ...]:
    """Changes that work, cheapest first: another file keeps every value, a release gives one up, fewer waves cost the whole kernel."""
    same_file = [r for r in holders if r.reg.file == request.file]
    found = [_other_file(request, pool), _move(request, pool, same_file, where), _release(request, pool, same_file, where),
             _fewer_waves(request, pool)]
    return tuple(fix for fix in found if fix is not None)


def _other_file(request: Request, pool: Pool) -> Fix | None:
    other = _OTHER_FILE.get(request.file)
    if other is None or request.reg is not None or pool.find(other, request.count, request.align) is None:
        return None
    condition = ", if it only holds MFMA operands or load and store data" if other == "a" else ""
    return Fix("other file", f"take {request.name!r} as {FILE_NAMES[other]}, where {request.count} fit{condition}")


def _move(request: Request, pool: Pool, holders: Sequence[Range], where: str) -> Fix | None:
    other = _OTHER_FILE.get(request.file)
    if other is None or request.reg is not None:
        return None
    for r in sorted(holders, key=lambda r: r.reg.count):
        without = pool.give(r.reg)
        index = without.find(other, r.reg.count, default_align(other, r.reg.count))
        if index is not None and request.fits(without.take(Reg(other, index, r.reg.count))):
            what = f"move the {r.reg.count} registers of {r.name!r} ({short_file(r.taken, where)}) to {FILE_NAMES[other]}"
            return Fix("move", what, (r.name,))
    return None


def _release(request: Request, pool: Pool, holders: Sequence[Range], where: str) -> Fix | None:
    """The owners of the window that the fewest held registers block."""
    if request.reg is not None:
        return None  # a pin that reaches here is beyond the file's room, which no release widens
    room = pool.room(request.file)
    best: tuple[int, list[Range]] | None = None
    for start in range(0, room - request.count + 1, request.align):
        blockers = [r for r in holders if r.reg.overlaps(Reg(request.file, start, request.count))]
        cost = sum(r.reg.count for r in blockers)
        if best is None or cost < best[0]:
            best = cost, blockers
    if best is None or not best[1]:
        return None
    listed = " and ".join(f"{r.name!r} ({r.reg}, {short_file(r.taken, where)})" for r in best[1])
    return Fix("release", f"release {listed} before", tuple(r.name for r in best[1]))


def _fewer_waves(request: Request, pool: Pool) -> Fix | None:
    for waves in range((pool.waves or 1) - 1, 0, -1):
        if request.fits(Pool(pool.arch, waves, pool.held, pool.high)):
            return Fix("waves", f"ask for {_waves(waves)} ({pool.arch.vgprs_for_waves(waves)} registers)", waves=waves)
    return None


def _advice(fixes: Sequence[Fix]) -> str:
    if not fixes:
        return "Nothing short of a smaller tile makes room; asmgen never spills."
    if len(fixes) == 1:
        return f"What would work: {fixes[0].text}."
    return f"What would work, cheapest first: {'; '.join(fix.text for fix in fixes)}."
