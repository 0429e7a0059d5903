"""What one LDS access of a wave costs: cycles, ways and the lanes that collide, without numpy.

A phase takes as many cycles as the fullest bank holds distinct dwords (`asmgen.isa.lds`). `cost` enumerates the phase table for any
addresses; `ways_by_rank` gives the same ways for an XOR layout from ranks over GF(2), without looking at a single address:
the phases of the table are cosets of subspaces of the lane numbers, on which a linear map has fibres of one size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from asmgen.isa import gf2
from asmgen.isa.arch import LANES
from asmgen.isa.layout import Layout, LayoutError
from asmgen.isa.lds import addresses_per_lane, rule
from asmgen.isa.records import dataclass

DWORD = 4


@dataclass(frozen=True)
class Cost:
    """Cycles of one access by one wave, and the least that so many distinct dwords need; `ways` is the largest load of a bank over
    what that phase needs in any case. `lanes` is a pair that meets in a bank with different dwords, None without a conflict."""

    cycles: int
    ideal: int
    ways: int
    lanes: tuple[int, int] | None

    @property
    def extra(self) -> int:
        """Cycles that conflicts cost."""
        return self.cycles - self.ideal


def bank_cost(arch: str, op: str, addresses: Sequence[int] | Sequence[tuple[int, int]], width_bits: int, active: int = -1) -> Cost:
    """The cost of byte addresses in LDS, one for each of 64 lanes (a pair for read2 and the like), each moving `width_bits`.

    `active` is EXEC as a number. Raises AsmgenError for an `op` without lane addresses, LayoutError for other than 64 lanes or
    negative addresses.
    """
    row = rule(arch, op)
    if len(addresses) != LANES:
        raise LayoutError(f"{op} takes an address from each of {LANES} lanes, not {len(addresses)}")
    cycles = ideal = 0
    ways, lanes = 1, None
    for phase in row.phases:
        lane_of: dict[int, int] = {}  # by dword: those that a phase has already are shared
        for lane in phase:
            if active >> lane & 1:
                for dword in _dwords(addresses[lane], width_bits):
                    lane_of.setdefault(dword, lane)
        loads = Counter([dword % row.banks for dword in lane_of])
        load = max(loads.values(), default=0)
        least = -(-len(lane_of) // row.banks)
        cycles, ideal = cycles + load, ideal + least
        if load > least and -(-load // least) > ways:
            ways = -(-load // least)
            full = next(bank for bank, held in loads.items() if held == load)
            lanes = _pair([lane for dword, lane in lane_of.items() if dword % row.banks == full])
    return Cost(cycles, ideal, ways, lanes)


def _dwords(address: int | tuple[int, int], width_bits: int) -> list[int]:
    dwords: list[int] = []
    for first in address if isinstance(address, tuple) else (address,):
        if first < 0:
            raise LayoutError(f"LDS addresses are not negative: {first}")
        dwords += range(first // DWORD, (first + width_bits // 8 - 1) // DWORD + 1)
    return dwords


def _pair(held: Sequence[int]) -> tuple[int, int]:
    """Two lanes of the fullest bank, different ones where it can be."""
    return held[0], next((lane for lane in held if lane != held[0]), held[0])


def ways_by_rank(arch: str, op: str, layout: Layout, width_bits: int, lane: str = "lane", output: str = "offset") -> int:
    """The `ways` of `cost` for an XOR layout from lanes to byte offsets.

    Raises LayoutError for a layout that adds, an access that is not a power of two of dwords or that the layout does not align, an
    instruction with two addresses, or phases that are no cosets: enumerate with `cost` then.
    """
    row = rule(arch, op)
    dwords = width_bits // (8 * DWORD)
    digits = [digit for name, _, digit in layout.digits() if name == lane]
    location = list(layout.output_sizes).index(output)
    if any(digit.add[location] for digit in digits):
        raise LayoutError(f"the layout adds to {output}: its conflicts are counted by enumeration, not by rank")
    images = [digit.xor[location] for digit in digits]
    if dwords < 1 or dwords & (dwords - 1) or addresses_per_lane(op) > 1 or any(image % (DWORD * dwords) for image in images):
        raise LayoutError(f"{op} with {width_bits} bits a lane at these addresses has no rank: its conflicts are counted by enumeration")
    inside = [1 << bit for bit in range(dwords.bit_length() - 1)]
    worst = 1
    for phase in row.phases:
        directions = [one ^ phase[0] for one in phase]
        if 1 << gf2.rank(directions) != len(phase):
            raise LayoutError(f"the phases of {op} on {arch} are no cosets: its conflicts are counted by enumeration")
        touched = [_image(images, direction) // DWORD for direction in directions] + inside
        distinct = gf2.rank(touched)
        load, least = 1 << distinct - gf2.rank(vector % row.banks for vector in touched), -(-(1 << distinct) // row.banks)
        worst = max(worst, -(-load // least))
    return worst


def _image(images: Sequence[int], lanes: int) -> int:
    """The sum of the images of the bits of a lane number."""
    value = 0
    for bit in gf2.bits(lanes):
        value ^= images[bit]
    return value
