"""How much memory the data of a launch may take: a rule for buffers whose sizes are known, a bound for code that makes data."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from asmgen.isa.errors import AsmgenError

MEMORY_LIMIT = 2 << 30
"""Bytes of all buffers of a launch together, where nobody says otherwise."""
_TIMES = 4
"""What makes data computes in float64, four times the bytes of most formats; for whatever it loads it has at least:"""
_ROOM = 1 << 29


def check_total(what: str, total: int, limit: int, error: type[AsmgenError] = AsmgenError) -> None:
    """Raises the error, a sentence about `what`, where buffers of that many bytes are too many."""
    if total > limit:
        raise error(f"{what}: its buffers have {total} bytes, and {limit} are the most: --memory-limit {total} would allow them")


@contextlib.contextmanager
def making_data(what: str, limit: int) -> Iterator[None]:
    """Around code that makes the data of a launch: it gets some times the limit of memory, then AsmgenError says so.

    Only where the system bounds a process' address space (Linux); elsewhere what was made is judged by `check_total` alone.
    """
    room = max(_TIMES * limit, _ROOM)
    try:
        with _address_space(room):
            yield
    except MemoryError:
        raise AsmgenError(f"{what}: making its data takes more than {room} bytes, where its buffers may have {limit}; "
                          f"--memory-limit {2 * room // _TIMES} would allow twice as much") from None


@contextlib.contextmanager
def _address_space(room: int) -> Iterator[None]:
    """So many bytes of address space more than the process has."""
    held = Path("/proc/self/statm")
    if not held.exists():
        yield
        return
    import resource  # Unix alone has it

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = int(held.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") + room
    lower = most if soft == resource.RLIM_INFINITY else min(most, soft)
    resource.setrlimit(resource.RLIMIT_AS, (lower if hard == resource.RLIM_INFINITY else min(lower, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
