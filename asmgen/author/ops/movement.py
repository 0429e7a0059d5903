"""Movement of tiles: LDS to registers and back, memory to LDS or registers.

Addresses stand in registers that are computed once, before the loop; everything that differs by a constant is an immediate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asmgen.author.address.addresscode import Input
from asmgen.author.address.addressing import WaveIndex, emit_address, emit_code
from asmgen.author.address.quotients import plan_address
from asmgen.author.ops.cutcolumns import BEYOND, OUTSIDE
from asmgen.author.ops.ldsbases import lds_bases, wave_values
from asmgen.author.ops.vectors import Vector
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.globals import Rows, Slice
from asmgen.author.tiles.immediates import BUFFER_IMMEDIATES
from asmgen.author.tiles.shared import SharedPart, SharedTile
from asmgen.author.tiles.swizzles import READS, UPPER_WRITE, WRITES, TileAddresses, chunks, parted
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.views import as_bytes
from asmgen.isa.arch import LANES
from asmgen.isa.layout import LayoutError
from asmgen.isa.layouts_lds import DMA_BYTES
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg, m0, vcc
from asmgen.regalloc.phased import Phased

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

_LOAD = {32: "buffer_load_dword", 64: "buffer_load_dwordx2", 96: "buffer_load_dwordx3", 128: "buffer_load_dwordx4"}


@dataclass(frozen=True)
class FragmentAddresses:
    """Where the fragments of a tile lie in a shared tile: for each cell of it and each piece of each fragment, the address register
    and the immediate; `pieces` are (first item, bits) in a fragment."""

    addresses: dict[tuple[int, int, int, int], tuple[Reg, int]]  # (cell, fragment row, fragment column, piece)
    pieces: tuple[tuple[int, int], ...]


def read(k: TileBuilder, tile: Tile | Vector, source: SharedPart, own: bool = False, at: StepIndex | None = None) -> None:
    """LDS to registers: each fragment in as few reads as its neighbours in LDS allow. A vector comes from a shared tile of one row: lanes
    that share elements read the same bytes, which costs no conflict.

    `own` says that the wave reads only what it wrote itself (`write` with `own`): LDS is in order, so no token and no barrier is needed.
    Raises TileError where shapes or types differ, LayoutError where an access would be torn.
    """
    tile = _as_stored(tile, source)
    _check_shapes("read", tile, source)
    found = fragment_addresses(k, tile, source)
    with operation(k, f"read {tile.name} from {source}", [source.index, tile.index], writes=tile.registers.mask, at=at):
        for bits, _, registers, address, offset in _pieces(tile, source, found):
            k.emit(READS[bits], registers, address, offset=offset, uses=None if own else source.range)


def write(k: TileBuilder, target: SharedPart, tile: Tile | Vector, own: bool = False, at: StepIndex | None = None) -> None:
    """Registers to LDS, as `read` the other way round. Elements of 16 bits that are no neighbours in LDS are written one by one."""
    tile = _as_stored(tile, target)
    _check_shapes("write", tile, target)
    found = fragment_addresses(k, tile, target, write=True)
    with operation(k, f"write {tile.name} to {target}", [target.index, tile.index], reads=tile.registers.mask, at=at):
        for bits, upper, registers, address, offset in _pieces(tile, target, found):
            k.emit(UPPER_WRITE if upper else WRITES[bits], address, registers, offset=offset, fills=None if own else target.range)


def _as_stored(tile: Tile | Vector, part: SharedPart) -> Tile:
    """A vector as a row, elements of 4 and 6 bits as the bytes that a shared tile of them holds."""
    held = tile.tile if isinstance(tile, Vector) else tile
    return as_bytes(held) if held.fragment.bits % 8 and part.tile.of == held.dtype else held


def _pieces(tile: Tile, part: SharedPart, found: FragmentAddresses) -> Iterator[tuple[int, bool, Reg, Any, Any]]:
    """(bits, whether from the upper half of a register, registers, address register, immediate) of each LDS access that moves the tile; the
    last two may take turns."""
    for row, column in tile.positions():
        base = tile.base(row, column)
        for number, (item, bits) in enumerate(found.pieces):
            register, offset = at_number(part, lambda cell, at=(row, column, number): found.addresses[cell, *at])
            first, inside = divmod(item * tile.fragment.bits, 32)
            yield bits, bits < 32 and inside > 0, base[first:first + max(1, bits // 32) - 1], register, offset


def at_number(part: SharedPart, of: Callable[..., tuple[Reg, int]]) -> tuple[Any, Any]:
    """(address register, immediate) of an access to a cell; each may take turns."""
    found = part.by_number(of)
    if not isinstance(found, Phased):
        return found[0], found[1]
    registers, offsets = zip(*found.values, strict=True)
    return registers[0] if len(set(registers)) == 1 else Phased(registers), Phased(offsets)


def _check_shapes(what: str, tile: Tile, part: SharedPart) -> None:
    if (tile.rows, tile.columns) != (part.rows, part.columns) or tile.dtype != part.tile.dtype:
        way = f"move it as bytes, {what}(k, ... as_bytes({tile.name}) ...), of a shared tile of i8, or take a shared tile of " \
            f"{tile.dtype}" if tile.fragment.bits % 8 else \
            f"convert(k, ...) the tile to {part.tile.dtype}" if tile.dtype != part.tile.dtype else \
            f"a shared tile of {tile.rows} x {tile.columns}, or a part({tile.rows} rows a wave) of one, would do"
        raise TileError(f"{what}: {tile} and {part} ({part.rows} x {part.columns} {part.tile.dtype}) are not of one shape and type; "
                        f"{way}")


def fragment_addresses(k: TileBuilder, tile: Tile, part: SharedPart, write: bool = False) -> FragmentAddresses:
    """The address registers of all accesses of such a tile to a shared tile, made once."""
    key = _fragments_key(tile, part, write)
    made = k.made.get(key)
    if made is None:
        made = k.made[key] = k.hoist(lambda: _fragment_addresses(k, tile, part, write))
    assert isinstance(made, FragmentAddresses)
    return made


def _fragments_key(tile: Tile, part: SharedPart, write: bool = False) -> tuple[object, ...]:
    return ("fragments", part.tile, part.of_rows, part.of_columns, tile.fragment, tile.rows, tile.columns,
            write and parted(tile.fragment))


def _fragment_addresses(k: TileBuilder, tile: Tile, part: SharedPart, write: bool) -> FragmentAddresses:
    whole, f = part.tile, tile.fragment
    addresses = TileAddresses(whole.placement, whole.rows, whole.columns)
    values = wave_values(part.waves)
    try:
        pieces, *others = (tuple(chunks(f, PartAddresses(addresses, part, one), write)) for one in values)
        if any(other != pieces for other in others):
            raise LayoutError("neighbours in LDS differ from wave to wave")
    except LayoutError as error:
        raise TileError(f"{tile} and {part}: {error.sentence}; transpose the tile or the shared tile (.T, transposed), so that a lane's "
                        "elements are neighbours along a row") from None
    keys, vectors = [], []
    for row, column in tile.positions():
        for number, (item, _) in enumerate(pieces):
            lanes = f.table[item]
            vector = [addresses(*part.element(row * f.rows + r, column * f.columns + c, waves)) for waves in values for r, c in lanes]
            for cell, low in enumerate(whole.lows):
                keys.append((cell, row, column, number))
                vectors.append([address + low for address in vector])
    found = lds_bases(k, f"{whole.name}_{tile.name.partition('[')[0]}_address", vectors, part.waves)
    return FragmentAddresses(dict(zip(keys, found, strict=True)), pieces)


class PartAddresses:
    """The byte of each element of a part of a shared tile, for one wave."""

    def __init__(self, addresses: TileAddresses, part: SharedPart, waves: Mapping[str, int]) -> None:
        self._addresses, self._part, self._waves = addresses, part, waves

    def __call__(self, row: int, column: int) -> int:
        return self._addresses(*self._part.element(row, column, self._waves))

    def of(self, elements: Sequence[tuple[int, int]], row: int, column: int) -> list[int]:
        """Those of (row, column) elements of what begins at that row and column."""
        return [self(row + r, column + c) for r, c in elements]


# ---- memory to LDS ----


@dataclass(frozen=True)
class FillPlan:
    """How a workgroup's waves fill one cell: `lines` DMA instructions a wave, `pitch` LDS bytes from one to its next, offsets in memory
    (a VGPR each), and the SGPR of where in the cell a wave begins. `group` lines share an M0. `slack` is added to all offsets: an immediate
    moves both addresses, so what it adds in memory is taken off them, and none becomes negative however close to each other the matrix's
    rows may lie. `columns` are the first bytes of a row that the lanes of each line move, wave after wave."""

    bytes_: int
    lines: int
    pitch: int
    group: int
    offsets: tuple[Reg, ...]
    base: Reg
    slack: Reg | int
    columns: tuple[tuple[int, ...], ...]


def fill(k: TileBuilder, target: SharedPart, source: Slice, at: StepIndex | None = None, limit: Reg | None = None,
         jump: Reg | None = None, width: int = 0) -> None:
    """Memory to LDS without a register: all waves of the workgroup, or all that fill LDS, fill the cell together.

    A lane moves 16 bytes, or 4 where only so the waves' shares are equal. Neighbouring lines share one M0 as far as immediates, which move
    both addresses, tell them apart. `limit` (an SGPR) counts the bytes of a row that exist, from the source's first column on; what follows
    becomes 0, and nothing of it is read. It is a multiple of what a lane moves. `jump` (an SGPR) is what is added to the source's address.
    `width` are the bytes that a lane moves, where a limit wants fewer than there could be.
    Raises TileError where the waves cannot share the tile's lines equally, or its pattern is none that lines can follow.
    """
    with operation(k, f"fill {target} from {source}", [target.index, source.index], at=at):
        plan = fill_plan(k, target.tile, source, width)
        resource = source.rows.resource(k, plan.slack)
        advance: Reg | int = 0
        op = _LOAD[8 * plan.bytes_]
        if limit is not None or jump is not None:
            _fill_some(k, target, source, plan, resource, limit, jump)
            return
        for line in range(plan.lines):
            if line % plan.group == 0:
                k.s_add_u32(m0, plan.base, target.range.low + line * plan.pitch)
            if line == 0:  # after M0: a producer's own offset goes on here, which is the wait state that M0 wants before a load
                advance = k.advance(source, target.tile.columns, fills=True)
            near = line % plan.group * plan.pitch
            k.emit(op, plan.offsets[line], resource, advance, offen=True, offset=near, lds=True, fills=target.range)


def prepare_fill(k: TileBuilder, target: SharedTile, rows: Rows, width: int = 0) -> None:
    """Make the registers of fills of a shared tile from these rows here. What only they follow from, strides and sizes of the matrix, may
    be released after it."""
    plan = fill_plan(k, target, rows.k(), width)
    rows.resource(k, plan.slack)


def prepare_read(k: TileBuilder, tile: Tile, source: SharedPart) -> None:
    """Make the registers of reads of a tile here, where the reads stand on several paths."""
    fragment_addresses(k, _as_stored(tile, source), source)


def release_read(k: TileBuilder, tile: Tile, source: SharedPart) -> None:
    """Release the registers of reads of such a tile; later reads make their own."""
    made = k.made.pop(_fragments_key(_as_stored(tile, source), source))
    assert isinstance(made, FragmentAddresses)
    k.registers.release(*dict.fromkeys(register for register, _ in made.addresses.values()))


def release_fill(k: TileBuilder, target: SharedTile) -> None:
    """Release the registers of all fills of a shared tile; later fills make their own."""
    for key, plan in [(key, plan) for key, plan in k.made.items() if isinstance(key, tuple) and key[:2] == ("fill", target)]:
        assert isinstance(plan, FillPlan)
        k.registers.release(*plan.offsets, plan.base, *([] if isinstance(plan.slack, int) else [plan.slack]))
        del k.made[key]


def _fill_some(k: TileBuilder, target: SharedPart, source: Slice, plan: FillPlan, resource: Reg, limit: Reg | None,
               jump: Reg | None) -> None:
    """A fill that goes to another place or leaves columns out: lanes of those name an offset beyond the descriptor, which gives 0."""
    group = plan.group
    if limit is not None:
        source.rows.check_reach(k, plan.slack, BEYOND)
    with k.scratch("elsewhere", file="s") as elsewhere, k.scratch("inside") as inside, k.scratch("outside") as outside:
        if limit is not None:
            k.v_mov_b32(outside, OUTSIDE)
        last: tuple[int, ...] | None = None
        where: Reg | int = k.advance(source, target.tile.columns, fills=True)
        if jump is not None:
            k.s_add_u32(elsewhere, where, jump)
            where = elsewhere
        for line in range(plan.lines):
            offset = plan.offsets[line]
            if limit is not None:
                if plan.columns[line] != last:
                    last = plan.columns[line]
                    k.v_cmp_gt_u32(vcc, limit, _column_of(k, target.tile.name, last))
                k.v_cndmask_b32(inside, outside, offset, vcc)
                offset = inside
            if line % group == 0:
                k.s_add_u32(m0, plan.base, target.range.low + line * plan.pitch)
            k.emit(_LOAD[8 * plan.bytes_], offset, resource, where, offen=True, offset=line % group * plan.pitch, lds=True,
                   fills=target.range)


def _column_of(k: TileBuilder, name: str, columns: tuple[int, ...]) -> Reg:
    """The VGPR with the first byte of a row that each lane moves, made once."""
    key = ("columns of lanes", columns)
    made = k.made.get(key)
    if made is None:
        wave = k.filling or k.wave
        made = k.made[key] = k.hoist(lambda: emit_address(k, k.registers.unused(f"{name}_columns"),
                                                          lambda lane, wave: columns[wave * LANES + lane], k.lane, (wave,)))
    assert isinstance(made, Reg)
    return made


def fill_plan(k: TileBuilder, tile: SharedTile, source: Slice, width: int = 0) -> FillPlan:
    """The registers of a fill, made once for all cells and all parts of the rows of matrices of one stride."""
    key = ("fill", tile, source.rows.matrix.stride, width)
    made = k.made.get(key)
    if made is None:
        others = sum(isinstance(other, tuple) and other[:2] == key[:2] for other in k.made)
        name = f"{tile.name}_{source.rows.matrix.name}" if others else tile.name
        made = k.made[key] = k.hoist(lambda: _fill_plan(k, tile, source.rows, name, width))
    assert isinstance(made, FillPlan)
    return made


def _fill_plan(k: TileBuilder, tile: SharedTile, rows: Rows, of: str, asked: int) -> FillPlan:
    slots = (12, 4) in tile.placement.pads.pads  # 12 bytes a lane in slots of 16, as ds_read_b96_tr_b6 wants rows of 6-bit elements
    wave = k.filling or k.wave
    waves = wave.count
    dense = tile.rows * tile.columns * tile.bits // 8
    widths = [width for width in reversed(DMA_BYTES[k.arch]) if width >= 4 and width != 12]
    width = 12 if slots else asked or next((width for width in widths if dense % (LANES * width * waves) == 0), widths[0])
    if width not in DMA_BYTES[k.arch]:
        raise TileError(f"fill: {tile} has slots of 12 bytes, which {k.arch} does not fill; gfx950 does")
    line = LANES * width
    if rows.count != tile.rows or element_bits(rows.matrix.dtype) != tile.bits:
        raise TileError(f"fill: {rows.count} rows of {rows.matrix.name} ({rows.matrix.dtype}) do not fill {tile}; "
                        f"{tile.rows} rows of {tile.dtype} do, as rows(first, count).parts(n) and halves() cut them")
    if dense % (line * waves):
        raise TileError(f"fill: {tile} has {dense} bytes, of which {waves} waves with lines of {line} bytes cannot take equal shares; a "
                        f"multiple of {line * waves} bytes would do")
    lines = dense // (line * waves)
    pitch = tile.placement.pads(line)
    if any((every % line) for every, add in tile.placement.pads.pads if (every, add) != (12, 4)):
        raise TileError(f"fill: {tile} has pads inside of a line of {line} bytes, which a DMA fills without a gap")
    # Dwords go to the waves in turns: a line is few rows, and only a line of each wave together is a whole period of a swizzle.
    alternate = not slots and not asked and width < widths[0]
    own, step = (pitch, waves * pitch) if alternate else (tile.placement.pads(lines * line), pitch)
    element = tile.bits // 8
    offsets: list[Reg] = []
    at = TileAddresses(tile.placement, tile.rows, tile.columns)
    held = {at(row, column): (row, column * element) for row in range(tile.rows)
            for column in range(0, tile.columns - width // element + 1, width // element)}

    def elements(number: int) -> tuple[list[int], list[int]]:
        found = []
        for w in range(waves):
            for lane in range(LANES):
                element_at = held.get(w * own + number * step + lane * (16 if slots else width))
                if element_at is None:
                    raise TileError(f"fill: lane {lane} of a line of {tile} does not begin at a multiple of {width} bytes of a row")
                found.append(element_at)
        return [row for row, _ in found], [column for _, column in found]

    assert k.registers is not None
    stride = rows.matrix.stride_bytes(k)
    for group in range(BUFFER_IMMEDIATES[1] // step + 1, 0, -1):  # fewer where a descriptor has no room for their slack
        taken = [(number % group * step - column, row) for number in range(lines) for row, column in zip(*elements(number), strict=True)]
        if rows.fits(_most_taken(rows, taken)) or not any(bytes_ > 0 and not row for bytes_, row in taken):
            break
    slack = _slack(k, of, rows, taken, tile.columns * element)
    row_of, column_of = elements(0)
    patterns = []
    for number in range(lines):
        rows_on, columns_on = elements(number)
        patterns.append(tuple(columns_on))
        down = {row - first for row, first in zip(rows_on, row_of, strict=True)}
        less = number % group * step
        offset = k.registers.vgprs(1, f"{of}_offset{number or ''}")
        if offsets and columns_on == column_of and len(down) == 1:  # the first line moved down
            with k.scratch("lines_down", file="s") as jump:
                k.s_mul_i32(jump, stride, down.pop())
                k.s_add_u32(jump, jump, -less)
                k.v_add_u32(offset, jump, offsets[0])
            offsets.append(offset)
            continue
        row, column = (_emit_line(k, f"{of}_{what}", [elements(line)[which] for line in range(lines)], number, wave)
                       for which, what in enumerate(("row", "column")))
        k.v_mul_lo_u32(offset, row, stride)
        k.v_add_u32(offset, offset, column)
        if isinstance(slack, int) and slack != less:
            k.v_add_u32(offset, slack - less, offset)
        elif not isinstance(slack, int):
            k.v_add_u32(offset, slack, offset)
            if less:
                k.v_add_u32(offset, -less, offset)
        k.registers.release(row, column)
        offsets.append(offset)
    base = emit_address(k, f"{of}_line", lambda wave: wave * own, None, (wave,))
    return FillPlan(width, lines, step, group, tuple(offsets), base, slack, tuple(patterns))


def _emit_line(k: TileBuilder, name: str, every: Sequence[Sequence[int]], number: int, wave: WaveIndex) -> Reg:
    """The VGPR of what each lane of a line has, given for each lane of each wave. Where that is no short code of the lane, it is one of
    the lane's number among those of all lines: rows that no line ends with."""
    here = every[number]
    try:
        return emit_address(k, name, lambda lane, wave: here[wave * LANES + lane], k.lane, (wave,))
    except LayoutError:
        code = plan_address(lambda lane, wave: every[lane // LANES][wave * LANES + lane % LANES],
                            [Input("lane", len(every) * LANES), Input("wave", wave.count, True)])
    with k.scratch("lane_of_lines") as lane:
        k.v_add_u32(lane, number * LANES, k.lane)
        return emit_code(k, name, code, {"lane": lane, "wave": wave.register}, "v")


def _slack(k: TileBuilder, of: str, rows: Rows, taken: Sequence[tuple[int, int]], step: int) -> Reg | int:
    """What is added to all offsets so that none is negative; `taken` are bytes that an immediate takes off an offset without its row's
    part, and the row's number. In an SGPR where a descriptor has no room for it, and for the bytes of a `step` that a source may lag
    after, at any stride: 0 where rows lie so far apart that no offset needs it."""
    matrix, most = rows.matrix, _most_taken(rows, taken)
    if rows.fits(most + step) or any(bytes_ > 0 and not row for bytes_, row in taken):
        return most
    slack = k.registers.sgprs(1, f"{of}_slack", note="added to offsets of rows that lie close together")
    k.s_cmp_lt_u32(matrix.stride_bytes(k), max(-(-bytes_ // row) for bytes_, row in taken if bytes_ > 0))
    k.s_cselect_b32(slack, most, 0)
    return slack


def _most_taken(rows: Rows, taken: Sequence[tuple[int, int]]) -> int:
    """The slack that no stride wants more than."""
    return max(0, *(bytes_ - row * rows.matrix.least * rows.matrix.bits // 8 for bytes_, row in taken))
