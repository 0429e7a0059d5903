"""Addresses of heads: the rows of a tensor that belong to one head of a batch, from pointers of 64 bits."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_backward.tensors import OF_KEYS
from asmgen.kernels.sequences.varlen import longest


def head_rows(k: ag.TileBuilder, tensor: str, batch: ag.Reg, head: ag.Reg, held: ag.Reg | None = None) -> ag.Matrix:
    """The rows of a head: sk rows of K, V, dK and dV, else sq. Its address takes the SGPRs of what it is `held` in. Changes SCC."""
    base = _pair(k, f"{tensor}_head", held)
    with k.scratch("far", 2, "s") as far:
        sides = ((base, head, "h"),) if k.p.varlen else ((base, batch, "b"), (far, head, "h"))
        for part, number, name in sides:
            k.s_mul_i32(part[0], number, k.argument(f"{tensor}_stride_{name}"))
            k.s_mul_hi_u32(part[1], number, k.argument(f"{tensor}_stride_{name}"))
        if not k.p.varlen:
            k.s_add_u32(base[0], base[0], far[0])
            k.s_addc_u32(base[1], base[1], far[1])
    k.s_lshl_b64(base, base, 1)
    _add_pointer(k, base, tensor)
    rows = k.argument("sk" if tensor in OF_KEYS else "sq")
    return ag.Matrix(tensor, k.p.dtype, base, rows, k.variant.d, k.argument(f"{tensor}_stride_s"), *k.limits(f"{tensor}_stride_s"),
                     empty=k.p.varlen, argument=tensor)


def _pair(k: ag.TileBuilder, name: str, held: ag.Reg | None) -> ag.Reg:
    """SGPRs for an address, those that something is held in that nothing reads any more, or new ones."""
    return k.registers.sgprs(2, name, align=2) if held is None else k.registers.share(name, held)


def head_number(k: ag.TileBuilder, out: ag.Reg, batch: ag.Reg, head: ag.Reg) -> None:
    """The number of a head of queries over all batches. Changes SCC."""
    k.s_mul_i32(out, batch, k.argument("hq"))
    k.s_add_u32(out, out, head)


def flat_head(k: ag.TileBuilder, pointer: str, batch: ag.Reg | None, head: ag.Reg, size: ag.Reg, each: int = 1,
              held: ag.Reg | None = None, width: int = 4) -> ag.Reg:
    """Where `size` * `each` elements of so many bytes of a head begin, that lie head after head; without a `batch` there is one. Changes
    SCC."""
    base = _pair(k, f"{pointer}_head", held)
    with k.scratch("number", file="s") as number, k.scratch("elements", file="s") as elements:
        if batch is None:
            k.s_mov_b32(number, head)
        else:
            head_number(k, number, batch, head)
        k.s_mul_i32(elements, size, each)
        k.s_mul_i32(base[0], number, elements)
        k.s_mul_hi_u32(base[1], number, elements)
    k.s_lshl_b64(base, base, width.bit_length() - 1)
    _add_pointer(k, base, pointer)
    return base


def _add_pointer(k: ag.TileBuilder, base: ag.Reg, argument: str) -> None:
    pointer = k.argument(argument)
    k.s_add_u32(base[0], pointer[0], base[0])
    k.s_addc_u32(base[1], pointer[1], base[1])


def count_blocks(k: ag.TileBuilder, out: ag.Reg, rows: int) -> None:
    """Blocks of so many queries, a power of two, in a head, where lengths vary in the longest one. Changes SCC."""
    k.s_add_u32(out, longest(k, "sq"), rows - 1)
    k.s_lshr_b32(out, out, (rows - 1).bit_length())
