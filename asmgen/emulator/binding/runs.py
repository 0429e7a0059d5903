"""Straight-line runs of vector and scalar arithmetic as one compiled call each (`runs_kernel`), where that pays and a launch has earned it.

What an instruction does in a run and by itself is the same bit for bit: numpy's steps are the reference, and what a run falls back on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.boundstep import Action, Step
from asmgen.emulator.binding.lowering import Lowering, Row, writes_exec
from asmgen.emulator.binding.microops import COLUMNS, LDS_READ
from asmgen.emulator.binding.runs_matrix import BUFFER, BUFFERS, Products
from asmgen.emulator.machine.state import EXEC, LANES, VCC, Group, Machine, aligned_zeros
from asmgen.emulator.memory.ldsops import LdsRead
from asmgen.emulator.semantics.matrix import Product
from asmgen.program.program import Instruction

Spin = Callable[[Group, int], int]
_CONDITIONS = {"scc0": (-1, False), "scc1": (-1, True), "vccz": (VCC, False), "vccnz": (VCC, True), "execz": (EXEC, False),
               "execnz": (EXEC, True)}


class Follower(Protocol):
    """Who must act before some of the instructions, but only while not `quiet`, which no arithmetic ends."""

    quiet: bool


class Run:
    """Instructions that follow each other and see no other wave. `add` until it returns False, then `actions`.

    While the `follower` is quiet, what it does before an instruction splits no run.
    """

    def __init__(self, machine: Machine, mode: int, follower: Follower | None = None) -> None:
        self.machine = machine
        self.mode = mode
        self.follower = follower
        self._lowering = Lowering.of(machine, mode)
        self._products = Products(machine.waves + 1)
        self.reads = self.writes = 0  # registers, as bits of the unified file, SGPRs and what has a name
        self.reads_lds = False
        self._followed_reads = self._followed_writes = 0  # of `reads` and `writes`, those of instructions with something before them
        self._rows: list[Row] = []
        self._plain: list[Action] = []
        self._steps: list[tuple[Step, Action | None]] = []

    def takes(self, step: Step) -> bool:
        """Whether `add` would take it."""
        if isinstance(step.run, Product):
            return self._products.takes(step.run.plan)
        if isinstance(step.run, LdsRead):
            return True
        return step.run is not None and self._lowering.rows(step.instruction) is not None

    def before(self, step: Step) -> bool:
        """Whether a step may run before what the run has gathered: neither writes what the other touches."""
        return not (step.touch.reads & self.writes or step.touch.writes & (self.reads | self.writes))

    def before_followed(self, step: Step) -> bool:
        """Whether what the follower does before a step may be done before what it does within the run."""
        touch = step.touch
        return not (touch.reads & self._followed_writes or touch.writes & (self._followed_reads | self._followed_writes))

    def add(self, step: Step, following: Action | None = None) -> bool:
        """Take one more instruction, with what the follower does before it; False where a run does not know it."""
        if not self.takes(step) or step.run is None:
            return False
        if isinstance(step.run, Product):
            plan = step.run.plan
            rows = self._products.rows(plan, 0 if plan.c_slot >= 0 else self._lowering.constant(_pattern(plan.c_value)))
        else:
            rows = self._lowering.rows(step.instruction) or [] if not isinstance(step.run, LdsRead) else [self._lds_row(step.run)]
            self._products.written(step.touch.writes)
        self.reads |= step.touch.reads
        self.writes |= step.touch.writes
        if following is not None:
            self._followed_reads |= step.touch.reads
            self._followed_writes |= step.touch.writes
        self._steps.append((step, following))
        self._rows += rows
        self._plain.append(step.run.move if isinstance(step.run, LdsRead) else step.run)
        return True

    def _lds_row(self, read: LdsRead) -> Row:
        self.reads_lds = True
        row = [LDS_READ, read.words, read.target, read.address, len(read.offsets), read.offsets[0], read.offsets[-1],
               self.machine.lds_bytes, self.machine.lds_stride]
        return [*row, *[0] * (COLUMNS - len(row))]

    def actions(self, compiled: bool = False) -> list[Action]:
        """What runs them; with `compiled` never numpy's steps."""
        if not self._plain:
            return []
        follower, whole = self.follower, self._action(compiled)
        if follower is None or all(following is None for _, following in self._steps):
            return [whole]
        pieces: list[Action] = []

        def run(group: Group) -> None:
            if follower.quiet:
                whole(group)
                return
            if not pieces:
                pieces.extend(self._pieces())
            for action in pieces:
                action(group)

        return [run]

    def _pieces(self) -> list[Action]:
        """The run, split where the follower has something to do."""
        actions: list[Action] = []
        piece = Run(self.machine, self.mode)
        for step, following in self._steps:
            if following is not None:
                actions += [*piece.actions(), following]
                piece = Run(self.machine, self.mode)
            piece.add(step)
        return [*actions, *piece.actions()]

    def _action(self, compiled: bool) -> Action:
        machine, plain = self.machine, tuple(self._plain)
        given = self._code()
        renews = self._renews()
        work = 8 * LANES * len(plain)

        def run(group: Group) -> None:
            if not compiled and not machine.work.pays(work * len(group.waves)):
                for action in plain:
                    action(group)
                return
            from asmgen.emulator.binding import runs_kernel

            execute: Any = runs_kernel.execute
            execute(*given, *_buffers(machine), machine.lds_u32, machine.workgroup, machine.vector_file, machine.scalar, machine.scc,
                    group.waves, machine.run_rows)
            if renews:
                group.refresh_mask()

        return run

    def spin(self, branch: Instruction) -> Spin | None:
        """How a loop of this run and a branch back to its start goes round without anybody looking; None where the branch is another kind.

        It returns how often all waves went round, at most so many times; none of them need have taken the branch when it is called.
        """
        condition = branch.name.removeprefix("s_cbranch_")
        if condition not in _CONDITIONS or not self._plain or self._renews():
            return None
        machine, given, follower = self.machine, self._code(), self.follower
        register, taken = _CONDITIONS[condition]
        work = 8 * LANES * len(self._plain)

        def spin(group: Group, limit: int) -> int:
            if limit <= 0 or follower is not None and not follower.quiet or not machine.work.pays(work * len(group.waves)):
                return 0
            from asmgen.emulator.binding import runs_kernel

            go_round: Any = runs_kernel.spin
            return int(go_round(*given, *_buffers(machine), machine.lds_u32, machine.workgroup, machine.vector_file, machine.scalar,
                                machine.scc, group.waves, machine.run_rows, register, taken, limit))

        return spin

    def _code(self) -> tuple[NDArray[Any], ...]:
        return np.array(self._rows, np.int64).reshape(-1, COLUMNS), self._lowering.table(), *self._products.tables()

    def _renews(self) -> bool:
        return any(writes_exec(row) for row in self._rows)


def _buffers(machine: Machine) -> tuple[NDArray[Any]]:
    if not machine.run_buffers.size:
        machine.run_buffers = aligned_zeros((BUFFERS, BUFFER), np.float64)
    return (machine.run_buffers,)


def _pattern(value: float) -> int:
    return int(np.float32(value).view(np.uint32))
