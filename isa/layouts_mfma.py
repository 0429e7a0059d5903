"""Where each matrix instruction has the elements of its operands: the one place that states it, for both architectures.

Every layout maps (item, lane) to an element: of A and of packed sparse A (block, i, k), of B (block, k, j), of C and D (block, i, j),
of scales (i or j, kb). An item is an element's number in the lane's registers, of `packing(...)`: a product reads from the inside
out, so `identity("item", "k", 4) * identity("lane", "i", 16)` says that a lane holds four consecutive k of row `lane % 16`.

Sources: CDNA4 ISA 7.1.5, 7.1.6, 7.2.1 and 7.5.1, CDNA3 ISA 7.1, AMD's matrix calculator. The layouts are the same on every
architecture that has the instruction. On the ISA's text alone rest the index sets and the k order of 8-bit and 6-bit f8f6f4 data; on the
calculator alone D of v_mfma_f64_4x4x4_4b_f64, where the ISA's formula disagrees; A of the sparse shapes of doubled K on one production
kernel (docs/facts/instructions.md section 2 says how sure that is).
"""

from __future__ import annotations

import functools

from asmgen.isa.arch import LANES
from asmgen.isa.errors import OperandError
from asmgen.isa.layout import Layout, identity, product
from asmgen.isa.opcodes.mfma import F8F6F4_FORMATS, MfmaRow
from asmgen.isa.placement import Packing

SCALE_BLOCK = 32
"""Consecutive k of one row (of A) or column (of B) that share a scale byte."""
OPERANDS = ("a", "b", "c", "d", "scale_a", "scale_b", "index")
"""What has a layout; the scales only of v_mfma_scale_*, the index only of v_smfmac_*."""


def element_bits(type_name: str) -> int:
    """Bits of an element type as MfmaRow names it: "bf16" 16, "xf32" 32, "fp6" 6, "f64" 64."""
    return int(type_name.lstrip("abcdefghijklmnopqrstuvwxyz"))


def element_type(row: MfmaRow, operand: str, code: int = 0) -> str:
    """The element type of "a", "b", "c" or "d"; `code` is cbsz (of A) or blgp (of B), which choose it for f8f6f4 only.

    Raises OperandError for a format that f8f6f4 does not have.
    """
    if operand in ("c", "d"):
        return row.cd_type
    if not row.f8f6f4:
        return row.a_type if operand == "a" else row.b_type
    if not 0 <= code < len(F8F6F4_FORMATS):
        raise OperandError(f"{row.name} has no format {code}: cbsz and blgp go from 0 to {len(F8F6F4_FORMATS) - 1} "
                           f"({', '.join(F8F6F4_FORMATS)})")
    return F8F6F4_FORMATS[code]


@functools.cache
def operand_layout(row: MfmaRow, operand: str, code: int = 0) -> Layout:
    """(item, lane) -> the element of one operand of OPERANDS; `code` is the format of A or B of f8f6f4.

    The index pairs of a sparse A are items like its values; a scale operand has one item, its byte. Lane permutations that cbsz, abid and
    blgp ask for are apart: `broadcast_lanes`, `permute_lanes`. Raises OperandError for an operand that the instruction lacks.
    """
    if operand in ("c", "d"):
        return _d(row)
    if operand in ("a", "b"):
        depth = row.k // 2 if row.sparse and operand == "a" else row.k
        return _input(row, operand, depth, _runs(row, operand, element_bits(element_type(row, operand, code))))
    if operand == "index":
        if not row.sparse:
            raise OperandError(f"{row.name} is not sparse and has no index register; v_smfmac_* have")
        return operand_layout(row, "a")
    if operand not in OPERANDS:
        raise OperandError(f"{row.name} has no operand {operand!r}; a layout shows {', '.join(OPERANDS)}")
    if not row.scaled:
        raise OperandError(f"{row.name} has no scales; v_mfma_scale_* have")
    edge, outer = (row.m, "i") if operand == "scale_a" else (row.n, "j")
    return identity("lane", outer, edge) * identity("lane", "kb", row.k // SCALE_BLOCK)


def _runs(row: MfmaRow, operand: str, bits: int) -> int:
    """Separate runs of consecutive k in a lane: the upper half of a lane's 8-bit f8f6f4 items starts at K/2, and so does that of B in the
    sparse shapes of gfx950 with doubled K. Their packed A is one run."""
    return 2 if (row.f8f6f4 and bits == 8) or (row.sparse and operand == "b" and row.b_regs == 8) else 1


def _input(row: MfmaRow, operand: str, depth: int, runs: int) -> Layout:
    edge, outer = (row.m, "i") if operand == "a" else (row.n, "j")
    groups = LANES // (edge * row.blocks)
    layout = product(identity("item", "k", depth // groups // runs), identity("lane", outer, edge), identity("lane", "block", row.blocks),
                     identity("lane", "k", groups), identity("item", "k", runs))
    return layout.only(["item", "lane"], ["block", "i", "k"] if operand == "a" else ["block", "k", "j"])


def _d(row: MfmaRow) -> Layout:
    if element_bits(row.cd_type) == 64:  # a lane's items are register pairs
        if row.blocks == 1:
            layout = product(identity("lane", "j", row.n), identity("lane", "i", 4), identity("item", "i", 4), identity("item", "block", 1))
        else:
            layout = product(identity("lane", "j", row.n), identity("lane", "block", row.blocks), identity("lane", "i", row.m),
                             identity("item", "i", 1))
        return layout.only(["item", "lane"], ["block", "i", "j"])
    # A lane has four consecutive rows of a column. Of small blocks, several lie side by side in the 64 lanes of one register.
    together = -(-LANES * 4 // (row.m * row.n))
    bands = LANES // together // row.n
    layout = product(identity("item", "i", 4), identity("lane", "j", row.n), identity("lane", "i", bands),
                     identity("lane", "block", together), identity("item", "i", row.m // (4 * bands)),
                     identity("item", "block", row.blocks // together))
    return layout.only(["item", "lane"], ["block", "i", "j"])


def packing(row: MfmaRow, operand: str, code: int = 0, *, cbsz: int = 0, abid: int = 0, op_sel: int = 0) -> Packing:
    """How an operand's items lie in its registers.

    `code` as in `operand_layout`. The 2-bit indices of a lane's sparse values are one set, and a register holds as many sets as
    fit: abid selects one where cbsz is 0, else it is set 0 (CDNA4 ISA 7.5; its text gives the doubled 16-bit shapes sets
    of 8 bits, its table the 16 that their eight values need: the table holds here). op_sel is a scale's byte, 0 to 3 from the low one
    (of A op_sel[0] + 2 op_sel_hi[0]). Raises OperandError for a byte or format that does not exist.
    """
    if operand == "index":
        size = 2 * (32 * row.a_regs // element_bits(row.a_type))
        return Packing(2, size * (abid % (32 // size)) if cbsz % 4 == 0 else 0)
    if operand in ("scale_a", "scale_b"):
        if not 0 <= op_sel < 4:
            raise OperandError(f"scale byte {op_sel} does not exist; a register has four, numbered from 0")
        return Packing(8, 8 * op_sel)
    return Packing(element_bits(element_type(row, operand, code)))


def broadcast_lanes(cbsz: int, abid: int, blocks: int = 16) -> tuple[int, ...]:
    """The lane from which each of the 64 lanes takes its A values, of an instruction with `blocks` blocks.

    Groups of 64 >> cbsz lanes all read group number abid (CDNA4 ISA 7.1.6.1). Not for f64, f8f6f4 and sparse rows, which
    use the fields otherwise. Raises OperandError where the ISA calls the values undefined.
    """
    if cbsz < 0 or 1 << cbsz > blocks:
        raise OperandError(f"cbsz:{cbsz} broadcasts to {1 << max(cbsz, 0)} blocks, but the instruction has {blocks}")
    if not 0 <= abid < 1 << cbsz:
        raise OperandError(f"abid:{abid} names no group of lanes: with cbsz:{cbsz} there are {1 << cbsz}, numbered from 0")
    size = LANES >> cbsz
    return tuple(lane % size + size * abid for lane in range(LANES))


# blgp: lane l reads lane (l + rotate) % modulus + base (CDNA4 ISA table 29).
_BLGP = ((64, 0, 0), (32, 0, 0), (32, 0, 32), (64, 16, 0), (16, 0, 0), (16, 0, 16), (16, 0, 32), (16, 0, 48))


def permute_lanes(blgp: int) -> tuple[int, ...]:
    """The lane from which each of the 64 lanes takes its B values. Not for f64 and f8f6f4 rows, which use the field otherwise.

    Raises OperandError for a blgp outside of 0 to 7.
    """
    if not 0 <= blgp < len(_BLGP):
        raise OperandError(f"blgp:{blgp} does not exist; it goes from 0 to {len(_BLGP) - 1}")
    modulus, rotate, base = _BLGP[blgp]
    return tuple((lane + rotate) % modulus + base for lane in range(LANES))
