"""Programs run on the emulator with a trace and timed by the cycle model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace, WaveTrace
from asmgen.isa.timing import timing
from asmgen.model.profile import Profile, profile
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text
from tests.emulator_launch import launch

MFMA = "v_mfma_f32_32x32x16_bf16 a[{0}:{1}], v[0:3], v[4:7], a[{0}:{1}]\n"


def traced(text: str, block: int = 64, workgroups: int = 1, grid: int = 1, buffers: Sequence[Any] = (), lds: int = 0,
           arch: str = "gfx950", order: str = "lockstep") -> tuple[Program, list[WaveTrace]]:
    """A program run on the emulator with a trace."""
    code = read_text(text + "s_endpgm\n", arch)[0]
    trace = Trace(workgroups)
    launch(arch, code, (grid, 1, 1), (block, 1, 1), buffers, lds=lds, vgprs=128, options=Options(checks=False, trace=trace, order=order))
    assert trace.program is code
    return code, list(trace.waves())


def loop(body: str, rounds: int) -> str:
    return f"s_mov_b32 s20, {rounds}\nL:\n{body}s_sub_u32 s20, s20, 1\ns_cmp_lg_u32 s20, 0\ns_cbranch_scc1 L\n"


AT_ONCE = timing("MI355X", {"workgroup_gap": 0, "wave_dispatch": 0})
"""Workgroups that begin at once."""


def timed(text: str, **options: Any) -> Profile:
    code, waves = traced(text, **options)
    return profile(code, waves, AT_ONCE, "l2", spans=True)
