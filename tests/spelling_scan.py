"""Every spelling of every instruction form that LLVM's assembler takes, against the reader: `python -m tests.spelling_scan [ARCH ...]`.

For each form of the table a legal instance is written in all the ways of `spellings`; llvm-mc is asked which of them it takes, and to which
bytes. What it takes the reader must take, and what the reader made of it must be the same bytes. Prints one line a fault and a summary;
the exit status is 1 where there is a fault. The suite runs a sample of the same (tests/reader/test_reader_spellings.py).
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from asmgen.isa import table
from asmgen.isa.arch import ARCHITECTURES
from asmgen.reader.errors import NeedsAssembler, ReadError, UnknownSpelling
from asmgen.reader.instruction import InstructionReader
from asmgen.tools.instructionsamples import Sample, legal
from tests.instruction_samples import assembler_errors

_SUFFIX = re.compile(r"_(e32|e64|dpp|sdwa)$")
_REGISTER = re.compile(r"\b([vas]|ttmp)(?:(\d+)|\[(\d+):(\d+)\])")
_NUMBER = re.compile(r"(?<![\w.\[:(])-?(?:0x[0-9a-f]+|\d+)(?![\w.])")
_FLOAT = re.compile(r"(?<![\w.])-?\d+\.\d+(?![\w.])")
_PATTERNS = {"0.5": "0x3f000000", "1.0": "0x3f800000", "2.0": "0x40000000", "4.0": "0x40800000", "-0.5": "0xbf000000", "-1.0": "0xbf800000",
             "-4.0": "0xc0800000"}
_NAMED = {"vcc": ("s[106:107]", "[vcc_lo,vcc_hi]", "VCC"), "exec": ("[exec_lo,exec_hi]", "s[126:127]"), "m0": ("M0", "s124"),
          "vcc_lo": ("s106",), "vcc_hi": ("s107",), "exec_lo": ("s126",),
          "flat_scratch": ("[flat_scratch_lo,flat_scratch_hi]", "s[102:103]"),
          "src_scc": ("scc",), "src_vccz": ("vccz",), "src_execz": ("execz",), "src_shared_base": ("shared_base",),
          "src_private_limit": ("private_limit",)}


_MARK = ("0x5a,0x7a,0x80,0xbf", "s_nop 0x7a5a")  # between instructions that are disassembled
_EXTRAS = ("clamp", "noclamp", "gds", "nogds", "nosc0", "nont", "nosc1", "glc", "noglc", "slc", "row_mask:0xf", "bound_ctrl:1", "fi:0",
           "dst_sel:DWORD", "src0_sel:DWORD", "op_sel:[0,0,0]", "op_sel:[0,0]", "op_sel_hi:[1,1]", "neg_lo:[0,0]", "cbsz:0", "mul:1",
           "div:1", "format:1", "noidxen", "dst_unused:UNUSED_PAD")


@dataclass(frozen=True)
class Fault:
    """A spelling that LLVM takes; `why` says what the reader made of it."""

    text: str
    why: str


@dataclass(frozen=True)
class Verdict:
    """What a scan found: spellings that LLVM takes, those of them that the reader leaves to an assembler, and faults."""

    taken: int
    left: tuple[str, ...]
    faults: tuple[Fault, ...]


def spellings(sample: Sample) -> Iterator[str]:
    """Ways to write an instruction, right or wrong: the assembler judges."""
    text = " ".join(sample.text().split())
    name, _, tail = text.partition(" ")
    yield text
    yield from (f"{text}{', ' if tail else ' '}{other}" for other in ("0", "1", "0xffff", "0x10000", "v0", "s0", "off"))
    yield from _mnemonics(name, tail)
    operands, modifiers = _parts(sample, tail)
    for number in range(len(operands)):
        yield _joined(name, operands[:number] + operands[number + 1:], modifiers)
    for number, operand in enumerate(operands):
        for other in _operand_spellings(operand):
            yield _joined(name, [*operands[:number], other, *operands[number + 1:]], modifiers)
    if len(operands) > 1:
        yield _joined(name, [operands[1], operands[0], *operands[2:]], modifiers)
    for number, modifier in enumerate(modifiers):
        yield _joined(name, operands, modifiers[:number] + modifiers[number + 1:])
        for other in _modifier_spellings(modifier):
            yield _joined(name, operands, [*modifiers[:number], other, *modifiers[number + 1:]])
    if modifiers:
        yield _joined(name, operands, modifiers[::-1])
        yield f"{name} {', '.join([*operands, *modifiers])}"
        yield f"{name} {' '.join([*modifiers, *operands])}"
    yield f"{name} {','.join(operands)} {' '.join(modifiers)}"
    yield f"{name} {' '.join([*operands, *modifiers])}"
    yield f"{name}\t{' , '.join(operands)}  {'  '.join(modifiers)}"
    yield _joined(name, operands, [*modifiers, "offset:0"])
    yield from (_joined(name, operands, [*modifiers, extra]) for extra in _EXTRAS)


def _mnemonics(name: str, tail: str) -> Iterator[str]:
    base = _SUFFIX.sub("", name)
    for suffix in ("", "_e32", "_e64", "_dpp", "_sdwa", "_e64_dpp"):
        if base + suffix != name:
            yield f"{base}{suffix} {tail}"
    yield f"{name.upper()} {tail}"
    yield f"{name} {tail.upper()}"
    yield f"{base.capitalize()} {tail}"


def _parts(sample: Sample, tail: str) -> tuple[list[str], list[str]]:
    """The operands and modifiers as the sample's text has them."""
    plain = " ".join(Sample(sample.opcode, sample.operands, {}, sample.suffix).text().split()).partition(" ")[2]
    operands = [part.strip() for part in re.split(r",\s*(?![^\[(]*[\])])", plain)] if plain else []
    rest = tail[len(plain):].strip()
    modifiers = re.findall(r"[a-z_0-9]+:(?:\[[^\]]*\]|swizzle\([^)]*\)|\S+)|\S+", rest)
    return operands, modifiers


def _joined(name: str, operands: Sequence[str], modifiers: Sequence[str]) -> str:
    return " ".join(f"{name} {', '.join(operands)} {' '.join(modifiers)}".split())


def _operand_spellings(text: str) -> Iterator[str]:
    yield from _special_spellings(text)
    match = _REGISTER.search(text)
    if match is not None and text != "off" and "(" not in text.replace("sext(", ""):
        for other in _register_spellings(match[1], int(match[2] or match[3]), int(match[2] or match[4])):
            yield text[:match.start()] + other + text[match.end():]
        inner = text.strip("-|")
        yield f"-{text}"
        yield f"neg({inner})"
        yield f"abs({inner})"
        yield f"|{inner}|"
        yield f"-abs({inner})"
        yield f"neg(|{inner}|)"
        yield f"neg(abs({inner}))"
        yield f"-|{inner}|"
        yield f"- {inner}"
        yield f"| {inner} |"
        yield f"|-{inner}|"
        yield f"sext({inner})"
        yield f"SEXT({inner})"
        yield f"({inner})"
    number = _NUMBER.fullmatch(text)
    if number is not None:
        value = int(text, 0)
        yield from (str(value), hex(value), hex(value).upper(), f"0{abs(value):o}", f"{value}.0", f"+{value}", f"{value}+0", f"({value})",
                    f"{value + 1}-1", f"0b{abs(value):b}", f"{hex(value & 0xFFFFFFFF)}", f"lit({value})", f"lit({value & 0xFFFFFFFF:#x})",
                    f"{value}e0", f"abs({value})", f"|{value}|", f"neg({value})", f"-{value}", f"- {abs(value)}", f"sext({value})",
                    f"~{value}", f"!{value}", f"{value}*1", f"{value}u", f"0x{abs(value):x}.0p0", f"lit64({value})", f"{value & 255:x}h",
                    f"{hex(value & 0xFFFFFFFFFFFFFFFF)}", f"{value & 0xFFFF:#x}", f"{value}.", f"'{chr(65 + abs(value) % 26)}'")
    if _FLOAT.fullmatch(text):
        yield from (text.rstrip("0"), f"{text}e0", f"{float(text) * 10}e-1", f"+{text}", f"({text})", f"abs({text})", f"|{text}|",
                    f"neg({text})", f"-{text}", f"lit({text})", f"{text}f", f"{text}E+0", text.lstrip("0"), str(int(float(text))))
        if text in _PATTERNS:
            yield _PATTERNS[text]
    for other in _NAMED.get(text, ()):
        yield other
    yield f" {text} "


def _register_spellings(file: str, first: int, last: int) -> Iterator[str]:
    alias = "acc" if file == "a" else file
    if first == last:
        yield from (f"{file}{first}", f"{file}[{first}]", f"{file}[{first}:{first}]", f"[{file}{first}]", f"{alias}{first}",
                    f"{file}0{first}",
                    f"{file.upper()}{first}", f"{file}[{hex(first)}]", f"{file}[{first}+0]", f"{file} {first}", f"{file}[ {first} ]",
                    f"{alias}[{first}]", f"{file} [{first}]", f"{file}[{first}:{first}+0]", f"[{file}[{first}]]")
    else:
        names = [f"{file}{number}" for number in range(first, last + 1)]
        yield from (f"[{','.join(names)}]", f"[ {' , '.join(names)} ]", f"{file}[{hex(first)}:{hex(last)}]", f"{alias}[{first}:{last}]",
                    f"{file}[{first}:{first}+{last - first}]", f"{file.upper()}[{first}:{last}]", f"{file}[ {first} : {last} ]",
                    f"[{','.join(f'{file}[{number}]' for number in range(first, last + 1))}]", f"{file}[{first}]",
                    f"{file} [{first}:{last}]", f"[{file}[{first}:{last}]]", f"[{names[0]},{file}[{first + 1}:{last}]]")
        if file == "s":
            yield f"[{','.join(names[:-1])}]"


def _special_spellings(text: str) -> Iterator[str]:
    yield from (other for other in ("off", "null", "OFF") if text == "off")
    if "(" in text or "&" in text:
        yield from (text.upper(), text.replace("(", "( ").replace(")", " )"), re.sub(r"\((\d+)\)", r"(\1+0)", text),
                    text.replace(", ", ","), text.replace(") ", ")&"), text.replace(") ", ") & "), text.replace(") ", "), "),
                    re.sub(r"(\d+)\)", lambda match: f"{int(match[1]):#x})", text))


def _modifier_spellings(text: str) -> Iterator[str]:
    key, colon, value = text.partition(":")
    yield from (text.upper(), f"no{text}", f"{text}, ")
    if not colon:
        yield from (f"{text}:1", f"{text}:0", f"{text}:true")
        return
    yield from (f"{key}: {value}", f"{key} :{value}", f"{key}:{value.upper()}", f"{key}:{value.lower()}", key)
    if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", value):
        number = int(value, 0)
        yield from (f"{key}:{number}", f"{key}:{hex(number)}", f"{key}:({number})", f"{key}:{number}+0", f"{key}:0{abs(number):o}",
                    f"{key}:0b{abs(number):b}", f"{key}:+{number}", f"{key}:-{abs(number)}", f"{key}:0", f"{key}:1")
    if value.startswith("["):
        inner = value.strip("[]").replace(" ", "")
        coded = ",".join(hex(int(part)) if part.isdigit() else part for part in inner.split(","))
        yield from (f"{key}:[{inner.replace(',', ', ')}]", f"{key}:[ {inner} ]", f"{key}:[{coded}]",
                    f"{key}:[{inner.rpartition(',')[0]}]", f"{key}:[{inner},0]", f"{key}:[{inner},1]", f"{key}:{inner}")


def special_cases() -> list[str]:
    """Spellings of instructions whose operands have a language of their own: tests/spellings.txt."""
    lines = Path(__file__).with_name("spellings.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def encoded(lines: Sequence[str], arch: str) -> list[str]:
    """The bytes of each line, all of them legal, with what is left to a linker."""
    run = subprocess.run(["llvm-mc-22", "-triple", "amdgcn", f"-mcpu={arch}", "-show-encoding"], input="\n".join(lines) + "\n",
                         capture_output=True, text=True, check=True)
    found: list[str] = []
    for line in run.stdout.splitlines():
        code = re.search(r"encoding: \[([^\]]*)\]", line)
        fixup = re.search(r"fixup [A-Z] - offset: (\d+), value: (.*), (?:relocation type|kind): (\w+)", line)
        if code is not None:
            found.append(re.sub(r"\b[A-Z]\b", "0x00", code[1]))
        elif fixup is not None:
            found[-1] += f" {fixup[1]} {re.sub(r'[() ]', '', fixup[2])} {fixup[3]}"
    assert len(found) == len(lines), (len(found), len(lines))
    return found


def judge(lines: Sequence[str], arch: str) -> Verdict:
    """The reader against llvm-mc on these spellings."""
    lines = list(dict.fromkeys(lines))
    refused = assembler_errors(lines, arch)
    taken = [line for number, line in enumerate(lines) if number not in refused]
    reader = InstructionReader(arch)
    left, read = [], []
    faults: list[Fault] = []
    for line in taken:
        try:
            read.append((line, reader.read(" ".join(line.split())).text))
        except (NeedsAssembler, UnknownSpelling):
            left.append(line)
        except ReadError as error:
            faults.append(Fault(line, f"refused: {error.sentence}"))
    wrong = assembler_errors([again for _, again in read], arch)
    faults += [Fault(read[number][0], f"read as `{read[number][1]}`, which LLVM refuses: {why}") for number, why in wrong.items()]
    fine = [pair for number, pair in enumerate(read) if number not in wrong]
    codes = encoded([line for line, _ in fine], arch)
    for (line, again), one, other in zip(fine, codes, encoded([again for _, again in fine], arch), strict=True):
        if one != other and not _same_offset(line, other, arch):
            faults.append(Fault(line, f"read as `{again}`: {other} instead of {one}"))
    _disassembled(left, reader, set(codes), faults)
    return Verdict(len(taken), tuple(left), tuple(faults))


def _same_offset(line: str, code: str, arch: str) -> bool:
    """Whether the bytes are the line's without its offset:0: of a scalar load with an SGPR offset, LLVM encodes that 0 too."""
    return " offset:0" in line and encoded([line.replace(" offset:0", "")], arch) == [code]


def _disassembled(lines: Sequence[str], reader: InstructionReader, known: set[str], faults: list[Fault]) -> None:
    """Spellings that are left to the assembler: what the disassembler prints for them must be read, and be the same bytes again.

    Bytes in `known` were read already, under another spelling.
    """
    left = {code: line for line, code in zip(lines, encoded(lines, reader.arch), strict=True) if " " not in code and code not in known}
    pairs: list[tuple[str, str, str]] = []  # spelling, what is printed for it, what the reader made of that
    for code, text in printed(list(left), reader.arch).items():
        plain = " ".join(re.sub(r"//.*", "", text).split())
        try:
            again = reader.read(plain).text
        except ReadError as error:
            if not _writes_constant(plain):
                faults.append(Fault(left[code], f"disassembled as `{text}`: {error.sentence}"))
            continue
        if again != plain:
            pairs.append((left[code], plain, again))
    # Where LLVM refuses what it prints itself there is nothing to compare with.
    refused = assembler_errors([plain for _, plain, _ in pairs], reader.arch)
    pairs = [pair for number, pair in enumerate(pairs) if number not in refused]
    wrong = assembler_errors([again for _, _, again in pairs], reader.arch)
    faults += [Fault(pairs[number][0], f"disassembled and read as `{pairs[number][2]}`: {why}") for number, why in wrong.items()]
    pairs = [pair for number, pair in enumerate(pairs) if number not in wrong]
    for (line, _, again), one, other in zip(pairs, encoded([plain for _, plain, _ in pairs], reader.arch),
                                            encoded([again for _, _, again in pairs], reader.arch), strict=True):
        if one != other:
            faults.append(Fault(line, f"disassembled and read as `{again}`: {other} instead of {one}"))


def _writes_constant(text: str) -> bool:
    """Whether the destination is a source that nothing can write (src_scc, printed as null): LLVM takes it, and nobody can mean it."""
    return text.partition(" ")[2].startswith(("src_", "null"))


def printed(codes: Sequence[str], arch: str) -> dict[str, str]:
    """What the disassembler prints for each instruction, without those at which it crashes or that it does not know."""
    if not codes:
        return {}
    run = subprocess.run(["llvm-mc-22", "-triple", "amdgcn", f"-mcpu={arch}", "--disassemble"],
                         input="".join(f"[{code}]\n[{_MARK[0]}]\n" for code in codes), capture_output=True, text=True, check=False)
    if run.returncode < 0:
        half = len(codes) // 2
        return {**printed(codes[:half], arch), **printed(codes[half:], arch)} if half else {}
    refused = {int(number) // 2 for number in re.findall(r"^<stdin>:(\d+):\d+: (?:warning|error)", run.stderr, re.MULTILINE)}
    # Of a long word that it does not know it may print the first half as an instruction.
    shown = re.split(rf"\s*{_MARK[1]}\s*", re.sub(r"^\s*\..*\n", "", run.stdout, flags=re.MULTILINE).strip())[:-1]
    assert len(codes) == len(shown), (len(codes), len(shown), run.stderr[:500])
    return {code: text for number, (code, text) in enumerate(zip(codes, shown, strict=True)) if number not in refused}


def form_spellings(arch: str, seed: int, share: float, names: Sequence[str] | None = None) -> list[str]:
    """All spellings of one random legal instance of each form."""
    rng = random.Random(f"{arch} {seed} {share}")
    found = []
    for name in names or table.names(arch):
        for form in table.opcode(name).forms:
            if not form.archs or arch in form.archs:
                found += spellings(legal(rng, table.opcode(name), form, arch, share))
    return found


def main(archs: Sequence[str]) -> int:
    """Scan everything; the exit status."""
    failed = False
    for arch in archs or list(ARCHITECTURES):
        lines = special_cases()
        for share in (0.0, 0.4):
            lines += form_spellings(arch, 1, share)
        verdict = judge(lines, arch)
        for fault in verdict.faults:
            print(f"{arch}: `{fault.text}`: {fault.why}")
        for line in verdict.left:
            print(f"{arch}: left to the assembler: {line}")
        print(f"{arch}: {len(lines)} spellings, LLVM takes {verdict.taken}, the reader leaves {len(verdict.left)} to an assembler, "
              f"{len(verdict.faults)} faults {dict(Counter(fault.why[:7] for fault in verdict.faults))}")
        failed |= bool(verdict.faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
