"""Products of a few rows by matrix instructions whose rows and columns are pieces of K, so that each wave reads whole lines of B.

Facts: a matrix instruction of 16 rows wastes all of them but M, and its fragments take 16 rows of B, 64 bytes of each. Here its 16 rows are
`together` rows of A times 16 / together pieces of K, its 16 columns as many rows of B times the same pieces: with 4 of each a fragment is
256 bytes of each row, with one the 1 KiB of one. Where a row and a column are of the same piece stands a sum that is wanted, the others
are of no use. So a lane has one of its four accumulators to keep, and those of neighbours make up an element of D.

A workgroup computes a tm x tn tile of D, each wave tn / waves columns of it. A step along K is a part of each of those rows of B and of
each row of A; both go from memory straight to registers, `stages` - 1 steps ahead. At the end the sums of lanes are added in one order, so
D has the same bits each time. No wave waits for another one, and there is no LDS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import asmgen as ag
from asmgen.kernels.products.anyk import takes_any_stride
from asmgen.kernels.products.anystride import ShiftedSide, after_loop, shifted_side
from asmgen.kernels.products.direct import Position
from asmgen.kernels.products.epilogue import ProductEpilogue
from asmgen.kernels.products.factors import Factors
from asmgen.kernels.products.lastcolumns import from_last_columns, where_columns_are_left
from asmgen.kernels.products.prologue import place, tiles
from asmgen.kernels.products.split import KEEP_SUBNORMAL

_LANE_BITS = 128  # what a lane loads of a row at once
EDGE, HELD = 16, 4
"""Rows and columns of the instruction; rows of D, neighbours, in a lane."""
LANES_OF_SUM = 7
"""So often at most the sums of lanes are added: three times in a quad, and over four bits of a lane's number."""


def together_of(rows: int, columns: int) -> int:
    """How many rows of A and of B one instruction multiplies, of a tile of `rows` whose waves have so many columns: stores want two
    neighbours of a row in a lane."""
    return min(rows, columns // 2, HELD)


def dot_products(k: ag.TileBuilder, shape: ag.MatrixShape, a_first: bool, ends: Callable[..., ProductEpilogue],
                 load: Callable[[ag.Corner, Position], Factors] | None = None) -> None:
    """The kernel with an instruction of 16 rows and columns, whose first operand is A or B. `ends` takes the arguments of
    `product_epilogue`, with what `load`, if given, loads while the sums of lanes are added."""
    tm, tn, tk = k.variant.tile
    ahead, own = k.variant.stages - 1, tn // k.variant.wave_count
    together = together_of(tm, own)
    of_a, of_b = (shape.a, shape.b) if a_first else (shape.b, shape.a)
    fa, fb = (_lines(one, together, rows // together) for one, rows in ((of_a, tm), (of_b, own)))

    # register plan
    sums = k.registers.vgprs(HELD * (tm // together) * (own // together), "sums", align=HELD, note="[row of A][row of B] of each lane")
    A, B = k.tile("A", tm, tk, fa, stages=ahead + 1), k.tile("B", own, tk, fb, stages=ahead + 1)
    corner = ag.Corner(_totals(k, shape, a_first, tm, own), 0, 0)
    steps = k.registers.sgprs(1, "steps")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    one, wave = ag.WaveIndex("one", 0, 1), k.wave
    k.s_setreg_imm32_b32(KEEP_SUBNORMAL, 3)
    for number in range(0, sums.count, 2):  # while the arguments are in flight
        k.v_mov_b64(sums[number:number + 1], 0)
    place(k, row0, column0)
    a, b = tiles(k, steps, row0, column0, fa.dtype, fb.dtype)
    memory, matrix = k.streams("memory", "matrix")
    sides: list[ShiftedSide] = []
    if takes_any_stride(k.parameters):
        sides = [shifted_side(k, A, ahead + 1, a), shifted_side(k, B, ahead + 1, b, wave)]

    def step(t: ag.StepIndex) -> None:
        with k.stage(), memory:
            for side in reversed(sides):
                side.load(t + ahead)
            if not sides:
                ag.load(k, B[t + ahead], b.k(t + ahead), rows=wave)
                ag.load(k, A[t + ahead], a.k(t + ahead))
        with k.stage(), matrix:
            for side in sides:
                side.shift(t)
            _multiply(k, shape, a_first, sums, A[t], B[t])

    k.pipeline(step, steps, ag.InOrder(), empty=True)
    factors = {} if load is None else {"factors": load(corner, (row0, column0, one, wave))}

    def multiply_last(k: ag.TileBuilder, left: ag.Reg, column: ag.Reg) -> None:
        last_a, last_b = (k.tile(f"{name}_left", rows, tk, fragment, note="columns after the last whole step")
                          for name, rows, fragment in (("A", tm, fa), ("B", own, fb)))
        ag.load(k, last_a, from_last_columns(k, "a", fa.dtype, left, column).rows(row0, tm), limit=left)
        ag.load(k, last_b, from_last_columns(k, "b", fb.dtype, left, column).rows(column0, tn), rows=wave, limit=left)
        _multiply(k, shape, a_first, sums, last_a, last_b)
        k.registers.release(last_a.registers, last_b.registers)

    if sides:
        k.registers.release("A", "B", "A_ends", "B_ends")
        with after_loop(k, fa) as after:
            asked = [side.ask_last(after) for side in sides]
        for parts in zip(*(side.take_last(one) for side, one in zip(sides, asked, strict=True)), strict=True):
            _multiply(k, shape, a_first, sums, *parts)
    else:
        with k.block("K tail", cold=True):
            where_columns_are_left(k, multiply_last)
    _over_lanes(k, sums, corner.tile)
    ends(k, [corner], row0, column0, one, wave, overlaps=False, **factors).follow(k)


def _pieces(together: int) -> int:
    """Bits of the number of a row of an instruction that are its piece of K; the bits above are a row of A or B."""
    return (EDGE // together).bit_length() - 1


def _lines(like: ag.Fragment, together: int, groups: int) -> ag.Fragment:
    """`together` times `groups` rows, of each as many pieces of 16 bytes as a wave loads at once. A lane has neighbouring rows."""
    pieces, wide = _pieces(together), _LANE_BITS // like.bits
    piece = [lane % (1 << pieces) | lane // EDGE << pieces for lane in range(ag.LANES)]
    table = tuple(tuple(((lane % EDGE >> pieces) * groups + group, piece[lane] * wide + item) for lane in range(ag.LANES))
                  for group in range(groups) for item in range(wide))
    rows, columns = together * groups, ag.LANES // together * wide
    return ag.Fragment(like.row, "lines", like.dtype, rows, columns, ag.linear_layout(table, rows, columns), groups * _LANE_BITS // 32)


def _multiply(k: ag.TileBuilder, shape: ag.MatrixShape, a_first: bool, sums: ag.Reg, A: ag.Tile, B: ag.Tile) -> None:
    """Add the products of each row of A with each row of B."""
    registers, size = _LANE_BITS // 32, shape.a.registers
    of_a, of_b = (one.fragment.registers // registers for one in (A, B))
    with ag.operation(k, f"{A.name} {B.name}", [A.index, B.index], reads=A.registers.mask | B.registers.mask, writes=sums.mask):
        for across in range(A.across):
            for first in range(0, registers, size):
                for number in range(of_a * of_b):
                    a, b = (held[registers * group + first:registers * group + first + size - 1] for held, group in
                            zip((A.base(0, across), B.base(0, across)), divmod(number, of_b), strict=True))
                    held = sums[HELD * number:HELD * number + HELD - 1]
                    k.emit(shape.row.name, held, *((a, b) if a_first else (b, a)), held)


def _totals(k: ag.TileBuilder, shape: ag.MatrixShape, a_first: bool, rows: int, columns: int) -> ag.Tile:
    """The tile of the sums over all pieces of K: a lane has neighbouring columns of neighbouring rows, as other lanes of its quad do."""
    together = together_of(rows, columns)
    pieces, down, across = _pieces(together), rows // together, columns // together
    places = [(lane >> 2 + pieces, lane % EDGE >> pieces) for lane in range(ag.LANES)]  # rows of the first and second operand
    own = [place if a_first else place[::-1] for place in places]
    table = tuple(tuple((row * down + i, column * across + j) for row, column in own) for i in range(down) for j in range(across))
    totals = k.registers.vgprs(down * across, "totals", align=min(HELD, across))
    fragment = ag.Fragment(shape.row, "sums", "f32", rows, columns, ag.linear_layout(table, rows, columns), totals.count)
    return ag.Tile("totals", rows, columns, fragment, ag.RegisterSet((totals,)))


def _over_lanes(k: ag.TileBuilder, sums: ag.Reg, totals: ag.Tile) -> None:
    """Add up the pieces of K. Bits 0 and 1 of a piece say which accumulator of a lane is wanted, and are those of the lane; those above
    stand in two bits of its number, one for each operand: only lanes where both are the same have something."""
    doubled = [(bit, bit + 2) for bit in range(2, _pieces(together_of(totals.rows, totals.columns)))]
    held = totals.registers.items
    for at in range(HELD):
        control = {"quad_perm": (at,) * 4, "row_mask": 15, "bank_mask": 15}
        for number, total in enumerate(held):
            own = sums[HELD * number + at]
            k.v_add_f32(total, own, total, **control) if at else k.v_mov_b32(total, own, **control)
    some = [lane for lane in range(0, ag.LANES, 4) if all(lane >> one & 1 == lane >> other & 1 for one, other in doubled)]
    if len(some) == EDGE // HELD:  # one row of A, one of B: some quads of all lanes
        _over_quads(k, held, some)
    elif doubled:
        same = sum(15 << lane for lane in some)
        with k.scratch("same", 2, "s") as mask:
            for half in range(2):
                k.s_mov_b32(mask[half], same >> 32 * half & 0xFFFFFFFF)
            for total in held:
                k.v_cndmask_b32(total, 0, total, mask)
        ag.over_lanes(k, "v_add_f32", held, sorted(sum(doubled, ())))


def _over_quads(k: ag.TileBuilder, held: Sequence[ag.Reg], lanes: Sequence[int]) -> None:
    """The sum over these lanes, in all lanes, of each register."""
    with k.scratch("of_quads", len(lanes) * len(held), "s") as parts:
        for number, total in enumerate(held):
            for at, lane in enumerate(lanes):
                k.v_readlane_b32(parts[len(lanes) * number + at], total, lane)
        for at in range(len(lanes)):
            for number, total in enumerate(held):
                part = parts[len(lanes) * number + at]
                k.v_add_f32(total, part, total) if at else k.v_mov_b32(total, part)
