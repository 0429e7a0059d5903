"""Which head and which of its tiles of queries a workgroup of attention serves, as scalar code of a prologue.

The hardware hands workgroups to the XCDs in turn. All tiles of all query heads of one KV head (of one batch) read the same keys and
values, so they go to one XCD, whose L2 then has them: KV head u to XCD u mod 8, for all but the last (heads mod 8), which are dealt to all
XCDs for balance. An order for every number of heads, group and tiles; each workgroup has a place of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from asmgen.author.address.division import Divisor
from asmgen.author.emit.builder import Builder
from asmgen.isa.arch import XCDS
from asmgen.isa.registers import Reg

_XCD_BITS = (XCDS - 1).bit_length()
_TOGETHER_BITS = 6  # workgroups of one XCD that should be of equal length: about two for each of its compute units


@dataclass(frozen=True)
class HeadTile:
    """What a workgroup serves: SGPRs of their own. `head` is the query head, of whose KV head `kv_head` it reads."""

    batch: Reg
    head: Reg
    kv_head: Reg
    tile: Reg


def tiles_in_order(units: int, group: int, tiles: int, longest_first: bool) -> list[int]:
    """The tile of each workgroup as `place_head` deals them, for `units` KV heads (of all batches) with `group` heads each."""
    return [tile for _, _, tile in heads_in_order(units, group, tiles, longest_first)]


def heads_in_order(units: int, group: int, tiles: int, longest_first: bool) -> list[tuple[int, int, int]]:
    """The same with the KV head and the number of the head in its group before the tile."""
    members = group * tiles
    round_of_heads = XCDS << max(0, _TOGETHER_BITS + 1 - members.bit_length()) if longest_first else XCDS
    whole, even = units // round_of_heads * round_of_heads, units // XCDS * XCDS
    found: list[tuple[int, int, int]] = []
    first = 0
    for size in [round_of_heads] * (whole // round_of_heads) + [even - whole, units - even]:
        for tile in reversed(range(tiles)) if longest_first else range(tiles):
            found += [(first + unit, member, tile) for member in range(group) for unit in range(size)]
        first += size
    return found


def place_head(k: Builder, out: HeadTile, number: Reg, batches: Reg, heads: Reg, kv_heads: Reg, tiles: Reg,
               longest_first: bool = False) -> None:
    """The place of workgroup `number` of batches * heads * tiles, all scalars; `heads` is a multiple of `kv_heads`. Changes SCC.

    Heads of a group take the same tile one after the other, as they then read the same keys at the same time. `longest_first` is for
    causal masks, where the last tile has most keys: tiles go down from it, and where a KV head has fewer than 64 workgroups, those of
    several take turns, so that an XCD's compute units begin with equal ones. Else the first tile comes first.
    """
    with k.operation("head order"), k.scratch("sizes", 6, "s") as sizes, k.scratch("reciprocals", 2, "s") as reciprocals:
        group, members, within_head, shift, first, rest = (sizes[number] for number in range(6))
        by_kv_heads = Divisor(k, kv_heads, reciprocals[0])
        by_kv_heads.divide(k, group, rest, heads)
        k.emit("s_mul_i32", members, group, tiles)  # workgroups of a KV head
        if longest_first:
            k.emit("s_flbit_i32_b32", shift, members)
            k.emit("s_sub_u32", shift, shift, 31 - _TOGETHER_BITS)
            k.emit("s_max_i32", shift, shift, 0)
            k.emit("s_add_u32", shift, shift, _XCD_BITS)
        else:
            k.emit("s_mov_b32", shift, _XCD_BITS)
        _unit(k, first, within_head, number, batches, kv_heads, members, shift, reciprocals[1])
        by_kv_heads.divide(k, out.batch, out.kv_head, first)
        Divisor(k, group, reciprocals[1]).divide(k, out.tile, rest, within_head)
        if longest_first:
            k.emit("s_sub_u32", out.tile, tiles, out.tile)
            k.emit("s_sub_u32", out.tile, out.tile, 1)
        k.emit("s_mul_i32", out.head, out.kv_head, group)
        k.emit("s_add_u32", out.head, out.head, rest)


def _unit(k: Builder, unit: Reg, within_head: Reg, number: Reg, batches: Reg, kv_heads: Reg, members: Reg, shift: Reg,
          reciprocal: Reg) -> None:
    """The KV head (counted over all batches) and the place among its `members` of a workgroup.

    KV heads go in windows of 2^shift, all of a window taking their first place, then all the second one. What is left over by whole
    windows is a window of its own up to a multiple of 8, and another one after that.
    """
    with k.scratch("windows", 6, "s") as held:
        units, even, rounds, by, base, within = (held[one] for one in range(6))
        k.emit("s_mul_i32", units, batches, kv_heads)
        k.emit("s_andn2_b32", even, units, XCDS - 1)
        k.emit("s_lshr_b32", rounds, units, shift)
        k.emit("s_lshl_b32", rounds, rounds, shift)
        k.emit("s_mul_i32", within, even, members)
        k.emit("s_cmp_lt_u32", number, within)
        k.emit("s_cselect_b32", base, rounds, even)
        k.emit("s_cselect_b32", units, even, units)
        k.emit("s_sub_u32", by, units, base)
        k.emit("s_mul_i32", within, base, members)
        k.emit("s_sub_u32", within, number, within)
        k.emit("s_mul_i32", units, rounds, members)
        k.emit("s_lshr_b32", within_head, number, shift)
        k.emit("s_cmp_lt_u32", number, units)
        k.emit("s_cselect_b32", within, within_head, within)
        k.emit("s_cselect_b32", by, members, by)
        k.emit("s_cselect_b32", rounds, 1, 0)
        Divisor(k, by, reciprocal).divide(k, within_head, unit, within)
        k.emit("s_add_u32", base, base, unit)  # in a window of its own
        k.emit("s_lshl_b32", even, within_head, shift)
        k.emit("s_bfm_b32", by, shift, 0)
        k.emit("s_and_b32", by, by, number)
        k.emit("s_add_u32", even, even, by)  # in a whole window
        k.emit("s_cmp_lg_u32", rounds, 0)
        k.emit("s_cselect_b32", within_head, unit, within_head)
        k.emit("s_cselect_b32", unit, even, base)
