"""All probes; they fill rows of the timing table."""

from __future__ import annotations

from asmgen.kernels.probes.issue import BARRIER, MATRIX, PERMLANE, SCALAR, VECTOR
from asmgen.kernels.probes.lds import BUS, LATENCY, RATES, WRITES
from asmgen.kernels.probes.memory import HBM, L2, SCALAR_CACHE, STORES, THROUGH
from asmgen.kernels.probes.stopwatch import Probe

PROBES: tuple[Probe, ...] = (VECTOR, PERMLANE, SCALAR, BARRIER, MATRIX, LATENCY, RATES, BUS, WRITES, L2, HBM, SCALAR_CACHE, THROUGH, STORES)
PHASES, LAUNCH = "lds-phases", "launch"
"""Probes without timed code: the lanes that LDS serves together, and the cost of a launch."""
NAMES = (*(probe.name for probe in PROBES), PHASES, LAUNCH)
UNPROBED: dict[tuple[str, ...], str] = {
    ("kernarg_latency",): "the clock is itself a scalar load: no other one stands before a wave's first",
    ("vmem_in_flight", "vmem_queue"): "a wave sees when its loads issue and when they are back, not which of the two holds them up",
    ("rate_l2",): "a load of 16 bytes a lane takes tcp_wide in the cache, as long as its return: only the slower of the two shows",
    ("latency_llc", "llc_miss", "load_burst", "grid_load", "clock_idle", "clock_dense", "l2_read", "llc_read", "hbm_read", "xcd_read",
     "write_back"): "they are of a whole GPU under load, a probe is one workgroup",
}
"""Rows of the timing table that no probe measures, each with the reason."""
