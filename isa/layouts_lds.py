"""How LDS instructions move elements between lanes and LDS: transposing reads, the order of LDS-DMA, published XOR swizzles.

Transposing reads: within a group of 16 lanes the 8 (or 12) bytes that each lane's own address names follow each other, lane after
lane, as rows of 16 elements; lane l gets column l. For 16-bit elements production kernels confirm it; the other widths are by
analogy with it (AMD's rocRoller expects the same of all four; nobody here ran it).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from asmgen.isa.arch import LANES, architecture
from asmgen.isa.layout import Layout, LayoutError, identity, strided
from asmgen.isa.placement import Packing, Swizzle

COLUMNS = 16
"""Lanes that exchange elements in a transposing read, and elements of a row."""
_TRANSPOSING = {"ds_read_b64_tr_b16": (64, 16), "ds_read_b64_tr_b8": (64, 8), "ds_read_b64_tr_b4": (64, 4), "ds_read_b96_tr_b6": (96, 6)}
TRANSPOSING = tuple(_TRANSPOSING)
"""The transposing reads (gfx950 only)."""
DMA_BYTES: Mapping[str, tuple[int, ...]] = {"gfx942": (1, 2, 4), "gfx950": (1, 2, 4, 12, 16)}
"""Bytes a lane may move straight from memory to LDS (buffer and global; scratch moves dwords only)."""


@functools.cache
def transposing_read(op: str) -> Layout:
    """(item, lane) that receives -> (source_item, source_lane) at whose address the element stood.

    Items are counted in the lane's registers, and in the bytes after its address, in `transposing_packing(op)`.
    Raises LayoutError for an instruction that does not transpose.
    """
    count = transposing_items(op)
    string = identity("lane", "string", COLUMNS) * identity("item", "string", count) * identity("lane", "group", LANES // COLUMNS)
    named = (identity("string", "source_item", count) * identity("string", "source_lane", COLUMNS)
             * identity("group", "source_lane", LANES // COLUMNS))
    return string.only(["item", "lane"]).then(named)


def transposing_items(op: str) -> int:
    """Elements that each lane names and receives. Raises LayoutError for an instruction that does not transpose."""
    if op not in _TRANSPOSING:
        raise LayoutError(f"{op} does not transpose; {', '.join(_TRANSPOSING)} do")
    width, bits = _TRANSPOSING[op]
    return width // bits


def transposing_packing(op: str) -> Packing:
    """How the elements of a transposing read are packed, in registers as in LDS. Raises LayoutError as `transposing_items` does."""
    transposing_items(op)
    return Packing(_TRANSPOSING[op][1])


@functools.cache
def dma_order(arch: str, bytes_: int) -> Layout:
    """(byte, lane) -> offset after M0 plus the immediate, of a load of `bytes_` a lane straight into LDS.

    A lane has a slot of 4 bytes, or of 16 for 12 and 16 bytes; of 12 the fourth dword stays as it was. Bytes and shorts are
    extended to a dword. Sources: CDNA4 ISA 9.1.9, LLVM 22 for the widths. Raises LayoutError for a width that the
    architecture lacks, ValueError for an unknown architecture.
    """
    widths = DMA_BYTES[architecture(arch).name]
    if bytes_ not in widths:
        raise LayoutError(f"{arch} moves {', '.join(map(str, widths))} bytes a lane straight to LDS, not {bytes_}")
    slot = 16 if bytes_ > 4 else 4
    return strided("byte", max(bytes_, 4), "offset", 1, total=slot) * identity("lane", "offset", LANES)


PUBLISHED: Mapping[str, Swizzle] = {
    # HipKittens (arXiv 2511.08083): figure 4 and appendix D.1; the subtile of 16x32 bf16 has rows of 64 bytes.
    "st_16x32": Swizzle(((4, 0x20),)),
    "st_32x32": Swizzle(((4, 0x20), (6, 0x10))),
    "st_16x16": Swizzle(((4, 0x18),)),
    # The FP8 article, 128-byte rows: half the row on the chunk. It calls plain rows 8-way; by the phase table they are 4-way.
    "fp8_128": Swizzle(((4, 0x70),)),
    # The MXFP4 article: 256-byte rows of bf16.
    "bf16_256": Swizzle(((4, 0x30), (3, 0x80))),
    # Eight chunks of a 128-byte row by the row, as gemm-bf16 has it.
    "rows_128": Swizzle(((3, 0x70),)),
}
"""Swizzles of published kernels by name, on byte offsets in a tile."""
