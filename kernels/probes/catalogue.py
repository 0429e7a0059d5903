"""All probes that fill rows of the timing table."""

from __future__ import annotations

from asmgen.kernels.probes.issue import BARRIER, MATRIX, PERMLANE, SCALAR, VECTOR
from asmgen.kernels.probes.lds import BUS, LATENCY, RATES, WRITES
from asmgen.kernels.probes.memory import HBM, L2, SCALAR_CACHE, STORES, THROUGH
from asmgen.kernels.probes.stopwatch import Probe

PROBES: tuple[Probe, ...] = (VECTOR, PERMLANE, SCALAR, BARRIER, MATRIX, LATENCY, RATES, BUS, WRITES, L2, HBM, SCALAR_CACHE, THROUGH, STORES)
PHASES, LAUNCH = "lds-phases", "launch"
"""Probes that are no stretch of timed code: which lanes LDS serves together, and what a launch costs."""
NAMES = (*(probe.name for probe in PROBES), PHASES, LAUNCH)
