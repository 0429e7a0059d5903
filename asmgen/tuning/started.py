"""Starting a kernel of a family on a device with the data of a problem."""

from __future__ import annotations

import numpy as np

from asmgen.author.contract.contract import KernelContract
from asmgen.author.contract.problem import Problem
from asmgen.codeobject.arguments import pack
from asmgen.codeobject.load import CodeObject
from asmgen.launch.device import Buffer, Device


def start(device: Device, code_object: CodeObject, name: str, contract: KernelContract, problem: Problem,
          grid: tuple[int, int, int], block: tuple[int, int, int]) -> dict[str, Buffer]:
    """Upload, launch, wait until it has ended; returns where the arrays lie on the device."""
    buffers: dict[str, Buffer] = {name: device.upload(value) for name, value in problem.arguments.items() if isinstance(value, np.ndarray)}
    values = {name: buffers[name].address if name in buffers else value for name, value in problem.arguments.items()}
    device.launch(device.load(code_object).kernel(name), grid, block, pack(contract.arguments, values))
    device.synchronize()
    return buffers
