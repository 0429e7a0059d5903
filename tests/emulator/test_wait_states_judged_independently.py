"""The emulator reads the rows of wait states and a program's ways by itself: on random pairs and programs it says what the passes say."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.checks.waitstates.match import hazard_model
from asmgen.emulator.arrival.hazardrows import demands, described
from asmgen.emulator.machine.ways import Ways
from asmgen.isa.errors import AsmgenError
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Modified, Reg, s, v
from asmgen.isa.table import names, opcode
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Instruction
from asmgen.reader.instruction import parse_instruction
from asmgen.tools.instructionsamples import legal
from tests.isa.test_waitstate_rows import EXAMPLES


def folded(operand: Operand, pick: random.Random) -> Operand:
    """The operand on a few registers of its file, so that two instructions often share one."""
    if isinstance(operand, Modified) and isinstance(operand.value, Reg):
        value = folded(operand.value, pick)
        return replace(operand, value=value)
    if isinstance(operand, Reg) and operand.file in "va":
        return Reg(operand.file, 2 * pick.randrange(2), operand.count)
    if isinstance(operand, Reg) and operand.file == "s" and operand.last < 102:
        return Reg("s", 4 * pick.randrange(2), operand.count)
    return operand


def random_instructions(arch: str, pick: random.Random, count: int) -> list[Instruction]:
    found = []
    chosen = sorted(names())
    while len(found) < count:
        row = opcode(pick.choice(chosen))
        forms = [form for form in row.forms if not form.archs or arch in form.archs]
        if not forms or row.archs and arch not in row.archs:
            continue
        form = pick.choice(forms)
        sample = legal(pick, row, form, arch, 0.5)
        operands = tuple(folded(operand, pick) for operand in sample.operands)
        found.append(Instruction(row, form, operands, sample.modifiers, form.suffix))
    return found


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_the_same_rows_hold_for_random_pairs(arch: str) -> None:
    pick = random.Random(7)
    texts = [text for examples in EXAMPLES.values() for pair in examples for text in pair]
    instructions = random_instructions(arch, pick, 200)
    for text in texts:
        try:
            instructions.append(parse_instruction(text, arch))
        except AsmgenError:
            continue  # the other architecture's
    model = hazard_model(arch)
    theirs, ours = [model.facts(instruction) for instruction in instructions], described(arch, instructions)
    held = 0
    met: set[str] = set()
    for first, producer in enumerate(ours):
        assert (producer.states, producer.passes) == (theirs[first].states, model.passes(theirs[first]))
        for second, consumer in enumerate(ours):
            mine = {(demand.row.id, demand.states, demand.shared) for demand in demands(producer, consumer)}
            other = {(need.rule.id, need.states, need.mask) for need in model.needs(theirs[first], theirs[second])}
            assert mine == other, (instructions[first].text, instructions[second].text)
            held += bool(mine)
            met |= {row for row, _, _ in mine}
    assert held > 3000 and len(met) > 50


@pytest.mark.parametrize("seed", range(20))
def test_the_same_ways_through_random_programs(seed: int) -> None:
    pick = random.Random(seed)
    k = Builder("k", "gfx950")
    labels = [f"L{number}" for number in range(5)]
    places = sorted(pick.randrange(30) for _ in labels)
    for number in range(30):
        for label, place in zip(labels, places, strict=True):
            if place == number:
                k.label(label)
        pick.choice([lambda: k.v_mov_b32(v[0], v[1]), lambda: k.s_cbranch_scc1(pick.choice(labels)), lambda: k.s_barrier(),
                     lambda: k.s_branch(pick.choice(labels)), lambda: k.v_mov_b32(v[0], v[1]), lambda: k.s_endpgm(),
                     lambda: k.s_swappc_b64(s[0:1], s[2:3]) if pick.random() < 0.3 else k.s_nop(0)])()
    program = k.program()
    flow, ways = control_flow(program), Ways(program)
    assert [(block.first, block.last) for block in flow.blocks] == [(piece.first, piece.last) for piece in ways.pieces]
    assert tuple(ways.piece_of) == flow.block_of
    lost = {flow.block_of[position] for position in flow.indirect}
    for block, piece in zip(flow.blocks, ways.pieces, strict=True):
        assert (piece.following is None) == (block.number in lost)
        assert set(ways.following(block.number, False)) == set(block.successors)
    assert {(loop.first, loop.last) for loop in flow.loops()} == set(ways.loops())
