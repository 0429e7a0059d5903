"""The rules of expression hashes: each result is a hash of its operation, rounding and operands, in order; moves keep what they move.

Integers and constants of the run are constants. What the hardware approximates (exp, rcp, ...) and matrix products are expressions even of
constants, but for products of zeros. Where data decides what happens (a compare that selects or masks lanes, a branch, an address), the
hash follows the run, and the instruction is noted in `decisions`: what is claimed then holds for data that decides alike.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import Handles
from asmgen.emulator.carried.handleatomics import Change
from asmgen.emulator.carried.operandhandles import slots_of
from asmgen.emulator.carried.tracker import Rules
from asmgen.emulator.hashes.expressions import DATA, Expressions, Hashes, mixed, named
from asmgen.emulator.hashes.hashedoperands import field_of, pattern_of
from asmgen.emulator.hashes.hashedproducts import bind_product
from asmgen.emulator.hashes.nibblecells import NibbleCells
from asmgen.emulator.hashes.vectorhashes import TWO_HALVES, bind_pairs, bind_two_halves, bind_vector
from asmgen.emulator.machine.state import EXEC, VCC, Group
from asmgen.emulator.shadow.undefineduses import use_of
from asmgen.isa.registers import SCC_BIT, SGPR_BIT, Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]


class HashRules(Rules):
    """Expression hashes as a domain of `carried.tracker`."""

    table: Expressions

    def __init__(self) -> None:
        self.cells = NibbleCells()
        self.table = Expressions()
        self.decisions: dict[int, Instruction] = {}

    def bind(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        """What an instruction that computes does to elements; None for one without a rule."""
        classes, name = instruction.opcode.classes, instruction.name
        if "mfma" in classes:
            return bind_product(instruction, carrier, self.table)
        if "salu" in classes:
            return self._scalar(instruction, carrier)
        if "valu" not in classes:
            return None
        if name.startswith(("v_cmp_", "v_cmpx_")):
            return self._compare(instruction, carrier)
        if name.startswith("v_pk_") and name.endswith("_f32"):
            return bind_pairs(instruction, carrier, self.table)
        if name in TWO_HALVES:
            return bind_two_halves(instruction, carrier, self.table)
        return bind_vector(instruction, carrier, self.table)

    def change(self, instruction: Instruction) -> Change | None:
        """A hash of the old word and the data, in the order of the run."""
        operation, table, cells = named(instruction.name.replace("_rtn", "")), self.table, self.cells

        def change(old: Handles, old_values: NDArray[np.uint32], data: Handles, values: NDArray[np.uint32]) -> Handles:
            fields = [cells.expanded(old), cells.expanded(data)]
            given = [table.of(field, bits) for field, bits in zip(fields, (old_values, values), strict=True)]
            return table.made(mixed(operation, *given), 8, DATA | table.data(fields[0]) | table.data(fields[1]))

        return change

    def watch(self, instruction: Instruction, position: int, carrier: HandleCarrier) -> Action | None:
        """Notes an instruction in `decisions` if data decides where it goes, or what it takes."""
        use, shadow = use_of(instruction, carrier.shadow.accum_offset), carrier.shadow
        deciding = use.addresses | (use.reads if instruction.is_branch else 0)
        if instruction.name == "v_cndmask_b32":
            mask = instruction.operands[-1] if len(instruction.operands) == 4 else None
            first = mask.index if isinstance(mask, Reg) and mask.file == "s" else VCC
            deciding |= 3 << first + SGPR_BIT
        vectors = [bit for bit in range(shadow.registers - 1) if deciding >> bit & 1]
        scalars = [bit for bit in range(128) if deciding >> bit + SGPR_BIT & 1 and bit not in (EXEC, EXEC + 1)]
        scc = bool(deciding >> SCC_BIT & 1)
        if not vectors and not scalars and not scc:
            return None

        def step(group: Group) -> None:
            if any(self._data(shadow.vector[bit, group.select]).any() for bit in vectors) or \
                    any(self._data(shadow.scalar[bit, group.select]).any() for bit in scalars) or scc and shadow.scc[group.select].any():
                self._decides(instruction)

        return step

    def _data(self, handles: Handles) -> NDArray[np.uint8]:
        """What is said of words beside their hashes."""
        return self.table.data(self.cells.expanded(handles)) if handles.any() else np.zeros(1, np.uint8)

    def _decides(self, instruction: Instruction) -> None:
        self.decisions.setdefault(id(instruction), instruction)

    def _compare(self, instruction: Instruction, carrier: HandleCarrier) -> Action:
        """A lane mask that data made: of each wave one element, of which only that it is there matters."""
        slots, target = slots_of(instruction, carrier), instruction.operands[0]
        assert isinstance(target, Reg)
        operation, shadow, cells = named(instruction.text), carrier.shadow, carrier.cells
        to_exec = instruction.name.startswith("v_cmpx_")

        def step(group: Group) -> None:
            has = np.zeros((group.size, 64), bool)
            for slot in slots:
                has = has | (self.table.data(field_of(slot, group, cells, 2 * pattern_of(slot.value(group)).dtype.itemsize)) != 0)
            waves = (has if group.mask is None else has & group.mask).any(axis=1)
            shadow.scalar[target.index:target.index + 2, group.select] = self._scalars(operation, np.asarray(waves), [])
            if to_exec and waves.any():
                self._decides(instruction)

        return step

    def _scalars(self, operation: Hashes | np.uint64, waves: NDArray[np.bool_], given: list[Hashes],
                 data: NDArray[np.uint8] | np.uint8 = DATA) -> Handles:
        ids = self.table.made(np.broadcast_to(mixed(operation, *given), waves.shape), 8, data)
        return np.where(waves, ids, np.uint32(0))

    def _scalar(self, instruction: Instruction, carrier: HandleCarrier) -> Action:
        """Scalars move as words do; anything else of an element is a hash of the whole instruction."""
        use, shadow, machine = use_of(instruction, carrier.shadow.accum_offset), carrier.shadow, carrier.machine
        reads = [bit for bit in range(128) if use.reads >> bit + SGPR_BIT & 1 and bit not in (EXEC, EXEC + 1)]
        writes = [bit for bit in range(128) if use.writes >> bit + SGPR_BIT & 1]
        scc_read, scc_written = bool(use.reads >> SCC_BIT & 1), bool(use.writes >> SCC_BIT & 1)
        operation = named(instruction.text)
        moved = instruction.name in ("s_mov_b32", "s_mov_b64") and len(reads) == len(writes)
        to_exec = EXEC in writes or EXEC + 1 in writes

        def step(group: Group) -> None:
            handles = [shadow.scalar[bit, group.select].copy() for bit in reads]
            waves = shadow.scc[group.select] & scc_read
            data = waves.astype(np.uint8)
            for one in handles:
                waves, data = waves | (one != 0), data | self._data(one)
            given = []
            if waves.any() and not moved:
                given = [self.table.of(self.cells.expanded(one), machine.scalar[bit, group.select])
                         for one, bit in zip(handles, reads, strict=True)]
                given += [machine.scc[group.select].astype(np.uint64)] if scc_read else []  # as it is in the run
            for number, bit in enumerate(writes):
                fresh = handles[number] if moved else self._scalars(mixed(operation, number)[()], waves, given, data)
                shadow.scalar[bit, group.select] = 0 if bit in (EXEC, EXEC + 1) else fresh
            if to_exec and data.any() or scc_read and shadow.scc[group.select].any():
                self._decides(instruction)
            if scc_written:
                shadow.scc[group.select] = data != 0

        return step
