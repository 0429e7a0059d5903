"""A kernel of a family run in exact algebra: each output must equal the family's reference polynomial, whatever floats steer the run.

Residues are drawn for each element of each float array that the reference takes, independent of its value. The launch is an ordinary one on
the emulator, with the algebra carried along; then each element of each output is compared with the reference. A wrong, missing, doubled
or exchanged term is found with probability 1 - degree/q in one run. Rounding is not proven.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from asmgen.author.contract.problem import Problem
from asmgen.author.family.family import Family
from asmgen.emulator.algebra.algebramemory import AlgebraMemory, kind_of
from asmgen.emulator.algebra.elements import PACKED_WIDTHS
from asmgen.emulator.algebra.residues import HAS_E, HAS_P, HAS_Q, LN_2, LOG2_E, STANDARD, Constants, P, Q, Residues, beside
from asmgen.emulator.carried.comparisons import Compared, Sides
from asmgen.emulator.scheduling.run import UNWRITTEN, LaunchResult, Options
from asmgen.isa.arch import architecture
from asmgen.isa.errors import AsmgenError
from asmgen.isa.formats import decode, hardware_format
from asmgen.launch.emulated import EmulatedDevice
from asmgen.program.program import Program
from asmgen.tools.running.build import Built
from asmgen.tools.running.keptdevices import KeptDevice, code_object_of
from asmgen.tools.running.runner import emulator, untouched
from asmgen.tuning.started import launch_list, upload, values_of

SEED = 1
"""Of the floats that steer the run: an odd one, whose data holds no NaN and no infinity."""


@dataclass(frozen=True)
class Inputs:
    """The residues of a launch's arguments: of an array by its name, of a number by `number`."""

    arguments: Mapping[str, Any]
    constants: Constants
    random: np.random.Generator
    arrays: dict[str, tuple[Residues, str]]
    formats: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Residues:
        """An input's elements, each with residues of its own, in the array's shape."""
        array = self.arguments[name]
        return self._drawn(name, kind_of(array) or "", array.shape)

    def packed(self, name: str, kind: str) -> Residues:
        """The elements of an array of integers in which numbers of a format stand side by side, the first one in the lowest bits."""
        array = self.arguments[name]
        return self._drawn(name, kind, (*array.shape[:-1], array.shape[-1] * 8 * array.dtype.itemsize // PACKED_WIDTHS[kind]))

    def give(self, name: str, numbers: Residues) -> None:
        """Residues of an input that others decide: the LSE of a backward pass is the logarithm of a sum, and not a number of its own."""
        self.arrays[name] = numbers, kind_of(self.arguments[name]) or ""

    def hold(self, name: str, kind: str) -> None:
        """An output of bytes has numbers of an 8-bit format."""
        self.formats[name] = kind

    def beside(self, parts: Sequence[Residues], axis: int = 1) -> Residues:
        """As np.concatenate."""
        return beside(parts, axis)

    def declare(self, value: float, numerator: int, denominator: int = 1) -> None:
        """A float32 constant stands for a ratio, whose rounded value it is (1/N): from now on it embeds as the ratio."""
        pair = tuple(numerator * pow(denominator, -1, modulus) % modulus for modulus in (Q, P))
        more = Constants.declare({abs(float(np.float32(value))): pair})  # type: ignore[dict-item]
        self.constants.declared.update(more.declared)

    def _drawn(self, name: str, kind: str, shape: tuple[int, ...]) -> Residues:
        if kind not in PACKED_WIDTHS:
            raise AsmgenError(f"{name} is an array of {self.arguments[name].dtype.name}, which has no residues; arrays of floats have, and "
                              f"packed numbers: packed({name!r}, 'fp4')")
        if name not in self.arrays:
            self.arrays[name] = Residues.random(self.random, shape), kind
        return self.arrays[name][0]

    def number(self, value: Any) -> Residues:
        """A number, or an array of them, by its value as float32, which is how kernels take their arguments."""
        return self.constants.embedded(np.asarray(value, np.float32))

    @property
    def log2_e(self) -> Residues:
        """log2(e), which is declared."""
        return self.number(LOG2_E)

    @property
    def ln_2(self) -> Residues:
        """ln(2), which is 1 / log2(e)."""
        return self.number(LN_2)


@dataclass(frozen=True)
class Mismatch:
    """How many elements of an output are wrong or have no residue, and the first of them."""

    argument: str
    wrong: int
    missing: int
    elements: int
    first: tuple[int, ...]

    def sentence(self) -> str:
        """For people."""
        return (f"{self.argument}: of {self.elements} elements {self.wrong} differ from the reference and {self.missing} have no residue; "
                f"the first is at {list(self.first)}")


@dataclass(frozen=True)
class AlgebraReport:
    """What came of a run: `mismatches` by output, how many elements were compared, the launch itself, and those of all kernels in order;
    `nearest` and `sides` as `Comparisons` has them, of all kernels; `changed`, the outputs of whose buffers other bytes changed."""

    mismatches: tuple[Mismatch, ...]
    launch: LaunchResult
    elements: int
    seconds: float
    launches: tuple[LaunchResult, ...] = ()
    nearest: Mapping[tuple[Compared, int], int] = field(default_factory=dict)
    sides: Mapping[Compared, Sides] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether each element of each output equals the reference, and nothing beside them was written."""
        return not self.mismatches and not self.changed


def run_algebra(family: Family, built: Built, parameters: Mapping[str, Any], seed: int = SEED, program: Program | None = None,
                checks: bool = False, budget: int = Options.instruction_budget, magnitude: int = 0) -> AlgebraReport:
    """Launch a built kernel in exact algebra and compare. `program` runs instead of what stands in the code object, for `budget` wave
    instructions at most. Inputs times 2**`magnitude` steer the run into code for large numbers: residues and references are the same.

    Raises AsmgenError for a family without a reference.
    """
    if family.algebra is None:
        raise AsmgenError(f"{family.name} has no reference in exact residues: its file would name one as Family(algebra=...)")
    problem = larger(family.problem(parameters, seed), magnitude)
    contract, resources = built.kernel.contract, built.kernel.resources
    began = time.perf_counter()
    options = Options(checks=checks, instruction_budget=budget, unwritten=UNWRITTEN)
    with emulator(built, resources.arch, options, lambda sentence: None, program, "algebra") as device:
        memory = _algebra_of(device)
        device.follow(memory.tracker)
        constants = memory.table.constants
        inputs = Inputs(problem.arguments, constants, np.random.default_rng(seed), {})
        reference = family.algebra(parameters, inputs)
        buffers = upload(device, contract, problem, parameters)
        for name, (numbers, of) in inputs.arrays.items():
            memory.put(buffers[name].address, numbers, of)
        launches = launch_list(code_object_of(built), contract, parameters)
        launches.start(device, values_of(contract, problem, buffers))
        mismatches, changed, elements = [], list[str](), 0
        for output in problem.outputs:
            array = problem.arguments[output.argument]
            after = device.read(buffers[output.argument], array.dtype, array.shape)
            changed += [] if untouched(output, array, after) else [output.argument]
            wanted, kind = reference.get(output.argument), inputs.formats.get(output.argument) or kind_of(array)
            if isinstance(wanted, Residues):
                if kind is not None and kind_of(array) is None:
                    after = decode(after, hardware_format(kind, architecture(resources.arch)))
                found = memory.read(buffers[output.argument].address, after, kind or "")
                mismatches.append(compared(output.argument, wanted, found[output.select], after[output.select]))
            elif wanted is not None:
                mismatches.append(compared_bits(output.argument, wanted, after[output.select]))
            elements += 0 if wanted is None else after[output.select].size
        last = device.launches[len(built.kernel.before)]
        comparisons = memory.rules.comparisons
        return AlgebraReport(tuple(one for one in mismatches if one is not None), last, elements, time.perf_counter() - began,
                             tuple(device.launches), comparisons.nearest, comparisons.sides, tuple(changed))


def _algebra_of(device: EmulatedDevice) -> AlgebraMemory:
    """The residues of a device that is kept, without those of launches before, or new ones."""
    memory: AlgebraMemory | None = device.followed if isinstance(device, KeptDevice) else None
    if memory is not None and memory.table.constants.declared == STANDARD.declared:  # else a launch has declared some of its own
        memory.clear()
        return memory
    memory = AlgebraMemory(device.memory, Constants(dict(STANDARD.declared)))
    if isinstance(device, KeptDevice):
        device.followed = memory
    return memory


def larger(problem: Problem, magnitude: int) -> Problem:
    """With inputs of wide formats times a power of two."""
    if not magnitude:
        return problem
    written = {output.argument for output in problem.outputs}
    arguments = {name: value * value.dtype.type(2.0**magnitude) if isinstance(value, np.ndarray) and name not in written
                 and kind_of(value) in ("f32", "bf16") else value for name, value in problem.arguments.items()}
    return replace(problem, arguments=arguments)


def compared(argument: str, reference: Residues, found: Residues, values: Any) -> Mismatch | None:
    """None where each element has the residues of the reference. Where that has none, the run must have an infinity or a NaN."""
    shape = np.broadcast_shapes(reference.shape, found.shape)
    if shape != reference.shape or shape != found.shape:
        raise AsmgenError(f"the reference of {argument} has the shape {list(reference.shape)}, and what a problem selects of it has "
                          f"{list(found.shape)}")
    lost = ((found.has & reference.has) != reference.has)
    lost |= (reference.has == 0) & np.isfinite(values.astype(np.float64))
    wrong = np.zeros(lost.shape, bool)
    for bit, ours, theirs in ((HAS_Q, reference.q, found.q), (HAS_P, reference.p, found.p), (HAS_E, reference.e, found.e)):
        wrong |= (reference.has & found.has & bit != 0) & (ours != theirs)
    wrong &= ~lost
    return _mismatch(argument, wrong, lost)


def compared_bits(argument: str, reference: Any, values: Any) -> Mismatch | None:
    """None where each element of the run is the reference's, bit for bit."""
    wrong = np.asarray(values != reference)
    return _mismatch(argument, wrong, np.zeros_like(wrong))


def _mismatch(argument: str, wrong: Any, lost: Any) -> Mismatch | None:
    bad = wrong | lost
    if not bad.any():
        return None
    first = tuple(int(place) for place in np.unravel_index(int(np.argmax(bad)), bad.shape))
    return Mismatch(argument, int(np.count_nonzero(wrong)), int(np.count_nonzero(lost)), bad.size, first)
