"""Runs instructions with the algebra beside their values: what tests of residues share.

    run = Followed("gfx950")
    x = run.give(0, 1.5)            # v0 is 1.5 in all lanes, with residues of its own
    run.text("v_add_f32 v1, v0, v0")
    run.number(1)                   # Residues of v1
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.algebra.algebramemory import AlgebraMemory
from asmgen.emulator.algebra.elements import WIDTHS
from asmgen.emulator.algebra.residues import STANDARD, Residues
from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.binding.decode import bind
from asmgen.emulator.machine.state import Group
from asmgen.emulator.memory.ldsops import LdsContext
from asmgen.emulator.memory.vmem import Context, Deliveries
from asmgen.reader.assembly import read_text
from tests.emulator_harness import new_machine

MISSING = None
"""What `residues` gives for an element of which nothing is known."""


class Loops:
    """In place of a machine's `work`: whether compiled loops pay."""

    def __init__(self, pay: bool) -> None:
        self.pay = pay

    def pays(self, more: int) -> bool:
        return self.pay


class Followed:
    """A machine, followed."""

    def __init__(self, arch: str = "gfx950", seed: int = 0) -> None:
        self.arch = arch
        self.random = np.random.default_rng(seed)
        self.machine = new_machine(arch)
        self.algebra = AlgebraMemory(self.machine.memory, STANDARD)
        self.follower = self.algebra.tracker.attach(self.machine)
        self.context = Context(self.machine, Counters(1), Findings(), Deliveries(self.machine, Counters(1)), None)
        self.lds = LdsContext(self.machine, Counters(1), None, None)

    def give(self, register: int, value: Any, kind: str = "f32", low: int = 0) -> Residues:
        """A value in a VGPR's bits from `low` on, in all lanes or each, with residues of its own."""
        width = WIDTHS[kind]
        values = np.broadcast_to(np.asarray(value, np.float32), 64)
        with np.errstate(over="ignore"):
            half = values.astype(np.float16).view(np.uint16).astype(np.uint32)
        pattern = {"f32": values.view(np.uint32), "bf16": values.view(np.uint32) >> np.uint32(16),
                   "f16": half}[kind]
        field = np.uint32(((1 << width) - 1) << low)
        self.machine.vector[register] = self.machine.vector[register] & ~field | pattern << np.uint32(low)
        numbers = Residues.random(self.random, (1, 64))
        rows = self.algebra.tracker.cells.expanded(self.follower.carrier.shadow.vector[register])
        rows[..., low // 4:(low + width) // 4] = 0
        rows[..., (low + width) // 4 - 1] = self.algebra.table.made(numbers, kind)
        self.follower.carrier.shadow.vector[register] = self.algebra.tracker.cells.joined(rows)
        return numbers

    def text(self, lines: str) -> None:
        """Run instructions."""
        (program,) = read_text(f"{lines}\ns_endpgm\n", self.arch)
        for position, instruction in enumerate(program.instructions[:-1]):
            group = Group(self.machine, np.arange(1), position)
            with np.errstate(all="ignore"):
                self.follower.bound(instruction, position)(group)
                bind(position, instruction, self.machine, self.context, self.lds)(group)
        self.context.deliveries.deliver()

    def ids(self, register: int, kind: str = "f32", low: int = 0) -> Any:
        """The elements of a register."""
        handles = self.follower.carrier.shadow.vector[register]
        return self.algebra.tracker.cells.element(handles, (low + WIDTHS[kind]) // 4 - 1)

    def number(self, register: int, kind: str = "f32", low: int = 0) -> Residues:
        """What a register is; a value of the run where it has no element."""
        return self.algebra.table.numbers(self.ids(register, kind, low), kind, lambda: self.machine.vector[register].view(np.float32))


def same(found: Residues, wanted: Residues) -> bool:
    """Whether both know the same of the same numbers."""
    return all((getattr(found, name) == getattr(wanted, name)).all() for name in ("q", "p", "e", "has"))
