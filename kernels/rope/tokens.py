"""The tokens of a workgroup: where their sequence begins, and the whole numbers that go with each."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rope.shape import HeadShape
from asmgen.kernels.rope.tensors import is_cache, numbers_of, tensors_of
from asmgen.kernels.sequences.varlen import end_beyond

_INT32_SHIFT = 2
_WIDTHS = {"i32": 2, "i64": 3}
"""Of whole numbers, as a shift of their count."""


def begin_sequence(k: ag.TileBuilder, shape: HeadShape) -> None:
    """The argument s becomes the length of the workgroup's sequence, and pointers go on to what its first token has. The workgroup ends
    where its own first token is none of the sequence. Changes SCC."""
    size = ag.element_bits(k.p.dtype) // 8
    strided: list[tuple[str, ag.Reg | int, int]] = [
        (name, k.argument(f"{name}_stride_s"), size.bit_length() - 1) for name in tensors_of(k.parameters)
        if not is_cache(k.parameters, name)]
    strided += [(name, 1, _WIDTHS[k.p.index]) for name in numbers_of(k.parameters)]
    with k.operation("the sequence's tokens"), k.scratch("span", 2, "s") as span, k.scratch("entry", file="s") as entry, \
            k.scratch("before", 2, "s") as before:
        k.s_lshl_b32(entry, k.ids["y"], _INT32_SHIFT)
        k.s_load_dwordx2(span, k.argument("cu_seqlens"), entry)
        for name, stride, shift in strided:
            pointer = k.argument(name)
            k.s_mul_i32(before[0], span[0], stride)
            k.s_mul_hi_u32(before[1], span[0], stride)
            k.s_lshl_b64(before, before, shift)
            k.s_add_u32(pointer[0], pointer[0], before[0])
            k.s_addc_u32(pointer[1], pointer[1], before[1])
        k.s_sub_u32(k.argument("s"), span[1], span[0])
    with k.scratch("first_token", file="s") as first:
        k.s_mul_i32(first, k.ids["x"], shape.tokens)
        end_beyond(k, first, "s")


def token_of_lane(k: ag.TileBuilder, shape: HeadShape, token: ag.Reg) -> None:
    """The number of each lane's token in its batch or sequence."""
    with k.scratch("first_token", file="s") as first:
        k.s_mul_i32(first, k.wave.register, shape.wave_tokens)
        k.v_lshrrev_b32(token, shape.across.bit_length() - 1, k.lane)
        k.v_add_u32(token, first, token)
        k.s_mul_i32(first, k.ids["x"], shape.tokens)
        k.v_add_u32(token, first, token)


def position_of_lane(k: ag.TileBuilder, position: ag.Reg) -> None:
    """The position of each lane's token, in place of its number; of one that does not exist any."""
    given = k.p.positions == "given"
    if not given and not k.p.offsets:
        return
    with k.scratch("own_offset") as offset:
        if k.p.offsets:
            number_of_token(k, offset, position, "offsets")
        if given:
            number_of_token(k, position, position, "positions")
        if k.p.offsets:
            k.v_add_u32(position, position, offset)


def number_of_token(k: ag.TileBuilder, out: ag.Reg, token: ag.Reg, name: str) -> None:
    """The number at pointer `name` of each lane's token, of int64 the lower half; 0 for one that does not exist."""
    shift = _WIDTHS[k.p.index]
    d = k.registers.sgprs(4, f"{name}_of_batch", note="descriptor")
    pointer = k.argument(name)
    if k.p.varlen:
        k.s_mov_b64(d[0:1], pointer)
    else:
        with k.scratch("batch_bytes", 2, "s") as far:
            k.s_mul_i32(far[0], k.ids["y"], k.argument("position_stride"))
            k.s_mul_hi_u32(far[1], k.ids["y"], k.argument("position_stride"))
            k.s_lshl_b64(far, far, shift)
            k.s_add_u32(d[0], pointer[0], far[0])
            k.s_addc_u32(d[1], pointer[1], far[1])
    k.s_lshl_b32(d[2], k.argument("s"), shift)
    k.s_mov_b32(d[3], ag.RAW_BUFFER)
    with k.scratch("number_byte") as at:
        k.v_lshlrev_b32(at, shift, token)
        k.buffer_load_dword(out, at, d, 0, offen=True)
    k.registers.release(f"{name}_of_batch")
