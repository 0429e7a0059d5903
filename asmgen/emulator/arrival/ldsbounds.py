"""The check for LDS accesses beyond what the kernel declares, and beyond what the hardware allocates for it.

A workgroup gets LDS in granules (isa.arch). Within the last granule, after the declared bytes, an access works and is a warning: the
kernel relies on rounding. Beyond the allocation reads give 0 and writes are dropped, and it is an error. Flat accesses that leave LDS fault
instead; no source says that their range is rounded too, so `addresses` takes them for errors from the declared end on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.machine.state import Group
from asmgen.program.program import Instruction

CHECK = "access-outside-registry"


def judge(group: Group, instruction: Instruction, starts: NDArray[np.int64], size: int, active: NDArray[np.bool_],
          findings: Findings | None) -> None:
    """Report the access of `size` bytes at `starts` (bytes of the workgroup's LDS), both [waves, lanes], that ends farthest outside."""
    if findings is None:
        return
    machine = group.machine
    ends = np.where(active, starts + size, 0)
    early = np.where(active, starts, 0)
    if early.min() < 0:
        row, lane = divmod(int(np.argmin(early)), early.shape[1])
    else:
        row, lane = divmod(int(np.argmax(ends)), ends.shape[1])
    end, start = int(ends[row, lane]), int(early[row, lane])
    declared, allocated = machine.lds_declared, machine.lds_bytes
    if end <= declared and start >= 0:
        return
    wave = int(group.waves[row])
    where = f"{size} bytes of lane {lane} at LDS byte {start:#x}"
    if end > allocated or start < 0:
        beyond = f"end {end - allocated} bytes beyond the end of LDS" if start >= 0 else "begin before LDS"
        message = f"{where} {beyond} ({declared} bytes declared, {allocated} allocated): reads give 0, writes are dropped"
    else:
        message = f"{where} end {end - declared} bytes beyond the {declared} that the kernel declares; it works only because " \
                  f"{machine.arch.name} allocates LDS in units of {machine.arch.lds_granule} bytes"
    findings.add(Finding(CHECK, "error" if end > allocated or start < 0 else "warning", message, None, instruction, wave,
                         int(machine.workgroup[wave])))
