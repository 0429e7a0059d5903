"""`asmgen banks`: what the accesses to a tile in LDS cost by the phase tables, as figures and as a map of the banks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.placementsearch import choose
from asmgen.author.tiles.swizzles import Access, DmaFill, FragmentRead, LaneAccess, TileAddresses, plain, spread_rows
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.transposing import TransposedRead
from asmgen.author.tiles.views import bytes_of, with_dtype
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.bankcost import Cost, bank_cost
from asmgen.isa.errors import AsmgenError, OperandError
from asmgen.isa.layout import LayoutError
from asmgen.isa.layouts_lds import PUBLISHED
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.lds import rule
from asmgen.isa.placement import Pads, Placement, Swizzle

DTYPES = ("f32", "i32", "bf16", "f16", "fp8", "bf8", "i8", "fp6", "bf6", "fp4")
LINES = "lines:EVERY+ADD"
_SHAPES: dict[str, tuple[str, ...]] = {
    "f32": ("f32_16x16x4_f32", "f32_32x32x2_f32"), "i32": (), "bf16": ("f32_16x16x32_bf16", "f32_32x32x16_bf16", "f32_16x16x16_bf16",
                                                                        "f32_32x32x8_bf16"),
    "f16": ("f32_16x16x32_f16", "f32_32x32x16_f16", "f32_16x16x16_f16", "f32_32x32x8_f16"),
    "fp8": ("f32_16x16x128_f8f6f4", "f32_32x32x64_f8f6f4", "f32_16x16x32_fp8_fp8", "f32_32x32x16_fp8_fp8"),
    "bf8": ("f32_16x16x128_f8f6f4", "f32_32x32x64_f8f6f4", "f32_16x16x32_bf8_bf8", "f32_32x32x16_bf8_bf8"),
    "i8": ("i32_16x16x64_i8", "i32_32x32x32_i8", "i32_16x16x32_i8", "i32_32x32x16_i8"),
    **dict.fromkeys(("fp6", "bf6", "fp4"), ("f32_16x16x128_f8f6f4", "f32_32x32x64_f8f6f4"))}
_FORMATS = {"fp8": 0, "bf8": 1, "fp6": 2, "bf6": 3, "fp4": 4}


@dataclass(frozen=True)
class Banked:
    """One kind of access: what reads or writes it, one instruction of the pattern and how many have it, its cost."""

    what: str
    access: LaneAccess
    count: int
    cost: Cost
    assumed: bool

    def as_json(self) -> dict[str, Any]:
        """A row of `accesses`; there is no line in a file for a tile that no kernel has."""
        return {"instruction": self.access.op, "line": None, "address": min(self.access.addresses), "cycles": self.cost.cycles,
                "ideal": self.cost.ideal, "ways": self.cost.ways, "lanes": list(self.cost.lanes) if self.cost.lanes else None,
                "serves": self.what, "count": self.count, "assumed": self.assumed}


@dataclass(frozen=True)
class BankReport:
    """All accesses to a tile."""

    rows: int
    columns: int
    dtype: str
    arch: str
    placement: Placement
    accesses: tuple[Banked, ...]

    def as_json(self) -> dict[str, Any]:
        """The document of `asmgen banks --json`."""
        return {"tile": f"{self.rows}x{self.columns}", "dtype": self.dtype, "arch": self.arch, "placement": placement_text(self.placement),
                "bytes": self.placement.size, "accesses": [access.as_json() for access in self.accesses]}


def bank_report(tile: str, dtype: str, arch: str, swizzle: str | None) -> BankReport:
    """The accesses that matrix instructions of the architecture make to a tile of ROWSxCOLS elements.

    `swizzle` is a published one's name, terms SHIFT:MASK with commas between, pad:EVERY+ADD, auto (the solver's choice for the widest
    operand reads), or nothing for plain rows. Raises OperandError for a request that means nothing, TileError where auto finds none.
    """
    match = re.fullmatch(r"(\d+)x(\d+)", tile)
    if match is None or not int(match[1]) or not int(match[2]) or int(match[1]) * int(match[2]) > 1 << 20:
        raise OperandError(f"--tile takes ROWSxCOLS of at most 2^20 elements, such as 64x128, not {tile!r}")
    if dtype not in DTYPES:
        raise OperandError(f"--dtype takes one of {', '.join(DTYPES)}, not {dtype!r}")
    if arch not in ARCHITECTURES:
        raise OperandError(f"--arch takes one of {', '.join(ARCHITECTURES)}, not {arch!r}")
    rows, columns, bits = int(match[1]), int(match[2]), element_bits(dtype)
    if columns * bits % 8:
        raise OperandError(f"{columns} columns of {dtype} are no whole bytes")
    stored, size = (columns, bits) if bits % 8 == 0 else (columns * bits // 8, 8)
    serves = list(_serves(arch, dtype, rows, stored))
    if not serves:
        raise OperandError(f"no matrix instruction of {arch} has {dtype} operands that divide {tile}; rows in multiples of 16 and "
                           "columns in multiples of its K would")
    placement = _placement(arch, rows, stored, size, swizzle, serves)
    locations = TileAddresses(placement, rows, stored)
    found: list[Banked] = []
    for what, access in serves:
        try:
            instructions = list(access.instructions(locations))
        except LayoutError as error:
            if isinstance(access, TransposedRead):
                continue  # its lanes hold k in an order that no transposing read brings, or the placement tears it
            raise OperandError(f"{placement_text(placement)} tears {what}: {error.sentence}") from None
        patterns: dict[tuple[str, tuple[int, ...]], list[LaneAccess]] = {}
        for one in instructions:
            low = min(one.addresses)
            patterns.setdefault((one.op, tuple(address - low for address in one.addresses)), []).append(one)
        for same in patterns.values():
            first = same[0]
            cost = bank_cost(arch, first.op, first.addresses, first.bits)
            found.append(Banked(what, first, len(same), cost, rule(arch, first.op).assumed))
    return BankReport(rows, columns, dtype, arch, placement, tuple(found))


def _serves(arch: str, dtype: str, rows: int, stored: int) -> list[tuple[str, Access]]:
    found: list[tuple[str, Access]] = []
    for shape in _SHAPES[dtype]:
        code = _FORMATS.get(dtype, 0) if "f8f6f4" in shape else 0
        try:
            operand = mfma(shape, arch, cbsz=code, blgp=code).a
        except OperandError:
            continue
        fragment = operand if operand.bits % 8 == 0 else bytes_of(operand)
        if rows % fragment.rows == 0 and stored % fragment.columns == 0:
            found += [(f"rows of {shape}", FragmentRead(fragment)), (f"writes of {shape}", FragmentRead(fragment, write=True))]
        column_rows = operand.rows * operand.bits // 8 if operand.bits % 8 else operand.rows
        if arch == "gfx950" and operand.bits <= 16 and rows % operand.columns == 0 and stored % column_rows == 0:
            found.append((f"columns of {shape}", TransposedRead(operand)))
    if arch == "gfx950" and dtype in ("bf16", "f16"):  # 32 neighbours of a row a lane, from which it makes one scale
        for shape in _SHAPES["fp4"]:
            fragment = with_dtype(mfma(shape, arch, _FORMATS["fp4"]).a, dtype)
            if rows % fragment.rows == 0 and stored % fragment.columns == 0:
                found.append((f"rows to quantise for {shape}", FragmentRead(fragment)))
    return found


def _placement(arch: str, rows: int, stored: int, bits: int, swizzle: str | None, serves: Sequence[tuple[str, Access]]) -> Placement:
    dense = plain(rows, stored, bits)
    if swizzle is None or swizzle == "none":
        return Placement(dense)
    if swizzle == "auto":
        reads = [access for what, access in serves if what == serves[0][0]]
        try:
            return choose(arch, "tile", rows, stored, bits, [*reads, *([DmaFill()] if arch == "gfx950" else [])])
        except TileError:
            return choose(arch, "tile", rows, stored, bits, reads)
    try:
        if swizzle in PUBLISHED:
            return Placement(dense, PUBLISHED[swizzle])
        if swizzle.startswith(("pad:", "lines:")):
            kind, _, text = swizzle.partition(":")
            pads = tuple((int(every, 0), int(add, 0)) for every, add in (term.split("+") for term in text.split(",")))
            if kind == "pad":
                return Placement(dense, pads=Pads(pads))
            lines, rest = divmod(rows * stored * bits // 8, pads[0][0])
            if rest or not lines or rows % lines:
                raise OperandError(f"--swizzle {swizzle}: {rows} rows do not spread over lines of {pads[0][0]} bytes")
            return Placement(spread_rows(rows, stored, bits, lines), pads=Pads(pads))
        return Placement(dense, Swizzle(tuple((int(shift, 0), int(mask, 0)) for shift, mask in
                                              (term.split(":") for term in swizzle.split(",")))))
    except (ValueError, ZeroDivisionError):
        raise OperandError(f"--swizzle takes {', '.join(PUBLISHED)}, SHIFT:MASK[,SHIFT:MASK], pad:EVERY+ADD, {LINES} (row r "
                           f"in line r modulo their number), auto or none, not {swizzle!r}") from None
    except AsmgenError as error:
        raise OperandError(f"--swizzle {swizzle}: {error.sentence}") from None


def placement_text(placement: Placement) -> str:
    """The pattern in a line, in the spelling of --swizzle where it has one."""
    parts = [",".join(f"{shift}:{mask:#x}" for shift, mask in placement.swizzle.terms)] if placement.swizzle.terms else []
    parts += ["pad:" + ",".join(f"{every}+{add}" for every, add in placement.pads.pads)] if placement.pads.pads else []
    return " ".join(parts) or "plain rows"


def banks_text(report: BankReport) -> str:
    """For people: a line for each kind of access, and the banks of the worst one."""
    lines = [f"{report.rows} x {report.columns} {report.dtype} in LDS of {report.arch}, {placement_text(report.placement)}, "
             f"{report.placement.size} bytes", ""]
    name = max(len(one.what) for one in report.accesses)
    op = max(len(one.access.op) for one in report.accesses)
    lines.append(f"{'serves'.ljust(name)}  {'instruction'.ljust(op)}  count  cycles  ideal  ways  lanes that collide")
    for one in report.accesses:
        lanes = f"{one.cost.lanes[0]} and {one.cost.lanes[1]}" if one.cost.lanes else "-"
        note = "  (phases assumed)" if one.assumed else ""
        lines.append(f"{one.what.ljust(name)}  {one.access.op.ljust(op)}  {one.count:5d}  {one.cost.cycles:6d}  {one.cost.ideal:5d}  "
                     f"{one.cost.ways:4d}  {lanes}{note}")
    worst = max(report.accesses, key=lambda one: one.cost.extra)
    lines += ["", *bank_map(report.arch, worst.access.op, worst.what, worst.access.addresses, worst.access.bits)]
    return "\n".join(lines) + "\n"


def bank_map(arch: str, op: str, what: str, addresses: Sequence[int] | Sequence[tuple[int, int]], bits: int, active: int = -1) -> list[str]:
    """Phase by phase, how many distinct dwords each bank serves: a digit a bank, `.` for none."""
    row = rule(arch, op)
    lines = [f"{op} ({what}): distinct dwords of each of {row.banks} banks, phase by phase"]
    for phase in row.phases:
        banks: dict[int, set[int]] = {}
        for lane in phase:
            address = addresses[lane]
            for start in (address if isinstance(address, tuple) else (address,)) if active >> lane & 1 else ():
                for dword in range(start // 4, (start + bits // 8 - 1) // 4 + 1):
                    banks.setdefault(dword % row.banks, set()).add(dword)
        loads = [len(banks.get(bank, ())) for bank in range(row.banks)]
        drawn = "".join("." if not load else str(load) if load < 10 else "+" for load in loads)
        lines.append(f"  {drawn}  lanes {_spans(phase)}")
    return lines


def _spans(lanes: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for lane in sorted(lanes):
        if spans and spans[-1][1] + 1 == lane:
            spans[-1][1] = lane
        else:
            spans.append([lane, lane])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)
