"""Products whose D is stored by columns: the same kernel computes D^T = B A^T, so each side of it has the other one's arguments.

`side(build, "m")` is the parameter or argument that counts rows of what the kernel's code calls D: n, where D is stored by columns.
"""

from __future__ import annotations

import asmgen as ag

_PAIRS = (("a", "b"), ("m", "n"), ("lda", "ldb"), ("a_scale", "b_scale"), ("a_dtype", "b_dtype"), ("a_layout", "b_layout"),
          ("a_stride_batch", "b_stride_batch"))
_OTHER = {name: other for pair in _PAIRS for name, other in (pair, pair[::-1])}


def d_by_columns(build: ag.Values) -> bool:
    """Whether D is stored by columns."""
    return bool(build.get("d_layout") == "column")


def side(build: ag.Values, name: str) -> str:
    """The caller's name of what the kernel's code calls `name`."""
    return _OTHER.get(name, name) if d_by_columns(build) else name


def argument(k: ag.TileBuilder, name: str) -> ag.Reg:
    """The argument that the kernel's code calls `name`."""
    return k.argument(side(k.parameters, name))


def result(k: ag.TileBuilder, name: str) -> ag.Matrix:
    """C or D as the kernel's code sees it: with the rows that lie side by side in memory."""
    return k.matrix(name, k.p.out, rows=side(k.parameters, "m"), columns=side(k.parameters, "n"), stride=f"ld{name}")


def edges(p: ag.Values) -> tuple[int, int]:
    """Rows and columns of what the kernel's code calls D."""
    return p[side(p, "m")], p[side(p, "n")]


def divide_by_edge(k: ag.TileBuilder, number: ag.Reg, edge: int) -> None:
    """number /= edge, for an edge of 64 times a power of two, or three times that."""
    k.s_lshr_b32(number, number, (edge & -edge).bit_length() - 1)
    if edge & (edge - 1):
        k.s_mul_hi_u32(number, number, 0x55555556)
