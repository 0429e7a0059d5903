"""The check for registers that nobody wrote: a warning where one is read, an error where it decides something.

A walk over the program first finds what may be read undefined on some path, and what such values may reach; only those
registers are followed while waves run, wave by wave. A value made from an undefined one is undefined. It must not reach an
address, a branch, EXEC or a store. A register counts as written once it was written under any EXEC; what an instruction keeps of its
destination is no read. Bytes of memory are never undefined but those of LDS, which `ldsraces` reports here; private memory takes what
functions save there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asmgen.cfg import control_flow
from asmgen.codeobject.descriptor import KernelDescriptor
from asmgen.emulator.findings import Finding, Findings
from asmgen.emulator.launch import Dispatch
from asmgen.emulator.state import EXEC, Group, Machine
from asmgen.emulator.steps import Action, Step, chosen_halves
from asmgen.isa.opcode import implicit_reads
from asmgen.isa.operands import Modified, Operand, Special
from asmgen.isa.registers import NAMED, SGPR_BIT, Reg, mask_names, v
from asmgen.program import Instruction, Program

READ, USED = "uninitialised-read", "uninitialised-use"
NEVER = -1

ADDRESSES = frozenset({"vaddr", "addr", "saddr", "srsrc", "soffset", "sbase"})
_STORED = frozenset({"vdata", "data0", "data1", "data", "sdata"})
# These compute with what their destination holds; others that read it keep a part of it.
_ACCUMULATES = ("v_fmac_", "v_mac_", "v_dot2c_", "v_dot4c_", "v_dot8c_", "v_pk_fmac_", "v_smfmac_", "v_swap_", "v_permlane", "s_addk_",
                "s_mulk_")
_KEEPS_M0 = "s_set_gpr_idx_"
_SCALAR_FLAGS = {"src_scc": NAMED["scc"], "src_vccz": NAMED["vcc"]}
_EXEC = NAMED["exec"].mask
_EVERYTHING = (1 << SGPR_BIT + 129) - 1
# Vector instructions that EXEC does not hold back.
_ALL_LANES = frozenset({"mfma", "readlane", "writelane"})


@dataclass(frozen=True)
class Use:
    """What one instruction reads and writes, as bits of the unified file, and how the read registers matter to it."""

    reads: int
    writes: int
    sinks: tuple[tuple[int, str], ...]  # registers that must be defined, and what for
    by_lane: bool  # nothing happens where EXEC is 0


def use_of(instruction: Instruction, accum_offset: int) -> Use:
    """The check's view of an instruction. EXEC is always defined."""
    opcode = instruction.opcode
    row = opcode.memory
    reads = writes = 0
    sinks: list[tuple[int, str]] = []
    source = -1
    for place, operand, reading, writing in instruction.accesses:
        mask = _mask(operand, accum_offset)
        writes |= mask if writing else 0
        source += reading
        stored = row is not None and row.kind in ("store", "atomic") and place.name in _STORED
        if not reading or writing and not stored and not opcode.name.startswith(_ACCUMULATES):
            continue
        mask = chosen_halves(instruction, source, mask)
        reads |= mask
        if place.name in ADDRESSES:
            sinks.append((mask, "an address"))
        elif stored and row is not None and row.space != "scratch":
            sinks.append((mask, "a store"))
    for name in implicit_reads(opcode, instruction.form):
        if name in NAMED and not opcode.name.startswith(_KEEPS_M0):
            reads |= NAMED[name].mask
    for name in opcode.writes:
        writes |= NAMED[name].mask if name in NAMED else 0
    if instruction.is_branch:
        deciding = NAMED["scc"].mask if "scc" in opcode.name else NAMED["vcc"].mask if "vcc" in opcode.name else reads
        reads |= deciding
        sinks.append((deciding, "a branch"))
    if writes & _EXEC:
        sinks.append((reads, "EXEC"))
    scalar = opcode.name.startswith("s_") or bool(opcode.classes & _ALL_LANES)
    return Use(reads & ~_EXEC, writes & ~_EXEC, tuple((mask & ~_EXEC, what) for mask, what in sinks if mask & ~_EXEC), not scalar)


def _mask(operand: Operand, accum_offset: int) -> int:
    value = operand.value if isinstance(operand, Modified) else operand
    if isinstance(value, Special):
        value = _SCALAR_FLAGS.get(value.name, value)
    return value.mask_at(accum_offset) if isinstance(value, Reg) else 0


def defined_at_start(descriptor: KernelDescriptor, dispatch: Dispatch) -> int:
    """The registers that the hardware fills: user and system SGPRs, v0, EXEC, and those that no kernel writes."""
    mask = v[0].mask | _EXEC
    for name, reg in NAMED.items():
        if name not in ("vcc", "vcc_lo", "vcc_hi", "m0", "scc"):
            mask |= reg.mask
    for name, index, count in descriptor.sgpr_layout():
        if name != "kernarg_preload" or dispatch.preload:
            mask |= Reg("s", index, count).mask
    return mask


@dataclass(frozen=True)
class Uses:
    """What a program's instructions do to registers. `follow`: those that may be undefined and read; `from_lds`: those that LDS reaches."""

    uses: tuple[Use, ...]
    accum_offset: int
    defined: int
    follow: int
    from_lds: int

    @classmethod
    def of(cls, program: Program, accum_offset: int, defined: int, entry: int) -> Uses:
        """Walk a program whose waves begin at position `entry` with the registers `defined`."""
        uses = tuple(use_of(instruction, accum_offset) for instruction in program.instructions)
        loads = [use for use, instruction in zip(uses, program.instructions, strict=True)
                 if (row := instruction.opcode.memory) is not None and row.space in ("lds", "flat")]
        from_lds = 0
        for use in loads:
            from_lds |= use.writes
        grown = 0
        while grown != from_lds:
            grown = from_lds
            for use in uses:
                from_lds |= use.writes if use.reads & from_lds else 0
        return cls(uses, accum_offset, defined, _followed(program, uses, defined, entry), from_lds)

    @property
    def matter(self) -> bool:
        """Whether any register may ever be undefined."""
        return bool(self.follow | self.from_lds)


def _followed(program: Program, uses: Sequence[Use], defined: int, entry: int) -> int:
    """The registers worth following: those that may be read undefined on some path, and what is made from them."""
    flow = control_flow(program)
    if entry >= len(uses):
        return 0
    entries = [0] * len(flow.blocks)
    begin = flow.block_of[entry]
    entries[begin] = _EVERYTHING & ~defined
    # Where an indirect branch goes is not known: to any block.
    lost = {flow.block_of[position] for position in flow.indirect}
    everywhere = tuple(range(len(flow.blocks)))
    interesting = 0
    pending = {begin}
    while pending:
        number = min(pending)
        pending.remove(number)
        undefined = entries[number]
        block = flow.blocks[number]
        for use in uses[block.first:block.last + 1]:
            if use.reads & undefined:
                interesting |= use.reads & undefined | use.writes
                undefined |= use.writes
            else:
                undefined &= ~use.writes
        for successor in everywhere if number in lost else block.successors:
            if undefined & ~entries[successor]:
                entries[successor] |= undefined
                pending.add(successor)
    return interesting


class UndefinedWatcher:
    """Follows undefined registers. Costs next to nothing while no followed register is undefined in any wave."""

    def __init__(self, machine: Machine, program: Program, findings: Findings, uses: Uses) -> None:
        self.machine = machine
        self.program = program
        self.findings = findings
        self.uses = uses
        self._mask = uses.follow | uses.from_lds
        self._bits = list(_bits(self._mask))
        self._rows = {bit: row for row, bit in enumerate(self._bits)}
        self.reset()

    def reset(self) -> None:
        """Other waves take these waves' places."""
        shape = len(self._bits), self.machine.waves
        self._undefined = np.zeros(shape, bool)
        start = self.uses.follow & ~self.uses.defined
        for bit in _bits(start):
            self._undefined[self._rows[bit]] = True
        self._live = start  # registers that some wave may have undefined
        self._origin = np.full(shape, NEVER, np.int32)
        self._state = 0  # grows with every change

    def __call__(self, step: Step) -> Action | None:
        """What a step must do before it runs; nothing where it touches no followed register."""
        known = self.program.instructions[step.position] is step.instruction
        use = self.uses.uses[step.position] if known else use_of(step.instruction, self.uses.accum_offset)
        touched = (use.reads | use.writes) & self._mask
        if not touched:
            return None
        reads, writes = self._rows_of(use.reads), self._rows_of(use.writes)
        sinks = tuple((self._rows_of(mask), what) for mask, what in use.sinks if mask & self._mask)
        position, written = step.position, use.writes & self._mask

        scalar, everyone = self.machine.scalar, self.machine.waves
        steady = -1  # the state in which this step, run by all waves, changed nothing

        def before(group: Group) -> None:
            nonlocal steady
            if not touched & self._live or steady == self._state and group.size == everyone:
                return
            waves = group.waves
            if use.by_lane and group.mask is not None:
                waves = waves[(scalar[EXEC, waves] | scalar[EXEC + 1, waves]) != 0]
            bad = self._undefined[reads[:, None], waves]
            tainted = bad.any(axis=0)
            if tainted.any():
                self._report(waves, position, reads, sinks, bad)
                self._live |= written
            if (self._undefined[writes[:, None], waves] != tainted).any():
                self._undefined[writes[:, None], waves] = tainted
                self._state += 1
            elif len(waves) == everyone:
                steady = self._state
            self._origin[writes[:, None], waves] = position
            if not tainted.any() and not self._undefined[writes].any():
                self._live &= ~written

        return before

    def taint(self, group: Group, position: int, waves: NDArray[np.bool_]) -> None:
        """An instruction has filled its destination with bytes of LDS that nobody wrote, in some waves of the group."""
        mask = self.uses.uses[position].writes & self._mask
        rows, chosen = self._rows_of(mask)[:, None], group.waves[waves]
        if not self._undefined[rows, chosen].all():
            self._undefined[rows, chosen] = True
            self._state += 1
        self._origin[rows, chosen] = position
        self._live |= mask

    def _rows_of(self, mask: int) -> NDArray[np.intp]:
        return np.array([self._rows[bit] for bit in _bits(mask & self._mask)], np.intp)

    def _report(self, waves: NDArray[np.int64], position: int, reads: NDArray[np.intp], sinks: tuple[tuple[NDArray[np.intp], str], ...],
                bad: NDArray[np.bool_]) -> None:
        consumer = self.program.instructions[position]
        for at, number in np.argwhere(bad).tolist():
            wave, row = int(waves[number]), int(reads[at])
            if self._origin[row, wave] == NEVER:
                self._add(READ, "warning", f"{self._name(row)} is read and was never written", None, consumer, wave)
                break
        for rows, what in sinks:
            reaching = self._undefined[rows[:, None], waves]
            if reaching.any():
                at, number = (int(index) for index in np.argwhere(reaching)[0])
                wave, row = int(waves[number]), int(rows[at])
                origin = int(self._origin[row, wave])
                producer = self.program.instructions[origin] if origin != NEVER else None
                self._add(USED, "error", f"{self._name(row)} reaches {what} and holds what nobody wrote", producer, consumer, wave)

    def _add(self, check: str, severity: str, message: str, producer: Instruction | None, consumer: Instruction, wave: int) -> None:
        self.findings.add(Finding(check, severity, message, producer, consumer, wave, int(self.machine.workgroup[wave])))

    def _name(self, row: int) -> str:
        bit = self._bits[row]
        if self.uses.accum_offset <= bit < SGPR_BIT:
            return f"v{bit} (a{bit - self.uses.accum_offset})"
        return mask_names(1 << bit)[0]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
