"""Scalar code of builds whose sequences have lengths of their own.

A workgroup knows its batch, which is the sequence's number. `begin_sequence` then makes its arguments those of a batch of that length: all
code after it is that of other builds.
"""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag

_INT32_BITS = 2  # of the size of a length, in bytes


def longest(k: ag.TileBuilder, rows: str) -> ag.Reg:
    """By how many rows, sq or sk, the grid counts tiles."""
    return k.argument(f"max_{rows}" if k.p.varlen else rows)


def begin_sequence(k: ag.TileBuilder, batch: ag.Reg, rows: str, tensors: Sequence[str],
                   flat: Sequence[tuple[ag.Reg, int]] = ()) -> None:
    """The argument `rows`, sq or sk, becomes the length of sequence `batch`, the pointers of tensors go on to its first row, and pairs
    of SGPRs, `flat`, by so many bytes a row. Changes SCC."""
    side = rows[1]
    with k.operation(f"{rows} of the sequence"), k.scratch("span", 2, "s") as span, k.scratch("entry", file="s") as entry, \
            k.scratch("before", 2, "s") as before:
        k.s_lshl_b32(entry, batch, _INT32_BITS)
        k.s_load_dwordx2(span, k.argument(f"cu_seqlens_{side}"), entry)
        strided = [(k.argument(tensor), k.argument(f"{tensor}_stride_s")) for tensor in tensors]
        for pointer, stride in (*strided, *flat):
            k.s_mul_i32(before[0], span[0], stride)
            k.s_mul_hi_u32(before[1], span[0], stride)
            if isinstance(stride, ag.Reg):
                k.s_lshl_b64(before, before, 1)  # elements of 16 bits
            k.s_add_u32(pointer[0], pointer[0], before[0])
            k.s_addc_u32(pointer[1], pointer[1], before[1])
        if k.p.padded:
            k.s_load_dword(k.argument(rows), k.argument(f"seqused_{side}"), entry)
        else:
            k.s_sub_u32(k.argument(rows), span[1], span[0])


def end_beyond(k: ag.TileBuilder, first: ag.Reg, rows: str) -> None:
    """The workgroup ends where its `first` row is none of the sequence. Changes SCC."""
    _ = k.wave  # found where all waves pass
    here = k.fresh("has_rows")
    k.s_cmp_lt_u32(first, k.argument(rows))
    k.s_cbranch_scc1(here)
    k.s_endpgm()
    k.label(here)
