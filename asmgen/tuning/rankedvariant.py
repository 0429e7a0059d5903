"""A row of a ranking. This file is on the path of rankings that are kept: it loads nothing that takes long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asmgen.isa.records import dataclass


@dataclass(frozen=True)
class RankedVariant:
    """A variant with its predicted time. `parameters` are those that `-p` takes to get it."""

    parameters: Mapping[str, Any]
    kernel: str
    seconds: float
    tflops: float
    gbytes_per_second: float
    limit: str
    clock: float
    workgroups: int
    rounds: int

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/FORMATS.md."""
        return {"parameters": dict(self.parameters), "kernel": self.kernel, "predicted": True, "seconds_predicted": self.seconds,
                "tflops_predicted": self.tflops, "gbytes_per_second_predicted": self.gbytes_per_second, "limit": self.limit,
                "clock_mhz": self.clock, "workgroups": self.workgroups, "rounds": self.rounds}

    def stored(self) -> dict[str, Any]:
        """JSON values from which `RankedVariant(**values)` makes the same again."""
        return dict(vars(self))
