"""What operations on tiles, element by element, work on: registers of the destination and of each source, checked to fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from asmgen.author.ops.vectors import Vector
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

Target = Tile | Vector
TileSource = Tile | Vector | Reg | int | float


def no_such(k: TileBuilder, name: str, dtype: str, types: Iterable[str]) -> TileError:
    """The error for an element type that an operation does not have."""
    return TileError(f"{name} does not exist for {dtype} on {k.arch}, only for {', '.join(types)}; convert(k, ...) to f32 first", k.here())


def element_operation(k: TileBuilder, name: str, out: Target, sources: Sequence[TileSource],
                      at: StepIndex | None) -> AbstractContextManager[None]:
    """An operation of that name on tiles, of the iteration of what it reads."""
    held = [source for source in sources if isinstance(source, (Tile, Vector))]
    reads = 0
    for source in held:
        reads |= source.registers.mask
    indices = [out.index, *(source.index for source in held)]
    return operation(k, f"{name} {out.name}", indices, reads=reads, writes=out.registers.mask, at=at)


def targets_of(k: TileBuilder, name: str, out: Target) -> Sequence[Reg]:
    """The registers of a destination. Raises TileError where they are no VGPRs."""
    if any(reg.file != "v" for reg in out.registers):
        raise TileError(f"{name}: {out} lies in AGPRs, which vector instructions neither read nor write; move(k, ...) it into VGPRs",
                        k.here())
    return out.registers.items


def operands_of(k: TileBuilder, name: str, out: Target, source: TileSource, any_file: bool = False,
                dtype: str = "") -> list[Reg | int | float]:
    """What each register of the destination is computed from; `dtype` is the source's type where it is another one of as many bits.

    Raises TileError where shapes, types or layouts differ.
    """
    count = out.registers.count
    if isinstance(source, (int, float)):
        return [source] * count
    if isinstance(source, Reg):
        if source.count != 1:
            raise TileError(f"{name}: {source} is {source.count} registers; a value for all elements is one SGPR or VGPR", k.here())
        return [source] * count
    if not any_file and any(reg.file == "a" for reg in source.registers):
        raise TileError(f"{name}: {source} lies in AGPRs, which vector instructions neither read nor write; move(k, ...) it into VGPRs",
                        k.here())
    if isinstance(source, Vector):
        return _of_vector(k, name, out, source, dtype or out.dtype)
    if not isinstance(out, Tile) or (source.rows, source.columns, source.dtype) != (out.rows, out.columns, dtype or out.dtype) \
            or not source.fragment.same_coordinates(out.fragment):
        raise TileError(f"{name}: {source} and {out} are not of one shape, type and layout; change_layout(k, ...) or convert(k, ...) "
                        "brings them together", k.here())
    return list(source.registers.items)


def _of_vector(k: TileBuilder, name: str, out: Target, source: Vector, dtype: str) -> list[Reg | int | float]:
    if isinstance(out, Vector):
        if out.axis != source.axis or not source.fits(out.fragment, out.size) or source.per != out.per or source.dtype != dtype:
            raise TileError(f"{name}: {source} and {out} are not of one axis, size, type and layout", k.here())
        return list(source.registers.items)
    size = out.rows if source.axis == "row" else out.columns
    if not source.fits(out.fragment, size):
        raise TileError(f"{name}: {source} does not fit {out}: its lanes hold other {source.axis}s, or more or fewer; make it with "
                        f"{source.axis}_vector(k, ..., {out.name})", k.here())
    if source.dtype != dtype or out.fragment.bits != 32:
        raise TileError(f"{name}: {source} is {source.dtype} and {out} is {out.dtype}; operations on both are of f32 or i32, so "
                        "convert(k, ...) what is not", k.here())
    return [source.of(out, row, column, item) for row, column in out.positions() for item in range(out.fragment.items)]
