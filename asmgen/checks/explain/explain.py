"""Why an instruction stands as it does: operands by name, what is in flight before it, what it waits for, what is live, what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from asmgen.checks.counters.barriers import described, groups_in_flight, sections
from asmgen.checks.counters.flow import WaitFlow
from asmgen.checks.counters.ledger import COUNTERS, LGKM, VM, Ledger, Operation, Operations, operation_of
from asmgen.checks.counters.waitsteps import Arrival, WaitNeed
from asmgen.checks.frontier.frontier import Frontier
from asmgen.checks.waitstates import passes as hazards
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.operands import Operand, format_operand
from asmgen.isa.registers import Modified, Reg, mask_names
from asmgen.program.controlflow import ControlFlow
from asmgen.program.live import program_liveness
from asmgen.program.program import Instruction, Program, Region, operand_mask
from asmgen.regalloc.liveness import Pressure, pressure

Instructions = Sequence[Instruction] | Mapping[int, Instruction]
Names = Callable[[Reg], str]
"""Who owns a register, "" where nobody knows."""


class OperandLine(NamedTuple):
    """One operand: its place in the instruction, its text, whether it is read and written, its owner's name or ""."""

    slot: str
    text: str
    role: str
    owner: str


class InFlight(NamedTuple):
    """One outstanding operation: `newer` in-order ones were issued after it, `brings` is what arrives with it."""

    text: str
    where: str
    counter: str
    newer: int
    ordered: bool
    brings: str


class Outstanding(NamedTuple):
    """One outstanding operation before it is put into words."""

    instruction: Instruction
    operation: Operation
    counter: str
    newer: int


@dataclass(frozen=True, eq=False)
class Explanation:
    """One instruction where it stands (or would stand, for `Builder.peek`).

    `waits` are the counts it needs before it beyond what stands there (empty: none), with a sentence each in `wait_reasons`;
    `wait_states` likewise. `why` says what a wait, a nop or a barrier is there for. `stalls` are counters that may be full. `live_mask`
    holds the registers wanted before it. `path` says, for `Builder.peek`, which way through the code the answer is for, "" where all of
    it is placed.

    A scheduler asks thousands of times for counts alone, so words are made when they are read.
    """

    instruction: Instruction
    arch: str
    kernel: str
    position: int
    names: Names
    outstanding: tuple[Outstanding, ...]
    waits: Mapping[str, int]
    arrivals: tuple[tuple[Arrival, Outstanding | None], ...]
    wait_states: int
    state_reasons: tuple[str, ...]
    why: tuple[str, ...]
    stalls: tuple[str, ...]
    live_mask: int = 0
    path: str = ""

    @property
    def text(self) -> str:
        """The instruction as the assembler reads it."""
        return self.instruction.text

    @property
    def where(self) -> str:
        """The author's place."""
        return self.instruction.where()

    @cached_property
    def operands(self) -> tuple[OperandLine, ...]:
        """Its operands, explicit ones first."""
        return _operands(self.instruction, self.names)

    @cached_property
    def in_flight(self) -> tuple[InFlight, ...]:
        """What is outstanding before it, oldest first."""
        return tuple([InFlight(entry.instruction.text, entry.instruction.where(), entry.counter, entry.newer, entry.operation.ordered,
                               _brings(entry.operation)) for entry in self.outstanding])

    @cached_property
    def wait_reasons(self) -> tuple[str, ...]:
        """What it has to wait for."""
        return tuple([_need_sentence(arrival, producer) for arrival, producer in self.arrivals])

    @property
    def passes(self) -> int:
        """The matrix core's occupation, 0 for other instructions."""
        return _passes(self.instruction, self.arch)

    @cached_property
    def live(self) -> tuple[str, ...]:
        """The registers wanted before it."""
        return tuple(mask_names(self.live_mask))

    @property
    def live_count(self) -> Pressure:
        """How many of them there are of each file."""
        return pressure(self.live_mask)

    def as_json(self) -> dict[str, Any]:
        """Every field as JSON has it."""
        return {"text": self.text, "where": self.where, "kernel": self.kernel, "position": self.position,
                "operands": [line._asdict() for line in self.operands], "in_flight": [entry._asdict() for entry in self.in_flight],
                "waits": dict(self.waits), "wait_reasons": list(self.wait_reasons), "wait_states": self.wait_states,
                "state_reasons": list(self.state_reasons), "why": list(self.why), "stalls": list(self.stalls), "passes": self.passes,
                "live": list(self.live), "live_count": self.live_count._asdict(), "path": self.path}


def explain(program: Program, position: int, names: Names = lambda reg: "") -> Explanation:
    """Explain the instruction at a position. Raises IndexError outside of the program."""
    flow = WaitFlow(program, automatic=False)
    live = program_liveness(program, flow.flow).live_before(position)
    states = 0
    reasons = []
    for finding in hazards.verify(program):
        if finding.position == position:
            states = max(states, (finding.need or 0) - (finding.have or 0))
            reasons.append(finding.message)
    return _explanation(program, position, flow, names, live, states, tuple(reasons))


def foresee(frontier: Frontier, instruction: Instruction, kernel: str, names: Names = lambda reg: "") -> Explanation:
    """Explain an instruction that would be issued next, its waits and wait states to be inserted.

    What is live cannot be known yet, so nothing is said of that.
    """
    needed = frontier.need(instruction)
    return Explanation(
        instruction, frontier.arch, kernel, frontier.position, names,
        _outstanding(frontier.in_flight(), frontier.instructions, frontier.operations), needed.waits,
        _arrivals_of(needed.because, frontier.instructions, frontier.operations), needed.wait_states, needed.state_reasons,
        _why_next(frontier, instruction), needed.stalls, path=needed.path)


def _why_next(frontier: Frontier, instruction: Instruction) -> tuple[str, ...]:
    """What a wait would let arrive."""
    wait = operation_of(instruction).wait
    found = []
    for counter, given in ((VM, wait.vmcnt), (LGKM, wait.lgkmcnt)) if wait is not None else ():
        if given is not None:
            found += _arrivals(frontier.instructions, frontier.ledger, frontier.operations, counter, given, lambda mask: None)
    return tuple(found)


def _explanation(program: Program, position: int, flow: WaitFlow, names: Names, live: int, states: int,
                 state_reasons: tuple[str, ...]) -> Explanation:
    instruction = program.instructions[position]
    operation = flow.operations[position]
    ledger = flow.before(position)
    need = _certain(flow.need(ledger, position), flow)
    stalls = tuple(counter for counter, weight in operation.weight.items() if ledger[counter].outstanding + weight > flow.limits[counter])
    counts, because = (need.counts, need.because) if need is not None else ({}, [])
    return Explanation(
        instruction, program.arch, program.name, position, names,
        _outstanding(ledger.in_flight(), program.instructions, flow.operations), counts,
        _arrivals_of(because, program.instructions, flow.operations), states, state_reasons,
        _why(program, position, flow, ledger), stalls, live)


def _certain(need: WaitNeed | None, flow: WaitFlow) -> WaitNeed | None:
    """A need without LDS data that no token names, where no wait will be inserted: who reads it after a barrier its author knows alone,
    and `why` tells of it."""
    return need if need is None or flow.automatic(need.position) else need.without("lds", flow)


def _operands(instruction: Instruction, names: Names) -> tuple[OperandLine, ...]:
    lines = []
    implicit = instruction.reads | instruction.writes
    for slot, operand, reads, writes in instruction.accesses:
        role = "read and written" if reads and writes else "read" if reads else "written" if writes else ""
        reg = _register(operand)
        lines.append(OperandLine(slot.name, format_operand(operand), role, names(reg) if reg is not None else ""))
        if reads or writes:
            implicit &= ~operand_mask(operand)
    lines += [OperandLine("implicit", name, "", "") for name in mask_names(implicit)]
    return tuple(lines)


def _register(operand: Operand) -> Reg | None:
    value = operand.value if isinstance(operand, Modified) else operand
    return value if isinstance(value, Reg) else None


def _outstanding(entries: Iterable[tuple[int, str, int]], instructions: Instructions, operations: Operations) -> tuple[Outstanding, ...]:
    return tuple([Outstanding(instructions[position], operations[position], counter, newer) for position, counter, newer in entries])


def _arrivals_of(because: Iterable[Arrival], instructions: Instructions,
                 operations: Operations) -> tuple[tuple[Arrival, Outstanding | None], ...]:
    """Each arrival with its producer, None where that is the caller."""
    return tuple([(arrival, Outstanding(instructions[arrival.producer], operations[arrival.producer], arrival.counter, arrival.newer)
                   if arrival.producer >= 0 else None) for arrival in because])


def _brings(operation: Operation) -> str:
    if not operation.fills_lds:
        return ", ".join(mask_names(operation.arrives))
    return ", ".join([*mask_names(operation.arrives), *(str(use) for use in operation.fills), *(() if operation.fills else ("LDS data",))])


def _need_sentence(arrival: Arrival, producer: Outstanding | None) -> str:
    newer = f", {arrival.newer} newer" if producer is not None and arrival.newer and producer.operation.ordered else ""
    who = producer.instruction.text if producer is not None else "the caller"
    return f"{arrival.what} of {who} is in flight on {arrival.counter}{newer}"


def _why(program: Program, position: int, flow: WaitFlow, ledger: Ledger) -> tuple[str, ...]:
    """What a wait, a nop or a barrier is there for."""
    instruction, operation = program.instructions[position], flow.operations[position]
    found = [f"inserted: {instruction.reason}"] if instruction.reason else []
    if operation.wait is not None:
        for counter, given in ((VM, operation.wait.vmcnt), (LGKM, operation.wait.lgkmcnt)):
            if given is not None:
                found += _arrivals(program.instructions, ledger, flow.operations, counter, given,
                                   lambda mask: _first_use(flow.flow, flow.touches, position, mask))
    elif instruction.name == "s_nop":
        found += _nop_reasons(program, position)
    elif operation.barrier:
        if position in flow.ahead:
            fills, uses = flow.ahead[position]
            found += [f"after it {what} {', '.join(sorted({use.name for use in set_}))}" for what, set_ in
                      (("waves read", uses), ("waves refill", fills)) if set_]
        found += _lds_over_barrier(program, flow, ledger)
    return tuple(found)


def _lds_over_barrier(program: Program, flow: WaitFlow, ledger: Ledger) -> list[str]:
    """What fills LDS and stays in flight over a barrier, by groups that one wait would let arrive."""
    found = []
    section = sections(flow.flow, flow.operations)
    for counter in COUNTERS:
        flight = ledger[counter]
        unnamed = [producer for producer in flight.births if flow.operations[producer].fills_lds and not flow.operations[producer].fills]
        for group in groups_in_flight(flight, unnamed, section):
            found.append(f"{described(group, program.instructions)} stay in flight on {counter} over it"
                         f"{f', {group.newer} newer' if group.newer else ''}: their LDS data may be read by other waves after the barrier")
    return found


def _arrivals(instructions: Instructions, ledger: Ledger, operations: Operations, counter: str, count: int,
              first_use: Callable[[int], int | None]) -> list[str]:
    arrived = ledger.copy().settle(counter, count, operations)
    if not arrived:
        return [f"{counter}({count}): nothing that it could wait for is in flight"]
    sentences = []
    for producer, newer in arrived:
        operation = operations[producer]
        what = ", ".join(mask_names(operation.arrives)) or ", ".join(str(use) for use in operation.fills) or \
            ("LDS data" if operation.fills_lds else "completion")
        user = first_use(operation.arrives) if operation.arrives else None
        used = f", first needed by {_named(instructions[user])}" if user is not None else ""
        after = f", {newer} newer" if newer and operation.ordered else ""
        sentences.append(f"{counter}({count}): {what} of {_named(instructions[producer])}{after}{used}")
    return sentences


def _named(instruction: Instruction) -> str:
    return f"{instruction.text} ({instruction.where()})" if instruction.where() else instruction.text


def _first_use(flow: ControlFlow, touches: list[int], position: int, mask: int) -> int | None:
    """The nearest instruction after a position that touches registers, over all paths."""
    waiting = [(position + 1, flow.block_of[position])]
    seen: set[int] = set()
    while waiting:
        start, number = waiting.pop(0)
        block = flow.blocks[number]
        for candidate in range(start, block.last + 1):
            if touches[candidate] & mask:
                return candidate
        for successor in block.successors:
            if successor not in seen:
                seen.add(successor)
                waiting.append((flow.blocks[successor].first, successor))
    return None


def _nop_reasons(program: Program, position: int) -> list[str]:
    """What would be missing without this nop."""
    nop = program.instructions[position]
    items = [item for item in program.items if item is not nop]
    known = {(finding.rule, finding.message) for finding in hazards.verify(program)}
    found = [finding.message for finding in hazards.verify(program.with_items(items)) if (finding.rule, finding.message) not in known]
    return [f"without it: {message}" for message in found] or ["no rule needs it"]


def _passes(instruction: Instruction, arch: str) -> int:
    row = MFMA.get(instruction.name)
    if row is None:
        return 0
    modifiers = instruction.modifiers
    return row.passes_on(arch, int(modifiers.get("cbsz") or 0), int(modifiers.get("blgp") or 0))


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts as the assembler writes them."""
    return " ".join(f"{counter}({counts[counter]})" for counter in COUNTERS if counter in counts)


def names_of_rows(rows: list[dict[str, Any]], region: int | None = None) -> Names:
    """Owners' names from the register map of a KERNEL.json: rows of registers with a list of names a region.

    Those of one region, or of all where it is not known which.
    """
    owners: list[tuple[int, str]] = []
    for row in rows:
        mask = 0
        for text in str(row["registers"]).split(", "):
            mask |= _range_mask(text)
        cells = row["owners"] if region is None or region >= len(row["owners"]) else [row["owners"][region]]
        names = dict.fromkeys(name for cell in cells for name in cell)
        owners.append((mask, " / ".join(names)))

    def name(reg: Reg) -> str:
        return ", ".join(dict.fromkeys(owner for mask, owner in owners if mask & reg.mask and owner))

    return name


def _range_mask(text: str) -> int:
    file, numbers = text[:1], text[1:].strip("[]").split(":")
    if file not in "vas" or not numbers[0].isdigit():
        return 0
    first, last = int(numbers[0]), int(numbers[-1])
    return Reg(file, first, last - first + 1).mask


def region_at(program: Program, position: int) -> int | None:
    """The number of the region that a position is in, None where the program has no regions."""
    number = -1
    at = 0
    for item in program.items:
        if isinstance(item, Region):
            number += 1
        elif isinstance(item, Instruction):
            if at == position:
                break
            at += 1
    return number if number >= 0 else None
