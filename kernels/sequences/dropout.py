"""Dropout as CK and flash-attn on ROCm have it: which elements of P stay, by Philox 4x32 with 7 rounds (docs/facts/draws.md section 2).

P is cut into tiles of 32 queries x 32 keys. A lane's four random words are 16 bytes, each for one element, so a mask depends on seed,
offset, head and place alone. In a tile, lanes have keys: byte e of lane l is for query 16 (e / 8) + 8 (l / 32) + e % 8 and key l % 32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import asmgen as ag

Scalars = Callable[[str], ag.Reg]
"""Gives an SGPR a name."""
ROUNDS = 7
BLOCK = 32
"""Queries and keys of a tile."""
_BYTE_MOST = 255.0
_HALF = 128  # of the numbers of a byte
_PAIR = 0x05040100  # v_perm_b32: the lower halves of two registers
_LANE_BITS = ag.LANES.bit_length() - 1


@dataclass(frozen=True)
class Draws:
    """The random words of a head: of the counter the two that lanes have, the key, and what it
    begins at. `most` is an SGPR: bytes up to there are kept."""

    low: ag.Tile
    high: ag.Tile
    key: ag.Reg
    offset: ag.Reg
    most: ag.Reg

    def draw(self, k: ag.TileBuilder, words: ag.Reg, row: ag.Reg, column: ag.Reg, at: ag.StepIndex | None = None) -> None:
        """The four words of each lane for the tile in this row and column of tiles. Changes SCC and VCC."""
        f = self.low.fragment
        targets = [ag.Tile(f"word{number}", self.low.rows, self.low.columns, f, ag.RegisterSet((words[number:number],)))
                   for number in range(4)]
        ag.philox(k, targets, (self.low, self.high, row, column), (self.key[0], self.key[1]), rounds=ROUNDS, at=at)


    def begin(self, k: ag.TileBuilder, number: ag.Reg) -> None:
        """The counters become those of a head, `number` counted over all batches. Changes SCC and VCC."""
        with k.operation("draws of the head"), k.scratch("first", 2, "s") as first:
            k.s_mov_b32(first[0], number)
            k.s_mov_b32(first[1], 0)
            k.s_lshl_b64(first, first, _LANE_BITS)
            k.s_add_u32(first[0], first[0], self.offset[0])
            k.s_addc_u32(first[1], first[1], self.offset[1])
            lower, upper = self.low.base(0, 0), self.high.base(0, 0)
            k.v_mov_b32(upper, first[1])
            k.v_add_co_u32(lower, ag.vcc, first[0], k.lane)
            k.v_addc_co_u32(upper, ag.vcc, 0, upper, ag.vcc)


def new_draws(k: ag.TileBuilder, scalar: Scalars | None = None) -> Draws:
    """Those of a launch, of no head yet; `scalar` gives SGPRs where there are few."""
    one = k.lanes("i32", 1, ag.LANES)
    low, high = (k.tile(name, 1, ag.LANES, one, note="word of the counter") for name in ("draw_low", "draw_high"))
    most = scalar("most") if scalar is not None else k.registers.sgprs(1, "most", note="the largest byte of what dropout keeps")
    if k.p.rng_state:
        state = k.registers.sgprs(4, "rng_state", note="seed and offset")
        k.s_load_dwordx4(state, k.argument("rng_state"), 0)
    key = state[0:1] if k.p.rng_state else k.argument("seed")
    offset = state[2:3] if k.p.rng_state else k.argument("offset")
    with k.operation("share of what dropout keeps"), k.scratch("share") as share:
        k.v_sub_f32(share, 1.0, k.argument("p"))
        k.v_mul_f32(share, _BYTE_MOST, share)
        k.v_floor_f32(share, share)
        k.v_cvt_u32_f32(share, share)
        k.v_readfirstlane_b32(most, share)
    return Draws(low, high, key, offset, most)


def kept_scale(k: ag.TileBuilder, out: ag.Reg) -> None:
    """1 / (1 - p), in a VGPR."""
    k.v_sub_f32(out, 1.0, k.argument("p"))
    k.v_rcp_f32(out, out)


@dataclass(frozen=True)
class KeysByQueries:
    """Dropout of P with keys in registers and queries in lanes (MFMA's D of 32x32), where a lane's bytes are other lanes' elements.

    A product of bytes with a matrix of one 1 in each column moves them: its D has each element's byte where P has the element. Bytes are
    signed there, so the highest bit of each is flipped before. `rows` are the tiles' rows by fragment of queries; `column` is the
    column of the next tile and advances with what is dropped.
    """

    draws: Draws
    rows: tuple[ag.Reg, ...]
    column: ag.Reg
    words: ag.Reg
    moves: ag.Reg
    moved: ag.Reg
    below: ag.Reg

    def drop(self, k: ag.TileBuilder, weights: ag.Tile) -> None:
        """Elements of P^T, pairs of 16 bits, become 0. Call it once for each of a wave's tiles, in the order of keys. Changes SCC, VCC."""
        at = weights.index
        assert at is not None
        for row in range(weights.down):
            for number, tile_row in enumerate(self.rows):
                self.draws.draw(k, self.words, tile_row, self.column, at)
                with k.at(at):
                    _move(k, self.moved, self.words, self.moves)
                    with k.scratch("kept") as kept:
                        own = weights.base(row, number)
                        _keep(k, [kept] * (self.moved.count // 2), self.moved, own, self.below)
            with k.at(at):
                k.s_add_u32(self.column, self.column, 1)

    def draw(self, k: ag.TileBuilder, number: int, kept: ag.Reg, at: ag.StepIndex) -> None:
        """For the next tile of one fragment of queries, halves of -1 and 0 as `QueriesByKeys` has them. Fragments come in their order, and
        the product of each stands between those of the step where it is called. Changes SCC and VCC."""
        self.draws.draw(k, self.words, self.rows[number], self.column, at)
        with k.at(at):
            _move(k, self.moved, self.words, self.moves)
            _keep(k, [kept[pair:pair] for pair in range(kept.count)], self.moved, None, self.below)
            if number == len(self.rows) - 1:
                k.s_add_u32(self.column, self.column, 1)


def replace_dropped(k: ag.TileBuilder, own: ag.Reg, instead: ag.Reg, kept: ag.Reg) -> None:
    """Registers of float32 whose halves of `kept` are 0 become others."""
    with k.scratch("mask") as mask:
        for place in range(2 * kept.count):
            if place % 2:
                k.v_ashrrev_i32(mask, 16, kept[place // 2])
            else:
                k.v_bfe_i32(mask, kept[place // 2], 0, 16)
            k.v_bfi_b32(own[place], mask, own[place], instead[place])


def _move(k: ag.TileBuilder, moved: ag.Reg, bytes_: ag.Reg, moves: ag.Reg, queries_in_lanes: bool = True) -> None:
    """Each element's byte, less 128, to its place."""
    for word in range(bytes_.count):
        k.v_xor_b32(bytes_[word], 0x80808080, bytes_[word])
    name, size = _product(k)
    for first in range(0, bytes_.count, size):
        operands = bytes_[first:first + size - 1], moves[first:first + size - 1]
        k.emit(name, moved, *(operands if queries_in_lanes else operands[::-1]), moved if first else 0)


def _keep(k: ag.TileBuilder, kept: Sequence[ag.Reg], moved: ag.Reg, weights: ag.Reg | None, below: ag.Reg) -> None:
    """Two elements of a register at once: a difference is negative where a byte is small enough. Others of `weights` become 0."""
    with k.scratch("selector", file="s") as selector, k.scratch("sign", file="s") as sign:
        k.s_mov_b32(selector, _PAIR)
        k.s_mov_b32(sign, 0x000F000F)
        for number, one in enumerate(kept):
            k.v_perm_b32(one, moved[2 * number + 1], moved[2 * number], selector)
            k.v_pk_sub_i16(one, one, below)
            k.v_pk_ashrrev_i16(one, sign, one)
            if weights is not None:
                k.v_and_b32(weights[number:number], one, weights[number:number])


def keys_by_queries(k: ag.TileBuilder, draws: Draws, row0: ag.Reg, key0: ag.Reg, queries: int) -> KeysByQueries:
    """That of a wave with so many queries from `row0` on, and keys from `key0` on, multiples of 32. Changes SCC."""
    words = k.registers.vgprs(4, "drawn_bytes", align=2)
    moves, moved = _product_registers(k)
    rows = tuple(k.registers.sgprs(1, f"tile_row{number or ''}") for number in range(queries // BLOCK))
    column, below = (k.registers.sgprs(1, name) for name in ("tile_column", "below"))
    bits = BLOCK.bit_length() - 1
    with k.operation("dropout"):
        for number, row in enumerate(rows):
            k.s_lshr_b32(row, row0, bits)
            if number:
                k.s_add_u32(row, row, number)
        k.s_lshr_b32(column, key0, bits)
        k.s_sub_u32(below, draws.most, _HALF - 1)
        k.s_pack_ll_b32_b16(below, below, below)
        _one_each(k, moves)
    return KeysByQueries(draws, rows, column, words, moves, moved, below)


def _product_registers(k: ag.TileBuilder) -> tuple[ag.Reg, ag.Reg]:
    """The matrix that moves bytes, and moved bytes."""
    return k.registers.vgprs(4, "moves", align=2), k.registers.vgprs(BLOCK * BLOCK // ag.LANES, "moved_bytes", align=2,
                                                                     note="bytes where P has their elements")


def _product(k: ag.TileBuilder) -> tuple[str, int]:
    """The product of bytes, and how many registers of each operand it takes."""
    return ("v_mfma_i32_32x32x32_i8", 4) if k.arch == "gfx950" else ("v_mfma_i32_32x32x16_i8", 2)


def _one_each(k: ag.TileBuilder, words: ag.Reg) -> None:
    """The matrix that moves bytes: lane l has column l % 32, with a 1 where the row's byte is for that query. Byte e of lane half h is for
    query 16 (e / 8) + 8 h + e % 8, so half h has a 1 where bit 3 of the query is h."""
    lane = k.lane
    with k.scratch("word") as word, k.scratch("other_half") as other, k.scratch("one") as one:
        k.v_bfe_u32(word, lane, 4, 1)
        k.v_lshlrev_b32(word, 1, word)
        k.v_bfe_u32(one, lane, 2, 1)
        k.v_or_b32(word, word, one)
        k.v_lshrrev_b32(other, 2, lane)
        k.v_xor_b32(other, lane, other)
        k.v_and_b32(other, 8, other)
        k.v_or_b32(word, word, other)  # 8 and more: none of the lane's words
        k.v_and_b32(one, 3, lane)
        k.v_lshlrev_b32(one, 3, one)
        k.v_lshlrev_b32(one, one, 1)
        for number in range(words.count):
            k.v_cmp_eq_u32(ag.vcc, number, word)
            k.v_cndmask_b32(words[number], 0, one, ag.vcc)


@dataclass(frozen=True)
class StepMasks:
    """Masks of all keys of a wave for `queries` queries at a time. `row` is the number of the next ones and advances with what is drawn;
    `columns` are those of the keys' tiles, `below` has twice the bound of bytes that are kept. `kept` has, for each pair of elements,
    halves of -1 where one is kept and 0 where it is dropped."""

    queries: ClassVar[int] = BLOCK
    draws: Draws
    row: ag.Reg
    columns: tuple[ag.Reg, ...]
    words: ag.Reg
    kept: ag.Reg
    below: ag.Reg

    def begin(self, k: ag.TileBuilder, number: ag.Reg, row0: ag.Reg) -> None:
        """The next step is that of queries from `row0` on, a multiple of `queries`, of a head. Changes SCC and VCC."""
        self.draws.begin(k, number)
        k.s_lshr_b32(self.row, row0, self.queries.bit_length() - 1)


@dataclass(frozen=True)
class QueriesByKeys(StepMasks):
    """Dropout of P with queries in registers and keys in lanes, where halves of a wave have each other's bytes.

    Two exchanges of lane halves bring four bytes of a word to four registers; gfx942, which has none, `moves` bytes by a product, as
    `KeysByQueries` does.
    """

    moves: ag.Reg | None
    moved: ag.Reg | None

    def draw(self, k: ag.TileBuilder, at: ag.StepIndex) -> None:
        """`kept` is that of a step. Changes SCC and VCC."""
        half = self.kept.count // len(self.columns)
        for number, column in enumerate(self.columns):
            self.draws.draw(k, self.words, self.row, column, at)
            kept = [self.kept[number * half + pair] for pair in range(half)]
            with k.at(at):
                if self.moves is None or self.moved is None:
                    self._exchange(k, kept)
                else:
                    _move(k, self.moved, self.words, self.moves, queries_in_lanes=False)
                    _keep(k, kept, self.moved, None, self.below)
        with k.at(at):
            k.s_add_u32(self.row, self.row, 1)

    def _exchange(self, k: ag.TileBuilder, kept: Sequence[ag.Reg]) -> None:
        for word in (0, 2):
            k.v_permlane32_swap_b32(self.words[word], self.words[word + 1])
        keep_bytes(k, kept, self.words, self.below)


def keep_bytes(k: ag.TileBuilder, kept: Sequence[ag.Reg], words: ag.Reg, below: ag.Reg) -> None:
    """Halves of -1 where a byte is below those of `below`, else 0: two registers for the four bytes of each word."""
    with k.scratch("selectors", 2) as selectors, k.scratch("sign") as sign:
        for side, selector in enumerate((0x0C010C00, 0x0C030C02)):  # two bytes of a word, zeros above each
            k.v_mov_b32(selectors[side], selector)
        k.v_mov_b32(sign, 0x000F000F)
        for pair, one in enumerate(kept):
            source = words[pair // 2]
            k.v_perm_b32(one, source, source, selectors[pair % 2])
            k.v_pk_sub_i16(one, one, below)
            k.v_pk_ashrrev_i16(one, sign, one)


def drop(k: ag.TileBuilder, kept: ag.Reg, tile: ag.Tile, at: ag.StepIndex) -> None:
    """Elements of a tile of P, pairs of 16 bits, become 0 where they are not `kept`."""
    half = kept.count // tile.across
    with k.at(at):
        for number in range(tile.across):
            own = tile.base(0, number)
            for pair in range(half):
                k.v_and_b32(own[pair], kept[number * half + pair], own[pair])


def choose(k: ag.TileBuilder, kept: ag.Reg, tile: ag.Tile, other: ag.Tile, at: ag.StepIndex) -> None:
    """Elements of a tile of float32 that are not `kept` become those of `other`, whose columns are alike."""
    half = kept.count // tile.across
    with k.at(at):
        for number in range(tile.across):
            replace_dropped(k, tile.base(0, number), other.base(0, 0), kept[number * half:(number + 1) * half - 1])


def number_columns(k: ag.TileBuilder, columns: Sequence[ag.Reg], key0: ag.Reg) -> None:
    """The numbers of the tiles of a wave's keys, which begin at `key0`. Changes SCC."""
    for number, column in enumerate(columns):
        k.s_lshr_b32(column, key0, BLOCK.bit_length() - 1)
        if number:
            k.s_add_u32(column, column, number)


def queries_by_keys(k: ag.TileBuilder, key0: ag.Reg, keys: int, scalar: Scalars) -> QueriesByKeys:
    """That of a wave with so many keys from `key0` on, a multiple of 32; of no head yet. Changes SCC and VCC."""
    draws, count = new_draws(k, scalar), keys // BLOCK
    words = k.registers.vgprs(4, "drawn_bytes", align=2)
    kept = k.registers.vgprs(count * BLOCK * BLOCK // ag.LANES // 2, "kept_pairs", note="-1 and 0: what dropout keeps")
    row, below = scalar("tile_row"), scalar("below")
    columns = tuple(scalar(f"tile_column{number or ''}") for number in range(count))
    with k.operation("dropout"):
        number_columns(k, columns, key0)
        product = k.arch != "gfx950"
        moves, moved = _product_registers(k) if product else (None, None)
        k.s_add_u32(below, draws.most, 1)
        if product:
            k.s_sub_u32(below, below, _HALF)
        k.s_pack_ll_b32_b16(below, below, below)
        if moves is not None:
            _one_each(k, moves)
    return QueriesByKeys(draws, row, columns, words, kept, below, moves, moved)
