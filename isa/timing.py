"""How long things take: the one parameter table of the cycle model and the kernel estimate, for each architecture and GPU.

Every row has its source and how sure it is. Nothing here was measured by this project and nothing is fitted to a kernel: what the model
makes of it is a prediction. Tags: [M] measured on silicon by the source; [m] a constant that AMD engineers' schedulers run on;
[V] an AMD vendor model or document; [L] LLVM; [D] arithmetic on such figures; [A] assumed. Matrix occupancies stand in
`asmgen.isa.opcodes.mfma`, what reading a matrix result takes in `asmgen.isa.waitrules`, LDS banks in `asmgen.isa.lds`.

Sources: "measured N" is section N of what docs/facts/measured_gfx950.md section 1 begins (AMD's Gluon tutorials), "micro N" that of
docs/facts/microarchitecture.md section 2.
clk is one clock of a compute unit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass

GPUS: dict[str, str] = {"MI300X": "gfx942", "MI325X": "gfx942", "MI350X": "gfx950", "MI355X": "gfx950"}
"""The GPUs that the table knows, with their architectures."""
DEFAULT_GPU = {"gfx942": "MI300X", "gfx950": "MI355X"}
WHOLE_XCDS = 8
"""Of a whole GPU (micro 2.5): rates of all L2s together are of so many."""
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class TimingParameter:
    """One row. `values` are by "all", architecture or GPU, the most special one wins; `low` and `high` are the range that sources give, or
    these by architecture or GPU, both 0 where they give none. More of it makes kernels slower or faster as its unit says, or `faster`."""

    name: str
    values: Mapping[str, float]
    unit: str
    tag: str
    source: str
    low: float | Mapping[str, float] = 0
    high: float | Mapping[str, float] = 0
    faster: bool | None = None

    def on(self, gpu: str) -> float:
        """The value for a GPU."""
        found = _of(self.values, gpu)
        if found is None:
            raise AsmgenError(f"the timing table has no {self.name} for {gpu}")
        return found

    def range_on(self, gpu: str) -> tuple[float, float]:
        """(the end at which kernels are fastest, the one at which they are slowest) for a GPU; the value twice without a range."""
        value = self.on(gpu)
        ends = [end if isinstance(end, int | float) else _of(end, gpu) for end in (self.low, self.high)]
        low, high = [value if end is None else end for end in ends] if any(ends) else [value, value]
        higher_is_faster = self.unit.startswith(_RATES) if self.faster is None else self.faster
        return (high, low) if higher_is_faster else (low, high)

    @property
    def assumed(self) -> bool:
        """Whether nobody measured it, as [A], [D] and [?] say."""
        return any(mark in self.tag for mark in ("[A]", "[D]", "[?]"))


_RATES = ("B/clk", "TB/s", "GB/s", "MHz", "entries", "lines", "B/CU", "B/XCD", "share")
"""Beginnings of the units of what makes a kernel faster where it is more."""
_COUNTED = ("CUs", "XCDs")
"""Units of what a GPU has at least one of."""


def _of(values: Mapping[str, float], gpu: str) -> float | None:
    """The most special value for a GPU."""
    return next((values[key] for key in (gpu, GPUS[gpu], "all") if key in values), None)


def _all(name: str, value: float, unit: str, tag: str, source: str, low: float | Mapping[str, float] = 0,
         high: float | Mapping[str, float] = 0) -> TimingParameter:
    return TimingParameter(name, {"all": value}, unit, tag, source, low, high)


PARAMETERS: tuple[TimingParameter, ...] = (
    # Issue.
    _all("slot", 4, "clk", "[V]", "micro 2.1: each SIMD is served every 4 clk; one instruction a wave, one a category"),
    _all("valu_issue", 4, "clk", "[V]", "micro 2.1; packed f32 the same"),
    _all("trans_issue", 8, "clk", "[m]", "measured 0.5", 8, 16),
    _all("permlane_issue", 8, "clk", "[D]", "measured 0.5: swap with two copies and a nop takes 20", 4, 8),
    _all("quarter_issue", 16, "clk", "[A]", "32-bit integer products run at a quarter of the rate (LLVM's WriteIntMul class)", 8, 16),
    _all("valu_latency", 4, "clk", "[V]",
         "micro 2.1: 4 clk of a wave64, whose result the next slot may read; an f32 FMA chain on MI350X takes ~8 [M], in a test that finds "
         "1 to 2 clk too many elsewhere (measured 0.1). Evidence 1 chooses: 8 makes its loop 6 % too slow", 4, 8),
    _all("trans_latency", 12, "clk", "[A]", "its 8 clk of issue and the 4 that a plain result takes", 8, 16),
    _all("permlane_latency", 12, "clk", "[A]", "its 8 clk of issue and the 4 that a plain result takes", 8, 16),
    _all("quarter_latency", 20, "clk", "[A]", "its 16 clk of issue and the 4 that a plain result takes", 12, 20),
    _all("salu_latency", 4, "clk", "[A]", "a wave issues every 4 clk and dependent scalars do not wait longer", 4, 8),
    _all("valu_scalar_latency", 8, "clk", "[A]", "a scalar that a VALU instruction wrote, as its vector results", 8, 20),
    _all("branch_taken", 24, "clk", "[V]", "micro 2.2: rocisa cycle.cpp, a branch is 6 quads", 16, 32),
    _all("branch_not_taken", 8, "clk", "[A]", "the decision, without a new fetch", 4, 24),
    _all("fetch_rate", 32, "B/clk/CU", "[V]", "micro 2.1"),
    _all("fetch_buffer", 256, "B/CU", "[A]", "what stands fetched ahead of issue: 32 B for each of 8 waves", 128, 1024),
    _all("icache_bytes", 65536, "B/2 CUs", "[V]", "micro 2.1: L1I 64 KiB for two compute units"),
    _all("icache_line", 128, "B", "[V]", "evidence 4: lines of L2, and of gfx1250's cache"),
    TimingParameter("icache_miss", {"gfx950": 312, "gfx942": 273}, "clk", "[D]",
                    "evidence 4: at least latency_l2, and its range; gfx1250's 1000 would make cold launches of one round take 30 us more, "
                    "where evidence 8 has up to 10", {"gfx950": 280, "gfx942": 273}, 500),
    _all("icache_ahead", 1, "lines", "[A]", "evidence 4: the next line is fetched ahead", 0, 2),
    _all("barrier_release", 8, "clk", "[A]", "micro 2.7: from the last arrival to the first issue", 4, 40),
    _all("nop_beside", 4, "times", "[M]",
         "measured 4: with two waves a SIMD s_nop loses about so often its length. Taken as its wave's own time: evidence 1 has 208 clk of "
         "its stalls a body, and 16 idle clk at the heads of 4 memory stages would have 192. docs/CYCLE_MODEL.md has other readings", 1, 4),
    _all("sleep_unit", 64, "clk", "[V]", "CDNA3 ISA, S_SLEEP"),
    # Matrix core.
    _all("mfma_operand_read", 8, "clk", "[m]", "measured 1: nothing else issues on the SIMD"),
    _all("scale_load", 4, "clk", "[m]", "measured 1: hidden load of a scaled MFMA, over the last clk of the one before"),
    _all("scaled_beside", 4, "clk", "[L]",
         "evidence 6: memory and scalar instructions of other waves after a scaled MFMA. LLVM's table of gfx950 has such a class; "
         "measured 1 says that nothing issues for mfma_operand_read and scale_load. Evidence 6 chooses", 4, 12),
    _all("mfma_gap", 0, "clk", "[M]", "measured 0.1: also for the same SrcC and passes", 0, 2),
    _all("packed_hazard", 12, "clk", "[m]", "measured 0.6: no packed f32 in an MFMA's shadow and for so long after it"),
    # LDS.
    _all("lds_latency", 64, "clk", "[m]", "measured 0.9: first data of b128 too; a dependent gather with its wait is ~69 [M]", 50, 70),
    _all("lds_bus", 128, "B/clk/pair", "[m]", "measured 2; gfx942: b128 8 clk alone, 32 a SIMD at 4 busy (measured 8; disputed)",
         {"gfx942": 64}, {"gfx942": 128}),
    TimingParameter("lds_read_interval", {"gfx950": 8, "gfx942": 4}, "clk", "[m]",
              "measured 2: reads of one SIMD back to back, b64 too (583 clk for 64 [M]); gfx942 see lds_read_interval_byte",
              {"gfx942": 4}, {"gfx942": 8}),
    TimingParameter("lds_read_interval_byte", {"gfx950": 0, "gfx942": 1 / 64}, "clk/B", "[D]",
              "micro 2.4: 64 reads by one wave of MI300X: 501, 852, 1385 clk for b32, b64, b128 [M]; disputed: measured 8 says 8 clk"),
    TimingParameter("lds_conflict_wide", {"gfx950": 1, "gfx942": 1.66}, "clk/conflict", "[D]",
              "b128 and b96. gfx950: the rule 4 clk x degree that measured 2 derives from 14 microbenchmarks, to 16-way; gfx942: mean of "
              "micro 2.4's blocks, (6810-501)/3968, (7158-852)/3840, (7614-1385)/3584. Set from those, so they are no proof",
              {"gfx942": 1.59}, {"gfx942": 1.75}),
    TimingParameter("lds_conflict", {"gfx950": 2.4, "gfx942": 1.66}, "clk/conflict", "[M]",
              "gfx950: micro 2.4's one block of fully conflicted b64 reads, (10024-583)/64/62, which therefore is no proof; the rule of "
              "measured 2 would give 1; gfx942 as lds_conflict_wide", {"gfx942": 1.59, "gfx950": 1}, {"gfx942": 1.75, "gfx950": 2.4}),
    TimingParameter("lds_conflict_overlap", {"gfx950": 4, "gfx942": 0}, "clk", "[D]",
              "conflict time after lds_read_interval: gfx950 b128 max(8, 4 x degree); gfx942 adds: 1.6 to 1.75 each on top [M]", 0, 8,
              faster=True),
    _all("lds_fifo", 8, "entries/pair", "[m]", "measured 0.9; reads and writes share it"),
    _all("lds_fifo_hold", 28, "clk", "[D]",
         "how long an entry keeps its place once it has started. Set from two statements of measured 2, not measured itself: the most "
         "that leaves b64 reads of four busy SIMDs their 8 clk; 10 reads of a burst then issue at 4 clk, not the 8 of measured 0.9, "
         "which 33 to 36 would give",
         28, 36),
    _all("lds_issue_bus", 4, "clk/pair", "[m]", "measured 1: SIMD pairs (0,2),(1,3) share one ds issue bus"),
    _all("lds_write_issue", 4, "clk", "[V]", "micro 2.4: 4 + 4 a dword: b32 8, b64 12, b128 20; gfx942's b128 measured 20 to 30"),
    _all("lds_write_issue_dword", 4, "clk/dword", "[V]", "micro 2.4", 4, 7),
    _all("lds_crossing", 50, "clk", "[V]", "micro 2.4: ds_bpermute and ds_swizzle with their wait", 40, 70),
    # Vector memory of one compute unit.
    _all("vmem_queue", 12, "entries/CU", "[m]", "measured 0.10", 12, 16),
    _all("vmem_in_flight", 32768, "B/CU", "[m]", "measured 0.10"),
    _all("vmem_burst", 45, "B/clk/CU", "[M]",
         "measured 3: loads of 44 KB in 1000 clk are the most that come back in time; schedules ask no more, the model does not read it"),
    _all("vmem_issue", 4, "clk", "[V]", "micro 2.1: an issue slot; 3 to 4 a wave go free into the queue (measured 3)"),
    _all("vmem_store_rate", 64, "B/clk", "[M]", "measured 3: writes ~150 GB/s a CU", 32, 64),
    _all("tcp_line", 2, "clk/128 B", "[M]", "measured 0.2: 64 B/clk a CU from L1 and L2; by cache lines touched (measured 3)"),
    _all("tcp_wide", 16, "clk", "[m]", "measured 3: dwordx4 and dwordx2, coalesced"),
    _all("tcp_dword", 4, "clk", "[m]", "measured 3: a dword and less, coalesced"),
    TimingParameter("latency_l2", {"gfx950": 312, "gfx942": 273}, "clk", "[A]", "micro 2.5: ~130 ns at peak clock; hits without load",
                    {"gfx950": 280, "gfx942": 273}, 500),
    TimingParameter("latency_hbm", {"gfx950": 864, "gfx942": 798}, "clk", "[M]",
              "micro 2.5: 360 ns pointer chase at peak clock; gfx942 380 ns [A]"),
    _all("latency_llc", 270, "ns", "[A]",
         "a load that the last-level cache serves, without load: micro 2.5, 130 of L2 and 140; 32 KB in flight at 110 GB/s (measured 3) "
         "are 298 [D]; micro 2.7 has 300 for an L2 miss at worst [M], over L2's own time or with it", 270, 430),
    _all("llc_miss", 500, "ns", "[D]",
         "what a miss of the last-level cache adds where units ask for all that HBM gives. 500: micro 2.7, the paper's worst case [M], "
         "which in-order returns wait for; 250: 32 KB in flight at 60 GB/s less those at 110 (measured 3). Of the paper's table 4 "
         "(asmgen.tools.measured; hits in micro 3) W7/C216 and W8/C542, which miss this cache, were 13 and 8 % slower than the orders with "
         "as many L2 hits; predicted with 500 they are 11 and 15 % slower, with 250 as fast. Chosen by those, so they are no proof",
         250, 500),
    _all("llc_miss_alone", 90, "ns", "[D]", "what it adds to a unit by itself: micro 2.5, a pointer chase of 360, less latency_llc's 270"),
    _all("rate_l2", 64, "B/clk/CU", "[M]", "measured 0.2"),
    _all("rate_llc", 46, "B/clk/CU", "[M]", "measured 3: 110 GB/s; with other clocks as many GB/s"),
    _all("rate_hbm", 25, "B/clk/CU", "[M]", "measured 3: 60 GB/s; the same"),
    # Scalar memory.
    _all("kernarg_latency", 1000, "clk", "[M]", "micro 2.7: first s_load of a wave, uncached host memory (article 001)"),
    _all("smem_latency", 200, "clk", "[A]", "scalar cache, between L1 and L2", 100, 400),
    # The GPU.
    TimingParameter("compute_units", {"gfx942": 304, "gfx950": 256}, "CUs", "[V]", "micro 2.5"),
    _all("xcds", WHOLE_XCDS, "XCDs", "[V]", "micro 2.5: workgroup n goes to XCD n mod 8; of a partition those that it has"),
    TimingParameter("clock_idle", {"gfx942": 2100, "MI350X": 2200, "MI355X": 2400}, "MHz", "[V]",
                    "micro 2.5: peak; memory-bound 2.3 to 2.4"),
    TimingParameter("clock_dense", {"MI300X": 1137, "MI325X": 1354, "gfx950": 1600}, "MHz", "[D]",
                    "gfx942: what AMD reached in bf16, 708 and 843 TFLOPS [M] (micro 2.7), over 304 units of 2048 FLOP/clk: matrix cores "
                    "that always work run no faster; formocast has 1100 for MI300X. gfx950 measured 6: GEMM ~1.6 GHz, right within 3 % "
                    "(evidence 8)",
                    {"MI300X": 1100, "MI325X": 1310, "gfx950": 1552}, {"MI300X": 1137, "MI325X": 1354, "gfx950": 1648}),
    TimingParameter("clock_f16", {"MI300X": 0.9237, "MI325X": 0.9418, "gfx950": 0.933}, "share", "[D]",
                    "micro 2.7: of clock_dense where products are of f16, as they draw more than bf16: 654 / 708 and 794 / 843 TFLOPS that "
                    "AMD reached [M]; gfx950 the mean of the two", {"gfx950": 0.9237}, {"gfx950": 0.9418}),
    TimingParameter("clock_fp8", {"MI300X": 0.898, "MI325X": 0.9009, "gfx950": 1.05}, "share", "[D]",
                    "the same for 8-bit floats. gfx942 micro 2.7: half of 1273 / 708 and 1519 / 843 TFLOPS that AMD reached; gfx950 "
                    "evidence 3: a class between half of 2.07 and half of hipBLASLt's 2.13, times bf16 at 8192^3; their mean",
                    {"gfx950": 1.035}, {"gfx950": 1.065}),
    TimingParameter("clock_fp4", {"gfx942": 1, "gfx950": 0.906}, "share", "[D]",
                    "the same for floats of 4 bits, and 6, which run at their rate: evidence 8, 1450 MHz at full density. gfx942 has none",
                    {"gfx950": 0.88}, {"gfx950": 0.933}),
    TimingParameter("dense_at", {"gfx942": 1, "gfx950": 0.98}, "share", "[D]",
                    "the matrix density at which clock_dense holds: measured 6; gfx942 as clock_dense is derived"),
    TimingParameter("clock_attention", {"gfx950": 2714, "gfx942": 0}, "MHz", "[M]",
                    "measured 6: attention's clock where matrix cores idle, by extrapolation (R2 0.955); gfx942 has no such line: 0"),
    TimingParameter("clock_attention_slope", {"gfx950": 12.4, "gfx942": 0}, "MHz/%", "[M]", "measured 6: by so much a point of density",
                    faster=False),
    TimingParameter("clock_vector", {"gfx950": 1800, "gfx942": 0}, "MHz", "[M]",
                    "measured 6: attention's clock where vector instructions bind it. By its line evidence 1's eager form, 1820 MHz "
                    "measured, would run at 1955", {"gfx950": 1800}, {"gfx950": 1820}),
    TimingParameter("vector_at", {"gfx950": 0.61, "gfx942": 1}, "share", "[D]",
                    "the density from which on it holds: that of the same form, the lowest that evidence 1 has"),
    TimingParameter("clock_odd_xcds", {"gfx950": 40, "gfx942": 0}, "MHz", "[M]",
                    "measured 6: by 30 to 50 odd XCDs run slower, and a launch ends with them. For attention, whose clocks are one XCD's; "
                    "clock_dense is derived from whole launches. With traced_loops and workgroup_gap it makes 3.6 % of the 4 % that "
                    "evidence 5 finds beyond loop and ends", {"gfx950": 15}, {"gfx950": 50}, faster=False),
    TimingParameter("hbm_read", {"MI300X": 4.0, "MI325X": 4.5, "gfx950": 6.2}, "TB/s", "[M]",
                    "measured 0.3: 6.0 to 6.4; gfx942 [V] origami 4", {"gfx950": 6.0}, {"gfx950": 6.4}),
    TimingParameter("hbm_peak", {"MI300X": 5.3, "MI325X": 6.0, "gfx950": 8.0}, "TB/s", "[V]",
                    "micro 2.5: what AMD names; no time depends on it"),
    TimingParameter("l2_read", {"gfx950": 31.6, "gfx942": 17}, "TB/s", "[M]",
                    "measured 0.3: 31.6 at 4 waves a unit, 38.8 at 16; gfx942 [V] origami", {"gfx950": 31.6}, {"gfx950": 38.8}),
    TimingParameter("grid_load", {"gfx950": 13.8, "gfx942": 14.3}, "TB/s", "[D]",
                    "evidence 8: what L2 and fabric give the loads of a full GPU over a time, their misses among them, 12 to 15; "
                    "l2_read is what hits of L2 alone get. gfx942 [A] by compute units and peak clock, at most its L2's", 12,
                    {"gfx950": 15, "gfx942": 17}),
    _all("load_burst", 45056, "B/CU", "[D]",
         "what a unit gets at rate_l2 after it has asked for less than its share of grid_load, as others then ask for less too: all that "
         "may be under way, vmem_in_flight and 12 KB in the queue. Measured 3 sees 44 KB come back in the 1000 clk of a loaded round trip, "
         "evidence 2 loops that ask for more and run nearly full; without a burst 64 KB asked for in half of a step would take a third "
         "longer than it", 20480, 65536),
    TimingParameter("llc_read", {"gfx950": 7.4, "gfx942": 7.3}, "TB/s", "[M]", "measured 0.3: 7.0 to 7.9; gfx942 [V] origami", 7.0, 7.9),
    _all("xcd_read", 1.33, "TB/s/XCD", "[M]",
         "measured 3: what an XCD reads of the fabric; four together 4.0 of 5.3. Of a whole GPU llc_read is less; gfx942 the same [A]"),
    _all("xcd_write", 1.3, "TB/s/XCD", "[M]", "measured 3: what an XCD writes to the fabric; of a whole GPU write_back is less"),
    _all("write_back", 7.4, "TB/s", "[M]", "measured 3: what all L2s write back together of what is stored beyond l2_dirty"),
    _all("l2_dirty", 1.75e6, "B/XCD", "[M]", "measured 3: up to 1.5 to 2 MB stay in L2", 1.5e6, 2e6),
    _all("l2_bytes", 4 << 20, "B/XCD", "[V]", "micro 2.5"),
    _all("llc_bytes", 256 << 20, "B", "[V]", "micro 2.5"),
    _all("order_l2", 17.0, "TB/s", "[D]", "the weight of the L2 hit share in the paper's equation 1, from the bandwidths of its table 4"),
    _all("order_llc", 6.04, "TB/s", "[D]", "that of the LLC hit share"),
    _all("launch", 2.0, "us", "[V]", "micro 2.7: warm launch, 2.0 to 2.1, as the host sees it: by events", 2.0, 2.7),
    _all("launch_device", 1.0, "us", "[D]", "evidence 8: before the first wave works; the rest of `launch` is the host's", 1.0, 2.0),
    _all("workgroup_gap", 500, "clk", "[D]",
         "from a workgroup's end to the next one's first instruction on its unit. Evidence 8: rounds of 256 x 256 take 7.4 us beyond their "
         "loop, 11.8 to 12.2 k clk, and 11 to 12 k of these are ends; evidence 4 has models whose ends are as short as 8 k", 0, 4000),
    _all("traced_loops", 0.01, "of a loop", "[M]",
         "measured 5: traces, by which this table's figures about loops of attention were compared, read about 1 % high at saturation"),
    _all("wave_dispatch", 1, "clk/wave/XCD", "[A]",
         "a dispatcher starts a wave a clk; 6 at most, or copies of 32 bytes a work-item would not reach hbm_read [D]", 1, 6),
)
"""The table."""

_BY_NAME = {row.name: row for row in PARAMETERS}


@dataclass(frozen=True)
class Timing:
    """The table for one GPU, with what a user overrode."""

    gpu: str
    values: Mapping[str, float]
    overridden: frozenset[str] = frozenset()

    @property
    def arch(self) -> str:
        """The GPU's architecture."""
        return GPUS[self.gpu]

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def clocks(self, name: str) -> int:
        """A value in whole clk."""
        return round(self.values[name])

    def found(self, name: str, value: float) -> Timing:
        """The same with one value that the model itself found in place of the table's; no override."""
        return Timing(self.gpu, {**self.values, name: value}, self.overridden)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """(fastest, slowest) of each parameter whose sources give a range, but not of those that a user overrode."""
        found = {row.name: row.range_on(self.gpu) for row in PARAMETERS if row.name not in self.overridden}
        return {name: ends for name, ends in found.items() if ends[0] != ends[1]}

    def at_end(self, slow: bool, names: Collection[str] | None = None) -> Timing:
        """The same with these parameters, or all, at the end of their ranges that makes kernels slow, or at the other."""
        ends = self.ranges()
        moved = {name: ends[name][slow] for name in (ends if names is None else names)}
        return Timing(self.gpu, {**self.values, **moved}, self.overridden)

    def scaled(self, name: str, factor: float) -> Timing:
        """The same with one value multiplied."""
        return Timing(self.gpu, {**self.values, name: self.values[name] * factor}, self.overridden | {name})


def timing(gpu: str, overrides: Mapping[str, float] | None = None) -> Timing:
    """The parameters of a GPU. Raises AsmgenError for an unknown GPU or parameter, or a value that is not positive."""
    if gpu not in GPUS:
        raise AsmgenError(f"there is no GPU {gpu!r} in the timing table; it has {', '.join(GPUS)}")
    values = {row.name: row.on(gpu) for row in PARAMETERS}
    for name, value in (overrides or {}).items():
        if name not in _BY_NAME:
            raise AsmgenError(f"the timing table has no parameter {name!r}; it has {', '.join(_BY_NAME)}")
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e9:
            raise AsmgenError(f"{name} is {value!r}; a number of {_BY_NAME[name].unit} from 0 to 1e9 would work")
        if _BY_NAME[name].unit in _COUNTED and (value < 1 or value != int(value)):
            raise AsmgenError(f"{name} is {value!r}; a GPU or a partition of one has a whole number of {_BY_NAME[name].unit}, at least 1")
        values[name] = value
    return Timing(gpu, values, frozenset(overrides or {}))


def gpu_of(arch: str, gpu: str | None = None) -> str:
    """The GPU to time for: the one named, or the architecture's default. Raises AsmgenError where they do not fit."""
    if gpu is None:
        return DEFAULT_GPU[arch]
    if GPUS.get(gpu) != arch:
        fitting = [name for name, its in GPUS.items() if its == arch]
        raise AsmgenError(f"{gpu!r} is no GPU of {arch}; {' and '.join(fitting)} are")
    return gpu


def read_overrides(path: Path) -> dict[str, float]:
    """A JSON file {parameter: value}. Raises AsmgenError for any other contents, OSError where it cannot be read."""
    with path.open("rb") as file:
        data = file.read(_LARGEST_FILE + 1)
    try:
        found = json.loads(data) if len(data) <= _LARGEST_FILE else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise AsmgenError(f'{path} holds no JSON object of timing parameters, such as {{"lds_latency": 70}}')
    return found
