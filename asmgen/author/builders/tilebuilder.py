"""The builder with tiles: what a kernel of the library is written with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from asmgen.author.address.addressing import WaveIndex
from asmgen.author.emit.kernel import KernelBuilder
from asmgen.author.loop.overlap import Epilogue
from asmgen.author.loop.pipeline import Segments, pipeline
from asmgen.author.loop.stepunits import Shape, Step
from asmgen.author.schedule.schedules import Schedule
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import Copy
from asmgen.author.tiles.fragments import Fragment, MatrixShape, mfma
from asmgen.author.tiles.globals import Matrix, Rows, Slice, Walk
from asmgen.author.tiles.shared import SharedTile, shared
from asmgen.author.tiles.swizzles import Access, DmaFill
from asmgen.author.tiles.tiles import Tile, TileError, TileGrid, tile_registers
from asmgen.author.tiles.transposing import TransposedRead
from asmgen.isa.layouts_lds import DMA_BYTES
from asmgen.isa.placement import Placement
from asmgen.isa.registers import Reg
from asmgen.regalloc.sets import RegisterSet


class TileBuilder(KernelBuilder):
    """Adds tiles, shared tiles, matrices and pipelines to the builder of a kernel.

    `locate()` must have been called before anything that depends on lanes or waves.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.made: dict[object, object] = {}
        self.lane: Reg = self.work_item
        self.wave = WaveIndex("wave", self.kernarg[0], 1)
        self.filling: WaveIndex | None = None  # the waves that fill LDS where not all do
        self.sources: dict[Rows, int] = {}  # by how many iterations each is read ahead
        self.koffset: Reg | None = None
        self.offsets: dict[Rows, tuple[Reg, Copy]] = {}  # of producers' sources, and the copy of the step that counted last
        self.kbytes = 0
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
               serves: Sequence[Access] = (), placement: Placement | None = None, pads: bool = True) -> SharedTile:
        """A shared tile; see `asmgen.author.tiles.shared`."""
        for access in serves:
            if isinstance(access, DmaFill) and access.bytes_ not in DMA_BYTES[self.arch]:
                widths = ", ".join(map(str, DMA_BYTES[self.arch]))
                raise TileError(f"shared tile {name}: {self.arch} moves {widths} bytes a lane straight from memory to LDS, not "
                                f"{access.bytes_}; DmaFill({DMA_BYTES[self.arch][-1]}) would do, or load(k, ...) and write(k, ...)")
            if isinstance(access, TransposedRead) and self.arch != "gfx950":
                raise TileError(f"shared tile {name}: {self.arch} has no transposing reads; store it transposed and serve FragmentRead of "
                                "the transposed fragment")
        made = self.tiles[name] = shared(self, self.lds, name, dtype, rows, columns, stages, grid, serves, placement, pads)
        return made

    def matrix(self, name: str, dtype: str, rows: str, columns: str, stride: str) -> Matrix:
        """The matrix behind pointer argument `name`; the others name arguments too. The limits of the stride are the contract's."""
        return Matrix(name, dtype, self.argument(name), self.argument(rows), self.argument(columns), self.argument(stride),
                      *self.limits(stride))

    def limits(self, parameter: str) -> tuple[int, int | None]:
        """The smallest and the largest value of a whole number that the contract lets through: 0 and None where it says nothing."""
        for one in self.contract.parameters:
            if one.name == parameter:
                return int(one.minimum or 0), None if one.maximum is None else int(one.maximum)
        return 0, None

    def pipeline(self, step: Step | Segments, count: Reg | int | None, schedule: Schedule, groups: Reg | None = None,
                 peel: int = 0, least: tuple[int, int] | None = None, epilogue: Epilogue | None = None,
                 early_exit: Reg | None = None) -> Shape:
        """Emit the loop; see `asmgen.author.loop.pipeline`."""
        return pipeline(self, step, count, schedule, groups, peel, least, epilogue, early_exit)

    def locate(self, waves: int) -> None:
        """Lane and wave from the work-item's number, for a workgroup of `waves` waves in one dimension."""
        lane = self.registers.vgprs(1, "lane")
        wave = self.registers.sgprs(1, "wave")
        with self.scratch("number") as number:
            self.v_lshrrev_b32(number, 6, self.work_item)
            self.v_readfirstlane_b32(wave, number)
        self.v_and_b32(lane, 63, self.work_item)
        self.lane, self.wave = lane, WaveIndex("wave", wave, waves)

    def cast(self, producers: int) -> Reg:
        """Give the last waves the role of filling LDS: from here on `wave` counts the others. The SGPR that is 1 for `producers`, else 0.

        Changes SCC. Raises TileError where no wave is left for the other role.
        """
        wave = self.wave
        consumers = wave.count - producers
        if producers < 1 or consumers < 1:
            raise TileError(f"of {wave.count} waves {producers} cannot fill LDS while others work; 1 to {wave.count - 1} can", self.place())
        role, filling = self.registers.sgprs(1, "role", note="1: fills LDS"), self.registers.sgprs(1, "producer")
        self.s_sub_u32(filling, wave.register, consumers)
        self.s_cmp_ge_u32(wave.register, consumers)
        self.s_cselect_b32(role, 1, 0)
        self.wave, self.filling = WaveIndex(wave.name, wave.register, consumers), WaveIndex(wave.name, filling, producers)
        return role

    def forget(self, *kinds: str) -> None:
        """Release the registers of addresses that operations of these kinds ("load", "lane places") made: later ones make their own."""
        for key, held in list(self.made.items()):
            if isinstance(key, tuple) and key[0] in kinds:
                for one in held.values() if isinstance(held, dict) else [held]:
                    assert isinstance(one, Reg)
                    self.registers.release(one)
                del self.made[key]

    def wave_grid(self, rows: int, columns: int) -> tuple[WaveIndex, WaveIndex]:
        """(row, column) of the wave in a grid of waves, columns innermost."""
        wm, wn = self.registers.sgprs(1, "wave_row"), self.registers.sgprs(1, "wave_column")
        if columns & (columns - 1) or rows * columns != self.wave.count:
            raise TileError(f"{self.wave.count} waves are no grid of {rows} x {columns} with a power of two in a row", self.place())
        self.s_lshr_b32(wm, self.wave.register, (columns - 1).bit_length())
        self.s_and_b32(wn, self.wave.register, columns - 1)
        return WaveIndex("wave_row", wm, rows), WaveIndex("wave_column", wn, columns)

    def advance(self, source: Slice, columns: int, fills: bool = False) -> Reg | int:
        """The SGPR of how far a source has gone along K, in bytes, `columns` a step; 0 where the source does not belong to a step.

        One goes on for all sources when a step ends. But where some waves do nothing but fill, each source that they fill from (`fills`)
        has its own, which goes on here and now. Raises TileError where sources of one loop go at different paces, one is read for two
        iterations, or one with an offset of its own twice in a step.
        """
        if source.index is None:
            return 0
        if isinstance(source.rows, Walk):
            if source.rows not in self.walks:
                self.walks.append(source.rows)
            return source.rows.offset_of(self, source.index)
        pace = columns * source.rows.matrix.bits // 8
        if self.kbytes not in (0, pace):
            raise TileError(f"{source} goes {pace} bytes a step along K, but other sources of this loop go {self.kbytes}", self.place())
        self.kbytes = pace
        known = self.sources.setdefault(source.rows, source.index.offset)
        if known != source.index.offset:
            raise TileError(f"{source} was read for t+{known} before: a view serves one iteration ahead", self.place())
        if fills and self.filling is not None:
            return self._own_offset(source, source.index.copy)
        if self.koffset is None:
            self.koffset = self.hoist(lambda: self.registers.sgprs(1, "k_offset", note="bytes that all sources have gone along K"))
        return self.koffset

    def _own_offset(self, source: Slice, copy: Copy) -> Reg:
        """A producer's source one step on."""
        rows = source.rows
        offset, counted = self.offsets.get(rows, (None, None))
        if counted is copy:
            raise TileError(f"{source} fills twice in a step, and counts its steps by that: another view of the same rows would do",
                            self.place())
        if offset is None:
            name = self.registers.unused(f"{rows.matrix.name}_gone")
            offset = self.hoist(lambda: self.registers.sgprs(1, name, note="bytes gone along K"))
        self.offsets[rows] = offset, copy
        self.s_add_u32(offset, offset, self.kbytes)
        return offset

    @property
    def waves_per_simd(self) -> int:
        """Waves of a workgroup on one SIMD."""
        return -(-self.wave.count // 4)

    def loop_begins(self, ahead: int) -> None:
        """Each source's base goes back by the iterations that it lags behind the farthest, so that one offset serves all."""
        for walk in self.walks:
            walk.begin(self, ahead)
        if self.koffset is not None:
            self.s_mov_b32(self.koffset, 0)
        for rows, offset in self.sources.items():
            back = (ahead - offset) * self.kbytes
            if rows in self.offsets:  # it goes on before its first use
                self.s_mov_b32(self.offsets[rows][0], back - self.kbytes)
            if back:
                for slack, base in rows.descriptors.items():
                    rows.check_reach(self, slack, back)
                    self.s_sub_u32(base[0], base[0], back)
                    self.s_subb_u32(base[1], base[1], 0)
                    self.s_add_u32(base[2], base[2], back)

    def step_ends(self) -> None:
        """All sources one step on."""
        for walk in self.walks:
            walk.go_on(self)
        if self.koffset is not None:
            self.s_add_u32(self.koffset, self.koffset, self.kbytes)

    def follows_sources(self, unit: Unit) -> bool:
        """Whether a unit's addresses have the sources' offset in them."""
        offsets = [walk.gone for walk in self.walks] + [self.koffset]
        return any(offset is not None and unit.effects.reads & offset.mask for offset in offsets)
