"""Instructions of the whole table as LLVM's machine code (MIR), so that LLVM's own passes can judge them.

`llvm-mc -show-inst` names the encoded opcode and its explicit operands. The opcode that passes see is the same name without the suffix of
the encoding; llc says which implicit registers are missing.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from asmgen.isa import table
from asmgen.isa.check import resolve
from asmgen.isa.errors import OperandError
from asmgen.isa.opcode import Form, Opcode, is_lds_dma
from asmgen.isa.operands import Operand, Special
from asmgen.isa.registers import Modified, Reg
from asmgen.tools.instructionsamples import Sample, legal
from tests.llvm_mir import LLC

MC = shutil.which("llvm-mc-22") or shutil.which("llvm-mc")
_TOGETHER = 150  # instructions that one llc reads
_MOST_TRIES = 9
_QUIET = {"LLVM_DISABLE_SYMBOLIZATION": "1", "LLVM_DISABLE_CRASH_REPORT": "1"}
_SUFFIX = re.compile(r"(.*?)_(?:vi|gfx[0-9a-z]+|gfx8_gfx9|vi_gfx9\w*)(?:_([av]cd|agpr))?$")
_SHOWN = re.compile(r"<MCInst #\d+ (\S+?)>?\n((?:\s*;\s+<MCOperand .*\n?)*)")
_ELSEWHERE = re.compile(r"target|s_(c?branch|call|cbranch|setpc|swappc|endpgm|trap|rfe|waitcnt|nop|set_gpr_idx)")


@dataclass
class Converted:
    """An instruction on its way to MIR: names to try, explicit operands, how many of these are results, implicit ones."""

    text: str
    names: list[str]
    operands: list[str]
    results: int
    implicit: list[str] = field(default_factory=list)
    tries: int = 0

    @property
    def mir(self) -> str:
        given = ", ".join([*self.operands[self.results:], *self.implicit])
        results = ", ".join(self.operands[:self.results])
        return f"{results}{' = ' if results else ''}{self.names[0]} {given}".rstrip()


def whole_table(arch: str, seed: int = 0, names: Sequence[str] | None = None) -> dict[str, str]:
    """One instruction of each form of each opcode (or of those in `names`): assembly to MIR, without those that go elsewhere and those
    that llc does not read."""
    rng = random.Random(f"whole table {arch} {seed}")
    drawn = [(opcode, form, _drawn(rng, opcode, form, arch)) for opcode in map(table.opcode, names or table.names())
             if arch in opcode.archs and not _ELSEWHERE.match(opcode.name)
             for form in opcode.forms if not form.archs or arch in form.archs]
    samples = [(opcode, form, sample) for opcode, form, sample in drawn if sample is not None]
    shown = _shown(arch, [sample.text() for _, _, sample in samples])
    found = [_converted(opcode, form, sample.text(), *one) for (opcode, form, sample), one in zip(samples, shown, strict=True)]
    read = [one for start in range(0, len(found), _TOGETHER) for one in _read(arch, found[start:start + _TOGETHER])]
    return {one.text: one.mir for one in read}


def _drawn(rng: random.Random, opcode: Opcode, form: Form, arch: str) -> Sample | None:
    """A legal instruction whose registers differ; None where none is found."""
    for _ in range(20):
        try:
            sample = legal(rng, opcode, form, arch, 0.15)
        except AssertionError:
            return None
        # LLVM's verifier refuses clamp and omod of some SDWA forms that the hardware has.
        modifiers = {name: value for name, value in sample.modifiers.items() if name not in ("mul", "div")
                     and not (name == "clamp" and form.encoding == "SDWA")}
        taken: set[tuple[str, int]] = set()
        apart = Sample(opcode, [_apart(rng, operand, form, taken) for operand in sample.operands], modifiers, sample.suffix)
        try:
            if resolve(opcode, apart.operands, modifiers, arch, apart.suffix) == form:
                return apart
        except OperandError:
            continue
    return None


def _apart(rng: random.Random, operand: Operand, form: Form, taken: set[tuple[str, int]]) -> Operand:
    if isinstance(operand, Modified) and isinstance(operand.value, Reg):
        inner = _apart(rng, operand.value, form, taken)
        assert isinstance(inner, Reg)
        return replace(operand, value=inner)
    if form.encoding == "SDWA" and isinstance(operand, (int, float, Special)):  # LLVM knows SDWA on registers alone
        operand = Reg("v", 0)
    if isinstance(operand, Special):
        return 0
    if not isinstance(operand, Reg):
        return operand
    scalar, count = operand.file == "s", operand.count
    if scalar and operand.index >= 102:
        operand = Reg("s", 106, count) if count < 3 else Reg("s", 0, count)
        if count < 3:
            return operand
    step = 1 if count == 1 else 4 if scalar and count > 2 else 2
    for _ in range(100):
        index = rng.randrange(0, (100 if scalar else 250) - count + 1, step)
        mine = {(operand.file, number) for number in range(index, index + count)}
        if not mine & taken:
            taken |= mine
            return replace(operand, index=index)
    return operand


def _shown(arch: str, texts: list[str]) -> list[tuple[str, list[str]]]:
    """By llvm-mc, the encoded opcode and the explicit operands of each instruction."""
    assert MC is not None
    command = [MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-show-inst"]
    text = subprocess.run(command, input="\n".join([*texts, ""]), capture_output=True, text=True, check=True).stdout
    return [(match[1], re.findall(r"<MCOperand (.*?)>+$", match[2], re.MULTILINE)) for match in _SHOWN.finditer(text)]


def _operand(shown: str) -> str:
    kind, _, value = shown.partition(":")
    return f"${value.lower()}" if kind == "Reg" and value else "$noreg" if kind == "Reg" else value


def _converted(opcode: Opcode, form: Form, text: str, real: str, shown: list[str]) -> Converted:
    operands = [_operand(one) for one in shown]
    results = sum(slot.writes and slot.accepts != "c" for slot in form.operands)
    memory = opcode.memory
    if memory is not None and memory.space == "buffer" and memory.kind == "atomic":
        operands.pop()  # swz, which their MIR has not
    if "keep" in opcode.flags and memory is not None and memory.kind == "load" and memory.space != "lds":
        operands = [*(operands if memory.space == "buffer" else operands[:-1]), operands[0]]  # the half that stays
    if form.encoding == "SOPK" and not re.fullmatch(r"s_cmpk_.*_u32", opcode.name):
        operands = [str(int(one) - 65536) if re.fullmatch(r"\d+", one) and int(one) > 32767 else one for one in operands]
    return Converted(text, _names(real, form), operands, results, _implicit(opcode, form, text, operands))


def _implicit(opcode: Opcode, form: Form, text: str, operands: list[str]) -> list[str]:
    found = []
    if opcode.name.startswith("v_") and opcode.name not in ("v_readlane_b32", "v_writelane_b32"):
        found += ["implicit $mode", "implicit $exec"]
    elif opcode.memory is not None and opcode.memory.space != "scalar":
        found += ["implicit $exec"] + ["implicit $flat_scr"] * (opcode.memory.space in ("flat", "scratch"))
    found += [f"implicit-def ${name}" for name in sorted(opcode.writes)] + [f"implicit ${name}" for name in sorted(opcode.reads)]
    if is_lds_dma(opcode, form):
        found.append("implicit $m0")
    if form.encoding == "SDWA" and not opcode.name.startswith("v_cmp") and not re.search("UNUSED_(PAD|SEXT)", text):
        found.append(f"implicit {operands[0]}(tied-def 0)")
    return list(dict.fromkeys(found))


def _names(real: str, form: Form) -> list[str]:
    """What the opcode before encoding may be called, the likeliest first."""
    match = _SUFFIX.match(real)
    base, core = (match[1], match[2]) if match else (real, None)
    first = {"acd": [f"{base}_e64"], "vcd": [f"{base}_vgprcd_e64"]}.get(core or "", [])
    accumulating = [f"{base}_gfx9_agpr", f"{base}_agpr"] if real.endswith("_agpr") else []
    ninth = [f"{base}_gfx9"] if real.startswith("DS_") else []
    third = [f"{real}_e64", f"{base}_e64", f"{base.removesuffix('_opsel')}_gfx9_e64"] if form.encoding == "VOP3" else []
    return list(dict.fromkeys([*first, *accumulating, *third, *ninth, base, f"{base}_e64", f"{base}_gfx9", real]))


def _read(arch: str, batch: list[Converted]) -> list[Converted]:
    """Those of a batch that llc reads, mended by what it says."""
    while batch:
        told = _refused(arch, batch)
        if told is None:
            return batch
        number, message = told
        one = batch[number]
        one.tries += 1
        missing = re.search(r"missing implicit register operand '(.*?)'", message)
        if missing:
            one.implicit.append(missing[1])
        elif "Extra explicit operand" in message and one.tries < _MOST_TRIES:
            one.operands.pop()
        elif "unknown machine instruction" in message and len(one.names) > 1:
            one.names.pop(0)
        else:
            batch = [other for other in batch if other is not one]
    return batch


def _refused(arch: str, batch: list[Converted]) -> tuple[int, str] | None:
    """The first instruction that llc refuses, and why."""
    assert LLC is not None
    names = "".join(f"  define amdgpu_kernel void @f{number}() #0 {{ ret void }}\n" for number in range(len(batch)))
    module = f'--- |\n{names}  attributes #0 = {{ "amdgpu-agpr-alloc"="256" }}\n...\n'
    bodies = [f"---\nname: f{number}\ntracksRegLiveness: false\nbody: |\n  bb.0:\n    {one.mir}\n    S_ENDPGM 0\n...\n"
              for number, one in enumerate(batch)]
    command = [LLC, "-mtriple=amdgcn", f"-mcpu={arch}", "-mattr=-xnack", "-x", "mir", "-run-pass", "none", "-", "-o", "/dev/null"]
    ran = subprocess.run(command, input=module + "".join(bodies), capture_output=True, text=True, env={**os.environ, **_QUIET})
    if ran.returncode == 0:
        return None
    parsed = re.search(r"error: <stdin>:(\d+):\d+: (.*)", ran.stderr)
    if parsed:
        return (int(parsed[1]) - module.count("\n") - 1) // bodies[0].count("\n"), parsed[2]
    verified = re.search(r"function: *f(\d+)", ran.stderr)
    return int(verified[1]) if verified else 0, " ".join(re.findall(r"\*\*\* (.*?) \*\*\*", ran.stderr))
