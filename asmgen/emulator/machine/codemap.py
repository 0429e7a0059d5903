"""Where code stands in memory: instruction positions to addresses and back, and a code object's image put into emulated memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from asmgen.emulator.machine.devicememory import PAGE, Memory
from asmgen.emulator.machine.kept import kept
from asmgen.isa.errors import AsmgenError
from asmgen.program.program import Program

_SYNTHETIC = 8  # bytes an instruction where nothing says how long it is
_UNPLACED = PAGE  # synthetic code begins here: no host memory lies so low, so nothing can read it


@dataclass(frozen=True)
class CodeMap:
    """The address of each instruction. `starts` ascend with the position inside each piece of contiguous code."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    positions: dict[int, int]

    @classmethod
    def of(cls, program: Program, base: int = 0) -> CodeMap:
        """Addresses as the code object was loaded at `base`; synthetic ones for a program that has none."""
        return kept(program, "_code_map", (base,), lambda: cls._made(program, base))

    @classmethod
    def _made(cls, program: Program, base: int) -> CodeMap:
        instructions = program.instructions
        if instructions and all(instruction.address is not None and instruction.size for instruction in instructions):
            starts = tuple(base + (instruction.address or 0) for instruction in instructions)
            ends = tuple(start + instruction.size for start, instruction in zip(starts, instructions, strict=True))
        else:
            starts = tuple(_UNPLACED + _SYNTHETIC * position for position in range(len(instructions)))
            ends = tuple(start + _SYNTHETIC for start in starts)
        return cls(starts, ends, {start: position for position, start in enumerate(starts)})

    def flows(self, position: int) -> bool:
        """Whether control falls into the instruction at `position` from the one before it: it stands directly after it."""
        return position < len(self.starts) and (position == 0 or self.ends[position - 1] == self.starts[position])


class ImageSegment(Protocol):
    """What loading needs of a segment of a code object."""

    @property
    def vaddr(self) -> int: ...

    @property
    def data(self) -> bytes: ...


class ImageRelocation(Protocol):
    """What loading needs of a relocation: where, which kind, which symbol with which address (None: undefined), plus what."""

    @property
    def offset(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def symbol(self) -> str: ...

    @property
    def value(self) -> int | None: ...

    @property
    def addend(self) -> int: ...


def load_image(memory: Memory, segments: Iterable[ImageSegment], relocations: Iterable[ImageRelocation], name: str) -> tuple[int, int]:
    """Put a code object's segments into memory and patch them; returns what is to be added to its addresses, and what `free` takes.

    Raises AsmgenError for a symbol that nobody defines and for a relocation that a loader does not know.
    """
    parts = sorted(segments, key=lambda part: part.vaddr)
    low = parts[0].vaddr // PAGE * PAGE
    size = max(part.vaddr + len(part.data) for part in parts) - low
    start = memory.allocate(size, f"code object {name}")
    base = start - low
    image = memory.view(start, size)
    for part in parts:
        image[part.vaddr - low:part.vaddr - low + len(part.data)] = np.frombuffer(part.data, np.uint8)
    for patch in relocations:
        _patch(image, low, base, patch, name)
    return base, start


# (bytes, relative to the place, shift) of the relocations that a code object may leave to its loader (LLVM's AMDGPU usage guide).
_KINDS = {"ABS32_LO": (4, False, 0), "ABS32_HI": (4, False, 32), "ABS32": (4, False, 0), "ABS64": (8, False, 0),
          "RELATIVE64": (8, False, 0), "REL32": (4, True, 0), "REL32_LO": (4, True, 0), "REL32_HI": (4, True, 32), "REL64": (8, True, 0)}


def _patch(image: np.ndarray[tuple[int], np.dtype[np.uint8]], low: int, base: int, patch: ImageRelocation, name: str) -> None:
    kind = patch.kind.removeprefix("R_AMDGPU_")
    if kind == "NONE":
        return
    if kind not in _KINDS:
        raise AsmgenError(f"{name}: a relocation {patch.kind} at {patch.offset:#x} is none that a loader applies")
    if patch.value is None:
        raise AsmgenError(f"{name}: the symbol {patch.symbol!r} is defined nowhere, so the code object cannot be loaded")
    size, relative, shift = _KINDS[kind]
    value = base + patch.value + patch.addend - (base + patch.offset if relative else 0)
    at = patch.offset - low
    data = (value >> shift & (1 << 8 * size) - 1).to_bytes(size, "little")
    image[at:at + size] = np.frombuffer(data, np.uint8)
