"""Tensors of heads: a descriptor that shows a head of the workgroup's tokens and goes from head to head. Bases have 64 bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import asmgen as ag
from asmgen.kernels.rope.shape import HeadShape
from asmgen.kernels.rope.tensors import axes_of

_OF_WALK = ("first_head", "heads_left", "token", "tokens")


class HeadWalk:
    """The heads of a workgroup, of those that argument `heads` counts: `first`, and how many are `left` of them (signed). `tokens` of the
    workgroup's exist from `token` on."""

    def __init__(self, k: ag.TileBuilder, shape: HeadShape, heads: str) -> None:
        self.k, self.shape = k, shape
        self.first, self.left, self.token, self.tokens = (k.registers.sgprs(1, name) for name in _OF_WALK)
        k.s_mul_i32(self.token, k.ids["x"], shape.tokens)
        k.s_sub_u32(self.tokens, k.argument("s"), self.token)
        k.s_min_u32(self.tokens, self.tokens, shape.tokens)
        k.s_mul_i32(self.first, k.ids["z"], k.argument("each"))
        k.s_sub_u32(self.left, k.argument(heads), self.first)
        k.s_min_i32(self.left, self.left, k.argument("each"))

    def skip_if_none(self, label: str) -> None:
        """To the label where the workgroup has no head."""
        self.k.s_cmp_lt_i32(self.left, 1)
        self.k.s_cbranch_scc1(label)

    def look_ahead(self) -> None:
        """Count what is left from the next head on."""
        self.k.s_sub_u32(self.left, self.left, 1)

    def go_on(self, label: str) -> None:
        """To the label, if there is a head that was looked ahead to."""
        self.k.s_cmp_gt_i32(self.left, 0)
        self.k.s_cbranch_scc1(label)

    @contextmanager
    def if_any(self, label: str, asked: bool) -> Iterator[None]:
        """Code for a head that was looked ahead to; where it is not asked, for none too. Tensors that go on leave SCC so."""
        if asked:
            self.k.s_cbranch_scc0(label)
        yield
        if asked:
            self.k.label(label)

    def release(self) -> None:
        """Give its registers back."""
        for name in _OF_WALK:
            self.k.registers.release(name)


class HeadTensor:
    """The tensor at pointer argument `name` with its strides."""

    def __init__(self, walk: HeadWalk, name: str) -> None:
        k, shape = walk.k, walk.shape
        self.k, self.walk, self.shape, self.name = k, walk, shape, name
        self.dtype, self.inverse = str(k.p.dtype), None
        self.size = ag.element_bits(self.dtype) // 8
        stride = f"{name}_stride_s"
        matrix = ag.Matrix(name, k.p.dtype, k.argument(name), k.argument("s"), shape.d, k.argument(stride), *k.limits(stride),
                           multiple=shape.d)
        self.rows = matrix.rows(0, shape.tokens)
        self.descriptor = k.registers.sgprs(4, f"{name}_head", note="descriptor")
        self.step = k.registers.sgprs(2, f"{name}_head_bytes", align=2, note="from head to head")
        self.records = k.registers.sgprs(1, f"{name}_records")
        self.rows.shown_by(k, self.descriptor)
        self._begin()

    def _begin(self) -> None:
        k, d, walk = self.k, self.descriptor, self.walk
        shift = self.size.bit_length() - 1
        with k.scratch("elements", 2, "s") as sum_, k.scratch("part", 2, "s") as part:
            places = {"b": k.ids["y"], "s": walk.token, "h": walk.first}
            for number, axis in enumerate(axes_of(k.parameters, self.name)):
                target, stride = part if number else sum_, k.argument(f"{self.name}_stride_{axis}")
                k.s_mul_i32(target[0], places[axis], stride)
                k.s_mul_hi_u32(target[1], places[axis], stride)
                if number:
                    k.s_add_u32(sum_[0], sum_[0], part[0])
                    k.s_addc_u32(sum_[1], sum_[1], part[1])
            k.s_lshl_b64(sum_, sum_, shift)
            pointer = k.argument(self.name)
            k.s_add_u32(d[0], pointer[0], sum_[0])
            k.s_addc_u32(d[1], pointer[1], sum_[1])
        k.s_mov_b32(self.step[0], k.argument(f"{self.name}_stride_h"))
        k.s_mov_b32(self.step[1], 0)
        k.s_lshl_b64(self.step, self.step, shift)
        k.s_sub_u32(self.records, walk.tokens, 1)
        k.s_mul_i32(self.records, self.records, k.argument(f"{self.name}_stride_s"))
        k.s_add_u32(self.records, self.records, self.shape.d)
        k.s_lshl_b32(self.records, self.records, shift)
        k.s_mov_b32(d[2], self.records)
        k.s_mov_b32(d[3], ag.RAW_BUFFER)

    def go_on(self) -> None:
        """To the next head, to which the walk has looked ahead; it shows nothing where there is none."""
        k, d = self.k, self.descriptor
        k.s_add_u32(d[0], d[0], self.step[0])
        k.s_addc_u32(d[1], d[1], self.step[1])
        k.s_cmp_gt_i32(self.walk.left, 0)
        k.s_cselect_b32(d[2], self.records, 0)

    def load(self, parts: Sequence[ag.Tile], rest: Sequence[ag.Tile]) -> None:
        """A head of the wave's tokens."""
        for tile, column in zip((*parts, *rest), (*self.shape.starts, self.shape.rest_start), strict=False):
            ag.load(self.k, tile, self.rows, rows=self.k.wave, column=column, nontemporal=True)

    def store(self, parts: Sequence[ag.Tile]) -> None:
        """The rotated columns of a head."""
        for tile, column in zip(parts, self.shape.starts, strict=True):
            ag.store_tile(self.k, self.rows, tile, rows=self.k.wave, column=column, nontemporal=True)

    def store_rest(self, rest: Sequence[ag.Tile]) -> None:
        """Its other columns."""
        for tile in rest:
            ag.store_tile(self.k, self.rows, tile, rows=self.k.wave, column=self.shape.rest_start, nontemporal=True)

    def release(self) -> None:
        """Give its registers back."""
        for name in ("head", "head_bytes", "records"):
            self.k.registers.release(f"{self.name}_{name}")
