"""Cosines and sines computed from positions: angle i of a position is position theta^(-2 i / rotated).

Angles are found in quarter turns and float64, so that large positions keep their fractions; the nearest whole quarter is taken off exactly.
What is left, at most half a quarter, goes through Taylor's series in float32: what is left out of them is at most 1.8e-9 of the sine (its
term of degree 11) and 1.1e-10 of the cosine (degree 12), below half a unit of float32's last place.
"""

from __future__ import annotations

import math
import struct

import asmgen as ag
from asmgen.kernels.rope.shape import HeadShape

SINE = tuple((-1) ** n * (math.pi / 2) ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(5))
COSINE = tuple((-1) ** n * (math.pi / 2) ** (2 * n) / math.factorial(2 * n) for n in range(6))
"""Of powers of the square of an angle in quarter turns; the sine is that times the angle."""
_QUARTERS = 2 / math.pi
"""In one radian."""


def compute_angles(k: ag.TileBuilder, shape: HeadShape, tiles: tuple[ag.Tile, ag.Tile, ag.Tile], position: ag.Reg) -> None:
    """Cosines and sines into two tiles, by way of a third one, for the position of each lane's token (signed)."""
    cos, sin, held = tiles
    quarters, square = (k.tile(name, cos.rows, cos.columns, cos.fragment) for name in ("QUARTERS", "SQUARE"))
    _reduced(k, shape, held, quarters, position)
    ag.mul(k, square, held, held)
    for out, series in ((sin, SINE), (cos, COSINE)):
        ag.mul(k, out, square, series[-1])
        for number, term in enumerate(reversed(series[:-1])):
            ag.add(k, out, out, term)
            if number < len(series) - 2:
                ag.mul(k, out, out, square)
    ag.mul(k, sin, sin, held)
    for registers in zip(cos.registers, sin.registers, quarters.registers, strict=True):
        _quadrants(k, *registers)
    for tile in (quarters, square):
        k.registers.release(tile.name)


def _reduced(k: ag.TileBuilder, shape: HeadShape, out: ag.Tile, quarters: ag.Tile, position: ag.Reg) -> None:
    """Each angle in quarter turns, less the nearest whole number of them, and that number."""
    with k.scratch("position_f64", 2) as wide, k.scratch("frequency", 2) as first, k.scratch("power", 2) as power, \
            k.scratch("frequency_of_pair", 2) as own, k.scratch("reduced", 2) as reduced:
        k.v_cvt_f64_i32(wide, position)
        _first_frequency(k, shape, first, power)
        for number in range(out.across):
            if number:
                k.v_mul_f64(first, first, power)
            registers, counts = out.base(0, number), quarters.base(0, number)
            for pair in range(shape.angles):
                if pair:
                    k.v_mul_f64(own, own if pair > 1 else first, k.argument("ratio"))
                now = own if pair else first
                k.v_mul_f64(reduced, wide, now)
                k.v_rndne_f64(reduced, reduced)
                k.v_cvt_i32_f64(counts[pair], reduced)
                k.v_fma_f64(reduced, wide, now, -reduced)
                k.v_cvt_f32_f64(registers[pair], reduced)


def _first_frequency(k: ag.TileBuilder, shape: HeadShape, out: ag.Reg, power: ag.Reg) -> None:
    """Quarter turns for each position of a lane's first pair, and in `power` the ratio of those of a fragment to the one before: by the
    bits of the pair's number, each with a power of the ratio of neighbours."""
    for half, word in enumerate(struct.unpack("<II", struct.pack("<d", _QUARTERS))):
        k.v_mov_b32(out[half], word)
    k.v_mov_b64(power, k.argument("ratio"))
    for _ in range(shape.angles.bit_length() - 1):
        k.v_mul_f64(power, power, power)
    with k.scratch("further", 2) as further, k.scratch("bit") as bit, k.scratch("has_bit", 2, "s") as has:
        for number in range(shape.across.bit_length() - 1):
            k.v_and_b32(bit, 1 << number, k.lane)
            k.v_cmp_ne_u32(has, 0, bit)
            k.v_mul_f64(further, out, power)
            for half in range(2):
                k.v_cndmask_b32(out[half], out[half], further[half], has)
            k.v_mul_f64(power, power, power)


def _quadrants(k: ag.TileBuilder, cos: ag.Reg, sin: ag.Reg, quarters: ag.Reg) -> None:
    """The angle goes on by so many quarter turns: odd ones exchange cosine and sine, and each half turn changes signs."""
    with k.scratch("sign") as sign, k.scratch("other") as other, k.scratch("odd", 2, "s") as odd:
        k.v_and_b32(sign, 1, quarters)
        k.v_cmp_ne_u32(odd, 0, sign)
        k.v_cndmask_b32(other, sin, cos, odd)
        k.v_cndmask_b32(cos, cos, sin, odd)
        for out, source, more in ((sin, other, 0), (cos, cos, 1)):
            k.v_add_u32(sign, more, quarters)
            k.v_lshlrev_b32(sign, 30, sign)
            k.v_and_b32(sign, 0x80000000, sign)
            k.v_xor_b32(out, sign, source)
