"""Every modifier that a vector instruction may legally have changes its result, is refused, or stands in a list with the reason.

Each form of each mnemonic runs with plain operands and once more with each modifier, on random bits, ordinary numbers and numbers near
the limits, under several MODEs and under partial EXEC. What comes out right is the business of the other tests; here none may be ignored.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.binding.decode import UNBINDABLE, bind
from asmgen.emulator.machine.compiled import Work
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.errors import EmulatorError
from asmgen.emulator.machine.state import EXEC, VCC, Group, Machine
from asmgen.emulator.memory.ldsops import LdsContext
from asmgen.emulator.memory.vmem import Context, Deliveries
from asmgen.isa.arch import architecture
from asmgen.isa.modifiers import DPP_CONTROLS, FLAGS, MASKS
from asmgen.isa.opcode import Form, Opcode, OperandSpec
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Modified, Reg, v
from asmgen.isa.table import names, opcode
from asmgen.program.program import Instruction
from asmgen.tools.instructionsamples import operand as other_operand
from tests.emulator_harness import ARCHS, run

WAVES, REGISTERS, CHUNKS = 4, 160, 6
NO_IEEE = 0x100  # all denormals flushed, IEEE off: where omod works
MODES = ((0x3C0, (1 << 64) - 1), (NO_IEEE, (1 << 64) - 1), (0x3F0, 0xF0F0_5555_1234_FEDC))
STYLES, KEPT = 5, 64  # KEPT: fillings that are not made anew

REFUSED_FORMS = {("v_screen_partition_4se_b32", ""), ("v_mfma_ld_scale_b32", ""), ("v_pk_fmac_f16", "SDWA")}
"""Mnemonics, or one encoding of them, that have no semantics at all."""

WITHOUT_EFFECT = [
    # clamp of a compare makes quiet NaNs signal, and exceptions are not modelled.
    (r"v_cmpx?_", "clamp"),
    # An integer result that cannot leave its type's range has nothing to clamp.
    (r"v_(and|or|xor|xnor|not|bfrev|mov|cndmask|prng|ffbh|ffbl|alignbit|alignbyte|lshl|lshr|ashr|max|min|max3|min3|med3)"
     r"(rev)?_[biu](16|32)", "clamp"),
    (r"v_cvt_(flr|rpi)_i32_f32|v_cvt_(norm_)?[iu](16|32)_f(16|32|64)|v_cvt_pk(norm|accum)?_[iu](8|16)|v_sat_pk|v_frexp_exp", "clamp"),
    (r"v_mul_(hi_)?[iu]32_[iu]24|v_mul_lo_u16|v_pk_(ashr|lshl|lshr)rev_|v_pk_(max|min)_[iu]16", "clamp"),
    (r"v_trig_preop_f64", "clamp"),  # segments of 2/pi are between 0 and 1
    # omod scales floats only.
    (r"v_cvt_(norm_)?[iu](16|32)_f|v_frexp_exp", "mul|div"),
    # What does not look at a source's sign: tests for NaN, even functions, exponents, scales, and faces of a cube.
    (r"v_cmpx?_[ou]_|v_cos_|v_frexp_exp_", "-|abs"),
    (r"v_cvt_scalef32_(?!sr_|pk_(fp8|bf8|fp4)_f32)", "(-|abs) src1"),
    (r"v_cvt_scalef32_(sr_|pk_(fp8|bf8|fp4)_f32)", "(-|abs) src2"),
    (r"v_div_fixup_|v_trig_preop|v_cubetc", "(-|abs) src0"),
    (r"v_cubesc", "(-|abs) src1"),
    (r"v_div_scale_", "- src[12]"),
    # Shifts look at 5 or 4 bits of the first source, compares of classes at 10 of the second; some conversions at a byte or less; and a
    # product's upper bits are 0, or a zero-extended byte hides them.
    (r"v_(lshl|lshr|ashr)rev_|v_ffbl|v_cvt_(f32_ubyte0|off_f32_i4)", "sext src0"),
    (r"v_cmpx?_class_", "sext src1"),
    (r"v_and_b32|v_mul_hi_u32_u24", "sext src[01]"),
    # A lane without a source multiplies 0, and so keeps its sum.
    (r"v_dot[248]c_i32", "bound_ctrl"),
    # Compares that do not look at their sources.
    (r"v_cmpx?_(f|t|tru)_", "src[01]_sel|-|abs|sext|op_sel"),
    # The addend is one f32, which neg_lo negates; op_sel_hi of a move of registers names nothing.
    (r"v_dot2_f32_", r"neg_hi.*\(0, 0, 1\)"),
    (r"v_pk_mov_b32", "op_sel_hi"),
    # abid chooses among blocks or index sets, and there is one; cbsz of sparse matrices only says that abid is not to be used.
    (r"v_mfma_.*(x8|x16|x32|x64|32x2|16x4|32x4|16x8)_(xf32|f32|bf16|f16|i8|fp8_.*|bf8_.*)$", "abid"),
    (r"v_smfmac_.*(x128|32x32x64)_([bf]p?f?8|i8)", "abid"),
    (r"v_smfmac_", "cbsz"),
]
"""Mnemonics and modifiers (regular expressions) that rightly change nothing."""


def excused(name: str, modifier: str) -> bool:
    return any(re.match(mnemonics, name) and re.match(modifiers, modifier) for mnemonics, modifiers in WITHOUT_EFFECT)


class Bench:
    """Runs single instructions on the same data again and again."""

    def __init__(self, arch: str) -> None:
        self.machine = Machine(architecture(arch), WAVES, 1, REGISTERS, REGISTERS // 2, 1024, Memory())
        counters = Counters(WAVES)
        self.memory = Context(self.machine, counters, Findings(), Deliveries(self.machine, counters), None)
        self.lds = LdsContext(self.machine, counters, None, None)
        self.random = [np.random.default_rng(style).integers(0, 1 << 32, self.machine.vector.shape, dtype=np.uint32)
                       for style in range(STYLES)]
        self.filled: dict[tuple[object, ...], tuple[NDArray[np.uint32], NDArray[np.uint32]]] = {}

    def fill(self, operands: tuple[Operand, ...], form: Form, style: int) -> None:
        """Registers of a style: random bits, ordinary numbers, larger ones, ones near the limits, the extremes of integers."""
        machine = self.machine
        registers = [operand.value if isinstance(operand, Modified) else operand for operand in operands]
        key = style, id(form), tuple([(reg.file, reg.index) if isinstance(reg, Reg) else None for reg in registers])
        if key in self.filled:
            machine.vector[:], machine.scalar[:] = self.filled[key]
            return
        rng = np.random.default_rng(style)
        machine.vector[:] = self.random[style]
        machine.scalar[:] = rng.integers(0, 1 << 32, machine.scalar.shape, dtype=np.uint32)
        for place, reg in zip(form.operands, registers, strict=True):
            if style and isinstance(reg, Reg) and reg.file in "va":
                at = machine.slot(reg)
                words = machine.vector[at:at + reg.count]
                words[:] = values_of(place.type, words.shape, style, rng)
        if len(self.filled) >= KEPT:
            self.filled.clear()
        self.filled[key] = machine.vector.copy(), machine.scalar.copy()

    def results(self, instruction: Instruction) -> Iterator[tuple[bytes, bytes]]:
        """All registers after the instruction, for each MODE and style of data. Raises one of UNBINDABLE."""
        machine = self.machine
        for mode, exec_mask in MODES:
            machine.binding_mode = mode
            machine.mode[:] = mode
            step = bind(0, instruction, machine, self.memory, self.lds)
            for style in range(STYLES):
                self.fill(instruction.operands, instruction.form, style)
                machine.scalar[EXEC:EXEC + 2] = np.array([exec_mask & 0xFFFFFFFF, exec_mask >> 32], np.uint32)[:, None]
                machine.scalar[VCC] = 0x1234ABCD
                group = Group(machine, np.arange(WAVES), 0, mode=mode)
                with np.errstate(all="ignore"):
                    step(group)
                yield machine.vector.tobytes(), machine.scalar.tobytes()


def values_of(kind: str, shape: tuple[int, ...], style: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """32-bit words of an operand type."""
    numbers = rng.normal(0, {1: 2.0, 2: 300.0, 3: 1e30, 4: 1e-4}[style], shape)
    numbers = np.rint(numbers) if style == 1 else numbers
    if style == 2:
        numbers[..., 3], numbers[..., 11], numbers[..., 40] = np.nan, np.inf, -np.inf
    with np.errstate(over="ignore"):
        if "bf16" in kind:
            patterns = numbers.astype(np.float32).view(np.uint32)
            return patterns >> np.uint32(16) | patterns[..., ::-1] & np.uint32(0xFFFF0000)
        if "f16" in kind:
            halves = numbers.astype(np.float16).view(np.uint16).astype(np.uint32)
            return halves | halves[..., ::-1] << np.uint32(16)
        if "f64" in kind:
            return doubles(numbers)
        if "f32" in kind:
            return numbers.astype(np.float32).view(np.uint32)
    if style == 4:
        extremes = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 0x7F7F7F7F, 0x80808080, 0x88888888, 0x77777777, 0xFFFF7FFF], np.uint32)
        return extremes[rng.integers(0, len(extremes), shape)]
    return rng.integers(0, 1 << {1: 5, 2: 16, 3: 32}[style], shape, dtype=np.uint64).astype(np.uint32)


def doubles(numbers: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Register pairs of f64."""
    words = np.empty(numbers.shape, np.uint32)
    patterns = numbers[::2].view(np.uint64)
    words[::2] = patterns & np.uint64(0xFFFFFFFF)
    words[1::2] = (patterns >> np.uint64(32))[:len(words[1::2])]
    return words


def register_or_other(place: OperandSpec, counts: dict[str, int], rng: random.Random) -> Operand:
    """A register of its own where one may stand."""
    for letter in place.accepts:
        file = {"v": "v", "a": "a", "s": "s", "S": "s", "M": "s"}.get(letter)
        if file is not None:
            align = 1 if place.width == 1 else 2 if place.width == 2 or file != "s" else 4
            first = -(-counts[file] // align) * align
            counts[file] = first + place.width
            return Reg(file, first, place.width)
        if letter == "c":
            return Reg("s", VCC, 2)
    return other_operand(rng, place)


def plain_modifiers(row: Opcode, form: Form) -> dict[str, Any]:
    """Modifiers of the reference: what selects the form, and what lets others show."""
    chosen = {name: values[-1] for name, values in form.when if values[0] or values[-1]}
    if form.encoding == "DPP":
        chosen["row_shr"] = 1
    if "bitop3" in form.modifiers:
        chosen["bitop3"] = 0x96
    if "v_fma_mix" in row.name:
        chosen["op_sel_hi"] = (1, 1, 1)
    if re.search("_(2|4|16)b_", row.name) and not row.name.endswith("f64"):
        chosen["cbsz"] = 1
    return chosen


def values_to_try(name: str, form: Form, plain: dict[str, Any]) -> list[Any]:
    if name in FLAGS:
        return [True]
    if name in MASKS:
        count = 2 if form.encoding == "MAI" and name != "neg" else sum(place.name.startswith("src") for place in form.operands)
        count += name == "op_sel" and form.encoding == "VOP3"
        base = plain.get(name, (1,) * count if name == "op_sel_hi" and form.encoding != "MAI" else (0,) * count)
        return [tuple(bit ^ (n == turned) for n, bit in enumerate(base[:count])) for turned in range(count)]
    special: dict[str, list[Any]] = {"dst_sel": ["BYTE_0", "WORD_1"], "src0_sel": ["BYTE_3", "WORD_1"], "src1_sel": ["BYTE_2", "WORD_1"],
                                     "dst_unused": ["UNUSED_PAD", "UNUSED_SEXT"], "row_mask": [5], "bank_mask": [3], "bitop3": [0x69],
                                     "cbsz": [1, 2], "abid": [1], "blgp": [1, 2], "mul": [2, 4], "div": [2]}
    return special.get(name, [1])


def variants(row: Opcode, form: Form, operands: tuple[Operand, ...],
             plain: dict[str, Any]) -> Iterator[tuple[str, Instruction, Instruction]]:
    """Each modifier by itself, of the instruction and of its operands: its name, the instruction without it and with it."""
    reference = Instruction(row, form, operands, plain)
    bytewise = {**plain, **{name: "BYTE_1" for name in ("dst_sel", "src0_sel", "src1_sel") if name in form.modifiers}}
    of_bytes = Instruction(row, form, operands, bytewise)
    whole = {**bytewise, "dst_sel": "DWORD"} if "dst_sel" in bytewise else bytewise
    into_dwords = Instruction(row, form, operands, whole)
    for name in sorted(form.modifiers - set(DPP_CONTROLS) - {name for name, _ in form.when}):
        for value in values_to_try(name, form, plain):
            if plain.get(name) != value:
                partial = name == "dst_unused"
                yield (f"{name} {value}", of_bytes if partial else reference,
                       Instruction(row, form, operands, {**(bytewise if partial else plain), name: value}))
    for number, (place, operand) in enumerate(zip(form.operands, operands, strict=True)):
        if isinstance(operand, Reg):
            for letters, title, changes in (("mN", "-", {"neg": True}), ("m", "abs", {"abs": True}), ("x", "sext", {"sext": True})):
                if set(letters) & set(place.accepts):
                    changed = (*operands[:number], Modified(operand, **changes), *operands[number + 1:])
                    extends = title == "sext"
                    yield (f"{title} {place.name}", into_dwords if extends else reference,
                           Instruction(row, form, changed, whole if extends else plain))


@functools.cache
def vector_forms(arch: str) -> list[tuple[Opcode, Form]]:
    rows = [opcode(name) for name in names(arch)]
    return [(row, form) for row in rows if row.classes & {"valu", "mfma"} for form in row.forms if not form.archs or arch in form.archs]


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("arch", ARCHS)
def test_no_modifier_is_ignored(arch: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Work, "pays", lambda self, more: False)
    bench, rng = Bench(arch), random.Random(chunk)
    ignored = []
    for row, form in vector_forms(arch)[chunk::CHUNKS]:
        if (row.name, "") in REFUSED_FORMS or (row.name, form.encoding) in REFUSED_FORMS:
            continue
        counts = {"v": 0, "a": 0, "s": 0}
        operands = tuple(register_or_other(place, counts, rng) for place in form.operands)
        plain = plain_modifiers(row, form)
        known: dict[int, list[tuple[bytes, bytes]]] = {}
        for title, reference, instruction in variants(row, form, operands, plain):
            if id(reference) not in known:
                known[id(reference)] = list(bench.results(reference))
            try:
                same = all(got == before for got, before in zip(bench.results(instruction), known[id(reference)], strict=True))
            except UNBINDABLE:
                continue  # refused
            if same and not excused(row.name, title):
                ignored.append(f"{row.name} {form.encoding} {title}")
    assert not ignored, "; ".join(ignored)


def refused(emit: Any) -> str:
    with pytest.raises(EmulatorError) as caught:
        run("gfx950", emit)
    return str(caught.value)


@pytest.mark.parametrize(("emit", "reason"), [
    (lambda k: k.v_dot4_i32_i8(v[0], v[1], v[2], v[3], neg_lo=(1, 0, 0)), "neg of the integers"),
    (lambda k: k.v_pk_mov_b32(v[0:1], v[2:3], v[4:5], neg_hi=(0, 1)), "only moved"),
    (lambda k: k.v_alignbit_b32(v[0], v[1], v[2], v[3], op_sel=(1, 0, 0, 0)), "op_sel of a source"),
    (lambda k: k.v_cvt_pk_fp8_f32(v[0], v[1], v[2], op_sel=(1, 0, 0)), "op_sel of a source"),
    (lambda k: k.v_pk_add_u16(v[0], v[1], v[2], neg_lo=(1, 0)), "neg of a source"),
    (lambda k: k.emit("v_mfma_f64_16x16x4_f64", v[0:7], v[8:9], v[10:11], v[0:7], cbsz=1), "f64 matrices"),
    (lambda k: k.emit("v_mfma_f32_16x16x16_f16", v[0:3], v[8:9], v[10:11], v[0:3], cbsz=1), "broadcasts to 2 blocks"),
    (lambda k: k.v_mfma_ld_scale_b32(v[0], v[1]), "write v_mfma_scale_f32"),
    (lambda k: k.v_screen_partition_4se_b32(v[0], v[1]), "screen coordinates"),
    (lambda k: k.ds_gws_barrier(v[0], gds=True), "global wave sync"),
])
def test_refusals_are_sentences_about_the_instruction(emit: Any, reason: str) -> None:
    text = refused(emit)
    assert reason in text and "no semantics for `" in text


def test_packed_fmac_through_other_lanes() -> None:
    """v_pk_fmac_f16 with DPP: the first factor is the next lower lane's; lane 0 of a row has none and keeps its result."""
    rng = np.random.default_rng(3)
    a, b, c = (rng.integers(-8, 8, (64, 2)).astype(np.float16) for _ in range(3))
    result = run("gfx950", lambda k: k.emit("v_pk_fmac_f16_dpp", v[2], v[0], v[1], row_shr=1),
                 vgprs={n: np.ascontiguousarray(values).view(np.uint32)[:, 0] for n, values in enumerate((a, b, c))})
    expected = c.copy()
    for lane in range(64):
        if lane % 16:
            expected[lane] = a[lane - 1] * b[lane] + c[lane]
    assert (result.v(2)[0] == expected.view(np.uint32)[:, 0]).all()


@pytest.mark.parametrize("omod", [{"mul": 4}, {"div": 2}])
def test_omod_of_pairs(omod: dict[str, int]) -> None:
    """Each half of a pair is scaled, without IEEE and where denormals are flushed."""
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-100, 100, 64).astype(np.float32) for _ in range(2))
    result = run("gfx950", lambda k: k.v_cvt_pkrtz_f16_f32(v[2], v[0], v[1], **omod), vgprs={0: a, 1: b}, mode=NO_IEEE)
    halves = result.v(2)[0][:, None].view(np.float16)
    factor = omod.get("mul", 0.5)
    assert (halves[:, 0] == a * factor).all() and (halves[:, 1] == b * factor).all()


@pytest.mark.parametrize("dx10", [False, True])
def test_clamp_of_bf16_pairs(dx10: bool) -> None:
    a = np.array([-3, -0.0, 0.25, 1, 1.5, np.inf, -np.inf, np.nan] * 8, np.float32)
    b = a[::-1].copy()
    result = run("gfx950", lambda k: k.v_cvt_pk_bf16_f32(v[2], v[0], v[1], clamp=True), vgprs={0: a, 1: b}, mode=0x2F0 | dx10 << 8)
    limited = {0: 0.0, 1: 0.0, 2: 0.25, 3: 1.0, 4: 1.0, 5: 1.0, 6: 0.0, 7: 0.0 if dx10 else np.nan}
    for lane, word in enumerate(result.v(2)[0]):
        low, high = (np.array([int(word) << shift & 0xFFFF0000], np.uint32).view(np.float32)[0] for shift in (16, 0))
        for got, wanted in ((low, limited[lane % 8]), (high, limited[7 - lane % 8])):
            assert got == wanted or np.isnan(got) and np.isnan(wanted)

