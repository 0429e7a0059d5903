"""A kernel of a family run with expression hashes: what made each element of each output, operation by operation, in order.

Two launches whose outputs have the same hashes give the same bits on one architecture: of two orders of waves (repeatability), of a row in
two batches (batch invariance), of two schedules. `decisions` are the instructions at which data decided what happens; where there are some,
the claim holds for data that decides alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asmgen.author.family.family import Family
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.hashes.hashmemory import HashMemory
from asmgen.emulator.scheduling.run import LaunchResult, Options
from asmgen.program.program import Instruction, Program
from asmgen.tools.running.build import Built
from asmgen.tools.running.runner import emulator
from asmgen.tuning.started import launch_list, upload, values_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class HashReport:
    """The hashes of each output's elements as the problem selects them, and where nothing is known of them."""

    outputs: Mapping[str, Array]
    unknown: Mapping[str, Array]
    decisions: tuple[Instruction, ...]
    launch: LaunchResult

    def equal(self, other: HashReport) -> bool:
        """Whether two launches computed the same expressions, of which all is known."""
        known = not any(part.any() for report in (self, other) for part in report.unknown.values())
        return known and self.outputs.keys() == other.outputs.keys() and all(
            np.array_equal(found, other.outputs[name]) for name, found in self.outputs.items())


def run_hashes(family: Family, built: Built, parameters: Mapping[str, Any], seed: int = 1, order: str = "lockstep",
               indices: Mapping[str, Array] | None = None, program: Program | None = None) -> HashReport:
    """Launch a built kernel and hash its outputs. Inputs are known by argument and index in the array, or by what `indices` gives."""
    problem = family.problem(parameters, seed)
    contract, resources = built.kernel.contract, built.kernel.resources
    with emulator(built, resources.arch, Options(checks=False, order=order), lambda sentence: None, program) as device:
        memory = HashMemory(device.memory)
        device.follow(memory.tracker)
        buffers = upload(device, contract, problem, parameters)
        for name, buffer in buffers.items():
            if name in problem.arguments:  # else a workspace, of which nothing is known
                memory.name(buffer.address, problem.arguments[name], name, (indices or {}).get(name))
        launches = launch_list(CodeObject.load(built.code_object), contract, parameters)
        launches.start(device, values_of(contract, problem, buffers))
        outputs, unknown = {}, {}
        for output in problem.outputs:
            array = problem.arguments[output.argument]
            after = device.read(buffers[output.argument], array.dtype, array.shape)
            hashes, lost = memory.read(buffers[output.argument].address, after)
            outputs[output.argument], unknown[output.argument] = hashes[output.select], lost[output.select]
        return HashReport(outputs, unknown, tuple(memory.decisions), device.launches[len(built.kernel.before)])
