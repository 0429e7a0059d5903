"""A row of a ranking. This file is on the path of rankings that are kept: it loads nothing that takes long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from asmgen.isa.records import dataclass


@dataclass(frozen=True)
class RankedVariant:
    """A variant with its predicted time. `parameters` are those that `-p` takes to get it, `low` and `high` the seconds between which the
    ranges of the timing table's parameters leave it, `settings` its seconds with some at their ends."""

    parameters: Mapping[str, Any]
    kernel: str
    seconds: float
    tflops: float
    gbytes_per_second: float
    limit: str
    clock: float
    workgroups: int
    rounds: int
    low: float = 0.0
    high: float = 0.0
    settings: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/FORMATS.md."""
        return {"parameters": dict(self.parameters), "kernel": self.kernel, "predicted": True, "seconds_predicted": self.seconds,
                "low": self.low, "high": self.high, "tflops_predicted": self.tflops,
                "tflops_low": self.tflops * self.seconds / self.high if self.high else 0.0,
                "tflops_high": self.tflops * self.seconds / self.low if self.low else 0.0,
                "gbytes_per_second_predicted": self.gbytes_per_second, "limit": self.limit, "clock_mhz": self.clock,
                "workgroups": self.workgroups, "rounds": self.rounds}

    def differs_from(self, other: RankedVariant) -> bool:
        """Whether one of the two is the faster with the table, and in each setting that both were timed in."""
        pairs = [(self.seconds, other.seconds),
                 *((self.settings[name], other.settings[name]) for name in self.settings.keys() & other.settings.keys())]
        return all(mine < its for mine, its in pairs) or all(mine > its for mine, its in pairs)

    def stored(self) -> dict[str, Any]:
        """JSON values from which `RankedVariant(**values)` makes the same again."""
        return dict(vars(self))
