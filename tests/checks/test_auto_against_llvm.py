"""Automatic waits and wait states against LLVM's own: what clang put in is taken out, asmgen inserts, and the two are compared.

No more s_waitcnt than LLVM, no stricter count at the same place, no more nops except by rows that only the ISA text asks for; and the
kernels still give the same results in the emulator, with arrival checks. Kernels without LDS-DMA and without atomics: their waits
serve the memory model, which no register shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from asmgen.checks.waits.insert import insert_waits
from asmgen.checks.waits.verify import verify
from asmgen.checks.waitstates import passes as hazards
from asmgen.emulator.scheduling.run import Options
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.operands import Waitcnt
from asmgen.isa.waitrules import RULES
from asmgen.launch.emulated import EmulatedDevice
from asmgen.program.program import Instruction, Program
from asmgen.reader.disassembly import read_kernel
from tests.clang_objects import ARCHS, LEVELS, hip_object, hip_objects, needs_clang
from tests.hip_launch import floats, ints

pytestmark = [needs_clang, pytest.mark.needs_objdump]
FREE = 99
ACCESSES = ("ds_", "s_load", "s_buffer_load", "buffer_", "global_", "flat_", "scratch_")
ISA_ONLY = {rule.text for rule in RULES if not rule.asked("llvm")}


def stripped(program: Program) -> Program:
    """Without nops and waits, but for those of fences: what they order is memory, and no register tells."""
    kept = fences(program)
    return program.with_items(item for item in program.items if not isinstance(item, Instruction) or id(item) in kept
                              or item.name not in ("s_waitcnt", "s_nop"))


def fences(program: Program) -> set[int]:
    """The ids of waits right before a memory access that touches nothing that another access delivers.

    Clang leaves them standing where a workgroup is one wave and its barrier has gone.
    """
    accesses = [instruction for instruction in program.instructions if instruction.name.startswith(ACCESSES)]
    found = set()
    for wait, access in zip(program.instructions, program.instructions[1:], strict=False):
        if wait.name == "s_waitcnt" and access.name.startswith(ACCESSES):
            touched = access.reads | access.writes
            if not any(other.writes & touched for other in accesses if other is not access):
                found.add(id(wait))
    return found


def places(program: Program) -> dict[int, tuple[int, int]]:
    """(vmcnt, lgkmcnt) waited for before each instruction that is no wait and no nop, by its number among those."""
    found: dict[int, tuple[int, int]] = {}
    number = 0
    for instruction in program.instructions:
        operand = instruction.operands[0] if instruction.operands else None
        if instruction.name == "s_waitcnt" and isinstance(operand, Waitcnt):
            before = found.get(number, (FREE, FREE))
            given = (FREE if operand.vmcnt is None else operand.vmcnt, FREE if operand.lgkmcnt is None else operand.lgkmcnt)
            found[number] = (min(before[0], given[0]), min(before[1], given[1]))
        elif instruction.name != "s_nop":
            number += 1
    return found


def count(program: Program, name: str) -> int:
    return sum(instruction.name == name for instruction in program.instructions)


def nop_states(program: Program) -> int:
    """Wait states of all nops but those that an ISA-only row asked for."""
    return sum(int(instruction.operands[0]) + 1 for instruction in program.instructions  # type: ignore[arg-type]
               if instruction.name == "s_nop" and not any(text in instruction.reason for text in ISA_ONLY))


def plain(program: Program) -> bool:
    return not any(is_lds_dma(item.opcode, item.form) or item.opcode.memory is not None and item.opcode.memory.kind == "atomic"
                   for item in program.instructions)


def kernels(arch: str, level: int) -> Iterator[tuple[str, Program]]:
    for code_object in hip_objects(arch, level).values():
        for kernel in code_object.kernels.values():
            program = read_kernel(code_object, kernel)
            if plain(program):
                yield kernel.name, program


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("level", LEVELS)
def test_no_more_and_no_stricter_than_llvm(arch: str, level: int) -> None:
    judged = waits = 0
    for name, theirs in kernels(arch, level):
        ours = hazards.insert(insert_waits(stripped(theirs)))
        judged += 1
        waits += count(ours, "s_waitcnt")
        assert count(ours, "s_waitcnt") <= count(theirs, "s_waitcnt"), name
        given, taken = places(theirs), places(ours)
        stricter = [(number, given[number], taken[number]) for number in taken.keys() & given.keys()
                    if taken[number][0] < given[number][0] or taken[number][1] < given[number][1]]
        assert not stricter, (name, stricter)
        assert nop_states(ours) <= nop_states(theirs), name
        assert [finding.message for finding in verify(ours, notes=False)] == [], name
        assert hazards.verify(ours) == [], name
    assert judged > 50 and waits > 200


LAUNCHES: list[tuple[str, str, Any, int, list[Any]]] = [
    ("vector_add", "vector_add", 4, 256, [np.zeros(1024, np.float32), floats(1000, 1), floats(1000, 2), 1000]),
    ("vector_add", "axpy4", 1, 256, [np.zeros(640, np.float32), floats(600, 1), floats(600, 2), 2.5, 600]),
    ("softmax", "softmax", 3, 256, [np.zeros((3, 300), np.float32), floats(900, 3).reshape(3, 300), 300]),
    ("lds_transpose", "lds_transpose", 2, 256, [np.zeros(8192, np.uint16), ints(4096, 4).view(np.uint16)]),
    ("lds_reduce", "lds_reduce", 3, 256, [np.zeros(3, np.float32), floats(700, 5), 700]),
    ("lane_ops", "wave_scan", 2, 64, [np.zeros(128, np.int32), ints(128, 6)]),
    ("bitonic_sort", "bitonic_sort", 3, 256, [ints(768, 7)]),
    ("masked_gemm", "masked_gemm", (2, 3), 256, [np.zeros((38, 21), np.float32), floats(37 * 19, 8).reshape(37, 19),
                                                 floats(19 * 21, 9).reshape(19, 21), 37, 21, 19]),
    ("mfma_half", "mfma_f16_32x32x8", 1, 64, [
        np.zeros(1024, np.float32), floats(256, 1).astype(np.float16), floats(256, 2).astype(np.float16), floats(1024, 3)]),
    ("double_math", "double_math", 2, 64, [np.zeros(600), floats(100, 4).astype(np.float64), floats(100, 5).astype(np.float64), 100]),
]


def run(arch: str, source: str, kernel: str, grid: Any, block: int, arguments: list[Any],
        program: Program | None) -> list[np.ndarray[Any, Any]]:
    copies = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    device = EmulatedDevice(arch, Options(), {kernel: program} if program is not None else {})
    sizes = (grid, 1, 1) if isinstance(grid, int) else (*grid, 1)
    result = device.launch(hip_object(source, arch).kernel(kernel), sizes, (block, 1, 1), copies)
    assert [finding.sentence() for finding in result.findings] == []
    return [value for value in copies if isinstance(value, np.ndarray)]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("source", "kernel", "grid", "block", "arguments"), LAUNCHES, ids=[row[1] for row in LAUNCHES])
def test_same_results_with_our_waits(arch: str, source: str, kernel: str, grid: Any, block: int, arguments: list[Any]) -> None:
    code_object = hip_object(source, arch)
    theirs = read_kernel(code_object, code_object.kernel(kernel))
    ours = hazards.insert(insert_waits(stripped(theirs)))
    expected, got = (run(arch, source, kernel, grid, block, arguments, program) for program in (None, ours))
    assert any(one.tobytes() != before.tobytes() for one, before in
               zip(expected, [value for value in arguments if isinstance(value, np.ndarray)], strict=True)), "the kernel does something"
    assert all(one.tobytes() == other.tobytes() for one, other in zip(expected, got, strict=True))
