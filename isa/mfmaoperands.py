"""Tables of the matrix instructions' operands: which lane, register and bit holds each element. Computed from `layouts_mfma`."""

from __future__ import annotations

from asmgen.isa.errors import OperandError
from asmgen.isa.layouts_mfma import OPERANDS, operand_layout, packing
from asmgen.isa.opcodes.mfma import MFMA, MfmaRow
from asmgen.isa.records import dataclass

__all__ = ["OPERANDS", "Element", "layout", "matrix_row"]


@dataclass(frozen=True)
class Element:
    """One element's place: `index` is [block, row, column], of A [block, i, k], of B [block, k, j], of C and D [block, i, j].

    Of a sparse A and of its index pairs k counts the packed values; of scales it counts blocks of 32 k. `bit` (0 to 31) is the lowest
    bit in the register; an element goes on in the next register where it does not end in this one: 64-bit ones always, 6-bit ones
    sometimes.
    """

    index: tuple[int, int, int]
    lane: int
    register: int
    bit: int
    bits: int


def matrix_row(name: str, arch: str) -> MfmaRow:
    """The row of a matrix instruction. Raises OperandError for an unknown one or an architecture that lacks it."""
    row = MFMA.get(name)
    if row is None:
        raise OperandError(f"{name} is no matrix instruction; their names begin with v_mfma_ or v_smfmac_, as llvm-objdump prints them")
    if arch not in row.archs:
        raise OperandError(f"{name} does not exist on {arch}, only on {', '.join(sorted(row.archs))}")
    return row


def layout(name: str, operand: str, arch: str, *, cbsz: int = 0, blgp: int = 0, abid: int = 0, op_sel: int = 0) -> list[Element]:
    """All elements of an operand of OPERANDS ("a", "d", "scale_a", ...) in the order of their indices.

    cbsz and blgp are the formats of f8f6f4; cbsz and abid the index set of a sparse row; op_sel the scale's byte (0 to 3). The lane
    permutations that they mean for other rows are not applied. Raises OperandError for an unknown instruction or operand, an
    architecture that lacks it, or a format that does not exist.
    """
    row = matrix_row(name, arch)
    code = blgp if operand == "b" else cbsz
    places = operand_layout(row, operand, code)
    packed = packing(row, operand, code, cbsz=cbsz, abid=abid, op_sel=op_sel)
    elements = []
    for point, element in places.points():
        register, bit = packed.place(point.get("item", 0))
        index = _index(operand, element)
        elements.append(Element(index, point["lane"], register, bit, packed.bits))
    return sorted(elements, key=lambda element: element.index)


def _index(operand: str, element: dict[str, int]) -> tuple[int, int, int]:
    if operand == "scale_a":
        return 0, element["i"], element["kb"]
    if operand == "scale_b":
        return 0, element["kb"], element["j"]
    block, row, column = element.values()
    return block, row, column
