"""Several kernels that are launched as one: on one stream, in order, with memory that they hand to each other.

    both = LaunchList((LaunchStep(split, (8, 4, 2), (256, 1, 1), ("a", "b", "parts")), LaunchStep(add, ...)),
                      (WorkspaceBytes("parts", nbytes),))
    both.start(device, {"a": a, "b": b, "d": d})

Arguments go by name: one of a name has the same value in each kernel that takes it. A workspace that the caller does not give is the
device's. Its contents are undefined before the first kernel, or zero where that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from asmgen.codeobject.arguments import ArgumentError
from asmgen.codeobject.load import KernelRecord, Size
from asmgen.launch.device import Buffer, Device, DeviceError
from asmgen.launch.external import external_of


@dataclass(frozen=True)
class WorkspaceBytes:
    """A workspace: the name of the argument, its size, and whether it is zero before the first kernel of each start."""

    name: str
    nbytes: int
    zeroed: bool = False


@dataclass(frozen=True)
class LaunchStep:
    """One kernel: `grid` in workgroups, `block` in work-items, the names of its arguments in order."""

    kernel: KernelRecord
    grid: Size
    block: Size
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class LaunchList:
    """The kernels in the order of their launch, and the workspaces that they take."""

    steps: tuple[LaunchStep, ...]
    workspaces: tuple[WorkspaceBytes, ...] = ()

    def start(self, device: Device, values: Mapping[str, Any], stream: Any = None) -> list[Any]:
        """Launch all of them; what the device's `launch` returned of each.

        `values` are the arguments by name, as `KernelRecord.launch` takes them. Workspaces may be among them: buffers, tensors or numpy
        arrays of enough bytes. Raises ArgumentError for a missing argument, DeviceError for a workspace that is too small, and what the
        launches raise.
        """
        if not self.workspaces and len(self.steps) == 1:  # the launch finds its stream by itself
            return [self._launch(self.steps[0], device, values, stream)]
        stream = device.stream_of(values.values(), stream)
        with ExitStack() as stack:
            found = dict(values)
            for workspace in self.workspaces:
                if workspace.name in values:
                    _check_size(workspace, values[workspace.name])
                else:
                    found[workspace.name] = stack.enter_context(device.workspace(workspace.name, workspace.nbytes, stream))
                if workspace.zeroed:
                    _zero(device, workspace, found[workspace.name], stream)
            for step in self.steps:
                self._check_names(step, found)
            return [self._launch(step, device, found, stream) for step in self.steps]

    def _launch(self, step: LaunchStep, device: Device, values: Mapping[str, Any], stream: Any) -> Any:
        try:
            given = [values[name] for name in step.arguments]
        except KeyError:
            self._check_names(step, values)
            raise
        return step.kernel.launch(device, step.grid, step.block, given, 0, stream)

    def _check_names(self, step: LaunchStep, values: Mapping[str, Any]) -> None:
        missing = [name for name in step.arguments if name not in values]
        if missing:
            raise ArgumentError(f"{step.kernel.name} needs a value for {', '.join(missing)}")


def _check_size(workspace: WorkspaceBytes, value: Any) -> None:
    nbytes = value.nbytes if isinstance(value, np.ndarray | Buffer) else external_of(value, f"workspace {workspace.name}").nbytes
    if nbytes < workspace.nbytes:
        raise DeviceError(f"workspace {workspace.name} has {nbytes} bytes, and these launches need {workspace.nbytes}; a larger one would "
                          "work, or none: then the device makes it")


def _zero(device: Device, workspace: WorkspaceBytes, value: Any, stream: Any) -> None:
    if isinstance(value, np.ndarray):  # the launches move it
        value.reshape(-1).view(np.uint8)[:] = 0
        return
    address = value if isinstance(value, int) else value.address if isinstance(value, Buffer) else \
        external_of(value, f"workspace {workspace.name}").address
    device.zero(address, workspace.nbytes, stream)
