"""Random instructions for the table's tests: legal ones spoilt in one or two places, and the word of the assembler on each."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Sequence

from asmgen.isa.modifiers import FLAGS, MASKS, OFFSETS, VALUES, parse_format
from asmgen.isa.opcode import Form, Opcode
from asmgen.isa.operands import OFF, Operand, Special
from asmgen.isa.registers import Modified, Reg
from asmgen.tools.instructionsamples import INLINE, SCALARS, SPECIALS, Sample, legal, register

CONSTANTS = (65, -17, 1000, 0x3F800000, 0x12345678, 0xFFFFFFFF, -0x80000000, 2.5, -1.5, 0x1_0000_0000, 0xFFFF, 0x3C00)


def wild(rng: random.Random, opcode: Opcode, form: Form, position: int) -> Operand:
    """Any operand at all, more often than not near to what the place wants."""
    position = min(position, len(form.operands) - 1)
    place = form.operands[position]
    width = place.width
    anyhow = {letter for other in opcode.forms if other.operands
              for letter in other.operands[min(position, len(other.operands) - 1)].accepts}
    choice = rng.randrange(12)
    if choice == 0:
        return register(rng, rng.choice("vas"), width)
    if choice == 1:
        return Reg(rng.choice("vas"), rng.randrange(80), width)
    if choice == 2:
        return register(rng, rng.choice("vas"), rng.choice((1, 2, 3, 4, 6, 8, 16)))
    if choice == 3:
        return rng.choice(SCALARS)
    if choice == 4:
        return rng.choice(INLINE)
    if choice == 5:
        return rng.choice(CONSTANTS)
    if choice == 6:
        return Special(rng.choice(SPECIALS))
    if choice == 7 and not anyhow & set("lkbnw"):
        # Where an expression may stand, the assembler takes "off" for the name of a symbol.
        return OFF
    if choice in (8, 9):
        value = register(rng, rng.choice("vvs"), width)
        return rng.choice((Modified(value, neg=True), Modified(value, abs=True), Modified(value, sext=True)))
    if place.high:
        return rng.choice((place.low - 1, place.high + 1, place.low, place.high))
    return register(rng, "s", width)


def spoilt(rng: random.Random, opcode: Opcode, arch: str) -> Sample:
    """A legal sample with up to two operands or modifiers put in at random; the suffix sometimes left out."""
    forms = [form for form in opcode.forms if not form.archs or arch in form.archs]
    form = rng.choice(forms)
    sample = legal(rng, opcode, form, arch)
    if rng.random() < 0.5:
        sample.suffix = ""
    for _ in range(rng.choice((0, 1, 1, 2))):
        if sample.operands and rng.random() < 0.7:
            position = rng.randrange(len(sample.operands))
            action = rng.random()
            if action < 0.85:
                sample.operands[position] = wild(rng, opcode, form, position)
            elif action < 0.92:
                _shorten(sample, form, position)
                break
            else:
                sample.operands.insert(position, wild(rng, opcode, form, position))
        else:
            _spoil_modifiers(rng, sample, form)
    return sample


def _shorten(sample: Sample, form: Form, position: int) -> None:
    """Takes an operand away, except where the assembler fills one in: the offset of SMEM and the vcc of short encodings."""
    carries = any(place.accepts == "c" for other in sample.opcode.forms for place in other.operands)
    if form.encoding not in ("SMEM", "SMEM_BUFFER") and not carries:
        del sample.operands[position]
        # The assembler would take the first modifier for the missing operand, as the name of a symbol.
        sample.modifiers.clear()


def _spoil_modifiers(rng: random.Random, sample: Sample, form: Form) -> None:
    if sample.modifiers and rng.random() < 0.4:
        del sample.modifiers[rng.choice(sorted(sample.modifiers))]
        return
    if "offset" in form.modifiers and rng.random() < 0.5:
        low, high = OFFSETS[form.encoding]
        sample.modifiers["offset"] = rng.choice((low - 1, high + 1, low, high))
        return
    name = rng.choice(("clamp", "mul", "sc0", "sc1", "nt", "glc", "offset", "cbsz", "abid", "blgp", "op_sel", "neg_lo", "offen",
                       "idxen", "lds"))
    values = {"mul": rng.choice((2, 3, 4)), "offset": rng.choice((1, 4096)), "cbsz": rng.choice((1, 3, 8)), "abid": rng.choice((1, 16)),
              "blgp": rng.choice((1, 4, 8))}
    sample.modifiers[name] = (1, 0) if name in MASKS else values.get(name, True)


def assembler_errors(lines: Sequence[str], arch: str) -> dict[int, str]:
    """Line number (from 0) and message of every line that llvm-mc refuses."""
    run = subprocess.run(["llvm-mc-22", "-triple", "amdgcn", f"-mcpu={arch}", "-filetype=asm", "-o", "/dev/null"],
                         input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    found: dict[int, str] = {}
    for match in re.finditer(r"^<stdin>:(\d+):\d+: error: (.*)$", run.stderr, re.MULTILINE):
        found.setdefault(int(match[1]) - 1, match[2])
    return found


def round_trip(lines: Sequence[str], arch: str) -> list[str]:
    """What each line is after it went through the assembler and the disassembler; every line must be legal."""
    decoded = subprocess.run(["llvm-mc-22", "-triple", "amdgcn", f"-mcpu={arch}", "--disassemble"],
                             input="".join(f"[{code}]\n" for code in encodings(lines, arch)), capture_output=True, text=True, check=True)
    return [line.strip() for line in decoded.stdout.splitlines() if line.strip() and not line.strip().startswith(".")]


def encodings(lines: Sequence[str], arch: str) -> list[str]:
    """The bytes of each line as llvm-mc prints them; what a label leaves open is 0x00."""
    run = subprocess.run(["llvm-mc-22", "-triple", "amdgcn", f"-mcpu={arch}", "-show-encoding"], input="\n".join(lines) + "\n",
                         capture_output=True, text=True, check=True)
    found = [re.sub(r"\bA\b", "0x00", match[1]) for match in re.finditer(r"encoding: \[([^\]]*)\]", run.stdout)]
    assert len(found) == len(lines)
    return found


_DEFAULTS = {"row_mask": "15", "bank_mask": "15", "dst_sel": "DWORD", "src0_sel": "DWORD", "src1_sel": "DWORD",
             "dst_unused": "UNUSED_PRESERVE", "cbsz": "0", "abid": "0", "blgp": "0", "offset": "0", "offset0": "0", "offset1": "0",
             "fi": "0", "bitop3": "0", "format": "1"}


def meaning(line: str) -> tuple[str, list[str], dict[str, str]]:
    """Mnemonic, operands and modifiers of a line, so that two spellings of the same instruction are equal."""
    line = re.sub(r"\s*//.*", "", line).strip()
    name, _, rest = line.partition(" ")
    found: dict[str, str] = {}

    def take(match: re.Match[str]) -> str:
        found[match[1]] = match[2] or "1"
        return ""

    names = "|".join(sorted((*FLAGS, *MASKS, *VALUES, *_DEFAULTS, "quad_perm", "offset"), key=len, reverse=True))
    rest = re.sub(rf"(?<![\w,:]) ?\b({names})\b(?::(\[[^\]]*\]|[-\w]+))?(?=\s|$)", take, rest)
    for key, value in list(found.items()):
        if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", value):
            found[key] = str(int(value, 0))
        if key == "format":
            found[key] = str(parse_format(value))
        if key == "bound_ctrl":
            found[key] = "1"
        if key in MASKS:
            # Trailing entries that a form does not have are printed or not; ones are op_sel_hi's default but where C has scales.
            default = "1" if key == "op_sel_hi" and "mix" not in name and "mfma_scale" not in name else "0"
            found[key] = value.strip("[]").replace(",", "").rstrip(default)
    kept = {key: value for key, value in found.items() if value != _DEFAULTS.get(key) and not (key in MASKS and value == "")}
    return name, [_number(part.strip()) for part in re.split(r",\s*(?![^\[(]*[\])])", rest) if part.strip()], kept


def _number(text: str) -> str:
    """Integers in decimal modulo 2**32, everything else as it is."""
    return str(int(text, 0) & 0xFFFFFFFF) if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", text) else text
