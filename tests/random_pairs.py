"""`python -m tests.random_pairs [PAIRS] [SEED] [ARCH]`: random pairs of the whole table's instructions, whose registers meet, against LLVM.

Each opcode and form of the table is a producer and a consumer, with registers drawn so that they meet. asmgen's wait states, matched to
LLVM, are those of LLVM's hazard recognizer; its own are never fewer, but for LLVM's artefact of packed operations, and more only by the
rows of docs/facts/instructions.md section 3.5. Pairs of opcodes whose registers LLVM states otherwise than the ISA are counted apart.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from asmgen.checks.waitstates.match import HazardModel
from asmgen.program.program import Instruction
from asmgen.reader.instruction import parse_instruction
from tests.assembly_mir import whole_table
from tests.llvm_mir import wait_states
from tests.random_llc import ARCHS, MORE_THAN_LLVM, mir_name

_TEXT = re.compile(r"\b([vas])(?:(\d+)|\[(\d+):(\d+)\])(?![\w\[(])")
_MIR = re.compile(r"\$([vas])gpr(\d+)(?:_[vas]gpr\d+)*(?!_)")
_TOGETHER = 2000  # pairs that one llc judges
_CLASS_SDWA = re.compile(r"v_cmpx?_class_\w+_sdwa s")
_VCC = re.compile(r"\bvcc")
_POOL = {"v": 192, "a": 192, "s": 96}
Registers = tuple[str, int, int]
"""File, first register, how many."""
Placed = tuple[str, str, list[Registers]]
"""An instruction as assembly and as MIR, with its registers."""


def named(match: re.Match[str]) -> Registers:
    """The registers of a name in assembly."""
    return match[1], int(match[2] or match[3]), int(match[4]) - int(match[3]) + 1 if match[4] else 1


def text_name(file: str, first: int, count: int) -> str:
    """Registers as assembly names them."""
    return f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"


def renamed(text: str, mir: str, pick: random.Random, near: Sequence[Registers]) -> Placed | None:
    """An instruction with drawn registers, which often meet those in `near`; None where there is no room for them."""
    taken: set[tuple[str, int]] = set()
    names: dict[Registers, Registers] = {}
    for match in _TEXT.finditer(text):
        if named(match) in names:
            continue
        file, _, count = named(match)
        others = [other for other in near if other[0] == file]
        step = 1 if count == 1 else 4 if file == "s" and count > 2 else 2
        for _ in range(40):
            if others and pick.random() < 0.7:
                _, low, width = pick.choice(others)
                first = pick.choice((low, pick.randrange(max(0, low - count + 1), low + width)))
            else:
                first = pick.randrange(_POOL[file] - count)
            first -= first % step
            mine = {(file, number) for number in range(first, first + count)}
            if first + count <= _POOL[file] and not mine & taken:
                break
        else:
            return None
        taken |= mine
        names[named(match)] = file, first, count
    text = _TEXT.sub(lambda match: text_name(*names[named(match)]), text)

    def placed(match: re.Match[str]) -> str:
        key = match[1], int(match[2]), match[0].count("gpr")
        return mir_name(*names[key]) if key in names else match[0]

    return text, _MIR.sub(placed, mir), list(names.values())


def judged_by_llvm(arch: str, pairs: list[tuple[str, str]]) -> list[int | None]:
    """LLVM's wait states; None for a pair at which it ends itself."""
    try:
        return list(wait_states(arch, pairs))
    except subprocess.CalledProcessError:
        half = len(pairs) // 2
        return [*judged_by_llvm(arch, pairs[:half]), *judged_by_llvm(arch, pairs[half:])] if half else [None]


def drawn(rows: Mapping[str, str], pick: random.Random, count: int) -> Iterator[tuple[Placed, Placed]]:
    """Pairs whose registers meet."""
    table = list(rows.items())
    while count:
        first = renamed(*pick.choice(table), pick, ())
        second = renamed(*pick.choice(table), pick, first[2]) if first else None
        if first and second:
            count -= 1
            yield first, second


def registers_differ(first: str, second: str) -> bool:
    """Whether LLVM has other registers than the ISA: it takes v_cmp_class of SDWA to write VCC whatever it names, does not know that
    v_cmpx_class writes EXEC, that v_cvt_pkaccum_u8_f32 keeps three bytes of its result and v_pk_fmac_f16 adds to it."""
    return bool(_CLASS_SDWA.match(first) and _VCC.search(second)) or second.startswith(("v_cvt_pkaccum_u8_f32", "v_pk_fmac_f16")) or \
        first.startswith("v_cmpx_class") and second.startswith("v_permlane")


def difference(arch: str, first: Instruction, second: Instruction, llvm: int, told: Counter[str]) -> str:
    """What is wrong with a pair, nothing where all is right."""
    matching, own = HazardModel(arch, match_llvm=True), HazardModel(arch)
    matched = matching.states(matching.facts(first), matching.facts(second))
    facts = own.facts(first), own.facts(second)
    mine = own.states(*facts)
    if matched != llvm:
        return f"LLVM asks for {llvm}, asmgen takes it to ask for {matched}"
    if mine < llvm and not (llvm == 1 and "packed_default" in matching.classes(matching.facts(first))):
        return f"LLVM asks for {llvm}, asmgen for {mine}"
    if mine > llvm:
        asked = {need.rule.id for need in own.needs(*facts) if need.states == mine}
        if not asked & MORE_THAN_LLVM:
            return f"LLVM asks for {llvm}, asmgen for {mine} ({', '.join(sorted(asked))})"
        told["more by section 3.5"] += 1
    return ""


def run(arch: str, rows: Mapping[str, str], count: int, seed: int, told: Counter[str]) -> list[str]:
    """What is wrong with `count` pairs; `told` counts what was compared."""
    pick, wrong = random.Random(f"pairs {arch} {seed}"), []
    for start in range(0, count, _TOGETHER):
        pairs = list(drawn(rows, pick, min(_TOGETHER, count - start)))
        for (first, second), llvm in zip(pairs, judged_by_llvm(arch, [(one[1], other[1]) for one, other in pairs]), strict=True):
            if llvm is None:
                told["not judged by LLVM"] += 1
                continue
            told["pairs"] += 1
            told["pairs with wait states"] += llvm > 0
            if registers_differ(first[0], second[0]):
                told["registers that LLVM states otherwise"] += 1
                continue
            says = difference(arch, parse_instruction(first[0], arch), parse_instruction(second[0], arch), llvm, told)
            if says:
                wrong.append(f"{first[0]}; {second[0]}: {says}")
    return wrong


def main(count: int = 5000, seed: int = 0, archs: Sequence[str] = ARCHS) -> int:
    """Draw and judge pairs for these architectures, print what is wrong and what was compared. The exit code."""
    failed = 0
    for arch in archs:
        told: Counter[str] = Counter()
        rows = whole_table(arch, seed)
        wrong = run(arch, rows, count, seed, told)
        failed += len(wrong)
        print("\n".join(wrong[:40]))
        counts = ", ".join(f"{what}: {number}" for what, number in sorted(told.items()))
        print(f"{arch}: {len(rows)} instructions; {counts}; {len(wrong)} wrong")
    return int(failed > 0)


if __name__ == "__main__":
    count, seed = (int(number) for number in (*sys.argv[1:3], *("5000", "0")[len(sys.argv[1:3]):]))
    raise SystemExit(main(count, seed, sys.argv[3:] or ARCHS))
