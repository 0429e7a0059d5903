"""Addresses of code that a program makes from its own position, as compilers do for functions of the same code object.

Constants are followed through scalar registers and through lanes of vector registers, where compilers spill them. In text, where nothing
has an address yet, an address is the name of its label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from asmgen.isa.operands import Symbol
from asmgen.isa.registers import SCC_BIT, Reg
from asmgen.program.controlflow import Block, ControlFlow
from asmgen.program.program import Instruction, Program

CALLS = frozenset({"s_swappc_b64", "s_call_b64"})
_INDIRECT = frozenset({"s_swappc_b64", "s_setpc_b64"})
_WORD = (1 << 32) - 1
_RESTORES = frozenset({"v_readlane_b32", "scratch_load_dword", "buffer_load_dword"})
_SGPRS_KEPT, _VGPRS_KEPT = Reg("s", 30, 72).mask, Reg("v", 40, 216).mask
_SCC = "scc"
_Key = str | tuple[int, int]
"""A place: SCC; a scalar register (number, -1); a lane of a vector register (number, lane)."""
_Value = int | tuple[str | int, int]
"""A word: a number, or which half (0, 1) of an address: that of a label, or the one past the instruction at a position."""
Words = dict[_Key, _Value]
_RELATIVE = re.compile(r"(.+)@rel32@(lo|hi)\+(4|12)")
_DIFFERENCE = re.compile(r"([\w.$]+)\s*-\s*([\w.$]+)")


def code_addresses(program: Program, flow: ControlFlow) -> dict[int, int]:
    """Where calls and jumps to computed addresses go, by the number of the block that each ends: the address, or in text the position of
    the label. Those whose address is not made from the code's own position on each way there are left out."""
    instructions, blocks = program.instructions, flow.blocks
    asked = [block for block in blocks if instructions[block.last].name in _INDIRECT]
    if not asked or not any(instruction.name == "s_getpc_b64" for instruction in instructions):
        return {}
    words = _ConstantWords(program, flow)
    starts = {instructions[block.first].address: block.number for block in blocks if instructions[block.first].address is not None}
    while True:
        found = words.targets(asked)
        # What is called begins with values that nobody knows, also where other code runs into it.
        called = {starts[target] if target in starts else flow.block_of[target] for target in found.values()
                  if target in starts or instructions[0].address is None and target < len(instructions)}
        blocks_of = {number: starts[target] if instructions[0].address is not None else flow.block_of[target]
                     for number, target in found.items() if target in starts or instructions[0].address is None}
        if not words.keeps_nothing and words.may_recur(blocks_of):
            words.keeps_nothing = True
        elif called <= words.entries:
            return found
        words.entries |= called


class _ConstantWords:
    """What is known at the begin of each block, solved for entries of which nothing is known."""

    def __init__(self, program: Program, flow: ControlFlow) -> None:
        self._program, self._flow = program, flow
        instructions, blocks = program.instructions, flow.blocks
        self._following = [block.successors[:int(block.last + 1 < len(instructions))] if instructions[block.last].name in CALLS
                           else block.successors for block in blocks]
        """By block, where its function goes on: after a call, at the instruction after it."""
        entered = {successor for following in self._following for successor in following}
        self.entries = {block.number for block in blocks if block.number not in entered} | {0}
        self.entries |= {block.successors[1] for block in blocks if instructions[block.last].name in CALLS and len(block.successors) > 1}
        if program.entry:
            self.entries.add(flow.block_of[program.labels[program.entry]])
        self._group = [0] * len(blocks)
        self._lost = self._lost_in_calls()
        self.keeps_nothing = False
        """Whether no register is taken to be the same after a call, as where a function may come to run in itself."""

    def targets(self, asked: Iterable[Block]) -> dict[int, int]:
        """Where blocks go on that end at a computed address."""
        states = self._solved()
        found = {}
        for block in asked:
            state = states.get(block.number)
            operand = self._program.instructions[block.last].operands[-1]
            if state is None or not isinstance(operand, Reg):
                continue
            after = dict(state)
            self._pass(block, after, block.last)
            target = self._address(after.get((operand.index, -1)), after.get((operand.index + 1, -1)))
            if target is not None:
                found[block.number] = target
        return found

    def _address(self, low: _Value | None, high: _Value | None) -> int | None:
        if isinstance(low, int) and isinstance(high, int):
            return high << 32 | low
        if isinstance(low, tuple) and isinstance(high, tuple) and low[0] == high[0] and (low[1], high[1]) == (0, 1):
            return self._program.labels.get(str(low[0]))
        return None

    def _solved(self) -> dict[int, Words]:
        states: dict[int, Words] = {number: {} for number in self.entries}
        waiting = sorted(self.entries, reverse=True)
        while waiting:
            block = self._flow.blocks[waiting.pop()]
            after = dict(states[block.number])
            self._pass(block, after, block.last + 1)
            for successor in self._following[block.number]:
                old = states.get(successor)
                new = after if old is None else {key: value for key, value in old.items() if after.get(key) == value}
                if old is None or len(new) < len(old):
                    states[successor] = dict(new)
                    waiting.append(successor)
        return states

    def _pass(self, block: Block, state: Words, end: int) -> None:
        instructions = self._program.instructions
        for position in range(block.first, end):
            instruction = instructions[position]
            made = self._made(position, instruction, state)
            if state:
                forget(instruction, state)
            state.update(made)
        if end > block.last and instructions[block.last].name in CALLS:
            lost = -1 if self.keeps_nothing else self._lost[block.number]
            for key in [key for key in state if key == _SCC or not isinstance(key, str) and lost & place_mask(key)]:
                del state[key]

    def _made(self, position: int, instruction: Instruction, state: Words) -> Mapping[_Key, _Value]:
        """The words that an instruction makes of what is known."""
        name, operands = instruction.name, instruction.operands
        if name == "s_getpc_b64" and isinstance(operands[0], Reg):
            low, high = (operands[0].index, -1), (operands[0].index + 1, -1)
            if instruction.address is None:
                return {low: (position, 0), high: (position, 1)}
            address = instruction.address + instruction.size
            return {low: address & _WORD, high: address >> 32}
        if name in ("s_add_u32", "s_addc_u32"):
            return self._sum(position, instruction, state)
        if name in ("s_mov_b32", "s_mov_b64"):
            return copied(operands[0], operands[1], state, 1 + (name == "s_mov_b64"))
        if name in ("v_writelane_b32", "v_readlane_b32"):
            return spilled(instruction, state)
        return {}

    def _sum(self, position: int, instruction: Instruction, state: Words) -> Mapping[_Key, _Value]:
        written, first, second = instruction.operands
        if not isinstance(written, Reg) or not isinstance(first, Reg):
            return {}
        here, high = (written.index, -1), instruction.name == "s_addc_u32"
        value = state.get((first.index, -1))
        if isinstance(value, int) and isinstance(second, int):
            carry = state.get(_SCC) if high else 0
            if not isinstance(carry, int):
                return {}
            total = value + (second & _WORD) + carry
            return {here: total & _WORD, _SCC: total >> 32}
        if isinstance(value, tuple) and isinstance(value[0], int) and value[1] == high:
            label = self._label(position, value[0], second, high, state.get(_SCC))
            return {here: (label, int(high))} | ({} if high else {_SCC: (label, 0)}) if label else {}
        return {}

    def _label(self, position: int, getpc: int, added: object, high: bool, carry: _Value | None) -> str:
        """The label whose address comes of adding to the address past an s_getpc, "" where that is not sure. The two halves are added one
        after the other; SCC says that the lower one was."""
        if high and isinstance(added, int) and isinstance(carry, tuple):
            name = str(carry[0])
            return name if (added & _WORD) == self._upper(name, getpc) else ""
        if not isinstance(added, Symbol):
            return ""
        relative, difference = _RELATIVE.fullmatch(added.name), _DIFFERENCE.fullmatch(added.name)
        if relative is not None:
            # The number is how far the literal stands from s_getpc: 4 bytes right after it, 12 after another addition.
            right = (relative[2], relative[3]) == (("hi", "12") if high else ("lo", "4")) and position == getpc + 1 + high
            return relative[1] if right and (not high or carry == (relative[1], 0)) else ""
        if difference is not None and not high and self._program.labels.get(difference[2]) == getpc + 1:
            return difference[1]
        return ""

    def _upper(self, label: str, getpc: int) -> int | None:
        """The upper half of the distance to a label, which the order in the text tells: a Program may have functions in another one."""
        instructions, position = self._program.instructions, self._program.labels.get(label)
        if position is None or position >= len(instructions):
            return None
        there, here = instructions[position].source, instructions[getpc].source
        if there is None or here is None or there.file != here.file:
            return None
        return 0 if there.line > here.line else _WORD

    def _lost_in_calls(self) -> list[int]:
        """By block, the registers that other functions write, but by loads and v_readlane, which restore what callers keep."""
        group = list(range(len(self._following)))

        def root(number: int) -> int:
            while group[number] != number:
                group[number] = group[group[number]]
                number = group[number]
            return number

        for number, following in enumerate(self._following):
            for successor in following:
                group[root(successor)] = root(number)
        writes: dict[int, int] = {}
        for number, block in enumerate(self._flow.blocks):
            for instruction in self._program.instructions[block.first:block.last + 1]:
                if not restores(instruction):
                    writes[root(number)] = writes.get(root(number), 0) | instruction.writes
        self._group = [root(number) for number in range(len(group))]
        others = {one: _union(mask for other, mask in writes.items() if other != one) for one in writes}
        return [others[one] for one in self._group]

    def may_recur(self, found: Mapping[int, int]) -> bool:
        """Whether a function may call itself, also by way of others; `found` are the blocks to which computed addresses lead."""
        called: dict[int, set[int]] = {}
        for block in self._flow.blocks:
            name = self._program.instructions[block.last].name
            targets = set(block.successors) - set(self._following[block.number])
            targets |= {found[block.number]} if block.number in found else set()
            if name == "s_swappc_b64" and not targets:
                return True
            called.setdefault(self._group[block.number], set()).update(self._group[target] for target in targets)
        for one in called:
            seen, waiting = set(called[one]), list(called[one])
            while waiting:
                more = called.get(waiting.pop(), set()) - seen
                seen |= more
                waiting += more
            if one in seen:
                return True
        return False


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def restores(instruction: Instruction) -> bool:
    """Whether a function may restore what a caller keeps, by the convention of compilers."""
    kept = _VGPRS_KEPT if instruction.name in ("scratch_load_dword", "buffer_load_dword") else _SGPRS_KEPT
    return instruction.name in _RESTORES and not instruction.writes & ~kept


def place_mask(key: tuple[int, int]) -> int:
    return Reg("s" if key[1] < 0 else "v", key[0]).mask


def forget(instruction: Instruction, state: Words) -> None:
    """What an instruction overwrites is not known any more. A lane that is written leaves the others."""
    writes = instruction.writes
    gone: list[_Key] = []
    lane = instruction.operands[-1] if instruction.name == "v_writelane_b32" else None
    for key in state:
        if key == _SCC:
            if writes >> SCC_BIT & 1:
                gone.append(key)
        elif not isinstance(key, str) and writes & place_mask(key) and (key[1] < 0 or not isinstance(lane, int) or lane & 63 == key[1]):
            gone.append(key)
    for key in gone:
        del state[key]


def copied(written: object, source: object, state: Mapping[_Key, _Value], words: int) -> Mapping[_Key, _Value]:
    if not isinstance(written, Reg) or not isinstance(source, Reg) or written.file != "s" or source.file != "s":
        return {}
    return {(written.index + word, -1): state[source.index + word, -1] for word in range(words) if (source.index + word, -1) in state}


def spilled(instruction: Instruction, state: Mapping[_Key, _Value]) -> Mapping[_Key, _Value]:
    written, source, lane = instruction.operands
    if not isinstance(written, Reg) or not isinstance(source, Reg) or not isinstance(lane, int):
        return {}
    place = (source.index, -1 if source.file == "s" else lane & 63)
    return {(written.index, -1 if written.file == "s" else lane & 63): state[place]} if place in state else {}
