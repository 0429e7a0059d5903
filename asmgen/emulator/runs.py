"""Straight-line runs of vector and scalar arithmetic as one compiled call each (`runs_kernel`), where that pays and a launch has earned it.

What an instruction does in a run and by itself is the same bit for bit: numpy's steps are the reference, and what a run falls back on.
"""

from __future__ import annotations

import numpy as np

from asmgen.emulator.lowering import Lowering, Row, writes_exec
from asmgen.emulator.microops import COLUMNS
from asmgen.emulator.state import LANES, Group, Machine
from asmgen.emulator.steps import Action, Step


class Run:
    """Instructions that follow each other and see no other wave. `add` until it returns False, then `action`."""

    def __init__(self, machine: Machine, mode: int) -> None:
        self.machine = machine
        self.mode = mode
        self._lowering = Lowering.of(machine, mode)
        self._rows: list[Row] = []
        self._plain: list[Action] = []

    def takes(self, step: Step) -> bool:
        """Whether `add` would take it."""
        return self._lowering.rows(step.instruction) is not None

    def add(self, step: Step) -> bool:
        """Take one more instruction; False where a run does not know it."""
        rows = self._lowering.rows(step.instruction)
        if rows is None or step.run is None:
            return False
        self._rows += rows
        self._plain.append(step.run)
        return True

    def actions(self, compiled: bool = False) -> list[Action]:
        """What runs them; with `compiled` never numpy's steps."""
        return [self._action(compiled)] if self._plain else []

    def _action(self, compiled: bool) -> Action:
        machine, plain = self.machine, tuple(self._plain)
        code = np.array(self._rows, np.int64).reshape(-1, COLUMNS)
        constants, renews = self._lowering.table(), any(writes_exec(row) for row in self._rows)
        work = 8 * LANES * len(plain)
        temporary = machine.run_rows

        def run(group: Group) -> None:
            if not compiled and not machine.work.pays(work * len(group.waves)):
                for action in plain:
                    action(group)
                return
            from asmgen.emulator.runs_kernel import execute

            execute(code, constants, machine.vector_file, machine.scalar, machine.scc, group.waves, temporary)
            if renews:
                group.refresh_mask()

        return run

