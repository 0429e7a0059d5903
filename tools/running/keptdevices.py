"""What launches of one build after another share: its code, read once, and devices that have it bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.launch.emulated import EmulatedDevice
from asmgen.program.program import Program
from asmgen.toolchain import find_tool
from asmgen.tools.running.build import Built

_KEPT = "_kept_devices"
_MOST = 4


class KeptDevice(EmulatedDevice):
    """A device that stays open: who leaves its block gives buffers back alone. `followed` is what carries second values there."""

    followed: Any = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.clear()
        self.launches = []


@dataclass
class KeptDevices:
    """Those of one build, the last one last; `found` is what launches found that others ask for again, by what names it."""

    code_object: CodeObject
    programs: Mapping[str, Program]
    devices: list[tuple[str, KeptDevice]] = field(default_factory=list)
    found: dict[Any, Any] = field(default_factory=dict)

    def device(self, arch: str, options: Options, programs: Mapping[str, Program], domain: str) -> EmulatedDevice:
        """One for these programs; `domain` names the second values that launches there have."""
        ours = [one for one in self.devices if one[0] == domain and _same(one[1].programs, programs)]
        chosen = ours[0] if ours else (domain, KeptDevice(arch, options, programs, keep_errors=True))
        self.devices = [*(one for one in self.devices if one is not chosen), chosen]
        while len(self.devices) > _MOST:
            self.devices.pop(0)[1].close()
        chosen[1].options = options
        return chosen[1]


def _same(programs: Mapping[str, Program], others: Mapping[str, Program]) -> bool:
    return programs.keys() == others.keys() and all(program is others[name] for name, program in programs.items())


def kept_devices(built: Built) -> KeptDevices | None:
    """Those of a block of `keeping` that is under way."""
    found: KeptDevices | None = built.__dict__.get(_KEPT)
    return found


def code_object_of(built: Built) -> CodeObject:
    """The build's code object."""
    kept = kept_devices(built)
    return kept.code_object if kept is not None else CodeObject.load(built.code_object)


@contextmanager
def keeping(built: Built, read: bool = True) -> Iterator[None]:
    """Launches of a build in the block share devices, and code that is bound there. With `read` what stands in the code object is read
    once for all of them, where it can be; a block in such a one shares its devices."""
    known: dict[str, KeptDevices] = built.__dict__
    outer = known.get(_KEPT)
    if outer is not None and read:
        yield
        return
    from asmgen.reader.disassembly import read_kernel  # lark is needed only where code is read

    code_object, programs = CodeObject.load(built.code_object), dict[str, Program]()
    if read and find_tool("llvm-objdump") is not None:
        names = [kernel.resources.name for kernel in built.kernel.launches]
        programs = {name: read_kernel(code_object, code_object.kernel(name)) for name in names}
    own = known[_KEPT] = KeptDevices(code_object, programs)
    try:
        yield
    finally:
        for _, device in own.devices:
            device.close()
        del known[_KEPT]
        if outer is not None:
            known[_KEPT] = outer
