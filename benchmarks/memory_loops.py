"""Rates of LDS and buffer loops on the emulator, one core: `python -m benchmarks.memory_loops [waves] [rounds]`."""

from __future__ import annotations

import sys

from asmgen.author.emit.builder import Builder
from asmgen.emulator.machine.devicememory import Memory
from asmgen.isa.registers import s, v
from benchmarks.loops import Loop, loop

PER_ROUND = 8
LDS_BYTES = 65536


def lds_loop(rounds: int) -> Loop:
    """Every wave of a workgroup has 8 KiB of LDS for itself: ds_read_b128 and ds_write_b64 without bank conflicts."""
    def before(k: Builder) -> None:
        k.v_lshlrev_b32(v[1], 4, v[0])
        k.v_lshlrev_b32(v[2], 3, v[0])
        for number in range(4):
            k.v_mov_b32(v[8 + number], number)
        for number in range(2):
            k.ds_write_b128(v[1], v[8:11], offset=8192 * number)
        k.s_waitcnt(lgkmcnt=0)

    def body(k: Builder) -> None:
        for number in range(PER_ROUND // 2):
            k.ds_read_b128(v[8 + 4 * number:11 + 4 * number], v[1], offset=8192 * (number & 1))
        k.s_waitcnt(lgkmcnt=0)
        for number in range(PER_ROUND // 2):
            k.ds_write_b64(v[2], v[8 + 4 * number:9 + 4 * number], offset=16384 + 8192 * (number & 1))
        k.s_waitcnt(lgkmcnt=0)

    return loop("gfx950", rounds, before, body, lds=LDS_BYTES)


def buffer_loop(rounds: int, address: int, size: int) -> Loop:
    """buffer_load_dwordx4 and buffer_store_dwordx4, every lane its own 16 bytes of the workgroup's part."""
    def before(k: Builder) -> None:
        k.s_mov_b32(s[8], address & 0xFFFFFFFF)
        k.s_mov_b32(s[9], address >> 32)
        k.s_mov_b32(s[10], size)
        k.s_mov_b32(s[11], 0x00020000)
        k.v_lshlrev_b32(v[1], 4, v[0])
        k.s_lshl_b32(s[12], s[2], 13)
        k.v_add_u32(v[1], s[12], v[1])

    def body(k: Builder) -> None:
        for number in range(PER_ROUND // 2):
            k.buffer_load_dwordx4(v[8 + 4 * number:11 + 4 * number], v[1], s[8:11], 0, offen=True)
        k.s_waitcnt(vmcnt=0)
        for number in range(PER_ROUND // 2):
            k.buffer_store_dwordx4(v[8 + 4 * number:11 + 4 * number], v[1], s[8:11], 0, offen=True)
        k.s_waitcnt(vmcnt=0)

    return loop("gfx950", rounds, before, body)


def main(waves: int = 1024, rounds: int = 32) -> None:
    """One line per loop, checks off and on."""
    print(f"{waves} waves".ljust(24) + "M wave-instructions/s".rjust(22) + "checks on".rjust(12) + "GB/s".rjust(8))
    memory = Memory()
    size = waves * 1024
    address = memory.allocate(size)
    for title, program, bytes_each in (("LDS", lds_loop(rounds), 12 * 64), ("buffer dwordx4", buffer_loop(rounds, address, size), 16 * 64)):
        results = [program.run(waves // 8, checks=checks, memory=memory) for checks in (False, True)]
        rates = [result.wave_instructions / result.seconds / 1e6 for result in results]
        moved = bytes_each * PER_ROUND * rounds * waves / results[0].seconds / 1e9
        print(title.ljust(24) + f"{rates[0]:22.2f}{rates[1]:12.2f}{moved:8.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
