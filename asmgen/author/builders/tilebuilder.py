"""The builder with tiles and pipelines, with which kernels are written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from asmgen.author.address.addressing import WaveIndex
from asmgen.author.emit.kernel import Kept, Kernel, KernelBuilder
from asmgen.author.loop.argumentwait import fill_argument_wait
from asmgen.author.loop.chainedpaths import Chain
from asmgen.author.loop.overlap import Then
from asmgen.author.loop.pipeline import check_written, pipeline
from asmgen.author.loop.rounds import barrier_between_rounds
from asmgen.author.loop.stepunits import Shape, Step
from asmgen.author.schedule.schedules import Schedule
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import Copy
from asmgen.author.tiles.columnwalk import ClosingWalks, ColumnWalk
from asmgen.author.tiles.fragments import Fragment, MatrixShape, mfma
from asmgen.author.tiles.globals import Matrix, Rows, Slice, Walk, packed_matrix
from asmgen.author.tiles.shared import SharedTile, shared
from asmgen.author.tiles.swizzles import Access, DmaFill, FragmentRead
from asmgen.author.tiles.tiles import Tile, TileError, TileGrid, tile_registers
from asmgen.author.tiles.transposing import TransposedRead
from asmgen.author.tiles.views import block_fragment, bytes_of, with_dtype
from asmgen.isa.arch import LANES, SIMDS
from asmgen.isa.layouts_lds import DMA_BYTES
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.placement import Placement
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction
from asmgen.regalloc.sets import RegisterSet


class TileBuilder(KernelBuilder):
    """Adds tiles, shared tiles, matrices and pipelines to the builder of a kernel.

    `lane` and `wave` are computed where they are first used.
    """

    def __init__(self, *arguments: Any, fills_argument_wait: bool = False, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._fills_argument_wait = fills_argument_wait
        self._lane: Reg | None = None
        self._wave: WaveIndex | None = None
        self.filling: WaveIndex | None = None  # the waves that fill LDS, if not all do
        self.columns: dict[int, ColumnWalk] = {}  # of the loop that is emitted now, by the bytes of a step
        self.offsets: dict[Rows, tuple[Reg, Copy]] = {}  # of producers' sources: the offset, and the copy of the step that advanced it last
        self.walks: list[Walk] = []

    def matrix_shape(self, shape: str, **formats: int) -> MatrixShape:
        """The matrix instruction v_mfma_SHAPE on this architecture."""
        return mfma(shape, self.arch, **formats)

    def tile(self, name: str, rows: int, columns: int, fragment: Fragment, at: Reg | Sequence[Reg] | RegisterSet | None = None,
             grid: Sequence[int] = (), stages: int = 1, file: str = "v", note: str = "", shares: Tile | None = None) -> Any:
        """A register tile, or a grid of them: pinned `at` registers, or from the pool, or in the registers of the tile that it `shares`.

        Tiles that share registers never read what the other one wrote. Raises TileError or PlanError.
        """
        size = tile_registers(rows, columns, fragment, name)
        cells = list(itertools.product(range(stages), *map(range, grid)))
        total = size * len(cells)
        if shares is not None:
            if shares.registers.count != total:
                raise TileError(f"tile {name} takes {total} registers; {shares}, which it shares, has {shares.registers.count}")
            held = self.registers.share(name, shares.registers, note)
        elif at is None:
            held = self.registers.pooled(name, total, file, fragment.registers, note)
        else:
            pinned = self.registers.pin(name, at if isinstance(at, Reg) else tuple(at), note)
            held = pinned if isinstance(pinned, RegisterSet) else RegisterSet((pinned,))
        tiles = []
        for number, cell in enumerate(cells):
            part = held[number * size:number * size + size - 1]
            label = "".join(f"[{index}]" for index in (cell if stages > 1 else cell[1:]))
            tiles.append(Tile(f"{name}{label}", rows, columns, fragment, part if isinstance(part, RegisterSet) else RegisterSet((part,))))
        made = self.tiles[name] = tiles[0] if stages == 1 and not grid else TileGrid(name, tuple(grid), stages, tuple(tiles))
        return made

    def shared(self, name: str, dtype: str, rows: int, columns: int, stages: int = 1, grid: Sequence[int] = (),
               serves: Sequence[Access] = (), placement: Placement | None = None, pads: bool = True,
               conflicts: int = 0) -> SharedTile:
        """A shared tile; see `asmgen.author.tiles.shared`. Of 4 and 6 bits its columns count elements; it lies and is served as bytes."""
        for access in serves:
            if isinstance(access, DmaFill) and access.bytes_ not in DMA_BYTES[self.arch]:
                widths = ", ".join(map(str, DMA_BYTES[self.arch]))
                raise TileError(f"shared tile {name}: {self.arch} moves {widths} bytes a lane straight from memory to LDS, not "
                                f"{access.bytes_}; DmaFill({DMA_BYTES[self.arch][-1]}) would do, or load(k, ...) and write(k, ...)")
            if isinstance(access, TransposedRead) and self.arch != "gfx950":
                raise TileError(f"shared tile {name}: {self.arch} has no transposing reads; store it transposed and serve FragmentRead of "
                                "the transposed fragment")
        bits, of = element_bits(dtype), ""
        if bits % 8:
            if columns * bits % 8:
                raise TileError(f"shared tile {name}: rows of {columns} elements of {bits} bits are no whole bytes")
            serves = [replace(one, fragment=bytes_of(one.fragment)) if isinstance(one, FragmentRead) and one.fragment.bits == bits else one
                      for one in serves]
            dtype, columns, of = "i8", columns * bits // 8, dtype
        made = self.tiles[name] = shared(self, self.lds, name, dtype, rows, columns, stages, grid, serves, placement, pads, of,
                                         conflicts)
        return made

    def matrix(self, name: str, dtype: str, rows: str | int, columns: str | int, stride: str | int) -> Matrix:
        """The matrix at pointer argument `name`; `rows`, `columns` and `stride` name arguments too, or are numbers. The contract has the
        limits of the stride; with a stride of 0 all rows are one. Sizes count elements, of 4 and 6 bits too, whose rows are whole bytes."""
        down, across, apart = (one if isinstance(one, int) else self.argument(one) for one in (rows, columns, stride))
        limits = (stride, stride) if isinstance(stride, int) else self.limits(stride)
        multiple = columns if isinstance(columns, int) else self._multiple(columns)
        made = Matrix(name, dtype, self.argument(name), down, across, apart, *limits, multiple)
        return packed_matrix(self, made) if made.bits % 8 else made

    def _multiple(self, parameter: str) -> int:
        """What an integer is a multiple of by the contract."""
        return next((one.multiple_of for one in self.contract.parameters if one.name == parameter), 1)

    def line(self, name: str, dtype: str, size: str | int) -> Rows:
        """`size` neighbouring elements at pointer argument `name`, as one row: what `load` takes vectors from."""
        return self.matrix(name, dtype, 1, size, 0).rows(0, 1)

    def lanes(self, dtype: str, columns: int, across: int, rows: int = 1) -> Fragment:
        """The fragment of row kernels: a lane holds `rows` x `columns` neighbours, `across` lanes stand side by side. Raises TileError as
        `block_fragment` does."""
        return with_dtype(block_fragment(with_dtype(mfma("f32_32x32x8_f16", self.arch).a, dtype), rows, columns, across), dtype)

    def limits(self, parameter: str) -> tuple[int, int | None]:
        """The smallest and the largest value that the contract allows for an integer; 0 and None if it has no limit."""
        for one in self.contract.parameters:
            if one.name == parameter:
                return int(one.minimum or 0), None if one.maximum is None else int(one.maximum)
        return 0, None

    def pipeline(self, step: Step, count: Reg | int, schedule: Schedule, groups: Reg | None = None, plain: Reg | int | None = None,
                 then: Then | None = None, early_exit: Reg | None = None, ends_plain: bool = False, empty: bool = False,
                 few: bool = False, chain: Chain | None = None, masked_end: int | None = None,
                 meanwhile: Callable[[], None] | None = None) -> Shape:
        """Emit the loop; see `asmgen.author.loop.pipeline`."""
        check_written(self, {"count": count, "plain": plain, "groups": groups, "early_exit": early_exit})
        return pipeline(self, step, count, schedule, groups, plain, then, early_exit, ends_plain, empty, few, chain, masked_end, meanwhile)

    def barrier_between_rounds(self, label: str) -> None:
        """A barrier, if code that runs again from `label` on needs one; see `asmgen.author.loop.rounds`."""
        barrier_between_rounds(self, label)

    def finish(self, waits: str = "auto", wait_states: str = "auto") -> Kernel:
        """Run the passes and return the finished kernel; see `KernelBuilder`. Where the family says so, code that needs no argument moves
        before the first that does (`asmgen.author.loop.argumentwait`)."""
        if self._fills_argument_wait:
            fill_argument_wait(self, self.waves_per_simd)
        return super().finish(waits, wait_states)

    @property
    def lane(self) -> Reg:
        """A VGPR with the lane's number in its wave."""
        self._locate()
        assert self._lane is not None
        return self._lane

    @property
    def wave(self) -> WaveIndex:
        """The wave's number in its workgroup."""
        self._locate()
        assert self._wave is not None
        return self._wave

    def _locate(self) -> None:
        """Compute lane and wave from the work-item's number, for a workgroup in one dimension.

        Raises TileError for a workgroup of other dimensions, and after a branch or within a block, which not all waves may pass.
        """
        if self._wave is not None:
            return
        x, y, z = self.contract.workgroup
        if (y, z) != (1, 1):
            raise TileError(f"lane and wave are numbers in a workgroup of one dimension; this one has {x} x {y} x {z} work-items",
                            self.here())
        if x <= LANES:
            self._lane, self._wave = self.work_item, WaveIndex("wave", 0, 1)
            return
        parted = next((item for item in self.items[self.begun:self.step_start if self.copy is not None else None]
                       if isinstance(item, Instruction) and item.is_branch), None)
        if parted is not None or self._open_block and self.copy is None:
            after = f"after the branch at {parted.where()}" if parted is not None else "within a block"
            raise TileError(f"the wave's number is first asked for {after}, which not all waves may pass: name k.wave before it",
                            self.here())
        self._lane, self._wave = self.hoist(lambda: self._located(-(-x // LANES)))

    def _located(self, waves: int) -> tuple[Reg, WaveIndex]:
        lane, wave = self.registers.vgprs(1, "lane"), self.registers.sgprs(1, "wave")
        with self.operation("lane and wave"), self.scratch("number") as number:
            self.v_lshrrev_b32(number, 6, self.work_item)
            self.v_readfirstlane_b32(wave, number)
            self.v_and_b32(lane, LANES - 1, self.work_item)
        self.registers.spare(self.work_item, briefly=True)
        return lane, WaveIndex("wave", wave, waves)

    def cast(self, producers: int) -> Reg:
        """Make the last waves producers, which fill LDS. From here on `wave` counts the other waves.

        Returns an SGPR that is 1 in producers, else 0. Changes SCC. Raises TileError if no wave is left for the other role.
        """
        wave = self.wave
        consumers = wave.count - producers
        if producers < 1 or consumers < 1:
            raise TileError(f"{producers} of {wave.count} waves cannot be producers; 1 to {wave.count - 1} can", self.here())
        role, filling = self.registers.sgprs(1, "role", note="1: fills LDS"), self.registers.sgprs(1, "producer")
        self.s_sub_u32(filling, wave.register, consumers)
        self.s_cmp_ge_u32(wave.register, consumers)
        self.s_cselect_b32(role, 1, 0)
        self._wave, self.filling = WaveIndex(wave.name, wave.register, consumers), WaveIndex(wave.name, filling, producers)
        return role

    def forget(self, *kinds: str) -> None:
        """Release the registers of addresses that operations of these kinds ("load", "lane places", "lds bases") made; later operations
        make their own."""
        for key, held in list(self.made.items()):
            if isinstance(key, tuple) and key[0] in kinds:
                for one in _registers_of(held):
                    if self.registers.holds(one):
                        self.registers.release(one)
                del self.made[key]

    def wave_grid(self, rows: int, columns: int) -> tuple[WaveIndex, WaveIndex]:
        """(row, column) of the wave in a grid of waves, columns innermost."""
        wm, wn = self.registers.sgprs(1, "wave_row"), self.registers.sgprs(1, "wave_column")
        if rows * columns != self.wave.count:
            raise TileError(f"wave_grid({rows}, {columns}) needs {rows * columns} waves; this kernel has {self.wave.count}", self.here())
        if columns & (columns - 1):
            raise TileError(f"wave_grid({rows}, {columns}) needs a power of two as the number of columns", self.here())
        self.s_lshr_b32(wm, self.wave.register, (columns - 1).bit_length())
        self.s_and_b32(wn, self.wave.register, columns - 1)
        return WaveIndex("wave_row", wm, rows), WaveIndex("wave_column", wn, columns)

    def advance(self, source: Slice, columns: int, fills: bool = False) -> Reg | int:
        """The SGPR with the byte offset of a source along K; 0 if the source does not belong to a step. A step advances by `columns`.

        All sources of one pace share an offset, which advances when a step ends. With producers, each source that they fill from (`fills`)
        has its own offset, which advances here. Raises TileError if a source goes at two paces, if one is read for two iterations, or if a
        source with its own offset is read twice in a step.
        """
        if source.index is None:
            return 0
        if isinstance(source.rows, Walk):
            if source.rows not in self.walks:
                self.walks.append(source.rows)
            return source.rows.offset_of(self, source.index)
        pace = columns * source.rows.matrix.bits // 8
        other = next((one for one in self.columns.values() if source.rows in one.ahead and one.bytes_ != pace), None)
        if other is not None:
            raise TileError(f"{source} goes {pace} bytes a step along K, but went {other.bytes_} before: another view of the same rows "
                            "would do", self.here())
        walk = self.columns.setdefault(pace, ColumnWalk(pace))
        known = walk.ahead.setdefault(source.rows, source.index.offset)
        if known != source.index.offset:
            raise TileError(f"{source} was read for t+{known} before: a view serves one iteration ahead", self.here())
        if fills and self.filling is not None:
            return self._own_offset(source, source.index.copy, pace)
        return walk.take(self, alone=len(self.columns) == 1)

    def _own_offset(self, source: Slice, copy: Copy, pace: int) -> Reg:
        """Advance a producer's source by a step."""
        rows = source.rows
        offset, counted = self.offsets.get(rows, (None, None))
        if counted is copy:
            raise TileError(f"{source} fills twice in a step, and counts its steps by that: another view of the same rows would do",
                            self.here())
        if offset is None:
            name = self.registers.unused(f"{rows.matrix.name}_gone")
            offset = self.hoist(lambda: self.registers.sgprs(1, name, note="bytes gone along K"))
        self.offsets[rows] = offset, copy
        self.s_add_u32(offset, offset, pace)
        return offset

    @property
    def waves_per_simd(self) -> int:
        """The number of waves of a workgroup on one SIMD."""
        waves = -(-self.contract.workgroup[0] // LANES) if self._wave is None else self._wave.count
        return -(-waves // SIMDS)

    def loop_begins(self, ahead: int) -> None:
        """Move each source along K back by its distance to the farthest one, so that one offset serves all, and begin the walks."""
        for walk in self.walks:
            walk.begin(self, ahead)
        for columns in self.columns.values():
            for rows in columns.ahead:
                if rows in self.offsets:  # it advances before its first use
                    self.s_mov_b32(self.offsets[rows][0], (ahead - columns.ahead[rows] - 1) * columns.bytes_)
            columns.begin(self, ahead)

    def loop_ends(self) -> None:
        """The loop's sources along K are spent: later uses of their rows make descriptors of their own. Walks begin again in other
        loops."""
        for columns in self.columns.values():
            columns.spare(self)
            for rows in columns.ahead:
                rows.descriptors.clear()
        for walk in self.walks:
            walk.ahead = None
        self.columns.clear()
        self.offsets.clear()
        self.walks.clear()

    def step_ends(self, step: int = 0, count_and_room: tuple[Reg, Reg] | None = None) -> None:
        """Advance all sources by a step; walks, if there is a count, only to iterations that exist, `step` being the next step's number."""
        for walk in self.walks:
            walk.go_on(self, step, count_and_room)
        for columns in self.columns.values():
            columns.go_on(self)

    def sources_hold_back(self) -> bool:
        """Whether all sources are walks, each with an offset of its own."""
        return not self.columns

    def closing(self) -> ClosingWalks | None:
        """The sources, if all of them can close."""
        every = ClosingWalks(tuple(self.columns.values()))
        return every if every.walks and every.closes and not self.walks and not self.offsets else None

    def chained(self) -> ClosingWalks | None:
        """The sources, if all of them can go over to the next item of a chain."""
        every = ClosingWalks(tuple(self.columns.values()), tuple(self.walks))
        return every if every.goes_over and not self.offsets else None

    def follows_sources(self, unit: Unit) -> bool:
        """Whether a unit's addresses depend on the sources' offset."""
        offsets = [walk.gone for walk in self.walks] + [columns.offset for columns in self.columns.values()]
        return any(offset is not None and unit.effects.reads & offset.mask for offset in offsets)


def _registers_of(made: object) -> list[Reg]:
    """The registers of what operations computed once."""
    if isinstance(made, Kept):
        return _registers_of(made.value)
    if isinstance(made, dict | list | tuple):
        parts = made.values() if isinstance(made, dict) else made
        return [register for part in parts for register in _registers_of(part)]
    return [made] if isinstance(made, Reg) else []
