"""What a loop knows of the sources in memory that its step reads."""

from __future__ import annotations

from typing import Any, Protocol

from asmgen.author.step.effects import Unit
from asmgen.isa.registers import Reg


class ClosingSources(Protocol):
    """Sources that can close: a closed one is read as before, gives nothing and costs no traffic."""

    @property
    def farthest(self) -> int:
        """The iterations ahead of the farthest sources."""
        ...

    @property
    def instructions(self) -> int:
        """How many instructions open and close them."""
        ...

    def open(self, k: Any, pace: Reg) -> None:
        """The sources are going to close; `pace` is an SGPR that nothing else uses as long as the loop runs. Closing sets it to 0."""

    def close(self, k: Any) -> None:
        """Close the sources before the first step that would ask for an iteration beyond the end; those that are closed do not change."""

    def close_if_equal(self, k: Any, one: Reg, other: int) -> None:
        """Close the sources if an SGPR has that value. Changes SCC."""

    def close_late_if_equal(self, k: Any, one: Reg, other: int) -> None:
        """Close those that `close` leaves a step, if an SGPR has that value. Changes SCC."""

    def go_over(self, k: Any, ahead: int, ended: Reg) -> None:
        """The farthest sources go over to the next item of a chain, or close where `ended` is not 0. Changes SCC."""

    def go_over_late(self, k: Any, ahead: int, ended: Reg) -> None:
        """A step later: those that are read an iteration later go over. Changes SCC."""

    def spare(self, k: Any) -> None:
        """No code from here on reads from them: their registers are for whoever needs them."""


class LoopSources:
    """What a pipeline asks a builder about sources. This one has none."""

    def loop_begins(self, ahead: int) -> None:
        """A pipeline begins here; its step looks `ahead` iterations ahead. A builder with sources moves them to iteration -ahead."""

    def loop_ends(self) -> None:
        """The pipeline ends here."""

    def step_ends(self, step: int = 0, count_and_room: tuple[Reg, Reg] | None = None) -> None:
        """A copy of a pipeline's step ends here. A builder with sources moves them one iteration on. May change SCC.

        With SGPRs for the count and for temporary values, no source moves beyond the last iteration; the next step has number `step`.
        """

    def sources_hold_back(self) -> bool:
        """Whether `step_ends` can keep each source at its last iteration."""
        return True

    def closing(self) -> ClosingSources | None:
        """The sources of the pipeline, if all of them can close."""
        return None

    def chained(self) -> ClosingSources | None:
        """The sources of the pipeline, if all of them can go over to the next item of a chain."""
        return None

    def follows_sources(self, unit: Unit) -> bool:
        """Whether a unit's address in memory depends on the iteration that `step_ends` counts."""
        return False
