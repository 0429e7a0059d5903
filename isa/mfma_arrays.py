"""The layouts of `layouts_mfma` as numpy arrays over all elements of an operand, for the emulator; read-only because they are cached.

    A[b, i, k]   B[b, k, j]   C/D[b, i, j]   sparse A[b, i, p], p = 0..K/2-1 counting the packed values
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asmgen.isa import layouts_mfma
from asmgen.isa.layout import Layout
from asmgen.isa.opcodes.mfma import MfmaRow
from asmgen.isa.placement import Packing

IntArray = npt.NDArray[np.intp]


class OperandSlots(NamedTuple):
    """Where an operand's elements are: three arrays of one shape.

    `register` counts from the operand's first register; `bit` (0..31) is the lowest bit of the element in it. An element goes on in
    the following register where it does not end in this one: 64-bit ones always, 6-bit ones sometimes.
    """

    lane: IntArray
    register: IntArray
    bit: IntArray


def evaluate(layout: Layout, *inputs: str) -> tuple[IntArray, ...]:
    """The outputs of a layout at all points: one array for each output, with an axis for each of `inputs`, in this order."""
    sizes = [layout.input_sizes.get(name, 1) for name in inputs]
    grids = dict(zip(inputs, np.ogrid[tuple(slice(size) for size in sizes)], strict=True))
    low, high = ([np.zeros(sizes, np.intp) for _ in layout.outputs] for _ in range(2))
    for name, weight, digit in layout.digits():
        value = grids[name] // weight % digit.size
        for location in range(len(layout.outputs)):
            low[location] ^= (value == 1) * digit.xor[location]
            high[location] += value * digit.add[location]
    return tuple(a + b for a, b in zip(low, high, strict=True))


def _locations(layout: Layout, packing: Packing) -> OperandSlots:
    """The inverse of an operand's layout, packed."""
    index = evaluate(layout, "item", "lane")
    items, lanes = (np.broadcast_to(grid, index[0].shape) for grid in np.ogrid[:index[0].shape[0], :index[0].shape[1]])
    offset = packing.start + items * packing.bits
    made = []
    for part in (lanes, offset // 32, offset % 32):
        array = np.empty([size for _, size in layout.outputs], np.intp)
        array[index] = part
        array.flags.writeable = False
        made.append(array)
    return OperandSlots(*made)


@functools.cache
def a_map(row: MfmaRow, cbsz: int = 0) -> OperandSlots:
    """A's places, [b, i, k], for a sparse row [b, i, p]. cbsz is the format of f8f6f4 and means nothing here otherwise.

    Broadcasting is apart: the lane that is read is `broadcast_lanes(cbsz, abid)[lane]`.
    Raises OperandError for a format that does not exist.
    """
    return _locations(layouts_mfma.operand_layout(row, "a", cbsz), layouts_mfma.packing(row, "a", cbsz))


@functools.cache
def b_map(row: MfmaRow, blgp: int = 0) -> OperandSlots:
    """B's places, [b, k, j]. blgp is the format of f8f6f4 and means nothing here otherwise.

    Permuting is apart: the lane that is read is `permute_lanes(blgp)[lane]`.
    Raises OperandError for a format that does not exist.
    """
    return _locations(layouts_mfma.operand_layout(row, "b", blgp), layouts_mfma.packing(row, "b", blgp))


@functools.cache
def d_map(row: MfmaRow) -> OperandSlots:
    """Places of D, and of C in the same way, [b, i, j]."""
    return _locations(layouts_mfma.operand_layout(row, "d"), layouts_mfma.packing(row, "d"))


@functools.cache
def scale_map(row: MfmaRow) -> IntArray:
    """The lane that holds the E8M0 scale of row (of A) or column (of B) x, k block kb: [x, kb], blocks of 32 k.

    Which byte of the lane's register it is, op_sel and op_sel_hi say (code 0 to 3 from the low byte). A k block counts true k, so with
    8-bit data the scale and the values that it scales are in different lanes. Raises OperandError for a row without scales.
    """
    layout = layouts_mfma.operand_layout(row, "scale_a")
    return _locations(layout, Packing(8)).lane


@functools.cache
def index_map(row: MfmaRow, cbsz: int = 0, abid: int = 0) -> OperandSlots:
    """Places of the 2-bit index of each packed value of a sparse A, [b, i, p], in the index register.

    Packed value p is A[i, 4 * (p // 2) + index]; all other elements of that group of four k are zero. Sets as `packing` has them.
    Raises OperandError for a row that is not sparse.
    """
    layout = layouts_mfma.operand_layout(row, "index")
    return _locations(layout, layouts_mfma.packing(row, "index", cbsz=cbsz, abid=abid))


@functools.cache
def broadcast_lanes(cbsz: int, abid: int, blocks: int = 16) -> IntArray:
    """`layouts_mfma.broadcast_lanes` as an array [64]."""
    return _frozen(layouts_mfma.broadcast_lanes(cbsz, abid, blocks))


@functools.cache
def permute_lanes(blgp: int) -> IntArray:
    """`layouts_mfma.permute_lanes` as an array [64]."""
    return _frozen(layouts_mfma.permute_lanes(blgp))


def _frozen(values: tuple[int, ...]) -> IntArray:
    array: IntArray = np.array(values, np.intp)
    array.flags.writeable = False
    return array
