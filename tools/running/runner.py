"""Running a kernel of a family on real data and comparing with its float64 reference."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from asmgen.author.contract.problem import Output, Problem
from asmgen.author.family.family import Family
from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.scheduling.run import LaunchResult, Options
from asmgen.isa.errors import AsmgenError
from asmgen.launch.device import Device
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.hip import choose_device
from asmgen.launch.memorylimit import MEMORY_LIMIT, check_total, making_data
from asmgen.program.program import Program
from asmgen.toolchain import find_tool
from asmgen.tools.running.build import Built
from asmgen.tools.running.executed import Executed, KernelRun, executed, together
from asmgen.tools.running.keptdevices import code_object_of, kept_devices
from asmgen.tools.running.saved_spec import save_spec
from asmgen.tuning.started import start


@dataclass(frozen=True)
class RunReport:
    """What `asmgen run` says. `max_rel_error` is max |error| / max(largest |reference| of the row, tiny)."""

    kernel: str
    arch: str
    device: str
    passed: bool
    max_abs_error: float
    max_rel_error: float
    worst: float  # largest |error| / tolerance
    untouched: bool  # what the kernel must not write is as it was
    seconds: float
    wave_instructions: int | None
    bank_conflicts: int | None
    findings: tuple[Finding, ...] = field(default=())
    spec: Path | None = None  # the launch specification that was written
    launches: tuple[KernelRun, ...] = ()  # one for each kernel, in order; none on a GPU
    own: int = 0  # which of them is the family's variant
    digest: bytes = b""  # of all bytes of all outputs

    @property
    def counts(self) -> tuple[int, ...]:
        """Executions of the variant's kernel by instruction position, over all waves."""
        return self.launches[self.own].result.counts if self.launches else ()

    @property
    def executed(self) -> Executed | None:
        """How much of the programs ran; None on a GPU."""
        return together(executed(run.result.program, [run.result.counts]) for run in self.launches) if self.launches else None

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/FORMATS.md section 1, and those that stand beside them."""
        return {
            "kernel": self.kernel, "arch": self.arch, "device": self.device, "passed": self.passed,
            "max_abs_error": self.max_abs_error, "max_rel_error": self.max_rel_error, "error_over_tolerance": self.worst,
            "untouched": self.untouched, "seconds": self.seconds, "wave_instructions": self.wave_instructions,
            "lds_bank_conflicts": self.bank_conflicts, "findings": [finding.as_json() for finding in self.findings],
            "executed": share.as_json() if (share := self.executed) is not None else None,
            "launches": [run.as_json() for run in self.launches],
            "spec": str(self.spec) if self.spec is not None else None,
        }


def run_kernel(family: Family, built: Built, parameters: Mapping[str, Any], device: str, seed: int = 0,
               options: Options | None = None, say: Callable[[str], None] = lambda sentence: None,
               program: Program | Sequence[Program] | None = None, spec_folder: Path | None = None,
               memory_limit: int = MEMORY_LIMIT) -> RunReport:
    """Launch a built kernel on random data and compare. The launch specification goes to `spec_folder` before, where one is named.

    The emulator runs what stands in the code object, read back with llvm-objdump; where there is none, the builder's
    program, and `say` is told so. `program` runs instead of either (a mutant, in tests), or several do; a name says of which kernel.
    Raises AsmgenError where the buffers have more than `memory_limit` bytes together, or making their data takes more than some times
    that.
    """
    arch, contract = built.kernel.resources.arch, built.kernel.contract
    chosen = choose_device(device, arch, lambda: emulator(built, arch, options, say, program))
    say(chosen.sentence)
    with making_data(family.name, memory_limit):
        problem = family.problem(parameters, seed)
    arrays = [value.nbytes for value in problem.arguments.values() if isinstance(value, np.ndarray)]
    check_total(family.name, sum(arrays) + sum(contract.workspace_bytes_of(parameters).values()), memory_limit)
    spec = save_spec(built, problem, parameters, spec_folder) if spec_folder is not None else None
    with chosen.device as opened:
        began = time.perf_counter()
        results = launch(opened, built, problem, parameters)
        seconds = time.perf_counter() - began
        ran = opened.launches[-len(built.kernel.launches):] if isinstance(opened, EmulatedDevice) else []
        report = _compare(family.name, arch, opened.name, problem, results, seconds, ran, spec)
        names = [kernel.resources.name for kernel in built.kernel.launches]
        return replace(report, launches=tuple(map(KernelRun, names, ran)), own=len(built.kernel.before))


def emulator(built: Built, arch: str, options: Options | None, say: Callable[[str], None],
             program: Program | Sequence[Program] | None, domain: str = "") -> EmulatedDevice:
    """An emulator that knows the kernel's code. `domain` names the second values that its launches will have."""
    kept = kept_devices(built)
    programs = {kernel.resources.name: kernel.program for kernel in built.kernel.launches}
    if program is not None:
        programs |= {_named(built, one.name): one for one in ([program] if isinstance(program, Program) else program)}
    elif find_tool("llvm-objdump") is None:
        say("no llvm-objdump: the emulator runs the builder's program, not what stands in the code object")
    else:
        programs = dict(kept.programs) if kept is not None else {}
    options = options or Options(count_banks=True)
    return kept.device(arch, options, programs, domain) if kept is not None else EmulatedDevice(arch, options, programs, keep_errors=True)


def _named(built: Built, name: str) -> str:
    """The symbol of the kernel that a changed program runs instead of: the one of its name, or the only one."""
    names = {one: kernel.resources.name for kernel in built.kernel.launches for one in (kernel.program.name, kernel.resources.name)}
    if name not in names and len(built.kernel.launches) > 1:
        raise AsmgenError(f"the program {name!r} is none of the kernels {', '.join(sorted(set(names.values())))}")
    return names.get(name, built.kernel.resources.name)


def launch(device: Device, built: Built, problem: Problem, parameters: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Upload, launch all kernels, read every output back."""
    buffers = start(device, code_object_of(built), built.kernel, problem, parameters)
    return {output.argument: device.read(buffers[output.argument], problem.arguments[output.argument].dtype,
                                         problem.arguments[output.argument].shape) for output in problem.outputs}


def _compare(name: str, arch: str, device: str, problem: Problem, results: Mapping[str, np.ndarray[Any, Any]], seconds: float,
             ran: Sequence[LaunchResult], spec: Path | None) -> RunReport:
    judged = [judge(output, problem.arguments[output.argument], results[output.argument]) for output in problem.outputs]
    absolute, relative, worst = (max(float(row[column]) for row in judged) for column in range(3))
    untouched = all(row[3] for row in judged)
    errors = [error for one in ran for error in one.errors]
    return RunReport(name, arch, device, worst <= 1.0 and untouched and not errors, absolute, relative, worst, untouched, seconds,
                     sum(one.wave_instructions for one in ran) if ran else None,
                     sum(sum(one.bank_conflicts.values()) for one in ran) if ran else None,
                     tuple(finding for one in ran for finding in one.findings), spec, digest=_digest(results))


def _digest(results: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(results):
        found.update(np.ascontiguousarray(results[name]).view(np.uint8).data)
    return found.digest()


def judge(output: Output, before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> tuple[float, float, float, bool]:
    """(largest |error|, relative to its row, relative to the tolerance, nothing else written). A NaN or an infinity that is not expected,
    or is expected and not found, counts as infinite error; an infinity with the sign of an expected number counts as none where the
    tolerance is infinite, as near the largest number of a type."""
    with np.errstate(invalid="ignore"):  # NaNs that signal, infinities
        found = after[output.select].astype(np.float64)
        right = (found == output.expected) | np.isnan(found) & np.isnan(output.expected)
        right |= (found == np.copysign(np.inf, output.expected)) & np.isfinite(output.expected) & np.isinf(output.tolerance)
        error = np.where(right, 0.0, np.abs(found - output.expected))
    error = np.where(np.isnan(error), np.inf, error)
    sizes = np.abs(np.where(np.isfinite(output.expected), output.expected, 0.0))
    rows = np.maximum(sizes.max(axis=-1, keepdims=True, initial=0.0), np.finfo(np.float32).tiny)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error == 0, 0.0, np.where(np.isinf(error), np.inf, error / output.tolerance))
    worst, of_row, of_bound = (float(one.max(initial=0.0)) for one in (error, error / rows, share))  # an output may have no elements
    return worst, of_row, of_bound, untouched(output, before, after)


def untouched(output: Output, before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> bool:
    """Whether what is no part of an output is as it was."""
    kept = after.copy()
    kept[output.select] = before[output.select]
    return kept.tobytes() == before.tobytes()
