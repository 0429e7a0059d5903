"""`asmgen tune`: what a ranking of variants looks like. Everything it says is a prediction."""

from __future__ import annotations

from typing import Any

from asmgen.kernels.tuned import Ranking
from asmgen.tools.terminal.statusline import StatusLine
from asmgen.tuning.rankedvariant import RankedVariant


class ReadyLine:
    """How many variants are ready, on a line of the terminal that is taken away at the end."""

    def __init__(self) -> None:
        self._line = StatusLine()

    def __call__(self, ready: int, of: int) -> None:
        if ready < of:
            self._line.show(f"{ready} of {of} variants timed")
        else:
            self._line.end()


def ranking_json(found: Ranking, top: int) -> list[dict[str, Any]]:
    """The JSON document: a list, the fastest first. `sure`: a row is slower than the fastest wherever the parameters of the timing table
    lie in their ranges, as far as these were moved."""
    return [{**row.as_json(), "arch": found.arch, "gpu": found.gpu, "sure": row.differs_from(found.rows[0])} for row in found.rows[:top]]


def ranking_text(found: Ranking, top: int) -> str:
    """For people."""
    best = found.rows[0].seconds
    shown = list(found.rows[:top])
    names = [_name(row, shown) for row in shown]
    width = max(map(len, names))
    variants = f"{len(found.rows)} variant{'s' * (len(found.rows) > 1)}"
    lines = [f"{found.kernel} on {found.gpu} ({found.arch}): {variants}, predicted, not measured; times of the device"]
    for name, row in zip(names, shown, strict=True):
        rate = f"{row.tflops:7.1f} TFLOPS" if row.tflops else f"{row.gbytes_per_second:7.1f} GB/s"
        slower = f"{row.seconds / best:5.2f} x"
        between = f"({row.low * 1e6:.1f} to {row.high * 1e6:.1f})"
        doubt = "" if row is found.rows[0] or row.differs_from(found.rows[0]) else " ?"
        grid = f"{row.workgroups} workgroup{'s' * (row.workgroups > 1)} in {row.rounds} round{'s' * (row.rounds > 1)}"
        lines.append(f"  {name:{width}}  {row.seconds * 1e6:9.1f} us {between:20}  {rate}  {slower}{doubt:2}  limit {row.limit}; "
                     f"{grid} at {row.clock:.0f} MHz")
    if any(line.count(" x ?") for line in lines):
        lines.append("  ?: within the ranges of the timing table's parameters it may be the faster one")
    return "\n".join(lines) + "\n"


def _name(row: RankedVariant, shown: list[RankedVariant]) -> str:
    """The parameters that tell it from other rows; all that choose where there is one."""
    differ = {name for other in shown for name in row.parameters if other.parameters.get(name) != row.parameters[name]}
    chosen = [name for name in row.parameters if name in differ or name in ("tile", "schedule")]
    return " ".join(f"{name}={row.parameters[name]}" for name in chosen) or row.kernel
