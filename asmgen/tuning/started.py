"""Starting the kernels of a family's build on a device with the data of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asmgen.author.contract.contract import KernelContract, Values
from asmgen.author.contract.problem import Problem
from asmgen.author.emit.kernel import Kernel, symbol_of
from asmgen.codeobject.arguments import Typed
from asmgen.codeobject.load import CodeObject
from asmgen.launch.device import Buffer, Device
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.launchlist import LaunchList, LaunchStep, WorkspaceBytes


def launch_list(code_object: CodeObject, contract: KernelContract, resolved: Values) -> LaunchList:
    """The launches of a build for resolved parameters."""
    steps = [LaunchStep(code_object.kernel(symbol_of(one.stem)), one.grid_of(resolved), one.workgroup,
                        tuple(argument.name for argument in one.arguments)) for one in contract.launches]
    return LaunchList(tuple(steps), workspaces(contract, resolved))


def workspaces(contract: KernelContract, resolved: Values) -> tuple[WorkspaceBytes, ...]:
    """The workspaces of a launch."""
    sizes = contract.workspace_bytes_of(resolved)
    return tuple(WorkspaceBytes(one.name, sizes[one.name], one.zeroed) for one in contract.workspaces)


def upload(device: Device, contract: KernelContract, problem: Problem, resolved: Values) -> dict[str, Buffer]:
    """Where the arrays and the workspaces of a problem lie on the device; nobody has written the latter."""
    buffers = {name: device.upload(value) for name, value in problem.arguments.items() if isinstance(value, np.ndarray)}
    for workspace in workspaces(contract, resolved):
        buffers[workspace.name] = device.allocate(workspace.nbytes)
        if isinstance(device, EmulatedDevice):
            device.undefine(buffers[workspace.name])
    return buffers


def values_of(contract: KernelContract, problem: Problem, buffers: Mapping[str, Buffer]) -> dict[str, Any]:
    """All arguments by name, numbers with their types."""
    types = {argument.name: argument.type for argument in contract.given}
    numbers = {name: value if types.get(name) == "pointer" else Typed(types[name], value)
               for name, value in problem.arguments.items() if name in types and name not in buffers}
    return numbers | dict(buffers)


def start(device: Device, code_object: CodeObject, kernel: Kernel, problem: Problem, resolved: Values) -> dict[str, Buffer]:
    """Upload, launch, wait until all has ended; returns where arrays and workspaces lie on the device."""
    buffers = upload(device, kernel.contract, problem, resolved)
    launch_list(code_object, kernel.contract, resolved).start(device, values_of(kernel.contract, problem, buffers))
    device.synchronize()
    return buffers
