"""What instructions take from terms and is followed no further: values that become data, lane masks, and SCC that no comparison wrote.

A number that is made of sizes may go into a product of floats, to memory or LDS, to EXEC or a mask that selects. What it is in other
launches shows in no address. So its terms are noted where they end: at an instruction that has no rule, or takes something unknown too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import UNKNOWN, Handles, whole
from asmgen.emulator.machine.state import EXEC, LANES, VCC, Group
from asmgen.emulator.shadow.undefineduses import use_of
from asmgen.emulator.terms.termstate import TermState
from asmgen.isa.operands import Special
from asmgen.isa.registers import SGPR_BIT, Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
_SELECTS = ("s_cselect_", "s_cmov")
_BY_SCC = (*_SELECTS, "s_cbranch_scc")
_BY_VCC = ("s_cbranch_vcc",)
_MASKS = ("vcc", "src2")
"""Operands of 64 bits that are lane masks, by their names."""


@dataclass
class UsedTerms:
    """`terms`, by instruction and wave: the numbers of those that end there. `truths`, alike: of SCC that decides and that no comparison
    wrote; `outcomes`, by instruction, what it was where nothing follows it."""

    state: TermState
    terms: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    truths: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    outcomes: dict[int, set[bool]] = field(default_factory=dict)

    def note(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        """What to note before an instruction runs that reads SCC, or branches on VCC."""
        if instruction.name.startswith(_BY_VCC):
            return self.with_sources(instruction, carrier, _nothing, ruled=False)
        if not instruction.name.startswith(_BY_SCC) and not _reads_scc(instruction):
            return None
        machine, state = carrier.machine, self.state

        def step(group: Group) -> None:
            flag = state.scc(machine, group)
            others = ~state.is_compared(machine, group)
            if flag.ids is None or not others.any():
                return
            ids = np.where(others, flag.ids.reshape(-1), np.uint32(0))[:, None]
            self._keep(self.truths, instruction, carrier, group, ids)
            if instruction.name.startswith(_SELECTS):  # what it selects is followed
                return
            varies = [bool(one) and not state.words.is_constant(one) for one in ids[:, 0].tolist()]
            self.outcomes.setdefault(id(instruction), set()).update(flag.value[varies].tolist())

        return step

    def with_sources(self, instruction: Instruction, carrier: HandleCarrier, act: Action, ruled: bool) -> Action:
        """What an instruction does to terms, and before that a note of those of its sources that end: all without a rule, else those beside
        something unknown. Of lane masks all end."""
        use, shadow = use_of(instruction, carrier.shadow.accum_offset), carrier.shadow
        reads = use.reads & ~use.addresses
        vectors = [bit for bit in range(shadow.registers - 1) if reads >> bit & 1]
        scalars = [bit for bit in range(128) if reads >> bit + SGPR_BIT & 1]
        masks = _lane_masks(instruction, scalars)
        if not vectors and not scalars:
            return act
        plain = [bit for bit in scalars if bit not in masks]

        def step(group: Group) -> None:
            found: list[Handles] = []
            found += [ids for bit in vectors if (ids := shadow.vector[bit, group.select]).max(initial=0) > UNKNOWN]
            found += [ids[:, None] for bit in plain if (ids := shadow.scalar[bit, group.select]).max(initial=0) > UNKNOWN]
            if found and ruled:
                lost: NDArray[Any] = np.zeros((group.size, LANES), bool)
                for ids in found:
                    lost = lost | ~whole(ids)
                for bit in vectors:
                    lost = lost | (shadow.vector[bit, group.select] == UNKNOWN)
                for bit in plain:
                    lost = lost | (shadow.scalar[bit, group.select] == UNKNOWN)[:, None]
                lost = lost & group.lanes() if use.by_lane else lost
                found = [np.where(lost, ids, np.uint32(0)) for ids in found] if lost.any() else []
            elif found and use.by_lane:
                found = [np.where(group.lanes(), ids, np.uint32(0)) for ids in found]
            found += [ids[:, None] for bit in masks if (ids := shadow.scalar[bit, group.select]).max(initial=0) > UNKNOWN]
            for ids in found:
                self._keep(self.terms, instruction, carrier, group, ids)
            act(group)

        return step

    def with_mask(self, instruction: Instruction, carrier: HandleCarrier, act: Action) -> Action:
        """The same of a scalar instruction that writes EXEC, and then a note of what that is."""
        if not use_of(instruction, carrier.shadow.accum_offset).to_exec:
            return act

        def step(group: Group) -> None:
            act(group)
            for half in range(2):
                self._keep(self.terms, instruction, carrier, group, carrier.shadow.scalar[EXEC + half, group.select][:, None])

        return step

    def _keep(self, where: dict[tuple[int, int], set[int]], instruction: Instruction, carrier: HandleCarrier, group: Group,
              ids: Handles) -> None:
        """Terms of waves, [waves, lanes or 1]; constants are the same in all launches."""
        machine, words = carrier.machine, self.state.words
        first = machine.first_workgroup * (machine.waves // machine.workgroups)
        ids = np.where(whole(ids), ids, np.uint32(UNKNOWN))
        for row in np.flatnonzero((ids > UNKNOWN).any(axis=1)).tolist():
            found = [one for one in np.unique(ids[row]).tolist() if one > UNKNOWN and not words.is_constant(one)]
            if found:
                where.setdefault((id(instruction), int(group.waves[row]) + first), set()).update(found)


def _nothing(group: Group) -> None:
    return


def _reads_scc(instruction: Instruction) -> bool:
    return any(isinstance(one, Special) and one.name == "src_scc" for one in instruction.operands)


def _lane_masks(instruction: Instruction, scalars: list[int]) -> frozenset[int]:
    """The scalar registers that a vector instruction takes as a mask of lanes, or a branch on VCC."""
    found = {place for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)
             if spec.type == "b64" and spec.name in _MASKS and isinstance(operand, Reg) and operand.file == "s"
             for place in range(operand.index, operand.last + 1)}
    implied = {VCC, VCC + 1} if not found and not instruction.name.startswith("s_") or instruction.name.startswith(_BY_VCC) else set[int]()
    named = {place for operand in instruction.operands if isinstance(operand, Reg) and operand.file == "s"
             for place in range(operand.index, operand.last + 1)}
    return frozenset((found | implied - named).intersection(scalars))
