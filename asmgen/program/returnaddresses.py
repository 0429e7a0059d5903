"""Where a called function holds the address that it returns to: in the pair that the call wrote, in copies, in lanes where compilers
spill it. What overwrites one of these ends that, so a jump through it is no return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmgen.isa.registers import Reg
from asmgen.program.codeaddresses import CALLS, Words, copied, forget, place_mask, restores, spilled
from asmgen.program.controlflow import Block
from asmgen.program.program import Instruction

_RETURN = "return"


def returning_blocks(instructions: Sequence[Instruction], blocks: Sequence[Block], callee: int, address: int,
                     passed: Mapping[int, tuple[int, ...]], inside: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """The blocks of a function that end with a jump to where it was called from, on each way there. `address` is the pair that the call
    writes, as a mask; `passed` has the successors of blocks that differ from the control flow's; `inside` has what runs in the calls of
    known functions, by the block that each ends."""
    low = Reg("s", 0).mask.bit_length() - 1
    first = (address & -address).bit_length() - 1 - low
    states: dict[int, Words] = {callee: {(first, -1): (_RETURN, 0), (first + 1, -1): (_RETURN, 1)}}
    waiting, found = [callee], dict[int, bool]()
    while waiting:
        number = waiting.pop()
        block, state = blocks[number], dict(states[number])
        for position in range(block.first, block.last):
            _pass(instructions[position], state)
        last = instructions[block.last]
        found[number] = last.name == "s_setpc_b64" and _holds(state, last.operands[0])
        _pass(last, state)
        if last.name in CALLS:
            lost = _lost(instructions, blocks, inside.get(number, frozenset()))
            state = {key: value for key, value in state.items() if not isinstance(key, str) and not lost & place_mask(key)}
        for successor in passed.get(number, blocks[number].successors):
            old = states.get(successor)
            new = state if old is None else {key: value for key, value in old.items() if state.get(key) == value}
            if old is None or len(new) < len(old):
                states[successor] = dict(new)
                waiting.append(successor)
    return frozenset(number for number, returns in found.items() if returns)


def _pass(instruction: Instruction, state: Words) -> None:
    name, operands = instruction.name, instruction.operands
    made: Words = {}
    if name in ("s_mov_b32", "s_mov_b64"):
        made.update(copied(operands[0], operands[1], state, 1 + (name == "s_mov_b64")))
    elif name in ("v_writelane_b32", "v_readlane_b32"):
        made.update(spilled(instruction, state))
    forget(instruction, state)
    state.update(made)


def _holds(state: Words, operand: object) -> bool:
    return isinstance(operand, Reg) and operand.file == "s" and \
        [state.get((operand.index + half, -1)) for half in (0, 1)] == [(_RETURN, 0), (_RETURN, 1)]


def _lost(instructions: Sequence[Instruction], blocks: Sequence[Block], inside: frozenset[int]) -> int:
    """What functions write that a call runs, but for what they restore."""
    written, restored = 0, 0
    for number in inside:
        for instruction in instructions[blocks[number].first:blocks[number].last + 1]:
            if restores(instruction):
                restored |= instruction.writes
            else:
                written |= instruction.writes
    return written & ~restored
