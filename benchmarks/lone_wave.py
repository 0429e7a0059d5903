"""Million wave instructions a second of one wave alone: `python -m benchmarks.lone_wave [rounds]`.

Three loops under full EXEC: scalar code, vector code, and both with compares and selects. Issue F wants 1 from each, warm, checks off.
"""

from __future__ import annotations

import sys

from asmgen.author.emit.builder import Builder
from asmgen.isa.registers import s, v, vcc
from benchmarks.loops import loop


def before(k: Builder) -> None:
    """Operands: numbers that differ from lane to lane."""
    k.v_cvt_f32_u32(v[1], v[0])
    for register in range(2, 12):
        k.v_mul_f32(v[register], 0.25 * register, v[1])
    for register in range(12, 24):
        k.v_lshlrev_b32(v[register], register - 10, v[0])
    for register in range(8, 16):
        k.s_mov_b32(s[register], 0x01010101 * register)


def scalar_body(k: Builder) -> None:
    """A hash in scalar registers."""
    k.s_mul_i32(s[8], s[8], 0x5BD1E995)
    k.s_lshr_b32(s[9], s[8], 15)
    k.s_xor_b32(s[8], s[8], s[9])
    k.s_add_u32(s[10], s[10], s[8])
    k.s_addc_u32(s[11], s[11], 0)


def vector_body(k: Builder) -> None:
    """Integer and float arithmetic."""
    k.v_add_u32(v[12], v[12], v[13])
    k.v_lshl_add_u32(v[14], v[12], 2, v[0])
    k.v_xor_b32(v[15], v[14], v[12])
    k.v_mul_lo_u32(v[16], v[15], v[17])
    k.v_fma_f32(v[2], v[3], v[4], v[2])
    k.v_mul_f32(v[5], v[6], v[7])
    k.v_add_f32(v[8], v[5], v[2])
    k.v_max_f32(v[9], v[8], v[10])


def mixed_body(k: Builder) -> None:
    """Both, with what ties them together."""
    for _ in range(3):
        vector_body(k)
        k.v_cmp_lt_f32(vcc, v[2], v[9])
        k.v_cndmask_b32(v[18], v[12], v[14], vcc)
        scalar_body(k)
        k.v_add_u32(v[19], s[8], v[19])


LOOPS = {"scalar": scalar_body, "vector": vector_body, "both": mixed_body}


def main(rounds: int = 2000) -> None:
    """One line a loop, checks off and on."""
    print("loop".ljust(8) + "M/s".rjust(8) + "checks on".rjust(12))
    for title, body in LOOPS.items():
        program = loop("gfx950", rounds, before, body, waves=1)
        rates = []
        for checks in (False, True):
            result = program.run(1, checks=checks)
            rates.append(result.wave_instructions / result.seconds / 1e6)
        print(f"{title:<8s}{rates[0]:8.2f}{rates[1]:12.2f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
