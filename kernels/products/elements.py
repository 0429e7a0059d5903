"""A feed that loads element by element: for strides and lengths that no wider load serves, of either layout, on any architecture.

A lane collects 16 bytes of a row of K, an element in each of its registers, packs them, and writes them to LDS, where rows lie as they are
read. Columns of K beyond the last one are 0; rows beyond the last one show the last one, and nothing of them is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.products.feed import Feed
from asmgen.kernels.products.layouts import by_columns
from asmgen.kernels.products.sides import side

_WIDTH, _ACROSS = 16, 8  # bytes of a lane; lanes side by side along K
_OUTSIDE = 0xFFFFE000  # an offset that the descriptor does not show
_LOAD = {8: "buffer_load_ubyte", 16: "buffer_load_ushort"}


@dataclass(frozen=True)
class _Source:
    """A half's elements: a descriptor that goes on along K, how many columns of K are left, and each lane's first offset."""

    descriptor: ag.Reg
    left: ag.Reg
    offset: ag.Reg


class ElementFeed(Feed):
    """See above. `staged` are the elements of each half, a register each, `blocks` what they are packed to."""

    def begin(self, matrix: ag.Matrix, first: ag.Reg) -> None:
        """The workgroup's rows are those from `first` on."""
        k, size = self.k, matrix.bits // 8
        columns = by_columns(k.parameters, side(k.parameters, self.name.lower()))
        rows = matrix.columns_register if columns else matrix.rows_register
        left = matrix.rows_register if columns else matrix.columns_register
        stride = matrix.stride_bytes(k)
        table = self.blocks.fragment.table[0]
        self.column = ag.emit_address(k, f"{self.name}_column", lambda lane: table[lane][1], k.lane)
        self.pitch = k.registers.sgprs(1, f"{self.name}_pitch", note="bytes from one column of K to the next")
        self.pace = k.registers.sgprs(2, f"{self.name}_pace", note="bytes of a step along K", align=2)
        k.s_mov_b32(self.pitch, stride if columns else size)
        k.s_mul_i32(self.pace[0], self.pitch, self.depth)
        k.s_mul_hi_u32(self.pace[1], self.pitch, self.depth)
        self.halves = [self._source(matrix, half, first, rows, left, size if columns else stride, table) for half in range(2)]

    def _source(self, matrix: ag.Matrix, half: int, first: ag.Reg, rows: ag.Reg | int, left: ag.Reg | int, apart: ag.Reg | int,
                table: tuple[tuple[int, int], ...]) -> _Source:
        """A half's source; its rows lie `apart` bytes apart."""
        k, own = self.k, self.rows // self.k.wave.count
        made = _Source(k.registers.sgprs(4, f"{self.name}_elements{half}", align=4), k.registers.sgprs(1, f"{self.name}_left{half}"),
                       k.registers.vgprs(1, f"{self.name}_offset{half}"))
        with k.scratch("first_row", file="s") as at, k.scratch("last_row", file="s") as last, k.scratch("along_k") as along:
            k.s_sub_u32(last, rows, 1)
            k.s_add_u32(at, first, half * self.rows)
            k.s_min_u32(at, at, last)
            k.s_sub_u32(last, last, at)
            k.s_mul_i32(made.descriptor[0], at, apart)
            k.s_mul_hi_u32(made.descriptor[1], at, apart)
            k.s_add_u32(made.descriptor[0], matrix.pointer[0], made.descriptor[0])
            k.s_addc_u32(made.descriptor[1], matrix.pointer[1], made.descriptor[1])
            k.s_mov_b32(made.descriptor[2], _OUTSIDE)
            k.s_mov_b32(made.descriptor[3], ag.RAW_BUFFER)
            k.s_mov_b32(made.left, left)
            row = ag.emit_address(k, f"{self.name}_row{half}", lambda lane, **wave: table[lane][0] + own * sum(wave.values()), k.lane,
                                  (k.wave,))
            k.v_min_u32(row, last, row)
            k.v_mul_lo_u32(row, row, apart)
            k.v_mul_lo_u32(along, self.column, self.pitch)
            k.v_add_u32(made.offset, row, along)
            k.registers.release(row)
        k.shows(made.descriptor, matrix.pointer)
        return made

    def refill(self, t: ag.StepIndex, half: int) -> None:
        """A half of an iteration gets what was loaded before, and the next iteration's elements are asked for."""
        k, held, packed = self.k, self.staged[half], self.blocks
        together = 32 // packed.fragment.bits
        with ag.operation(k, f"pack {held.name}", [t], reads=held.registers.mask, writes=packed.registers.mask):
            for number, target in enumerate(packed.registers.items):
                parts = held.registers.items[number * together:(number + 1) * together]
                k.v_lshl_or_b32(target, parts[-1], packed.fragment.bits, parts[-2])
                for part in parts[-3::-1]:
                    k.v_lshl_or_b32(target, target, packed.fragment.bits, part)
        ag.write(k, self.shared[t, half].part(k.wave), packed)
        self._ask(t + 1, half)

    def _ask(self, t: ag.StepIndex, half: int) -> None:
        """Load the elements of an iteration and go on."""
        k, source, held = self.k, self.halves[half], self.staged[half]
        with ag.operation(k, f"load {held.name}", [t], writes=held.registers.mask), k.scratch("columns_left", file="s") as left, \
                k.scratch("bytes_on", file="s") as on, k.scratch("inside") as inside:
            k.s_mov_b32(on, 0)
            for item, target in enumerate(held.registers.items):
                k.s_sub_u32(left, source.left, item)
                k.v_cmp_gt_i32(ag.vcc, left, self.column)
                k.v_mov_b32(inside, _OUTSIDE)
                k.v_cndmask_b32(inside, inside, source.offset, ag.vcc)
                k.emit(_LOAD[self.blocks.fragment.bits], target, inside, source.descriptor, on, offen=True)
                k.s_add_u32(on, on, self.pitch)
            k.s_add_u32(source.descriptor[0], source.descriptor[0], self.pace[0])
            k.s_addc_u32(source.descriptor[1], source.descriptor[1], self.pace[1])
            k.s_sub_u32(source.left, source.left, self.depth)


def element_feed(k: ag.TileBuilder, name: str, fragment: ag.Fragment, rows: int, stages: int) -> ElementFeed:
    """The feed of halves of `rows` rows that are read as `fragment`."""
    depth, own = k.variant.tile[2], rows // k.variant.wave_count
    line = ag.block_fragment(fragment, 1, 8 * _WIDTH // fragment.bits, _ACROSS)
    staged = k.tile(f"R{name}", own, depth, ag.with_dtype(line, "f32"), grid=(2,), note="elements on their way to LDS")
    packed = k.tile(f"P{name}", own, depth, line, note="packed")
    shared = k.shared(f"{name}s", fragment.dtype, rows, depth, stages=stages, grid=(2,),
                      serves=(ag.FragmentRead(fragment), ag.FragmentRead(line, write=True)), pads=False)
    return ElementFeed(k, name, rows, depth, shared, staged, None, (), packed)
