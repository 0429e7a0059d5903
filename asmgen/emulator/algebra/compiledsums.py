"""Sums, products and sums of a product of float32 on residues by compiled loops."""

from __future__ import annotations

import numpy as np

from asmgen.emulator.algebra.elements import ENCODINGS, Elements
from asmgen.emulator.algebra.sources import numbers_of
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import Handles
from asmgen.emulator.carried.operandhandles import OperandSource
from asmgen.emulator.machine.state import LANES, Group
from asmgen.emulator.semantics.valu import ACCUMULATING
from asmgen.isa.registers import Modified, Reg
from asmgen.program.program import Instruction

_KINDS = {"add": (False, 1, 1), "sub": (False, 1, -1), "subrev": (False, -1, 1), "mul": (True, 1, 1),
          **dict.fromkeys(("fma", "fmac", "fmamk", "fmaak", "mad", "mac", "madmk", "madak"), (True, 1, 1))}
"""By stem: whether the first two sources are multiplied, and the signs of the first source and the last one."""


class CompiledSum:
    """One instruction."""

    def __init__(self, instruction: Instruction, slots: list[OperandSource], carrier: HandleCarrier, table: Elements) -> None:
        self._carrier, self._table, self._sources = carrier, table, slots
        self._product, first, last = _KINDS[_stem(instruction)]
        self._addend = not self._product or len(slots) == 3
        given = [operand for place, operand in zip(instruction.form.operands, instruction.operands, strict=True) if not place.writes]
        given += [instruction.operands[0]] if instruction.name in ACCUMULATING else []
        plain = [one.value if isinstance(one, Modified) else one for one in given]
        registers = [carrier.machine.slot(one) if isinstance(one, Reg) and one.file in "va" else -1 for one in plain]
        self._slots = np.array(registers, np.int64)
        own = [first, *[1] * (len(slots) - 2), last]
        # A scalar's sign is in its numbers (`numbers_of`).
        self._signs = np.array([sign * (-1 if slot.negate and register >= 0 else 1)
                                for sign, slot, register in zip(own, slots, registers, strict=True)], np.int64)

    @staticmethod
    def takes(instruction: Instruction, slots: list[OperandSource]) -> bool:
        """Whether there is a loop for an instruction."""
        return instruction.name.endswith("_f32") and _stem(instruction) in _KINDS and instruction.form.encoding not in ("SDWA", "DPP") \
            and not any(instruction.modifiers.get(one) for one in ("clamp", "mul", "div")) and not any(one.absolute for one in slots) \
            and all(one.type == "f32" for one in slots)

    def __call__(self, group: Group) -> Handles | None:
        """The elements of the results, [waves, 64]; None where the loop did not take it."""
        from asmgen.emulator.algebra import sum_kernels

        carrier, table, count = self._carrier, self._table, len(self._slots)
        scalars, have = np.zeros((count, 2, group.size), np.uint64), np.zeros((count, group.size), np.uint8)
        for number in np.flatnonzero(self._slots < 0).tolist():
            found = numbers_of(self._sources[number], group, table, carrier.cells)
            q, p, has = (np.broadcast_to(part, (group.size, 1))[:, 0] for part in (found.q, found.p, found.has))
            scalars[number, 0], scalars[number, 1], have[number] = q, p, has
        used, ids = table.used, np.empty((group.size, LANES), np.uint32)
        first = table.room(ids.size, "f32")
        if sum_kernels.sums(carrier.shadow.vector_file, carrier.machine.vector_file, group.waves, self._slots, scalars, have, self._signs,
                            self._product, self._addend, carrier.cells.rows, *table.columns, ENCODINGS["f32"], first, ids):
            return ids
        table.used = used
        return None


def _stem(instruction: Instruction) -> str:
    return instruction.name.removeprefix("v_").removesuffix("_f32")
