"""Loops drawn by seed: the lower bound of each is no more than what the cycle model says of it.

    python -m tests.random_loops [count [first seed]]
"""

from __future__ import annotations

import random
import sys

from asmgen.isa.timing import timing
from asmgen.model.profile import profile
from asmgen.tools.loopgaps import ALLOWED
from asmgen.tuning.loopbounds import loop_bound
from tests.model_harness import loop, traced

TABLE = timing("MI355X")
WIDE = "v_mfma_f32_32x32x16_bf16 a[0:15], v[0:3], v[4:7], a[0:15]\n"  # 32 clk of a core, chained on its accumulator
NARROW = "v_mfma_f32_16x16x32_bf16 a[{0}:{1}], v[0:3], v[4:7], a[{0}:{1}]\n"

POOL = (WIDE, NARROW.format(16, 19), NARROW.format(20, 23), "v_add_f32 v8, v8, v9\n", "v_exp_f32 v10, v8\n", "v_mul_lo_u32 v11, v11, v12\n",
        "v_pk_add_f32 v[14:15], v[14:15], v[16:17]\n", "s_nop 2\n", "s_add_u32 s30, s30, 1\n", "ds_read_b128 v[20:23], v30\n",
        "v_permlane32_swap_b32 v18, v19\n", "s_waitcnt lgkmcnt(0)\n", "s_barrier\n", "v_mov_b32 v24, v10\n")


def above(seed: int) -> str:
    """The drawn loop, if its bound lies above what the model says of it."""
    pick = random.Random(seed)
    body = "".join(pick.choice(POOL) for _ in range(pick.randint(3, 40)))
    waves = pick.choice((1, 4, 8))
    body += "s_barrier\n" * (waves > 4)  # else one wave of a SIMD may be through before the other one begins
    program, traces = traced("v_mov_b32 v30, 0\n" + loop(body, 40), block=64 * waves, lds=4096)
    for found in profile(program, traces, TABLE, "l2").loops:
        least = loop_bound(program, found.first, found.last, found.waves, TABLE)
        if least is None or least.least > found.cycles * ALLOWED:
            return f"case {seed}: {least} above {found.cycles} of\n{body}"
    return ""


def main() -> int:
    """The drawn loops whose bound is none; status 1 if there is one."""
    count, first = ([int(word) for word in sys.argv[1:]] + [50, 0][len(sys.argv) - 1:])[:2]
    wrong = [found for seed in range(first, first + count) if (found := above(seed))]
    print("\n".join([*wrong, f"{count} loops, {len(wrong)} bounds above the prediction"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
