"""`asmgen launch`: any code object on the data of a launch specification."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from asmgen.codeobject.load import CodeObject
from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.scheduling.run import LaunchResult, Options
from asmgen.launch.buffers import buffer_shapes
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.hip import choose_device
from asmgen.launch.memorylimit import MEMORY_LIMIT
from asmgen.launch.saves import Save, check_saves, write_all
from asmgen.launch.spec import BufferArgument, LaunchSpec, read_spec
from asmgen.launch.specrun import kernarg_of, upload, writer_of
from asmgen.tools.executed import Executed, executed


@dataclass(frozen=True)
class LaunchReport:
    """What `asmgen launch` says. `wave_instructions` and `executed` are None on a GPU."""

    kernel: str
    arch: str
    device: str
    wave_instructions: int | None
    seconds: float
    saved: tuple[str, ...]
    findings: tuple[Finding, ...] = field(default=())
    executed: Executed | None = None

    @property
    def passed(self) -> bool:
        """Whether no finding is an error: exit status 0, else 1."""
        return all(finding.severity != "error" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/FORMATS.md section 1, and those that stand beside them."""
        return {"kernel": self.kernel, "arch": self.arch, "device": self.device, "passed": self.passed,
                "wave_instructions": self.wave_instructions, "executed": self.executed.as_json() if self.executed is not None else None,
                "seconds": self.seconds, "saved": list(self.saved),
                "findings": [finding.as_json() for finding in self.findings]}

    def text(self) -> str:
        """The report for people, with a line for each finding."""
        count = f", {self.wave_instructions} wave instructions, {self.executed} executed" if self.wave_instructions is not None else ""
        lines = [f"{self.kernel} ({self.arch}) on {self.device}: {self.seconds:.3f} s{count}"]
        lines += [f"saved {name}" for name in self.saved]
        lines += [finding.sentence() for finding in self.findings]
        return "\n".join(lines) + "\n"


def run_launch_spec(path: Path, device: str = "auto", options: Options | None = None,
                    say: Callable[[str], None] = lambda sentence: None, memory_limit: int = MEMORY_LIMIT) -> LaunchReport:
    """Launch what a specification says, on "auto", "hip" or "emulator", and save what it asks for: all of it or nothing.

    `options` are further settings of the emulator; order and checks are the specification's. `memory_limit` is the most bytes that all
    buffers may have. Raises AsmgenError where the request is wrong.
    """
    spec = read_spec(path)
    code_object = CodeObject.load(spec.code_object, spec.arch)
    kernel = code_object.kernel(spec.kernel)
    check_saves(spec, path)
    shapes = buffer_shapes(spec, memory_limit)
    chosen_options = _options(spec, options or Options())
    chosen = choose_device(device, code_object.arch, lambda: EmulatedDevice(code_object.arch, chosen_options, keep_errors=True))
    say(chosen.sentence)
    with chosen.device as opened:
        held = [upload(opened, spec, argument, shape) if isinstance(argument, BufferArgument) and shape is not None else None
                for argument, shape in zip(spec.args, shapes, strict=True)]
        if isinstance(opened, EmulatedDevice):
            opened.unread(owner for argument, owner in zip(spec.args, held, strict=True)
                          if owner is not None and isinstance(argument, BufferArgument) and argument.save is None)
        kernarg = kernarg_of(spec, kernel, held)
        loaded = opened.load(code_object).kernel(kernel.name)
        began = time.perf_counter()
        opened.launch(loaded, spec.grid, spec.block, kernarg, spec.dynamic_lds)
        opened.synchronize()
        seconds = time.perf_counter() - began
        saves = [Save(argument.save, writer_of(opened, argument.save, shape, buffer))
                 for argument, shape, buffer in zip(spec.args, shapes, held, strict=True)
                 if isinstance(argument, BufferArgument) and argument.save is not None and shape is not None and buffer is not None]
        saved = write_all(saves, spec.origin)
        last: LaunchResult | None = opened.launches[-1] if isinstance(opened, EmulatedDevice) else None
        return LaunchReport(kernel.name, code_object.arch, opened.name, last.wave_instructions if last is not None else None, seconds,
                            tuple(saved), last.findings if last is not None else (),
                            executed(last.program, [last.counts]) if last is not None else None)


def _options(spec: LaunchSpec, options: Options) -> Options:
    return replace(options, checks=spec.checks, order=spec.order)


