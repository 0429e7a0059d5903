"""Million wave instructions a second of a vector loop on the emulator, one core: `python -m benchmarks.vector_loop [rounds]`.

Equal shares of six instructions, FLOAT_MODE 0xc0 (f32 denormals flushed), half of them under a branch with partial EXEC. Issue E wants
10 with 1,024 waves, 0.3 with one workgroup of 8, and checks to cost at most three times.
"""

from __future__ import annotations

import sys

from asmgen.author.emit.builder import Builder
from asmgen.isa.registers import exec_, s, v, vcc
from benchmarks.loops import loop

SHARES = 4  # of each instruction in a round, half of them behind the branch


def before(k: Builder) -> None:
    """Operands: ordinary numbers that differ from lane to lane."""
    k.v_cvt_f32_u32(v[1], v[0])
    for register in range(2, 8):
        k.v_mul_f32(v[register], 0.25 * register, v[1])
    for register in range(10, 20):
        k.v_mov_b32(v[register], register)
    k.v_cmp_lt_f32(vcc, v[2], v[3])
    k.s_mov_b32(s[16], 0x55555555)
    k.s_mov_b32(s[17], 0x0F0F0F0F)


def share(k: Builder, number: int) -> None:
    """One of each."""
    k.v_add_u32(v[10], v[10 + number], v[0])
    k.v_fma_f32(v[16 + number], v[2], v[3], v[16 + number])
    k.v_mul_f32(v[20 + number], v[4], v[5])
    k.v_cndmask_b32(v[24 + number], v[6], v[7], vcc)
    k.v_lshl_add_u32(v[28 + number], v[10], 2, v[0])
    k.v_exp_f32(v[32 + number], v[2 + number])


def body(k: Builder) -> None:
    """A round: shares with all lanes, then, behind a branch, the same with the lanes that s[16:17] names."""
    for number in range(SHARES // 2):
        share(k, number)
    k.v_cmp_lt_f32(vcc, v[2], v[16])
    k.s_and_saveexec_b64(s[14:15], s[16:17])
    k.s_cbranch_execz("over")
    for number in range(SHARES // 2):
        share(k, number)
    k.label("over")
    k.s_mov_b64(exec_, s[14:15])


def main(rounds: int = 40) -> None:
    """One line per size."""
    program = loop("gfx950", rounds, before, body)
    print("waves".ljust(8) + "M/s".rjust(8) + "checks on".rjust(12) + "costs".rjust(8))
    for waves in (1024, 8):
        rates = []
        for checks in (False, True):
            result = program.run(waves // 8, checks=checks)
            rates.append(result.wave_instructions / result.seconds / 1e6)
        print(f"{waves:<8d}{rates[0]:8.2f}{rates[1]:12.2f}{rates[0] / rates[1]:8.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
