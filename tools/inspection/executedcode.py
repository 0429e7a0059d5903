"""`asmgen inspect --run SPEC.json`: how often each instruction of a file is executed by a launch of the same code."""

from __future__ import annotations

from pathlib import Path

from asmgen.emulator.scheduling.run import Options
from asmgen.files import read_plain
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted, shown
from asmgen.launch.spec import read_spec
from asmgen.launch.specrun import TracedLaunch, trace_launch_spec
from asmgen.program.program import Program


def executions(file: Path, arch: str | None, spec: Path) -> dict[str, tuple[int, ...]]:
    """By the names of the kernels that the specification launches: executions by position, of all workgroups. Nothing is saved.

    The file may be the code object itself or assembly of the same instructions. Raises AsmgenError where it is neither.
    """
    found: dict[str, tuple[int, ...]] = {}
    for launched in trace_launch_spec(spec, Options(checks=False)):
        if launched.kernel not in found:
            _check_same(file, arch, spec, launched)
        before = found.get(launched.kernel, (0,) * len(launched.result.counts))
        found[launched.kernel] = tuple(one + more for one, more in zip(before, launched.result.counts, strict=True))
    return found


def _check_same(file: Path, arch: str | None, spec: Path, launched: TracedLaunch) -> None:
    """Raises AsmgenError where the file does not have the code that was launched."""
    code_object = read_spec(spec).code_object
    if read_plain(file) != read_plain(code_object):
        mine, its = _kernel(file, arch, launched.kernel), _kernel(code_object, launched.arch, launched.kernel)
        different = next((position for position, (one, other) in enumerate(zip(mine.instructions, its.instructions, strict=False))
                          if one.name != other.name), None)
        if different is not None or len(mine) != len(its):
            what = (f"instruction {different} is {mine.instructions[different].name} there and {its.instructions[different].name} here"
                    if different is not None else f"it has {len(mine)} instructions, not {len(its)}")
            raise AsmgenError(f"{shown(spec)} launches {shown(code_object)}, and {launched.kernel} is not the same code in {shown(file)}: "
                              f"{what}")


def _kernel(file: Path, arch: str | None, name: str) -> Program:
    from asmgen.reader.file import read_file

    read = read_file(file, arch)
    found = next((program for program in read.programs if program.name == name), None)
    if found is None:
        names = ", ".join(program.name for program in read.programs) or "none"
        raise AsmgenError(f"{shown(file)} has no kernel {quoted(name)}, which the specification launches; it has {names}")
    return found
