"""What the model makes of figures of docs/facts/model_evidence.md sections 1 and 2 that need no kernel of the library.

    python -m benchmarks.evidence

First the launches of section 1, from their measured loops and ends: how far clocks and what stands around a loop are off.
Then a loop as section 2 has it: four waves, 64 KB a step asked for in the first half of 2048 clk of matrix work, and a
wait 576 clk later. It ran nearly full.
"""

from __future__ import annotations

from asmgen.emulator.scheduling.trace import WaveTrace, has_cost
from asmgen.isa.timing import Timing, timing
from asmgen.model.estimate import sustained_clock
from asmgen.model.farmemory import far_memory
from asmgen.model.profile import profile
from asmgen.reader.assembly import read_text

FORMS = (("released", 4831, 1315), ("no nops", 4621, 1342), ("no setprio", 4713, 1335), ("neither", 4819, 1322), ("eager", 6694, 1044))
"""clk of a body and TFLOPS, the middle of what section 1 gives."""
_FLOPS = 4 * 32 * 8 * 8192**2 * 128
_BODIES, _ENDS, _ROUNDS = 64, 7145 + 12079, 32
_IDEAL = 4096  # clk of a body's matrix instructions on a SIMD
_MATRIX, _READS, _LOADS, _ROUNDS_OF_LOOP = 128, 32, 16, 14


def launch_tflops(body: float, table: Timing) -> float:
    """Of a launch of section 1 whose body takes so many clk."""
    clock = sustained_clock(table, _IDEAL / body, True) - table["clock_odd_xcds"]
    clk = _ROUNDS * (_BODIES * body * (1 + table["traced_loops"]) + _ENDS) + (_ROUNDS - 1) * table["workgroup_gap"]
    return _FLOPS / (clk / clock + table["launch_device"]) / 1e6


def early_loads(last: int, wait: int) -> str:
    """A step whose loads go beside the matrix instructions up to `last`, and are waited for before number `wait`."""
    loads = [round(number * last / (_LOADS - 1)) for number in range(_LOADS)]
    lines = []
    for number in range(_MATRIX):
        span = f"a[{number % 64 * 4}:{number % 64 * 4 + 3}]"
        lines += ["s_waitcnt vmcnt(0) lgkmcnt(0)", "s_barrier"] if number == wait else []
        lines.append(f"v_mfma_f32_16x16x32_bf16 {span}, v[0:3], v[4:7], {span}")
        lines += ["s_mov_b32 m0, s20", "buffer_load_dwordx4 v251, s[4:7], s21 offen lds"] * loads.count(number)
        if number * _READS % _MATRIX == 0:
            lines.append(f"ds_read_b128 v[64:67], v250 offset:{number}")
    return "\n".join(lines)


def loop_clk(step: str, table: Timing) -> float:
    """Predicted clk of a step on a GPU whose units all load."""
    code = read_text(f"s_nop 0\nL:\n{step}\ns_cbranch_scc1 L\ns_endpgm\n", "gfx950")[0]
    last = len(code.instructions) - 1
    positions = (0, *tuple(range(1, last)) * _ROUNDS_OF_LOOP, last)
    costs = tuple(4 if code.instructions[at].name.startswith("ds_") else 8 for at in positions if has_cost(code.instructions[at]))
    found = profile(code, [WaveTrace(0, wave, positions, costs) for wave in range(4)], table, far=far_memory(table, "grid")).main_loop
    assert found is not None
    return found.cycles


def main() -> None:
    """Print both tables."""
    table = timing("MI355X")
    print("form of section 1   measured clk a body, TFLOPS   predicted TFLOPS from them")
    for name, body, measured in FORMS:
        found = launch_tflops(body, table)
        print(f"{name:20}{body:8}{measured:12}{found:22.0f} {found / measured - 1:+7.1%}")
    for burst in (table["load_burst"], *table.ranges()["load_burst"], 0):
        found = loop_clk(early_loads(60, 96), timing("MI355X", {"load_burst": burst}))
        print(f"loop of section 2, bursts of {burst:5.0f} B: predicted {found:.0f} clk a step of 2048")


if __name__ == "__main__":
    main()
