"""What the emulator's loop benchmarks share: a program that is run without a code object, and its best time of several."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass

from asmgen.author.emit.builder import Builder
from asmgen.codeobject.descriptor import KernelDescriptor
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.dispatch import Dispatch
from asmgen.emulator.scheduling.run import LaunchResult, Options, run_launch
from asmgen.isa.arch import architecture
from asmgen.isa.registers import s
from asmgen.program.program import Program

FLOAT_MODE = 0xC0
IEEE_AND_CLAMP = 1 << 21 | 1 << 23


@dataclass(frozen=True)
class Loop:
    """A program with a loop of `rounds` rounds, for workgroups of `waves` waves with 256 VGPRs, 256 AGPRs and `lds` bytes."""

    program: Program
    rounds: int
    waves: int
    lds: int = 0

    def run(self, workgroups: int, *, checks: bool, memory: Memory | None = None, times: int = 3) -> LaunchResult:
        """The fastest of several launches, after one that compiles and fills the caches."""
        memory = memory or Memory()
        results = [self.launch(workgroups, checks=checks, memory=memory) for _ in range(times + 1)]
        for finding in results[-1].findings[:3]:
            print(finding.sentence())
        return min(results[1:], key=lambda result: result.seconds)

    def launch(self, workgroups: int, *, checks: bool | Collection[str], memory: Memory | None = None) -> LaunchResult:
        """Once."""
        registers, accum_offset, user_sgprs, workgroup_id, kernarg_pointer = 63, 63, 2 << 1, 1 << 7, 1 << 3
        raw = struct.pack("<3I4xq20x3IHH4x", self.lds, 0, 64, 0, accum_offset, registers | FLOAT_MODE << 12 | IEEE_AND_CLAMP,
                          user_sgprs | workgroup_id, kernarg_pointer, 0)
        descriptor = KernelDescriptor.from_bytes(raw)
        memory = memory or Memory()
        kernarg = memory.allocate(64)
        dispatch = Dispatch((workgroups, 1, 1), (self.waves * 64, 1, 1), kernarg, bytes(64))
        return run_launch(self.program, descriptor, architecture(self.program.arch), dispatch, memory, Options(checks=checks))


def loop(arch: str, rounds: int, before: Callable[[Builder], None], body: Callable[[Builder], None], waves: int = 8, lds: int = 0) -> Loop:
    """`before`, then `rounds` times `body`, counted down in s20."""
    k = Builder("loop", arch)
    before(k)
    k.s_mov_b32(s[20], rounds)
    k.label("again")
    body(k)
    k.s_sub_i32(s[20], s[20], 1)
    k.s_cmp_lg_u32(s[20], 0)
    k.s_cbranch_scc1("again")
    k.s_endpgm()
    return Loop(k.program(), rounds, waves, lds)
