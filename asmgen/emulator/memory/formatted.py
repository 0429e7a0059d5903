"""Typed buffer accesses: buffer_load/store_format_* by the descriptor's format, tbuffer_* by the instruction's.

Components are chosen by the descriptor's destination selects, for tbuffer_* in order; those that the format does not have read as 0
(CDNA3 ISA, 9.1.4: X000, XY00 and so on). An element is in range as a whole or not at all; out of range, components read as 0, or 1 where
the select says so (9.1.5.1). A buffer with data format 0 is unbound: all loads from it give 0, stores to it are dropped.

Inferred: a store puts into a component the register whose select names it, and where there is none the first one (RDNA3 ISA, 9.3, says
XYXX of a store that has fewer components than the format); the unused upper half of a d16 register is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.machine.errors import EmulatorError
from asmgen.emulator.machine.state import LANES, Group, Machine
from asmgen.emulator.memory.addresses import Accesses, AddressedLanes, counts_in_range
from asmgen.emulator.memory.lanes import Words, load_narrow, load_words, store_narrow, store_words
from asmgen.emulator.memory.typed import load_component, store_component
from asmgen.emulator.semantics.values import write_lanes
from asmgen.isa.bufferformats import INTEGERS, SELECT_FIRST, SELECT_ONE, BufferFormat, descriptor_format, instruction_format
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
_ONE, _HALF_ONE = np.uint32(0x3F800000), np.uint32(0x3C00)
_LOW = np.uint32(0xFFFF)


@dataclass(frozen=True)
class TypedAccess:
    """A typed access, bound: `components` in registers, as 16 bits where `half`; in the upper half of one where `upper`."""

    instruction: Instruction
    machine: Machine
    findings: Findings
    accesses: Accesses
    components: int
    half: bool
    upper: bool
    word: int | None
    """The scalar register of the descriptor's last word, None where the instruction names the format."""

    @classmethod
    def of(cls, instruction: Instruction, machine: Machine, accesses: Accesses, findings: Findings) -> TypedAccess:
        """Raises ValueError for a format that has no meaning."""
        resource = next(operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)
                        if spec.name == "srsrc")
        assert isinstance(resource, Reg)
        by_descriptor = instruction.opcode.encoding == "MUBUF"
        typed = cls(instruction, machine, findings, accesses, len(instruction.name.rsplit("_", 1)[1]), "_d16_" in instruction.name,
                    "_d16_hi_" in instruction.name, resource.index + 3 if by_descriptor else None)
        if not by_descriptor:
            fault = typed._named().fault()
            if fault is not None:
                raise ValueError(fault)
        return typed

    def _named(self) -> BufferFormat:
        # 8-bit data and UNORM are the assembler's defaults.
        return instruction_format(int(self.instruction.modifiers.get("format", 1)))

    def parts(self, group: Group) -> Iterator[tuple[Group, BufferFormat]]:
        """The group in parts of the same format. Raises EmulatorError for a descriptor's format that has no meaning."""
        if self.word is None:
            yield group, self._named()
            return
        words = self.machine.scalar[self.word, group.select]
        for word in np.unique(words):
            fmt = descriptor_format(int(word))
            fault = fmt.fault()
            if fault is not None:
                raise EmulatorError(f"`{self.instruction.text}` uses a descriptor whose format {fault}", self.instruction.where())
            same = words == word
            yield group if same.all() else Group(self.machine, group.waves[same], group.position, group.order, group.mode, group.index), fmt

    def load(self, group: Group, fmt: BufferFormat) -> tuple[AddressedLanes, list[Words]]:
        """The components that one instruction loads, [waves, 64] each; the format must be of the whole group."""
        (access,) = self.accesses(group)
        if fmt.data == 0:
            return access, [np.zeros((group.size, LANES), np.uint32)] * self.components
        valid = counts_in_range(access, fmt.bytes, 1, group, self.instruction, self.findings) > 0
        if fmt.bytes < 4:
            raw = load_narrow(access.view, access.addresses, valid, fmt.bytes)[None]
        else:
            words = fmt.bytes // 4
            raw = load_words(access.view, access.addresses, valid * np.int64(words), words)
        integer = fmt.number in INTEGERS
        one = np.uint32(1) if integer else _HALF_ONE if self.half else _ONE
        return access, [self._component(raw, fmt, select, one) for select in fmt.selects[:self.components]]

    def _component(self, raw: Words, fmt: BufferFormat, select: int, one: np.uint32) -> Words:
        number = select - SELECT_FIRST
        if not 0 <= number < len(fmt.fields):
            return np.full(raw.shape[1:], one if select == SELECT_ONE else 0, np.uint32)
        return load_component(_field(raw, fmt.fields, number), fmt.fields[number], fmt.number, self.half)

    def store(self, group: Group, fmt: BufferFormat, values: list[Words]) -> None:
        """Components to memory; the format must be of the whole group."""
        (access,) = self.accesses(group)
        if fmt.data == 0:
            return
        raw = np.zeros((max(1, fmt.bytes // 4), group.size, LANES), np.uint32)
        begin = 0
        for number, width in enumerate(fmt.fields):
            source = next((n for n, select in enumerate(fmt.selects[:len(values)]) if select == SELECT_FIRST + number), 0)
            raw[begin // 32] |= store_component(values[source], width, fmt.number, self.half) << np.uint32(begin % 32)
            begin += width
        valid = counts_in_range(access, fmt.bytes, 1, group, self.instruction, self.findings) > 0
        if fmt.bytes < 4:
            store_narrow(access.view, access.addresses, valid, raw[0], fmt.bytes)
        else:
            store_words(access.view, access.addresses, valid * np.int64(len(raw)), raw)


def _field(raw: Words, fields: tuple[int, ...], number: int) -> Words:
    begin, width = sum(fields[:number]), fields[number]
    words: Words = raw[begin // 32] >> np.uint32(begin % 32) & np.uint32((1 << width) - 1)
    return words


def bind_formatted(typed: TypedAccess, kind: str, slot: int) -> Step:
    """The step of a typed load or store of registers from `slot` on."""
    vector = typed.machine.vector

    def load(group: Group) -> None:
        for part, fmt in typed.parts(group):
            _, values = typed.load(part, fmt)
            for register, value in enumerate(_packed(values) if typed.half else values):
                if typed.upper:
                    value = vector[slot, part.select] & _LOW | value << np.uint32(16)
                write_lanes(vector[slot + register], part, value)

    def store(group: Group) -> None:
        for part, fmt in typed.parts(group):
            if typed.half:
                values = [vector[slot + n // 2, part.select] >> np.uint32(16 * (n % 2 or typed.upper)) & _LOW
                          for n in range(typed.components)]
            else:
                values = [np.ascontiguousarray(vector[slot + n, part.select]) for n in range(typed.components)]
            typed.store(part, fmt, values)

    return load if kind == "load" else store


def _packed(values: list[NDArray[np.uint32]]) -> list[Words]:
    upper = [value << np.uint32(16) for value in values[1::2]]
    return [low | high for low, high in zip(values[::2], upper, strict=False)] + values[2 * len(upper):]
