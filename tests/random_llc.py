# ruff: noqa: E501
"""`python -m tests.random_llc [PROGRAMS] [FIRST]`: random programs to which LLVM adds waits and wait states, against lint and insertion.

A program is machine code (MIR) of a few blocks with branches forwards and back: loads, stores, atomics, messages, scalar loads, LDS-DMA,
matrix, vector and scalar instructions on few registers, as nobody would write them. `llc` runs its passes from `si-insert-waitcnts` on.
Then, of each program:

- lint has nothing to say of LLVM's waits and wait states but for the rows of docs/facts/instructions.md section 3.5, and but for paths that
  LLVM does not count right (the same section);
- without LLVM's waits and nops asmgen inserts its own: no stricter wait than LLVM's at the same place, no more wait states but by those
  rows, and lint is silent;
- without branches, each of LLVM's waits made one looser and each nop made one shorter is missed, but for what lint calls idle or stricter
  than needed before, and what LLVM alone asks for.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache

from asmgen.checks.counters.ledger import LGKM, VM, limit_of, operation_of
from asmgen.checks.lint.programlint import lint_program
from asmgen.checks.waits.insert import insert_waits
from asmgen.checks.waitstates import passes as hazards
from asmgen.isa.arch import architecture
from asmgen.isa.check import resolve
from asmgen.isa.operands import Waitcnt
from asmgen.isa.table import opcode
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Instruction, Program
from asmgen.reader.assembly import read_text
from asmgen.reader.instruction import parse_instruction
from tests.llvm_mir import LLC, machine_code

ARCHS = ("gfx942", "gfx950")
MORE_THAN_LLVM = frozenset({"dgemm16-valu-write-isa", "dot-mfma-read", "xdl-srcc-passes", "xdl-sgemm-srcc-class", "sgemm-srcc-passes",
                            "wide-store-load", "wide-store-soffset", "part-part", "mixhi-read", "valu-vccz", "xdl-srcc-opcode"})
"""Wait states that asmgen asks for and LLVM 22 does not (docs/facts/instructions.md section 3.5, docs/facts/errata.md section 2)."""

# Assembly | MIR: memory instructions that llvm_mir lacks. Scalar and vector registers are renamed alike in both.
_MEMORY = """
global_load_dwordx4 v[0:3], v[8:9], off | $vgpr0_vgpr1_vgpr2_vgpr3 = GLOBAL_LOAD_DWORDX4 $vgpr8_vgpr9, 0, 0, implicit $exec
global_load_dwordx2 a[0:1], v[8:9], off | $agpr0_agpr1 = GLOBAL_LOAD_DWORDX2 $vgpr8_vgpr9, 0, 0, implicit $exec
global_load_short_d16_hi v0, v[8:9], off | $vgpr0 = GLOBAL_LOAD_SHORT_D16_HI $vgpr8_vgpr9, 0, 0, $vgpr0, implicit $exec
global_store_dword v[8:9], v0, off | GLOBAL_STORE_DWORD $vgpr8_vgpr9, $vgpr0, 0, 0, implicit $exec
global_atomic_add v0, v[8:9], v2, off sc0 | $vgpr0 = GLOBAL_ATOMIC_ADD_RTN $vgpr8_vgpr9, $vgpr2, 0, 1, implicit $exec
global_atomic_add v[8:9], v2, off | GLOBAL_ATOMIC_ADD $vgpr8_vgpr9, $vgpr2, 0, 0, implicit $exec
flat_load_dword v0, v[8:9] | $vgpr0 = FLAT_LOAD_DWORD $vgpr8_vgpr9, 0, 0, implicit $exec, implicit $flat_scr
flat_store_dword v[8:9], v0 | FLAT_STORE_DWORD $vgpr8_vgpr9, $vgpr0, 0, 0, implicit $exec, implicit $flat_scr
flat_atomic_add v0, v[8:9], v2 sc0 | $vgpr0 = FLAT_ATOMIC_ADD_RTN $vgpr8_vgpr9, $vgpr2, 0, 1, implicit $exec, implicit $flat_scr
scratch_load_dword v0, v2, off | $vgpr0 = SCRATCH_LOAD_DWORD $vgpr2, 0, 0, implicit $exec, implicit $flat_scr
scratch_store_dword v2, v0, off | SCRATCH_STORE_DWORD $vgpr0, $vgpr2, 0, 0, implicit $exec, implicit $flat_scr
ds_read_b32 v0, v9 | $vgpr0 = DS_READ_B32_gfx9 $vgpr9, 0, 0, implicit $exec
ds_read2_b32 v[0:1], v9 offset1:1 | $vgpr0_vgpr1 = DS_READ2_B32_gfx9 $vgpr9, 0, 1, 0, implicit $exec
ds_read_u16_d16_hi v0, v9 | $vgpr0 = DS_READ_U16_D16_HI $vgpr9, 0, 0, $vgpr0, implicit $exec
ds_write_b64 v9, v[0:1] | DS_WRITE_B64_gfx9 $vgpr9, $vgpr0_vgpr1, 0, 0, implicit $exec
ds_add_rtn_u32 v0, v9, v2 | $vgpr0 = DS_ADD_RTN_U32_gfx9 $vgpr9, $vgpr2, 0, 0, implicit $exec
ds_bpermute_b32 v0, v9, v2 | $vgpr0 = DS_BPERMUTE_B32 $vgpr9, $vgpr2, 0, implicit $exec
ds_swizzle_b32 v0, v9 offset:swizzle(BITMASK_PERM,"00p11") | $vgpr0 = DS_SWIZZLE_B32 $vgpr9, 31, 0, implicit $exec
s_load_dwordx2 s[0:1], s[4:5], 0x0 | $sgpr0_sgpr1 = S_LOAD_DWORDX2_IMM $sgpr4_sgpr5, 0, 0
s_buffer_load_dwordx4 s[0:3], s[4:7], 0x0 | $sgpr0_sgpr1_sgpr2_sgpr3 = S_BUFFER_LOAD_DWORDX4_IMM $sgpr4_sgpr5_sgpr6_sgpr7, 0, 0
s_memtime s[0:1] | $sgpr0_sgpr1 = S_MEMTIME
s_barrier | S_BARRIER
s_add_u32 s0, s1, s2 | $sgpr0 = S_ADD_U32 $sgpr1, $sgpr2, implicit-def $scc
s_and_b64 s[0:1], s[2:3], s[4:5] | $sgpr0_sgpr1 = S_AND_B64 $sgpr2_sgpr3, $sgpr4_sgpr5, implicit-def $scc
s_mov_b64 exec, s[0:1] | $exec = S_MOV_B64 $sgpr0_sgpr1
v_add_u32 v0, v1, v2 | $vgpr0 = V_ADD_U32_e32 $vgpr1, $vgpr2, implicit $exec
v_lshl_add_u64 v[0:1], v[2:3], 0, v[4:5] | $vgpr0_vgpr1 = V_LSHL_ADD_U64_e64 $vgpr2_vgpr3, 0, $vgpr4_vgpr5, implicit $exec
"""
_BRANCHES = (("S_CBRANCH_SCC1", "implicit $scc"), ("S_CBRANCH_SCC0", "implicit $scc"), ("S_CBRANCH_VCCNZ", "implicit $vcc"),
             ("S_CBRANCH_EXECZ", "implicit $exec"))
_REGISTER = re.compile(r"\b([vas])(?:(\d+)|\[(\d+):(\d+)\])(?![\w\[])")
_POOL = {"v": 24, "a": 12, "s": 16}  # so few that instructions meet
_TOGETHER = 100  # programs that one llc finishes
_A_LOT = ("buffer_", "global_", "ds_", "s_load", "v_mfma")


@dataclass(frozen=True)
class Row:
    """An instruction as assembly and as MIR, its registers by their first names."""

    text: str
    mir: str


@dataclass(frozen=True)
class Drawn:
    """A program: blocks of MIR lines, `targets` where a block ends in a conditional branch, and whether paths join."""

    blocks: tuple[tuple[str, ...], ...]
    targets: tuple[tuple[str, str, int] | None, ...]

    @property
    def joins(self) -> bool:
        """Whether any block is reached by a branch."""
        return any(self.targets)


@cache
def rows(arch: str) -> tuple[Row, ...]:
    """All instructions of an architecture."""
    more = (line.split(" | ") for line in _MEMORY.strip().splitlines())
    return (*(Row(text, mir) for text, mir in machine_code(arch).items()), *(Row(text, mir) for text, mir in more))


def mir_name(file: str, first: int, count: int) -> str:
    """Registers as MIR names them."""
    kind = {"v": "vgpr", "a": "agpr", "s": "sgpr"}[file]
    return "$" + "_".join(f"{kind}{first + number}" for number in range(count))


def renamed(row: Row, pick: random.Random) -> str:
    """The MIR of a row with drawn registers: what was one name stays one; results of matrix instructions keep apart from other operands."""
    names: dict[tuple[str, int, int], str] = {}
    taken: set[int] = set()
    matrix = row.text.startswith(("v_mfma", "v_smfmac", "v_swap", "v_permlane"))
    for match in _REGISTER.finditer(row.text):
        file, first = match[1], int(match[2] or match[3])
        count = int(match[4]) - first + 1 if match[4] else 1
        key = (file, first, count)
        if key in names:
            continue
        step = 4 if file == "s" and count > 2 else 2 if count > 1 else 1
        most = max(_POOL[file], 64 if matrix and count > 4 else 0)
        new = pick.randrange(0, max(1, most - count + 1), step)
        while matrix and file != "s" and taken & {number + 256 * (file == "a") for number in range(new, new + count)}:
            new += step
        taken |= {number + 256 * (file == "a") for number in range(new, new + count)}
        names[key] = mir_name(file, new, count)
    old = {mir_name(*key): new for key, new in names.items()}
    return re.sub(r"\$[vas]gpr\d+(?:_[vas]gpr\d+)*", lambda match: old.get(match[0], match[0]), row.mir)


def draw(arch: str, seed: int) -> Drawn:
    """A program; every third has no branches."""
    pick = random.Random(f"llc {arch} {seed}")
    table = rows(arch)
    weights = [3 if row.text.startswith(_A_LOT) else 2 for row in table]
    some = pick.choices(table, weights, k=pick.choice((6, 12, len(table))))
    count = 1 if seed % 3 == 0 else pick.randint(2, 5)
    blocks = tuple(tuple(renamed(pick.choice(some), pick) for _ in range(pick.randint(1, 14 if count == 1 else 6))) for _ in range(count))
    targets: list[tuple[str, str, int] | None] = []
    for number in range(count):
        others = [target for target in range(1, count) if target != number + 1]  # LLVM's passes lose the edge of a branch to what follows
        targets.append((*pick.choice(_BRANCHES), pick.choice(others)) if others and number + 1 < count and pick.random() < 0.7 else None)
    return Drawn(blocks, tuple(targets))


def function(name: str, drawn: Drawn) -> str:
    """A program as a MIR function."""
    lines = ["---", f"name: {name}", "tracksRegLiveness: false", "machineFunctionInfo:", "  isEntryFunction: true", "body: |"]
    for number, (block, target) in enumerate(zip(drawn.blocks, drawn.targets, strict=True)):
        lines.append(f"  bb.{number}:")
        following = {number + 1} | ({target[2]} if target else set()) if number + 1 < len(drawn.blocks) else set()
        if following:
            lines.append(f"    successors: {', '.join(f'%bb.{one}' for one in sorted(following))}")
        lines += [f"    {line}" for line in block]
        if target:
            lines.append(f"    {target[0]} %bb.{target[2]}, {target[1]}")
        elif not following:
            lines.append("    S_ENDPGM 0")
    return "\n".join([*lines, "...", ""])


def finished(arch: str, programs: list[Drawn]) -> list[Program]:
    """What LLVM's passes make of the programs, read back."""
    assert LLC is not None
    names = "".join(f"  define amdgpu_kernel void @f{number}() #0 {{ ret void }}\n" for number in range(len(programs)))
    module = f'--- |\n{names}  attributes #0 = {{ "amdgpu-agpr-alloc"="256" }}\n...\n'
    # Without XNACK: its rule about loads in one clause is none of the hardware's wait states.
    command = [LLC, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-mattr=-xnack", "-x", "mir", "-start-before=si-insert-waitcnts", "-", "-o", "-"]
    source = module + "".join(function(f"f{number}", drawn) for number, drawn in enumerate(programs))
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    by_name = {program.name: program for program in read_text(text, arch, "llc")}
    return [by_name[f"f{number}"] for number in range(len(programs))]


def stripped(program: Program) -> Program:
    """Without waits and nops."""
    return program.with_items(item for item in program.items if not isinstance(item, Instruction) or item.name not in ("s_waitcnt", "s_nop"))


def waits_at(program: Program) -> dict[int, dict[str, int]]:
    """The counts that are waited for before each instruction that is no wait and no nop, by its number among those."""
    found: dict[int, dict[str, int]] = {}
    number = 0
    for instruction in program.instructions:
        wait = operation_of(instruction).wait
        if wait is not None:
            for counter, count in ((VM, wait.vmcnt), (LGKM, wait.lgkmcnt)):
                if count is not None and count < limit_of(architecture(program.arch), counter):
                    here = found.setdefault(number, {})
                    here[counter] = min(count, here.get(counter, count))
        elif instruction.name != "s_nop":
            number += 1
    return found


def nops_at(program: Program) -> Counter[int]:
    """The wait states of nops before each such instruction."""
    found: Counter[int] = Counter()
    number = 0
    for instruction in program.instructions:
        if instruction.name == "s_nop":
            assert isinstance(instruction.operands[0], int)
            found[number] += instruction.operands[0] + 1
        elif instruction.name != "s_waitcnt":
            number += 1
    return found


def looser(program: Program, position: int, counter: str) -> Program | None:
    """The program whose wait at a position lets one more operation of a counter be in flight; None where it waits for nothing of it."""
    wait = program.instructions[position]
    given = operation_of(wait).wait
    assert given is not None
    counts = {VM: given.vmcnt, LGKM: given.lgkmcnt}
    count = counts[counter]
    if count is None or count >= limit_of(architecture(program.arch), counter):
        return None
    counts[counter] = count + 1
    row, operand = opcode("s_waitcnt"), Waitcnt(vmcnt=counts[VM], lgkmcnt=counts[LGKM])
    weaker = Instruction(row, resolve(row, (operand,), {}, program.arch), (operand,))
    return program.with_items(weaker if item is wait else item for item in program.items)


WAIT_RULES = ("W001", "W002", "W003", "W009", "W011")


def findings(program: Program) -> Counter[tuple[str, str, str]]:
    """What lint says of a program's waits and wait states: (rule, producer, consumer)."""
    return Counter((found.rule, found.producer.text if found.producer else "", found.consumer.text if found.consumer else "")
                   for found in lint_program(program) if found.rule in WAIT_RULES or found.rule[0].islower())


def joined(program: Program, producer: int, consumer: int) -> bool:
    """Whether paths join between the two: LLVM may then take one path's distance, or one producer's need, for another's."""
    flow = control_flow(program)
    start, end = flow.block_of[consumer], flow.block_of[producer]
    if start == end and producer < consumer:
        return False
    passed, stack = {start}, [start]
    while stack:
        before = flow.blocks[stack.pop()].predecessors
        if len(before) > 1:
            return True
        stack += [block for block in before if block != end and block not in passed]
        passed |= set(before)
    return False


def nearer(program: Program, producer: int, consumer: int) -> bool:
    """Whether a matrix instruction between the two writes other registers of the consumer."""
    return any("mfma" in one.opcode.classes and one.writes & program.instructions[consumer].reads
               for one in program.instructions[producer + 1:consumer])


def judged(drawn: Drawn, program: Program, told: Counter[str]) -> list[str]:
    """What is wrong with one program that LLVM finished; `told` counts what was compared and what is excused."""
    wrong = [*_false_findings(program, told), *_insertion(drawn, program, told)]
    if not drawn.joins:
        wrong += [*_missed(program, told), *_missed_nops(program, told)]
    return wrong


def _false_findings(program: Program, told: Counter[str]) -> list[str]:
    numbers = {id(instruction): position for position, instruction in enumerate(program.instructions)}
    wrong = []
    for found in lint_program(program):
        if found.rule not in ("W001", "W002", "W003") and not found.rule[0].islower() or found.severity == "note":
            continue
        assert found.producer is not None and found.consumer is not None
        if found.rule in MORE_THAN_LLVM:
            told["asked by asmgen alone"] += 1
        elif found.severity == "warning" and ("matrix instructions between" in found.message or "flat_" in found.producer.name
                                              or "as LLVM takes them to" in found.message):
            told["warned of with its reason"] += 1
        elif found.rule[0].islower() and joined(program, numbers[id(found.producer)], numbers[id(found.consumer)]):
            told["on a path that LLVM counts wrong"] += 1
        elif nearer(program, numbers[id(found.producer)], numbers[id(found.consumer)]):
            told["after a nearer producer, which LLVM takes alone"] += 1
        else:
            wrong.append(f"lint of LLVM's: {found.severity} {found.rule}: {found.message}")
    return wrong


def _insertion(drawn: Drawn, program: Program, told: Counter[str]) -> list[str]:
    ours = hazards.insert(insert_waits(stripped(program)))
    wrong = [f"lint of asmgen's: {found.rule}: {found.message}" for found in lint_program(ours, notes=False)
             if found.rule in ("W001", "W002", "W003") or found.rule[0].islower()]
    theirs, mine = waits_at(program), waits_at(ours)
    for number in theirs.keys() & mine.keys():
        told["waits at one place"] += 1
        wrong += [f"{counter}({mine[number][counter]}) is stricter than LLVM's {counter}({given}) before instruction {number}"
                  for counter, given in theirs[number].items() if mine[number].get(counter, given) < given]
    return wrong


def _missed(program: Program, told: Counter[str]) -> list[str]:
    usual = findings(program)
    idle = {(id(found.consumer), counter) for found in lint_program(program) if found.rule in ("W005", "W006")
            for counter in (VM, LGKM) if found.message.startswith(counter)}
    wrong = []
    for position, wait in enumerate(program.instructions):
        if operation_of(wait).wait is None:
            continue
        for counter in (VM, LGKM):
            weaker = looser(program, position, counter)
            if weaker is None:
                continue
            if (id(wait), counter) in idle:
                told["waits stricter than needed"] += 1
            elif findings(weaker) - usual:
                told["looser waits that are missed"] += 1
            elif any(counter in one.weight and not one.ordered for one in map(operation_of, program.instructions[:position])):
                told["waits for all where some come in any order"] += 1
            else:
                wrong.append(f"{wait.text} made looser by one on {counter} is not missed")
    return wrong


def lacking(program: Program, match_llvm: bool = False) -> int:
    """How many wait states are missing, over all pairs."""
    return sum((found.need or 0) - (found.have or 0) for found in hazards.verify(program, match_llvm))


def _missed_nops(program: Program, told: Counter[str]) -> list[str]:
    usual, llvm = lacking(program), lacking(program, match_llvm=True)
    wrong = []
    for nop in program.instructions:
        if nop.name != "s_nop":
            continue
        count = nop.operands[0]
        assert isinstance(count, int)
        fewer = [parse_instruction(f"s_nop {count - 1}", program.arch)] if count else []
        shorter = program.with_items(other for item in program.items for other in (fewer if item is nop else [item]))
        if lacking(shorter) > usual:
            told["shorter nops that are missed"] += 1
        elif lacking(shorter, match_llvm=True) > llvm:
            told["nops that LLVM alone asks for"] += 1
        elif usual:
            told["nops beside a pair that lint warns of"] += 1
        else:
            wrong.append(f"{nop.text} made shorter by one is not missed")
    return wrong


def run(arch: str, first: int, programs: int, told: Counter[str]) -> dict[int, list[str]]:
    """What is wrong with programs of those seeds, by seed."""
    found = {}
    for start in range(first, first + programs, _TOGETHER):
        seeds = range(start, min(start + _TOGETHER, first + programs))
        drawn = [draw(arch, seed) for seed in seeds]
        for seed, one, program in zip(seeds, drawn, finished(arch, drawn), strict=True):
            told["programs"] += 1
            if wrong := judged(one, program, told):
                found[seed] = wrong
    return found


def main(programs: int = 500, first: int = 0) -> int:
    """Draw and judge programs for both architectures, print what is wrong and what was compared. The exit code."""
    failed = 0
    for arch in ARCHS:
        told: Counter[str] = Counter()
        for seed, wrong in run(arch, first, programs, told).items():
            failed += 1
            print(f"{arch} seed {seed}: {'; '.join(wrong[:3])}")
        print(f"{arch}: {', '.join(f'{what}: {count}' for what, count in sorted(told.items()))}")
    print(f"{failed} of {2 * programs} programs wrong")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
