"""Kernels of tile operations on the emulator: tiles come in and go out register by register, places taken from the instruction's layout.

    run = TileRun("gfx950")
    x = run.tile("x", (64, 32), M.d, values)       # loaded, a dword a lane
    exp2(run.k, x, x)
    run.give(x)
    run.finish()[0]                                # the tile's values as float64
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.contract.contract import ContractArgument, Formula, KernelContract
from asmgen.author.emit.kernel import Kernel
from asmgen.author.ops.vectors import Vector, profile
from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.tiles import Tile
from asmgen.checks.lint.linting import lint_file
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.arch import architecture
from asmgen.isa.formats import decode, encode, hardware_format
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.registers import Reg
from tests.emulator_launch import Launched, launch

Array = np.ndarray[Any, Any]
POINTERS = 12


def codes_of(values: Array, dtype: str, arch: str) -> Array:
    """The bits of each element, nearest even."""
    if dtype in ("i8", "i32"):
        return np.asarray(values).astype(np.int64).astype(np.uint32) & np.uint32(0xFF if dtype == "i8" else 0xFFFFFFFF)
    if dtype == "f32":
        return np.asarray(values, np.float32).view(np.uint32)
    if dtype in ("f16", "bf16"):
        return np.asarray(encode(np.asarray(values, np.float32), dtype, "nearest_even", False)).astype(np.uint32)
    return np.asarray(encode(np.asarray(values, np.float32), small(dtype, arch), "nearest_even", True)).astype(np.uint32)


def values_of(codes: Array, dtype: str, arch: str) -> Array:
    """What elements mean, as float64."""
    codes = np.asarray(codes, np.uint32)
    if dtype == "i8":
        return codes.astype(np.uint8).view(np.int8).astype(np.float64)
    if dtype == "i32":
        return codes.view(np.int32).astype(np.float64)
    if dtype == "f32":
        return codes.view(np.float32).astype(np.float64)
    fmt = dtype if dtype in ("f16", "bf16") else small(dtype, arch)
    return np.asarray(decode(codes, fmt)).astype(np.float64)


def small(dtype: str, arch: str) -> Any:
    """The format that a small type is on that architecture."""
    return hardware_format(dtype, architecture(arch))


def rounded(values: Array, dtype: str, arch: str) -> Array:
    """The values as the type has them."""
    return values_of(codes_of(values, dtype, arch), dtype, arch)


def registers_of(values: Array, fragment: Fragment, arch: str) -> Array:
    """[registers, 64] of a tile's values, fragment after fragment."""
    rows, columns = values.shape
    codes = codes_of(values, fragment.dtype, arch)
    words = []
    for row in range(0, rows, fragment.rows):
        for column in range(0, columns, fragment.columns):
            string = np.zeros((fragment.registers * 32, 64), np.uint32)
            for item, lanes in enumerate(fragment.table):
                at = codes[[row + r for r, _ in lanes], [column + c for _, c in lanes]]
                for bit in range(fragment.bits):
                    string[item * fragment.bits + bit] = at >> np.uint32(bit) & np.uint32(1)
            for register in range(fragment.registers):
                words.append(sum((string[32 * register + bit] << np.uint32(bit) for bit in range(32)), np.zeros(64, np.uint32)))
    return np.array(words, np.uint32)


def values_in(words: Array, rows: int, columns: int, fragment: Fragment, arch: str) -> Array:
    """The tile's values out of [registers, 64]; every copy of an element must be equal."""
    codes = np.full((rows, columns), -1, np.int64)
    number = 0
    for row in range(0, rows, fragment.rows):
        for column in range(0, columns, fragment.columns):
            for item, lanes in enumerate(fragment.table):
                register, bit = divmod(item * fragment.bits, 32)
                part = words[number + register].astype(np.uint64) >> np.uint64(bit)
                if bit + fragment.bits > 32:
                    part |= words[number + register + 1].astype(np.uint64) << np.uint64(32 - bit)
                part = (part & np.uint64((1 << fragment.bits) - 1)).astype(np.int64)
                where = [row + r for r, _ in lanes], [column + c for _, c in lanes]
                before = codes[where]
                assert ((before == -1) | (before == part)).all(), "copies of an element differ"
                codes[where] = part
            number += fragment.registers
    assert (codes >= 0).all()
    return values_of(codes.astype(np.uint32), fragment.dtype, arch)


def vector_in(words: Array, vector: Vector) -> Array:
    """The values of a vector out of [registers, 64]; all lanes of a row must agree."""
    found = np.full(vector.size, np.nan)
    coordinates = profile(vector.fragment, vector.axis)[1]
    step = vector.fragment.rows if vector.axis == "row" else vector.fragment.columns
    for number, line in enumerate(words):
        base = number // vector.per * step
        for lane, at in enumerate(coordinates[number % vector.per]):
            value = float(line[lane:lane + 1].view(np.float32)[0])
            assert np.isnan(found[base + at]) or found[base + at] == value, (number, lane)
            found[base + at] = value
    return found


class TileRun:
    """One kernel of one workgroup while it is written, its buffers, and the run."""

    def __init__(self, arch: str, waves: int = 1, values: Sequence[int] = ()) -> None:
        arguments = tuple([ContractArgument(f"p{n}", "pointer", "") for n in range(POINTERS)]
                          + [ContractArgument(f"v{n}", "u32", "") for n in range(len(values))])
        contract = KernelContract("tile-test", "tiles", (arch,), (), arguments, (64 * waves, 1, 1), Formula("one", lambda _: (1, 1, 1)))
        self.arch, self.waves, self.values = arch, waves, list(values)
        self.k = TileBuilder(contract, arch, {}, workgroup_ids="xyz")
        self.buffers: list[Array] = []
        self.words: list[Array] = []  # what tiles are loaded with, one buffer for all
        self.outputs: list[Tile | Vector] = []
        self.given = 0
        self.at = self.k.registers.vgprs(1, "lane_bytes")
        self.k.v_lshlrev_b32(self.at, 2, self.k.lane)

    def matrix(self, array: Array, dtype: str) -> str:
        """The argument's name of a buffer with these values as a type of whole bytes."""
        codes = codes_of(array, dtype, self.arch)
        return self.raw(codes.astype({8: np.uint8, 16: np.uint16, 32: np.uint32}[element_bits(dtype)]))

    def raw(self, array: Array) -> str:
        """The argument's name of a buffer with these bytes."""
        self.buffers.append(array)
        return f"p{len(self.buffers) + 1}"

    def tile(self, name: str, shape: tuple[int, int], fragment: Fragment, values: Array | None = None, **more: Any) -> Tile:
        """A tile, with these values in it."""
        tile = self.k.tile(name, *shape, fragment, **more)
        assert isinstance(tile, Tile)
        if values is not None:
            self.registers_in(tile.registers.items, registers_of(values, fragment, self.arch))
        return tile

    def registers_in(self, registers: Sequence[Reg], words: Array) -> None:
        """Registers with [registers, 64] words in them."""
        first = sum(len(part) for part in self.words)
        self.words.append(words)
        self._each(registers, first, self.k.argument("p1"), "global_load_dword")

    def _each(self, registers: Sequence[Reg], first: int, pointer: Reg, op: str) -> None:
        k = self.k
        for number in range(0, len(registers), 8):
            with k.scratch("block") as block:
                k.v_add_u32(block, 256 * (first + number), self.at)
                for inner, register in enumerate(registers[number:number + 8]):
                    operands = (register, block, pointer) if "load" in op else (block, register, pointer)
                    k.emit(op, *operands, offset=256 * inner)

    def give(self, held: Tile | Vector) -> None:
        """Its registers as they are here go to a buffer, for `finish`."""
        self._each(held.registers.items, self.given, self.k.argument("p0"), "global_store_dword")
        self.given += held.registers.count
        self.outputs.append(held)

    def kernel(self) -> Kernel:
        self.k.s_endpgm()
        return self.k.finish()

    def launch(self, order: str = "lockstep") -> Launched:
        """Run it: no finding is let through."""
        words = np.concatenate(self.words) if self.words else np.zeros((1, 64), np.uint32)
        buffers = [np.zeros((max(1, self.given), 64), np.uint32), words, *self.buffers]
        buffers += [np.zeros(1, np.uint32)] * (POINTERS - len(buffers))
        kernel = self.kernel()
        self.program, self.text = kernel.program, kernel.text()
        done = launch(self.arch, kernel.program, (1, 1, 1), (64 * self.waves, 1, 1), buffers, self.values, kernel.resources.lds_bytes,
                      vgprs=512, options=Options(True, order, count_banks=True))
        assert not done.findings, [finding.sentence() for finding in done.findings][:3]
        self.done = done
        return done

    def lint(self, folder: Path) -> None:
        """The kernel's text after the run: lint has neither an error nor a warning."""
        file = folder / "kernel.s"
        file.write_text(self.text)
        found = [finding for finding in lint_file(file).findings if finding.severity != "note"]
        assert not found, found[:3]

    def finish(self) -> list[Array]:
        """Run it and give what was given."""
        done = self.launch()
        found, first = [], 0
        for held in self.outputs:
            words = done.buffers[0][first:first + held.registers.count]
            first += held.registers.count
            found.append(values_in(words, held.rows, held.columns, held.fragment, self.arch) if isinstance(held, Tile)
                         else vector_in(words, held))
        return found
