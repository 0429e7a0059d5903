"""Measured figures of docs/facts beside what the cycle model makes of the same code: `python -m benchmarks.facts`.

Only figures of code that its source describes well enough to be written down again. "outside" marks those that the model does not give back
within 5 % of what the source has; docs/CYCLE_MODEL.md says why. Rows that a value of the timing table is set from show that the model
applies this value, no more, and are marked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from asmgen.emulator.scheduling.trace import WaveTrace, has_cost
from asmgen.isa.timing import Timing, timing
from asmgen.model.cycles import simulate
from asmgen.model.farmemory import FarMemory, GridLoads, far_memory
from asmgen.reader.assembly import read_text

_NEAR = 0.05
_LINES = 8  # of 128 bytes in a load of 16 bytes a lane


@dataclass(frozen=True)
class Fact:
    """clk of each of `count` repetitions of `code` by so many waves, after `before`, or by a factor `scale` what the source has instead."""

    what: str
    source: str
    low: float
    high: float
    code: str
    waves: int = 1
    cost: int = _LINES
    level: str = "l2"  # where loads of one compute unit by itself find all of their data
    unit: str = "clk"
    amount: float = 0.0  # bytes of a repetition by all waves, for GB/s at 2.4 GHz
    other: str = ""  # what the wave after the first four executes instead
    sets: str = ""  # what the timing table has from the same figure

    def predicted(self, table: Timing, times: int) -> float:
        """What the model says of one repetition, after `times` others."""
        short, long = (self._clk(table, count) for count in (times, 2 * times))
        clk = (long - short) / times
        return self.amount / clk * 2.4 if self.amount else clk / 2.4 if self.unit == "ns" else clk

    def _far(self, table: Timing) -> FarMemory:
        loads = GridLoads({}, 1, 1, self.level == "hbm", 1)
        return far_memory(table, "l2") if self.level == "l2" else far_memory(table, "grid", loads, table["clock_idle"])

    def _clk(self, table: Timing, count: int) -> int:
        bodies = [f"{self.code}\n" * count] + ([f"{self.other}\n" * count] if self.other else [])
        code = read_text("".join(f"{body}s_waitcnt vmcnt(0) lgkmcnt(0)\ns_endpgm\n" for body in bodies), "gfx950")[0]
        ends = [at + 1 for at, one in enumerate(code.instructions) if one.name == "s_endpgm"]
        traces = []
        for wave in range(self.waves):
            part = min(wave // 4, len(bodies) - 1)
            positions = tuple(range(ends[part - 1] if part else 0, ends[part]))
            accesses = sum(has_cost(code.instructions[at]) for at in positions)
            traces.append(WaveTrace(0, wave, positions, (self.cost,) * accesses))
        found = simulate(code, traces, table, far=self._far(table))
        return max(wave.end for wave in found.waves[:4])


_GATHER = "ds_read_b32 v1, v1\ns_waitcnt lgkmcnt(0)"
_CHASE = "global_load_dwordx2 v[0:1], v[0:1], off\ns_waitcnt vmcnt(0)"
_LOAD = "global_load_dwordx4 v[4:7], v[0:1], off"
_CHAIN = "v_mfma_f32_16x16x32_f16 v[0:3], v[4:7], v[8:11], v[0:3]"
_APART = "\n".join(f"v_mfma_f32_16x16x32_f16 v[{at}:{at + 3}], v[64:67], v[68:71], v[{at}:{at + 3}]" for at in (0, 4, 8, 12))
_BURST = "\n".join(f"ds_read_b128 v[{4 * at}:{4 * at + 3}], v100 offset:{16 * at}" for at in range(16)) + "\ns_waitcnt lgkmcnt(0)"
_DOT = "\n".join(["v_mfma_f32_32x32x16_bf16 v[0:15], v[64:67], v[68:71], v[0:15]", *["v_fma_f32 v80, v81, v82, v83"] * 5] * 16)

FACTS: tuple[Fact, ...] = (
    Fact("chain of f32 FMAs", "micro 2.1", 8, 8, "v_fma_f32 v0, v1, v2, v0"),
    Fact("chain of MFMAs 16x16x32 through SrcC", "micro 2.1", 16, 18, _CHAIN),
    Fact("four MFMAs 16x16x32 apart", "measured 0.1", 64, 64, _APART),
    Fact("dependent LDS gather", "micro 2.1", 69, 69, _GATHER, cost=2),
    Fact("pointer chase in HBM, ns", "micro 2.5", 360, 360, _CHASE, cost=64, level="hbm", unit="ns", sets="llc_miss_alone"),
    Fact("loads of L2 by a unit, GB/s", "measured 0.2", 153, 153, _LOAD, 4, unit="GB/s", amount=4096, sets="rate_l2"),
    Fact("loads of the last-level cache by a unit, GB/s", "measured 3", 110, 110, _LOAD, 4, level="llc", unit="GB/s", amount=4096,
         sets="rate_llc"),
    Fact("loads of HBM by a unit, GB/s", "measured 3", 60, 60, _LOAD, 4, level="hbm", unit="GB/s", amount=4096, sets="rate_hbm"),
    Fact("stores by a unit, GB/s", "measured 3", 150, 150, "global_store_dwordx4 v[0:1], v[4:7], off", 4, unit="GB/s", amount=4096,
         sets="vmem_store_rate"),
    Fact("ds_read_b64, one wave", "micro 2.4", 8, 8, "ds_read_b64 v[0:1], v2", cost=2, sets="lds_read_interval"),
    Fact("ds_read_b128, four SIMDs", "measured 2", 16, 16, "ds_read_b128 v[0:3], v4", 4, cost=4, sets="lds_bus"),
    Fact("ds_read_b128 of 2-way conflicts, four SIMDs", "measured 2", 32, 32, "ds_read_b128 v[0:3], v4", 4, cost=8,
         sets="lds_conflict_wide"),
    Fact("s_nop 3 beside a wave of MFMAs", "measured 4", 64, 64, "s_nop 3", 8, other="\n".join([_CHAIN] * 5), sets="nop_beside"),
    Fact("a base remade before each burst of 16 ds_read_b128, clk more", "measured 2", 26.6, 26.6, _BURST, 8, 4, other=_DOT),
)


def rows(times: int) -> list[tuple[Fact, float]]:
    """Each with what the model says of it."""
    table = timing("MI355X")
    found = [(fact, fact.predicted(table, times)) for fact in FACTS]
    burst, plain = found[-1]
    with_base = replace(burst, code=f"v_add_u32 v100, 64, v100\n{burst.code}").predicted(table, times)
    return [*found[:-1], (burst, with_base - plain)]


def main(times: int = 64) -> None:
    """Print the table."""
    for fact, predicted in rows(times):
        known = f"{fact.low:g}" + (f" to {fact.high:g}" if fact.high > fact.low else "")
        inside = fact.low * (1 - _NEAR) <= predicted <= fact.high * (1 + _NEAR)
        remarks = "" if inside else "   outside"
        remarks += f"   {fact.sets} is set from this" if fact.sets else ""
        print(f"{fact.what:62}{fact.source:14}{known:>10}{predicted:10.1f} predicted{remarks}")


if __name__ == "__main__":
    main()
