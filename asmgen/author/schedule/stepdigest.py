"""The hash of a step: the key under which an order of it is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from asmgen.author.schedule.unitcosts import StepMachine
from asmgen.author.step.effects import Unit


def step_digest(phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine) -> str:
    """The hash of a step and of what it runs on."""
    table = machine.timing
    said = [f"{machine.arch} {machine.waves}", *(f"{name}={table[name]}" for name in sorted(table.values))]
    for phase in phases:
        for unit in phase:
            tag = unit.tag
            texts = " ".join(instruction.name for instruction in unit.instructions)
            accesses = [(access.space, access.write, access.low, access.high, access.part) for access in unit.effects.memory]
            said.append(f"{tag.ordinal} {tag.stream} {tag.condition} {offsets[tag.ordinal]} {texts} {unit.effects.reads:x} "
                        f"{unit.effects.writes:x} {accesses}")
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:32]
