"""Which lane, register and bit holds each element of a matrix instruction's operands.

Sources: facts/instructions.md section 2 (checked there against AMD's matrix calculator and the tables of the CDNA4 ISA 7.1.5,
7.1.6, 7.2.1 and 7.5.1). The layouts are the same on every architecture that has the instruction; shapes, types and register
counts come from `isa.opcodes.mfma`. What rests on the ISA text alone: the sparse A side, the index sets and k order of
8-bit and 6-bit f8f6f4 data; on the calculator alone: D of v_mfma_f64_4x4x4_4b_f64 (the ISA's formula disagrees).

Maps are arrays over all elements of an operand, read-only because they are cached:

    A[b, i, k]   B[b, k, j]   C/D[b, i, j]   sparse A[b, i, p], p = 0..K/2-1 counting the packed values

This file imports numpy, so only the emulator and the tools import it, never the builder.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asmgen.isa.errors import OperandError
from asmgen.isa.opcodes.mfma import F8F6F4_FORMATS, MFMA, MfmaRow

LANES = 64
SCALE_BLOCK = 32
"""Consecutive k of one row (of A) or column (of B) that share a scale byte."""
OPERANDS = ("a", "b", "c", "d", "scale_a", "scale_b", "index")
"""What `layout` can show; the scales only of v_mfma_scale_*, the index only of v_smfmac_*."""

IntArray = npt.NDArray[np.intp]


class Places(NamedTuple):
    """Where an operand's elements are: three arrays of one shape.

    `register` counts from the operand's first register; `bit` (0..31) is the lowest bit of the element in it. An element goes on in
    the following register where it does not end in this one: 64-bit ones always, 6-bit ones sometimes.
    """

    lane: IntArray
    register: IntArray
    bit: IntArray


@dataclass(frozen=True)
class Element:
    """One element's place: `index` is [block, row, column], of A [block, i, k], of B [block, k, j], of C and D [block, i, j].

    Of a sparse A and of its index pairs k counts the packed values; of scales it counts blocks of 32 k.
    """

    index: tuple[int, int, int]
    lane: int
    register: int
    bit: int
    bits: int


def element_bits(type_name: str) -> int:
    """Bits of an element type as MfmaRow names it: "bf16" 16, "xf32" 32, "fp6" 6, "f64" 64."""
    return int(type_name.lstrip("abcdefghijklmnopqrstuvwxyz"))


def _format_type(row: MfmaRow, own: str, code: int) -> str:
    """The element type of A or B, which a format code (cbsz or blgp) gives for f8f6f4 only."""
    if not row.f8f6f4:
        return own
    if not 0 <= code < len(F8F6F4_FORMATS):
        raise OperandError(f"{row.name} has no format {code}: cbsz and blgp go from 0 to {len(F8F6F4_FORMATS) - 1} "
                           f"({', '.join(F8F6F4_FORMATS)})")
    return F8F6F4_FORMATS[code]


def a_type(row: MfmaRow, cbsz: int = 0) -> str:
    """A's element type; raises OperandError for a format that f8f6f4 does not have."""
    return _format_type(row, row.a_type, cbsz)


def b_type(row: MfmaRow, blgp: int = 0) -> str:
    """B's element type; raises OperandError for a format that f8f6f4 does not have."""
    return _format_type(row, row.b_type, blgp)


def _runs(row: MfmaRow, bits: int) -> int:
    """How many separate runs of consecutive k a lane holds.

    Two for 8-bit f8f6f4 data and for the sparse shapes of gfx950 with doubled K: the upper half of a lane's items starts at K/2.
    """
    return 2 if (row.f8f6f4 and bits == 8) or (row.sparse and row.b_regs == 8) else 1


def _frozen(shape: tuple[int, ...], lane: IntArray, bit: IntArray) -> Places:
    """Places from lanes and bit offsets in the operand's whole register string, broadcast to `shape`."""
    arrays = [np.broadcast_to(part, shape).astype(np.intp) for part in (lane, bit // 32, bit % 32)]
    for array in arrays:
        array.flags.writeable = False
    return Places(*arrays)


def _input_places(edge: int, depth: int, blocks: int, bits: int, runs: int) -> Places:
    """Places of A, [block, i, k] (or B with j for i): `edge` rows of `depth` values in `blocks` blocks."""
    block, x, k = np.ogrid[:blocks, :edge, :depth]
    length = depth * edge * blocks // (LANES * runs)
    run, in_run = k // (depth // runs), k % (depth // runs)
    lane = x + edge * (block + blocks * (in_run // length))
    return _frozen((blocks, edge, depth), lane, (run * length + in_run % length) * bits)


@functools.cache
def a_map(row: MfmaRow, cbsz: int = 0) -> Places:
    """A's places, [b, i, k], for a sparse row [b, i, p]. cbsz is the format of f8f6f4 and means nothing here otherwise.

    Broadcasting is apart: the lane that is read is `broadcast_lanes(cbsz, abid)[lane]`.
    Raises OperandError for a format that does not exist.
    """
    bits = element_bits(a_type(row, cbsz))
    return _input_places(row.m, row.k // 2 if row.sparse else row.k, row.blocks, bits, _runs(row, bits))


@functools.cache
def b_map(row: MfmaRow, blgp: int = 0) -> Places:
    """B's places, [b, k, j]. blgp is the format of f8f6f4 and means nothing here otherwise.

    Permuting is apart: the lane that is read is `permute_lanes(blgp)[lane]`.
    Raises OperandError for a format that does not exist.
    """
    bits = element_bits(b_type(row, blgp))
    places = _input_places(row.n, row.k, row.blocks, bits, _runs(row, bits))
    return Places(*(array.swapaxes(1, 2) for array in places))


@functools.cache
def d_map(row: MfmaRow) -> Places:
    """Places of D, and of C in the same way, [b, i, j]."""
    block, i, j = np.ogrid[: row.blocks, : row.m, : row.n]
    shape = row.blocks, row.m, row.n
    if element_bits(row.cd_type) == 64:
        if row.blocks == 1:
            return _frozen(shape, 16 * (i % 4) + j, 64 * (i // 4))
        return _frozen(shape, 16 * i + 4 * block + j, np.zeros((1, 1, 1), np.intp))
    # A lane owns four consecutive rows of a column. `together` blocks lie side by side in the 64 lanes of one register.
    together = -(-LANES * 4 // (row.m * row.n))
    bands = LANES // together // row.n
    groups = row.m // (4 * bands)
    register = i % 4 + 4 * (i // (4 * bands) + groups * (block // together))
    lane = j + row.n * ((i // 4) % bands + bands * (block % together))
    return _frozen(shape, lane, 32 * register)


@functools.cache
def scale_map(row: MfmaRow) -> IntArray:
    """The lane that holds the E8M0 scale of row (of A) or column (of B) x, k block kb: [x, kb], blocks of 32 k.

    Which byte of the lane's register it is, op_sel and op_sel_hi say (code 0 to 3 from the low byte). A k block counts true k, so with
    8-bit data the scale and the values that it scales are in different lanes. Raises OperandError for a row without scales.
    """
    if not row.scaled:
        raise OperandError(f"{row.name} has no scales; v_mfma_scale_* have")
    x, kb = np.ogrid[: row.m, : row.k // SCALE_BLOCK]
    lane: IntArray = np.asarray(x + row.m * kb, np.intp)
    lane.flags.writeable = False
    return lane


@functools.cache
def index_map(row: MfmaRow, cbsz: int = 0, abid: int = 0) -> Places:
    """Places of the 2-bit index of each packed value of a sparse A, [b, i, p], in the index register.

    Packed value p is A[i, 4 * (p // 2) + index]; all other elements of that group of four k are zero. A lane's indices are one set; a
    register holds as many sets as fit. abid selects one where cbsz is 0, else it is set 0 (CDNA4 ISA 7.5; its text gives the doubled
    16-bit shapes sets of 8 bits, its table the 16 bits that their eight values need: the table holds here).
    Raises OperandError for a row that is not sparse.
    """
    if not row.sparse:
        raise OperandError(f"{row.name} is not sparse and has no index register; v_smfmac_* have")
    lane, register, bit = a_map(row)
    bits = element_bits(row.a_type)
    item = (32 * register + bit) // bits
    size = 2 * (32 * row.a_regs // bits)
    chosen = abid % (32 // size) if cbsz % 4 == 0 else 0
    return _frozen(lane.shape, lane, size * chosen + 2 * item)


@functools.cache
def broadcast_lanes(cbsz: int, abid: int, blocks: int = 16) -> IntArray:
    """The lane [64] from which each lane takes its A values, of an instruction with `blocks` blocks.

    Groups of 64 >> cbsz lanes all read group number abid (CDNA4 ISA 7.1.6.1). Not for f64, f8f6f4 and sparse rows, which
    use the fields otherwise. Raises OperandError where the ISA calls the values undefined.
    """
    if cbsz < 0 or 1 << cbsz > blocks:
        raise OperandError(f"cbsz:{cbsz} broadcasts to {1 << max(cbsz, 0)} blocks, but the instruction has {blocks}")
    if not 0 <= abid < 1 << cbsz:
        raise OperandError(f"abid:{abid} names no group of lanes: with cbsz:{cbsz} there are {1 << cbsz}, numbered from 0")
    size = LANES >> cbsz
    lanes: IntArray = np.arange(LANES, dtype=np.intp) % size + size * abid
    lanes.flags.writeable = False
    return lanes


# blgp: lane l reads lane (l + rotate) % modulus + base (CDNA4 ISA table 29).
_BLGP = ((64, 0, 0), (32, 0, 0), (32, 0, 32), (64, 16, 0), (16, 0, 0), (16, 0, 16), (16, 0, 32), (16, 0, 48))


@functools.cache
def permute_lanes(blgp: int) -> IntArray:
    """The lane [64] from which each lane takes its B values. Not for f64 and f8f6f4 rows, which use the field otherwise.

    Raises OperandError for a blgp outside of 0 to 7.
    """
    if not 0 <= blgp < len(_BLGP):
        raise OperandError(f"blgp:{blgp} does not exist; it goes from 0 to {len(_BLGP) - 1}")
    modulus, rotate, base = _BLGP[blgp]
    lanes: IntArray = (np.arange(LANES, dtype=np.intp) + rotate) % modulus + base
    lanes.flags.writeable = False
    return lanes


def _places_of(row: MfmaRow, operand: str, cbsz: int, blgp: int, abid: int, op_sel: int) -> tuple[Places, int]:
    """The places of an operand and the bits of one element."""
    if operand == "a":
        return a_map(row, cbsz), element_bits(a_type(row, cbsz))
    if operand == "b":
        return b_map(row, blgp), element_bits(b_type(row, blgp))
    if operand in ("c", "d"):
        return d_map(row), element_bits(row.cd_type)
    if operand == "index":
        return index_map(row, cbsz, abid), 2
    if operand not in OPERANDS:
        raise OperandError(f"{row.name} has no operand {operand!r}; a layout shows {', '.join(OPERANDS)}")
    if not 0 <= op_sel < 4:
        raise OperandError(f"scale byte {op_sel} does not exist; a register has four, numbered from 0")
    lane = scale_map(row)
    lane = lane[np.newaxis] if operand == "scale_a" else lane.T[np.newaxis]
    return _frozen(lane.shape, lane, np.full(lane.shape, 8 * op_sel, np.intp)), 8


def layout(name: str, operand: str, arch: str, *, cbsz: int = 0, blgp: int = 0, abid: int = 0, op_sel: int = 0) -> list[Element]:
    """All elements of an operand ("a", "b", "c", "d", "scale_a", "scale_b", "index") in the order of their indices.

    cbsz and blgp are the formats of f8f6f4; cbsz and abid the index set of a sparse row; op_sel the scale's byte (0 to 3). The lane
    permutations that they mean for other rows are not applied. Raises OperandError for an unknown instruction or operand, an
    architecture that lacks it, or a format that does not exist.
    """
    row = MFMA.get(name)
    if row is None:
        raise OperandError(f"{name} is no matrix instruction; their names begin with v_mfma_ or v_smfmac_, as llvm-objdump prints them")
    if arch not in row.archs:
        raise OperandError(f"{name} does not exist on {arch}, only on {', '.join(sorted(row.archs))}")
    places, bits = _places_of(row, operand, cbsz, blgp, abid, op_sel)
    flat = zip(np.ndindex(*places.lane.shape), *(array.ravel().tolist() for array in places), strict=True)
    return [Element((index[0], index[1], index[2]), lane, register, bit, bits) for index, lane, register, bit in flat]
