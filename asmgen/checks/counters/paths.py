"""Whether a mistake that the dataflow sees on some path is certain to happen.

The dataflow joins all paths, also those that no run takes (two branches on one condition). A path counts as certain here if every
execution of its first instruction may go on along it: a branch may go either way, as long as nothing joins the path before it.
After a join the code may know from where it came, so a later branch may always leave the path.
"""

from __future__ import annotations

from collections.abc import Iterable

from asmgen.checks.counters.ledger import LGKM, VM, Operation
from asmgen.isa.records import dataclass
from asmgen.isa.registers import NAMED
from asmgen.program.controlflow import ControlFlow
from asmgen.program.knowncalls import Calls
from asmgen.program.program import Instruction, Program

_EXEC = NAMED["exec"].mask
# After these, the lanes that a load was issued for are still among those that run, or fewer of them run.
_NARROWING = frozenset({"s_and_b64", "s_and_saveexec_b64", "s_or_b64", "s_or_saveexec_b64", "s_wqm_b64"})
_LONGEST = 400
LLVM_COUNTS = ("global_load_lds", "scratch_load_lds")
"""Loads into LDS that LLVM 22 counts on lgkmcnt besides vmcnt (docs/facts/instructions.md section 4)."""


@dataclass(frozen=True)
class Route:
    """How a producer reaches a consumer while still in flight.

    `certain` as the module says. `newer` is the fewest in-order operations issued between. `lanes` is whether other lanes than the
    producer's may run at the consumer on every such path. `counted` is whether a wait on every such path serves if global loads into
    LDS count on lgkmcnt too, as LLVM takes them to.
    """

    certain: bool
    newer: int
    lanes: bool
    counted: bool


def find_route(program: Program, flow: ControlFlow, operations: list[Operation], touches: list[int], producer: int, consumer: int,
               counter: str, calls: Calls) -> Route:
    """The best evidence for a producer being in flight at a consumer; not certain where no certain path leads there.

    A path goes on into code that is called where it is known, and back to the call that it came by; from a function in which it begins,
    back to the only call there is.
    """
    source = operations[producer]
    found: list[Route] = []
    entries = {0, program.labels.get(program.entry, 0)}
    stack: list[tuple[int, int, int, int, bool, bool, bool, tuple[int, ...]]] = [
        (producer + 1, flow.block_of[producer], 0, 0, False, False, False, ())]
    seen: set[tuple[int, bool, bool, bool, tuple[int, ...]]] = set()
    while stack and len(seen) < _LONGEST:
        position, number, newer, loads, joined, lanes, counted, backs = stack.pop()
        block = flow.blocks[number]
        alive = True
        while position <= block.last:
            operation = operations[position]
            if position == consumer:
                found.append(Route(True, newer, lanes, counted))
            leaves = operation.leaves and number not in calls.into and number not in calls.returning and number not in calls.jumps
            if position in (consumer, producer) or leaves or source.arrives & touches[position]:
                alive = False
                break
            if operation.wait is not None:
                count = operation.wait.vmcnt if counter == VM else operation.wait.lgkmcnt
                if count is not None and (count == 0 or source.ordered and newer >= count):
                    alive = False
                    break
                counted = counted or count is not None and source.ordered and newer + loads >= count
            if counter in operation.weight and operation.ordered:
                newer += 1
            loads += counter == LGKM and operation.fills_lds and program.instructions[position].name.startswith(LLVM_COUNTS)
            lanes = _other_lanes(program.instructions[position], lanes)
            position += 1
        successors, backs = _ways(calls, number, block.successors, backs)
        if not alive or joined and len(successors) > 1:
            continue
        for successor in successors:
            following = flow.blocks[successor]
            key = (successor, joined or len(calls.predecessors(following)) > 1 or following.first in entries, lanes, counted, backs)
            if key not in seen:
                seen.add(key)
                stack.append((following.first, successor, newer, loads, key[1], lanes, counted, backs))
    if not found:
        return Route(False, 0, False, False)
    return min(found, key=lambda route: (route.lanes, route.counted, route.newer))


def _ways(calls: Calls, number: int, successors: tuple[int, ...], backs: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The blocks in which a path goes on after one, and those to which the calls that it is in then come back, the innermost last."""
    call = calls.into.get(number)
    if call is not None:
        return (call.callee,), (*backs, call.back)
    callers = calls.returning.get(number)
    if callers is None:
        return (calls.jumps[number],) if number in calls.jumps else successors, backs
    if backs:
        return backs[-1:], backs[:-1]
    return (callers[0].back,) if len(callers) == 1 else (), ()


def _other_lanes(instruction: Instruction, lanes: bool) -> bool:
    """Whether lanes may run that did not run before, of which the producer's need not be part."""
    if not instruction.writes & _EXEC or instruction.name.startswith("v_cmpx"):
        return lanes
    if instruction.name == "s_mov_b64" and instruction.operands[-1] == -1:
        return False
    return lanes or instruction.name not in _NARROWING


def reachable(program: Program, flow: ControlFlow, told: Iterable[Operation]) -> frozenset[int]:
    """Blocks that can run: from the beginning and the entry, and, where code calls or jumps to computed addresses, from labels.

    `told` are the operations that are not plain.
    """
    return flow.reachable(program, any(operation.leaves for operation in told))
