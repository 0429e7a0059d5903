"""Wait states: how many a pair needs, where a Program lacks them, and the s_nops that mend it.

    wait_states("gfx942", "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", "v_mov_b32 v8, v0")   # 7
    findings = verify(program)
    program = insert(program)

The rules are data (isa/waitrules.py, evaluated by match.py); here is the walk: every producer that is less than 20 wait
states away on any path counts, back-edges too, not the nearest alone. Insertion takes the larger of what LLVM 22 and the ISA text ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.waitstates.cover import Excuse, WalkedCode, excuse
from asmgen.checks.waitstates.match import HazardFacts, PairNeed, hazard_model
from asmgen.checks.waitstates.statesteps import CONTROL, Ages, HazardSteps, HazardTable, Lack, join
from asmgen.isa.operands import HWREG_NAMES
from asmgen.isa.records import dataclass
from asmgen.isa.registers import mask_names
from asmgen.isa.table import opcode
from asmgen.isa.waitrules import MOST_WAIT_STATES, NOP_LIMIT
from asmgen.program.controlflow import Block, ControlFlow, control_flow
from asmgen.program.knowncalls import Calls
from asmgen.program.program import Instruction, Item, Program

_FENCES = frozenset({"branch", "barrier", "wait", "end", "setreg", "setvskip"})
_UNMOVABLE = _FENCES | {"nop", "sendmsg", "ttracedata", "getreg", "rfe", "movrel"}
_SETTLE = 8
SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class Proposal:
    """`candidate` (a position) could stand before `position`, where `states` wait states are missing, in place of one of them."""

    position: int
    states: int
    candidate: int
    message: str


def wait_states(arch: str, producer: str, consumer: str, between: Sequence[str] = ()) -> int:
    """How many further wait states are needed right before `consumer`, after `producer` and the instructions between.

    All are assembly text. The instructions between are producers too: what one of them does to the consumer counts. What they
    themselves would need is not asked, they stand where they stand. The figure is the larger of LLVM 22 and the ISA text
    (docs/facts/instructions.md section 3.5). Raises OperandError for text that the assembler would refuse.
    """
    from asmgen.reader.instruction import parse_instruction  # the grammar is no business of builds

    model = hazard_model(arch)
    last = model.facts(parse_instruction(consumer, arch))
    missing = age = 0
    for text in reversed((producer, *between)):
        facts = model.facts(parse_instruction(text, arch))
        missing = max(missing, model.states(facts, last) - age)
        age += facts.states
    return missing


def verify(program: Program, match_llvm: bool = False, flow: ControlFlow | None = None) -> list[LintFinding]:
    """Every pair of instructions with too few wait states between, in program order. `flow` is the program's, where it is known.

    A matrix instruction whose registers in question a later one overwrites is not named: who waits for that one has waited for both.
    With `match_llvm` only what LLVM 22 itself would insert counts, its known excess too (docs/facts/instructions.md section 3.5, item 7).
    """
    walk = _Walk(program, match_llvm, flow)
    found: list[LintFinding] = []

    def report(position: int, lacking: list[Lack]) -> int:
        judged = [(producer, needs, _finding(walk, position, producer, age, needs))
                  for producer, age, needs in sorted(lacking, key=lambda lack: lack[0])]
        said = {producer: one for producer, _, one in judged}
        found.extend(one for producer, needs, one in judged if not _superseded(walk, producer, needs, one, said))
        return 0

    entries = walk.entries({})
    for block in walk.blocks:
        walk.run(block, entries[block.number], {}, report)
    return found


def needed(program: Program) -> dict[int, tuple[int, tuple[str, ...]]]:
    """Where wait states have to be added: {position: (how many, why)}, the earlier places taken as mended already."""
    return _plan(_Walk(program, False))


def ages_after(program: Program, table: HazardTable) -> list[Ages]:
    """The ages of what may still be too near after each block, needed wait states taken as standing."""
    walk = _Walk(program, False, table=table)
    nops = {position: states for position, (states, _) in _plan(walk).items()}
    return [walk.at_end(block, ages, nops) for block, ages in zip(walk.blocks, walk.entries(nops), strict=True)]


def insert(program: Program, fill: Iterable[Proposal] = ()) -> Program:
    """The program with the fewest s_nops that satisfy every rule on every path, each with its reason.

    `fill` are proposals to accept: those instructions are moved first. Nothing else moves.
    """
    program = _moved(program, fill)
    plan = needed(program)
    if not plan:
        return program
    nop = opcode("s_nop")
    items: list[Item] = []
    position = 0
    for item in program.items:
        if isinstance(item, Instruction):
            states, told = plan.get(position, (0, ()))
            while states:
                count = min(states, NOP_LIMIT)
                items.append(Instruction(nop, nop.forms[0], (count - 1,), source=item.source, reason="; ".join(told)))
                states -= count
            position += 1
        items.append(item)
    return program.with_items(items)


def proposals(program: Program) -> list[Proposal]:
    """Independent instructions of the same block that could stand where wait states are missing or an s_nop waits now.

    Memory instructions are never proposed: moving them would change what the wait counters mean. Each instruction is
    proposed once, for the first place that it fits.
    """
    walk = _Walk(program, False)
    plan = _plan(walk)
    entries = walk.entries({position: states for position, (states, _) in plan.items()})
    taken: set[int] = set()
    found = []
    for position, instruction in enumerate(walk.instructions):
        states = plan.get(position, (0, ()))[0]
        if not states and instruction.name != "s_nop":
            continue
        block = walk.blocks[walk.block_of[position]]
        ages = walk.ages_before(block, entries[block.number], plan, position)
        count = states or walk.samples[position].states
        for candidate in walk.movable(block, position, ages, count, taken):
            taken.add(candidate)
            message = f"{walk.instructions[candidate].text} is independent of what stands between and could fill a wait state " \
                      f"before {instruction.text}"
            found.append(Proposal(position, count, candidate, message))
    return found


class _Walk(HazardSteps):
    """The facts of a program's instructions and the passing of producers' ages along its control flow."""

    def __init__(self, program: Program, match_llvm: bool, flow: ControlFlow | None = None, table: HazardTable | None = None) -> None:
        table = table or HazardTable(hazard_model(program.arch, match_llvm))
        samples = table.model.samples(program.instructions)
        table.add({facts.kind for facts in samples})
        super().__init__(table, program.instructions, samples)
        self.samples: list[HazardFacts] = samples
        self._touched = program.touched
        self.instructions: tuple[Instruction, ...] = program.instructions
        flow = flow or control_flow(program)
        self.blocks = flow.blocks
        self.block_of = flow.block_of
        self.calls = Calls(program, flow)
        self.code = WalkedCode(self.model, self.instructions, self.samples, self.blocks, self.block_of,
                               self.calls)

    def run(self, block: Block, ages: Ages, nops: Mapping[int, int], lack: Callable[[int, list[Lack]], int]) -> None:
        """Go through a block with `nops` wait states added before positions.

        `lack` hears of every position with missing wait states: (producer, age, rows) of each producer. What it returns is
        added before the position at once.
        """
        producers = self.entering(ages)
        samples, touched, rows, reaches = self.samples, self._touched, self.table.rows, self.table.reaches
        for position in range(block.first, block.last + 1):
            sample = samples[position]
            if position in nops:
                producers.clock += nops[position]
            # What `lacking` and `issue` ask first is asked here already: most instructions have nothing to do with each other.
            if (touched[position] | CONTROL) & producers.watched and rows[sample.kind] \
                    and (lacking := self.lacking(producers, position)):
                producers.clock += lack(position, lacking)
            if reaches[sample.kind]:
                self.issue(producers, position, position in ages)
            else:
                producers.clock += sample.states

    def at_end(self, block: Block, ages: Ages, nops: Mapping[int, int]) -> Ages:
        """The ages after a block that is entered with these. Only its last instructions matter where it is long."""
        found: Ages = {}
        age = 0
        for position in range(block.last, block.first - 1, -1):
            facts = self.samples[position]
            if self.table.reaches[facts.kind] > age:
                found[position] = age
            age += facts.states + nops.get(position, 0)
            if age >= MOST_WAIT_STATES:
                return found
        for position, before in ages.items():
            if self.table.reaches[self.samples[position].kind] > before + age and not block.first <= position <= block.last:
                found[position] = before + age
        return found

    def entries(self, nops: Mapping[int, int]) -> list[Ages]:
        """The ages at each block's entry, the youngest over all paths: a fixed point."""
        entries: list[Ages] = [{} for _ in self.blocks]
        left: list[Ages | None] = [None for _ in self.blocks]
        pending = list(range(len(self.blocks)))
        queued = set(pending)
        while pending:
            number = pending.pop(0)
            queued.discard(number)
            block = self.blocks[number]
            left[number] = self.at_end(block, entries[number], nops)
            for origin, successor in self.calls.edges(block):
                if join(entries[successor], self.brought(origin, successor, left)) and successor not in queued:
                    pending.append(successor)
                    queued.add(successor)
        return entries

    def brought(self, number: int, successor: int, left: Sequence[Ages | None]) -> Ages:
        """What a block brings to its successor, from the ages after blocks (None: not known yet); past a call, what the called code leaves
        of what it or the caller issued."""
        before, call = left[number], self.calls.call(number, successor)
        if before is None or call is None:
            return before or {}
        found = {} if call.whole else dict(before)
        for end in call.returns:
            join(found, {position: age for position, age in (left[end] or {}).items()
                         if position in before or self.block_of[position] in call.inside})
        return found

    def ages_before(self, block: Block, ages: Ages, plan: Mapping[int, tuple[int, tuple[str, ...]]], position: int) -> Ages:
        """The ages before a position of a block, the nops of earlier positions counted."""
        if position == block.first:
            return dict(ages)
        part = Block(block.number, block.first, position - 1, (), ())
        return self.at_end(part, ages, {location: states for location, (states, _) in plan.items()})

    def movable(self, block: Block, position: int, ages: Ages, count: int, taken: set[int]) -> list[int]:
        """Up to `count` positions after `position` whose instructions may stand before it."""
        found: list[int] = []
        first = position + 1 if self.instructions[position].name == "s_nop" else position
        for candidate in range(first + 1, block.last + 1):
            instruction = self.instructions[candidate]
            if instruction.opcode.classes & _FENCES or len(found) == count:
                break
            if candidate in taken or not self._may_move(instruction):
                continue
            passed = range(first, candidate)
            if any(_depend(instruction, self.instructions[other]) or self.model.states(self.facts(candidate), self.facts(other))
                   for other in passed):
                continue
            late = len(found)
            if any(self.model.states(self.facts(origin), self.facts(candidate)) > age + late for origin, age in ages.items()) \
                    or any(self.model.states(self.facts(earlier), self.facts(candidate)) for earlier in found):
                continue
            found.append(candidate)
        return found

    def _may_move(self, instruction: Instruction) -> bool:
        movable = instruction.opcode.classes & {"valu", "salu"} and not instruction.opcode.classes & _UNMOVABLE
        return bool(movable) and not instruction.writes & CONTROL


def _plan(walk: _Walk) -> dict[int, tuple[int, tuple[str, ...]]]:
    """Wait states to add by position, each block from what flows into it, until no back-edge changes anything."""
    plans: list[dict[int, tuple[int, tuple[str, ...]]]] = [{} for _ in walk.blocks]
    ages_left: list[Ages | None] = [None for _ in walk.blocks]
    visits = [0 for _ in walk.blocks]
    pending = set(range(len(walk.blocks)))
    while pending:
        number = min(pending)
        pending.remove(number)
        block = walk.blocks[number]
        entry: Ages = {}
        for predecessor in walk.calls.predecessors(block):
            join(entry, walk.brought(predecessor, number, ages_left))
        visits[number] += 1
        # Nops of two blocks on one loop may replace each other in turn; from some visit on what stands, stands.
        plan = plans[number] if visits[number] > _SETTLE else {}

        def add(position: int, lacking: list[Lack], plan: dict[int, tuple[int, tuple[str, ...]]] = plan) -> int:
            more = max(need.states - age for _, age, needs in lacking for need in needs)
            states, told = plan.get(position, (0, ()))
            plan[position] = states + more, told + reasons(walk.instructions, lacking)
            return more

        nops = {position: states for position, (states, _) in plan.items()}
        walk.run(block, entry, nops, add)
        after = walk.at_end(block, entry, {position: states for position, (states, _) in plan.items()})
        plans[number] = plan
        if after != ages_left[number]:
            ages_left[number] = after
            pending.update(successor for _, successor in walk.calls.edges(block))
    return {position: what for plan in plans for position, what in sorted(plan.items())}


def _depend(first: Instruction, second: Instruction) -> bool:
    """Whether two instructions may not change places."""
    return bool(first.writes & (second.reads | second.writes) or first.reads & second.writes)


def _moved(program: Program, fill: Iterable[Proposal]) -> Program:
    """The program with each accepted candidate before its position."""
    moves = {proposal.candidate: proposal.position for proposal in fill}
    if not moves:
        return program
    instructions = program.instructions
    arriving: dict[int, list[Instruction]] = {}
    for candidate in sorted(moves):
        arriving.setdefault(moves[candidate], []).append(instructions[candidate])
    items: list[Item] = []
    position = 0
    for item in program.items:
        if not isinstance(item, Instruction):
            items.append(item)
            continue
        placed = arriving.get(position, [])
        items += placed
        if item.name == "s_nop" and placed:
            left = _nop_states(item) - len(placed)
            if left > 0:
                items.append(replace(item, operands=(left - 1,)))
        elif position not in moves:
            items.append(item)
        position += 1
    return program.with_items(items)


def _nop_states(nop: Instruction) -> int:
    count = nop.operands[0]
    return count + 1 if isinstance(count, int) else 1


def _subject(producer: Instruction, need: PairNeed) -> str:
    """What of the producer the row is about."""
    role = need.rule.roles[0]
    if role in ("hwreg", "mode"):
        number = need.mask.bit_length() - 1
        return HWREG_NAMES.get(number, f"hardware register {number}")
    return ", ".join(mask_names(need.mask)) or producer.name


def _producer_text(producer: Instruction) -> str:
    location = producer.where()
    return f"{producer.text} ({location})" if location else producer.text


def reasons(instructions: Sequence[Instruction] | Mapping[int, Instruction], lacking: Iterable[Lack]) -> tuple[str, ...]:
    """One sentence for the producer that asks for most."""
    producer, age, needs = max(lacking, key=lambda lack: max(need.states for need in lack[2]) - lack[1])
    worst = max(needs, key=lambda need: need.states)
    missing = worst.states - age
    first = instructions[producer]
    return (f"{_subject(first, worst)} of {_producer_text(first)}, {worst.rule.text}: {missing} more wait state{'s' * (missing > 1)}",)


def _finding(walk: _Walk, position: int, producer: int, age: int, needs: Sequence[PairNeed]) -> LintFinding:
    first, second = walk.instructions[producer], walk.instructions[position]
    isa, llvm = (max((need.states for need in needs if need.rule.asked(who)), default=0) for who in ("isa", "llvm"))
    most = max(need.states for need in needs)
    worst = next(need for need in needs if need.states == most)
    severity, why = _severity(needs), f"LLVM 22 puts an s_nop there, but {worst.rule.doubt}" if worst.rule.doubt else ""
    if severity == "error":
        severity, why = _excused(needs, excuse(walk.code, producer, position, most))
    who = "" if isa == llvm == most else f" ({isa or 'none'} by the ISA text, {llvm or 'none'} by LLVM 22)"
    message = f"{second.text} needs {most} wait state{'s' * (most > 1)}{who} after {_producer_text(first)}, {age or 'none'} there: " \
              f"{_subject(first, worst)} {worst.rule.text}{f' ({why})' if why else ''}"
    return LintFinding(worst.rule.id, severity, message, first, second, age, most, position)


def _superseded(walk: _Walk, producer: int, needs: Sequence[PairNeed], found: LintFinding, said: Mapping[int, LintFinding]) -> bool:
    """Whether a later matrix instruction of its block overwrites all that a finding of a matrix instruction is about, and nothing worse is
    said of that one at the same consumer.

    The core works in order: who waits for the later result has waited for the earlier one.
    """
    if not walk.model.passes(walk.facts(producer)) or not all(need.mask for need in needs):
        return False
    block = walk.blocks[walk.block_of[producer]]
    end = found.position if producer < found.position <= block.last else block.last + 1
    for later in range(producer + 1, end):
        if walk.model.passes(walk.facts(later)) and all(not need.mask & ~walk.instructions[later].writes for need in needs) \
                and (later not in said or SEVERITIES.index(said[later].severity) <= SEVERITIES.index(found.severity)):
            return True
    return False


def _severity(needs: Sequence[PairNeed]) -> str:
    """Of a place that lacks what all these rows ask for."""
    sure = {need.rule.asked_by for need in needs if not need.rule.doubt}
    if "both" in sure or {"isa", "llvm"} <= sure:
        return "error"
    return min((need.rule.severity for need in needs), key=SEVERITIES.index)


def _excused(needs: Sequence[PairNeed], found: Excuse) -> tuple[str, str]:
    """The severity of what would be an error, with what stands between in mind, and in words why it is none."""
    live = [need for need in needs if not found.supersedes(need)]
    if not live:
        return "note", "a scalar instruction between has rewritten it, which the ISA text allows and LLVM 22 does not see"
    short = [need for need in live if not found.covers(need)]
    if short and _severity(short) == "error":
        return "error", ""
    return "warning", f"matrix instructions between take {found.slots} issue slots at least, though they count as fewer"
