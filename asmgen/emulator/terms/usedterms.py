"""What instructions take from terms and is followed no further: values that become data, lane masks, and SCC that no comparison
wrote.

A number that is made of sizes may go into a product of floats, to memory or LDS, to EXEC or a mask that selects. What it is in other
launches shows in no address. So its terms are noted where they end: at an instruction that has no rule, or takes something unknown too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import UNKNOWN, Handles, whole
from asmgen.emulator.machine.state import EXEC, LANES, VCC, Group, Machine, lane_mask
from asmgen.emulator.semantics import meaning
from asmgen.emulator.shadow.undefineduses import scalars_in, use_of, vectors_in
from asmgen.emulator.terms.termstate import TermState, distinct
from asmgen.isa.operands import Special
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
_SELECTS = ("s_cselect_", "s_cmov")
_BY_CARRY = ("v_addc_", "v_subb_", "v_subbrev_")
_BY_VCC = ("s_cbranch_vcc",)
_MASKS = ("vcc", "src2")
"""Operands of 64 bits that are lane masks, by their names."""


@dataclass
class UsedTerms:
    """`terms`, by instruction and wave: the numbers of those that end there. `truths`, alike: of SCC that decides and that no comparison
    wrote, and of carries of lanes that are masks; `outcomes`, by instruction, what they were where nothing follows them."""

    state: TermState
    terms: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    truths: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    outcomes: dict[int, set[bool]] = field(default_factory=dict)

    def note(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        """What to note before an instruction runs that reads SCC, or branches on VCC."""
        if instruction.name.startswith(_BY_VCC):
            return self.with_sources(instruction, carrier, _nothing, ruled=False)
        follows = instruction.name in meaning.WITH_SCC
        if not follows and not instruction.name.startswith("s_cbranch_scc") and not _reads_scc(instruction):
            return None
        machine, state, shadow = carrier.machine, self.state, carrier.shadow
        use, selects = use_of(instruction, shadow.accum_offset), instruction.name.startswith(_SELECTS)
        scalars = scalars_in(use.reads | use.keeps)

        def step(group: Group) -> None:
            flag = state.scc(machine, group)
            others = ~state.is_compared(machine, group)
            if flag.ids is None or not others.any():
                return
            ids = np.where(others, flag.ids.reshape(-1), np.uint32(0))
            ends = _unknown(shadow, group, [], scalars)[:, 0] if follows else True
            self._keep(self.truths, instruction, carrier, group, (ids if selects else np.where(ends, ids, np.uint32(0)))[:, None])
            self._keep_outcomes(instruction, np.where(ends, ids, np.uint32(0)), flag.value)

        return step

    def with_sources(self, instruction: Instruction, carrier: HandleCarrier, act: Action, ruled: bool) -> Action:
        """What an instruction does to terms, and a note of those of its sources that end: all without a rule, else those beside something
        unknown, or of which something unknown is made. Of lane masks all end."""
        use, shadow = use_of(instruction, carrier.shadow.accum_offset), carrier.shadow
        reads, act = (use.reads | use.keeps) & ~use.addresses, self._with_carries(instruction, carrier, act)
        vectors = vectors_in(reads, shadow.registers - 1)
        scalars = scalars_in(reads)
        masks = _lane_masks(instruction, scalars)
        if not vectors and not scalars:
            return act
        plain, runs = [bit for bit in scalars if bit not in masks], runs_of(vectors)
        plain_runs = runs_of(plain)
        results = vectors_in(use.writes, shadow.registers - 1)
        scalar_results = scalars_in(use.writes)

        def step(group: Group) -> None:
            found = [ids for low, high in runs if (some := shadow.vector[low:high, group.select]).max(initial=0) > UNKNOWN
                     for ids in some if ids.max(initial=0) > UNKNOWN]
            found += [ids[:, None] for low, high in plain_runs if (some := shadow.scalar[low:high, group.select]).max(initial=0) > UNKNOWN
                      for ids in some if ids.max(initial=0) > UNKNOWN]
            ends = _unknown(shadow, group, vectors, plain) if found and ruled else None
            found = [ids.copy() for ids in found]
            for ids in [shadow.scalar[bit, group.select][:, None] for bit in masks]:
                self._keep(self.terms, instruction, carrier, group, ids)
            act(group)
            if ends is not None:
                ends = ends | _unknown(shadow, group, results, scalar_results)
            if found and use.by_lane:
                ends = group.lanes() & (True if ends is None else ends)
            for ids in found if ends is None or ends.any() else ():
                self._keep(self.terms, instruction, carrier, group, ids if ends is None else np.where(ends, ids, np.uint32(0)))

        return step

    def _with_carries(self, instruction: Instruction, carrier: HandleCarrier, act: Action) -> Action:
        """The same, and before that a note of lane masks that are carries, but for those that are added to something known."""
        use, machine, shadow, state = use_of(instruction, carrier.shadow.accum_offset), carrier.machine, carrier.shadow, self.state
        scalars = set(scalars_in(use.reads))
        pairs = sorted(scalars | {bit - 1 for bit in scalars if bit})
        vectors = vectors_in(use.reads, shadow.registers - 1) if instruction.name.startswith(_BY_CARRY) else None

        def step(group: Group) -> None:
            for first in pairs:
                ids = state.carries(machine, first, group)
                if ids is not None:
                    ends = group.lanes() & (True if vectors is None else _unknown(shadow, group, vectors, []))
                    ids = np.where(ends, ids, np.uint32(0))
                    self._keep(self.truths, instruction, carrier, group, ids)
                    self._keep_outcomes(instruction, ids, lane_mask(*machine.scalar[first:first + 2, group.select]))
            act(group)

        return step if pairs else act

    def with_mask(self, instruction: Instruction, carrier: HandleCarrier, act: Action) -> Action:
        """The same of a scalar instruction that writes EXEC, and then a note of what that is."""
        if not use_of(instruction, carrier.shadow.accum_offset).to_exec:
            return act

        def step(group: Group) -> None:
            act(group)
            for half in range(2):
                self._keep(self.terms, instruction, carrier, group, carrier.shadow.scalar[EXEC + half, group.select][:, None])

        return step

    def _keep_outcomes(self, instruction: Instruction, ids: Handles, truths: NDArray[np.bool_]) -> None:
        """What truths with these terms were."""
        varies = ids > UNKNOWN
        for number in np.unique(ids[varies]).tolist():
            if not self.state.words.is_constant(number):
                self.outcomes.setdefault(id(instruction), set()).update(truths[ids == number].tolist())

    def _keep(self, where: dict[tuple[int, int], set[int]], instruction: Instruction, carrier: HandleCarrier, group: Group,
              ids: Handles) -> None:
        """Terms of waves, [waves, lanes or 1]; constants are the same in all launches."""
        if ids.max(initial=0) <= UNKNOWN:  # most often, and nothing varies
            return
        machine, words = carrier.machine, self.state.words
        first = machine.first_workgroup * (machine.waves // machine.workgroups)
        ids = np.where(whole(ids), ids, np.uint32(UNKNOWN))
        varies = ids > UNKNOWN
        for wave, numbers in zip((group.waves + first).tolist(), distinct(ids, varies), strict=True) if varies.any() else ():
            found = [one for one in numbers if not words.is_constant(one)]
            if found:
                where.setdefault((id(instruction), wave), set()).update(found)


def runs_of(bits: list[int]) -> list[tuple[int, int]]:
    """Registers that follow each other, [first, end) of each run."""
    ends = [bit + 1 for bit in bits if bit + 1 not in bits]
    return list(zip([bit for bit in bits if bit - 1 not in bits], ends, strict=True))


def _nothing(group: Group) -> None:
    return


def _unknown(shadow: Machine, group: Group, vectors: list[int], scalars: list[int]) -> NDArray[np.bool_]:
    """Where one of these registers has a term that is not known, by wave and lane, of scalar ones alone by wave."""
    found = np.zeros((group.size, LANES if vectors else 1), bool)
    for ids in [*(shadow.vector[bit, group.select] for bit in vectors), *(shadow.scalar[bit, group.select][:, None] for bit in scalars)]:
        found |= ~whole(ids) | (ids == UNKNOWN)
    return found


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
