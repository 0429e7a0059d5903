"""Each instruction whose result is known before a run, drawn with extreme numbers, against the emulator."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from asmgen.author.emit.builder import Builder
from asmgen.isa import table
from asmgen.isa.errors import OperandError
from asmgen.isa.operands import Operand
from asmgen.isa.registers import NAMED, SCC_BIT, SGPR_BIT, a, exec_, s, v, vcc
from asmgen.program import lowbits, wavesteps
from asmgen.program.controlflow import control_flow
from asmgen.program.wavesteps import (
    _CARRYING,
    _LANES_BELOW,
    _LOGIC,
    _PARTS,
    _SCALAR,
    _SHIFTS,
    _SHORT,
    _TO_AND_FROM_ACC,
    _VECTOR,
    ANYWHERE,
    COMPARED,
)
from asmgen.program.wavevalues import WaveValues
from tests.emulator_harness import run

WAVES = 2
SEEDS = 5
EXTREME = (0, 1, -1, 31, 32, 63, 64, -16, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFF8000, 0x00FFFFFF, 0x800000,
           0x200000, 0x1F001F, 0x7F0010, 0x12345678)
SHORT_EXTREME = (0, 1, -1, 31, 32, 63, 0x7FFF, 0x8000, 0xFFFF, -0x8000, -2)
INLINE = (0, 1, -1, 31, 32, 63, 64, -16)
Rule = Callable[[Builder, random.Random, str, int], None]
"""Emits one instruction of a name; results go to s[n:n+1] or to v[n] of the number n."""


def arity(function: Callable[..., object]) -> int:
    return function.__code__.co_argcount if hasattr(function, "__code__") else 2


def scalar_source(draw: random.Random) -> Operand:
    return draw.choice((s[4], s[5], s[6], draw.choice(EXTREME)))


def sources_of(draw: random.Random, count: int) -> list[Operand]:
    """At most one number of the scalar unit, as the vector unit reads it."""
    found: list[Operand] = [draw.choice((v[1], v[2], v[3], v[4], v[0])) for _ in range(count)]
    if draw.random() < 0.6:
        found[0] = draw.choice((s[4], s[5], draw.choice(INLINE), draw.choice(INLINE)))
    return found


def scalar(k: Builder, draw: random.Random, name: str, place: int) -> None:
    first = draw.choice(SHORT_EXTREME) if name == "s_movk_i32" else scalar_source(draw)
    second = scalar_source(draw) if isinstance(first, type(s[4])) else draw.choice((s[4], s[6]))
    k.emit(name, s[place], *[first, second][:arity(_SCALAR[name])])


def vector(k: Builder, draw: random.Random, name: str, place: int) -> None:
    sources = sources_of(draw, arity((_VECTOR | _SHORT)[name]))
    k.emit(name, v[place], *((vcc,) if name in _CARRYING else ()), *sources)


def parts(k: Builder, draw: random.Random, name: str, place: int) -> None:
    """SDWA of registers alone; other forms are unknown."""
    count = arity((_VECTOR | _SHORT)[name])
    chosen: dict[str, Any] = {f"src{number}_sel": draw.choice(sorted(_PARTS)) for number in range(count)}
    chosen["dst_sel"] = draw.choice(("DWORD", "DWORD", "WORD_1"))
    chosen["dst_unused"] = draw.choice(("UNUSED_PAD", "UNUSED_PAD", "UNUSED_PRESERVE"))
    sources = [draw.choice((v[0], v[1], v[2], v[3], v[4] if number else s[4])) for number in range(count)]
    k.emit(name + "_sdwa", v[place], *((vcc,) if name in _CARRYING else ()), *sources, **chosen)


def wide(k: Builder, draw: random.Random, name: str, place: int) -> None:
    pair = draw.choice((s[4:5], s[6:7], vcc, exec_))
    other = draw.choice((s[6:7], vcc, draw.choice(EXTREME)))
    k.emit(name, s[place:place + 1], *((pair,) if name in ("s_not_b64", "s_mov_b64") else (pair, other)))


def saving(k: Builder, draw: random.Random, name: str, place: int) -> None:
    k.emit(name, s[place:place + 1], draw.choice((s[4:5], vcc, s[6:7], draw.choice(EXTREME))))


def compared(k: Builder, draw: random.Random, name: str, place: int) -> None:
    k.emit(name, draw.choice((s[place:place + 1],) * 3 + (vcc,)), *sources_of(draw, 2))


def scalar_compared(k: Builder, draw: random.Random, name: str, place: int) -> None:
    if name.startswith("s_cmpk_"):
        k.emit(name, s[4], draw.choice((0, 31, 0x7FFF, 0xFFFF, 0x8000) if name.endswith("u32") else SHORT_EXTREME))
    else:
        k.emit(name, s[4], draw.choice((s[5], s[6], draw.choice(EXTREME))))


def with_old(k: Builder, draw: random.Random, name: str, place: int) -> None:
    """The target is a source too, where SCC or the instruction says so."""
    k.s_mov_b32(s[place], draw.choice(EXTREME))
    k.s_cmp_eq_u32(s[4], draw.choice((s[4], s[5])))
    short = name.split("_")[1].endswith("k")
    k.emit(name, s[place], draw.choice(SHORT_EXTREME) if short else scalar_source(draw))


def selected(k: Builder, draw: random.Random, name: str, place: int) -> None:
    k.s_cmp_eq_u32(s[4], draw.choice((s[4], s[5])))
    if name.endswith("b64"):
        k.emit(name, s[place:place + 1], s[4:5], draw.choice((vcc, draw.choice(EXTREME))))
    else:
        k.emit(name, s[place], s[5], scalar_source(draw))


def bit_test(k: Builder, draw: random.Random, name: str, place: int) -> None:
    k.emit(name, s[4], draw.choice((0, 15, 31, 32, 63)))


def lane(k: Builder, draw: random.Random, name: str, place: int) -> None:
    k.emit(name, s[place], draw.choice((v[0], v[3])), *(() if "first" in name else (draw.choice((0, 31, 32, 63, s[4], s[5])),)))


def lane_choice(k: Builder, draw: random.Random, name: str, place: int) -> None:
    k.emit(name, v[place], draw.choice((v[1], draw.choice(INLINE))), v[2], vcc)


def truth_table(k: Builder, draw: random.Random, name: str, place: int) -> None:
    k.emit(name, v[place], *sources_of(draw, 3), bitop3=draw.randrange(256))


def accumulator(k: Builder, draw: random.Random, name: str, place: int) -> None:
    source = draw.choice((v[1], draw.choice(INLINE))) if "write" in name else a[1]
    k.emit(name, v[place] if "read" in name else a[place], source)


def bit_mask(k: Builder, draw: random.Random, name: str, place: int) -> None:
    k.emit(name, s[place:place + 1], scalar_source(draw), draw.choice(INLINE))


def shifted(k: Builder, draw: random.Random, name: str, place: int) -> None:
    k.emit(name, s[place:place + 1], draw.choice((s[4:5], vcc)), draw.choice((s[5], *INLINE)))


def counted(k: Builder, draw: random.Random, name: str, place: int) -> None:
    k.emit(name, v[place], draw.choice((-1, s[4], s[5], NAMED["vcc_hi"], NAMED["exec_lo"])), draw.choice((v[1], 0)))


BY_NAME: dict[str, Rule] = {
    "s_cselect_b32": selected, "s_cselect_b64": selected, "s_cmov_b32": with_old, "s_cmovk_i32": with_old, "s_addk_i32": with_old,
    "s_mulk_i32": with_old, "v_readlane_b32": lane, "v_readfirstlane_b32": lane, "v_cndmask_b32": lane_choice, "v_bitop3_b32": truth_table,
    "v_accvgpr_write_b32": accumulator, "v_accvgpr_read_b32": accumulator, "v_accvgpr_mov_b32": accumulator, "s_bfm_b64": bit_mask,
    "s_bitcmp0_b32": bit_test, "s_bitcmp1_b32": bit_test, "s_mov_b64": wide, "s_not_b64": wide,
    **dict.fromkeys(_SHIFTS, shifted), **dict.fromkeys(_LANES_BELOW, counted)}


def rules() -> dict[str, Rule]:
    """By name, what draws an instruction."""
    opcodes = table.names("gfx950")
    found: dict[str, Rule] = dict(BY_NAME)
    found |= dict.fromkeys(_SCALAR, scalar) | dict.fromkeys(_VECTOR | _SHORT, vector)
    found |= {f"s_{operation}_b64": wide for operation in _LOGIC}
    found |= {f"s_{operation}_{kind}_b64": saving for operation in _LOGIC for kind in ("saveexec", "wrexec")}
    for relation in COMPARED:
        for kind in ("u32", "i32"):
            found |= {f"v_cmp_{relation}_{kind}": compared, f"v_cmpx_{relation}_{kind}": compared}
            found |= {f"s_cmp_{relation}_{kind}": scalar_compared, f"s_cmpk_{relation}_{kind}": scalar_compared}
    return {name: rule for name, rule in found.items() if name in opcodes}


def prepared(k: Builder, draw: random.Random) -> None:
    """Values at the edges of their ranges, other ones in each lane and wave."""
    k.v_lshrrev_b32(v[5], 6, v[0])
    k.v_readfirstlane_b32(s[4], v[5])
    k.s_add_u32(s[4], s[4], draw.choice(EXTREME))
    k.s_mov_b32(s[5], draw.choice(EXTREME))
    k.s_mov_b32(s[6], draw.choice(EXTREME))
    k.s_not_b32(s[7], s[4])
    k.s_mov_b32(NAMED["vcc_lo"], draw.choice(EXTREME))
    k.s_mov_b32(NAMED["vcc_hi"], draw.choice(EXTREME))
    k.v_lshlrev_b32(v[1], v[0], 1)
    k.v_sub_u32(v[2], v[1], draw.choice((1, 0, v[0])))
    k.s_mov_b32(s[8], 0x9E3779B1)
    k.v_mul_lo_u32(v[3], v[0], s[8])
    k.s_mov_b32(s[8], draw.choice(EXTREME))
    k.v_mov_b32(v[4], s[8])
    k.v_accvgpr_write_b32(a[1], v[3])


def emitted(k: Builder, names: list[tuple[str, Rule]], seed: int) -> None:
    """Of each name one instruction, with all lanes or some; what it writes is kept: its target, SCC, VCC and EXEC."""
    draw = random.Random(seed)
    for number, (name, rule) in enumerate(names):
        place = 10 + 8 * number
        prepared(k, draw)
        k.v_mov_b32(v[place], 77)
        k.v_accvgpr_write_b32(a[place], 49)
        if draw.random() < 0.4:
            k.s_mov_b64(exec_, draw.choice((s[4:5], 0x7FFF, s[6:7], -16)))
        for _ in range(50):
            try:
                rule(k, draw, name, place)
                break
            except OperandError:  # a number that this form cannot hold
                continue
        else:
            raise AssertionError(f"no form of {name} was drawn")
        k.s_cselect_b32(s[place + 2], 1, 0)
        k.s_mov_b64(s[place + 4:place + 5], exec_)
        k.s_mov_b64(s[place + 6:place + 7], vcc)
        k.s_mov_b64(exec_, -1)
    k.s_nop(0)


def judged(names: list[tuple[str, Rule]], seed: int) -> set[str]:
    """The names whose result was known; fails where one is wrong."""
    k = Builder("k", "gfx950")
    emitted(k, names, seed)
    program = k.program()
    lanes = np.arange(WAVES * 64, dtype=np.uint32).reshape(WAVES, 64)
    machine = run("gfx950", lambda other: emitted(other, names, seed), vgprs={0: lanes}, waves=WAVES).machine
    ((_, state),) = WaveValues(program, control_flow(program), (WAVES * 64, 1, 1), (1 << 800) - 1).at([len(program) - 1])
    known = set()
    for bit, value in state.known.items():
        index = bit if bit < SGPR_BIT else bit - SGPR_BIT
        right = machine.vector[index] if bit < SGPR_BIT else machine.scc.astype(int) if bit == SCC_BIT else machine.scalar[index]
        place = index % 256 - 10
        name = names[place // 8][0] if 0 <= place // 8 < len(names) else "what is made before"
        assert np.array_equal(right, value), f"{name}: bit {bit}: " + "; ".join(
            str(instruction.operands) for instruction in program.instructions if instruction.name.startswith(name))
        offset = 2 if name.startswith(("s_cmp_", "s_cmpk_", "s_bitcmp")) else 0
        if place % 8 == offset and (bit >= SGPR_BIT or (value != (77 if bit < 256 else 49)).any()):
            known.add(name)
    return known


def drawn(listed: list[tuple[str, Rule]], seeds: range) -> set[str]:
    found: set[str] = set()
    for seed in seeds:
        draw = random.Random(seed)
        draw.shuffle(listed)
        for first in range(0, len(listed), 11):
            found |= judged(listed[first:first + 11], draw.randrange(1 << 30))
    return found


def test_each_rule_gives_what_the_emulator_gives() -> None:
    """Each is known in some draw, so none is compared with nothing. Rules of their own are drawn more often than rows of tables."""
    assert rules().keys() - drawn(sorted(rules().items()) + sorted(BY_NAME.items()) * 6, range(SEEDS)) == set()


def test_parts_of_sources_give_what_the_emulator_gives() -> None:
    names = [name for name in sorted(_VECTOR | _SHORT) if any(form.encoding == "SDWA" for form in table.opcode(name).forms)]
    assert set(names) - drawn([(name, parts) for name in names], range(4 * SEEDS)) <= set(_CARRYING)


def test_each_name_in_the_code_is_drawn() -> None:
    """A rule for another name needs a way to draw it here."""
    named = {node.value for module in (wavesteps, lowbits) for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text()))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    asked = {name for name in named if name.startswith(("s_", "v_")) and not name.endswith("_") and " " not in name} - ANYWHERE
    assert asked - rules().keys() == set()
    assert rules().keys() >= _TO_AND_FROM_ACC
