"""What the first workgroups of a kernel's launch execute: its input to the cycle model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from asmgen.author.contract.contract import KernelContract
from asmgen.author.contract.problem import LaunchWork
from asmgen.author.emit.kernel import Kernel
from asmgen.author.family.family import Family
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace, TracedArgument
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.memorylimit import MEMORY_LIMIT, check_total, making_data
from asmgen.model.gridcache import LARGEST_GRID
from asmgen.model.gridorder import GridOrder
from asmgen.model.steering import idle_arithmetic
from asmgen.model.traffic import LoadOrder
from asmgen.model.unequal import Steps
from asmgen.program.program import Program
from asmgen.toolchain import find_tool
from asmgen.tuning.started import start

TRACED_EDGE = {"m": 512, "n": 512, "b": 1}
"""What parameters that count workgroups are cut to: the traced ones are the first, so that more of them would only cost time."""
_FINITE = 1  # an odd seed: NaN and huge scores make kernels go ways that ordinary data seldom does


@dataclass(frozen=True)
class Traced:
    """What the first workgroups of a launch executed, how many workgroups it has, which of them load the same, how many bytes the launch
    reads in all, where that is not what the traced arguments have, and the operations that its problem needs, where they are known."""

    name: str
    trace: Trace
    workgroups: int
    order: LoadOrder | None = None
    footprint: float | None = None
    steps: Steps | None = None
    written: Program | None = None  # as its author wrote it
    flops: float | None = None

    def standing_for(self, work: LaunchWork, order: LoadOrder | None = None) -> Traced:
        """The same workgroup as the first one of a launch whose family says so much of it."""
        order = order or _work_order(work, [argument.name for argument in self.trace.arguments])
        return replace(self, workgroups=len(work.steps), order=order, footprint=float(work.read_bytes),
                       steps=Steps(work.traced, work.steps, work.flops), flops=work.needed_flops or None)


def trace_launch(library: Family, kernel: Kernel, code: bytes, parameters: Mapping[str, Any], workgroups: int = 1,
                 memory_limit: int = MEMORY_LIMIT) -> Traced:
    """Run the first workgroups of a library kernel on the emulator: what stands in its code object, or its program where there is no
    llvm-objdump. The problem is made smaller where that leaves them as they are, or as the family's `work` says. Nothing is compared.

    Raises AsmgenError where its data take more than the limit of memory."""
    trace = Trace(workgroups, idle=idle_arithmetic)
    contract, arch, name = kernel.contract, kernel.resources.arch, kernel.resources.name
    work = None
    if library.work is not None and workgroups == 1:
        work = library.work(parameters, library.select(arch, kernel.parameters))
    small = smaller(contract, parameters if work is None else work.first, workgroups)
    with making_data(library.name, memory_limit):
        problem = library.problem(small, _FINITE)
    check_total(library.name, sum(value.nbytes for value in problem.arguments.values() if hasattr(value, "nbytes")), memory_limit)
    programs = {name: kernel.program} if find_tool("llvm-objdump") is None else {}
    with EmulatedDevice(arch, Options(checks=False, trace=trace), programs, keep_errors=True) as device:
        buffers = start(device, CodeObject.load(code), name, contract, problem, contract.grid_of(small), contract.workgroup)
    trace.arguments = tuple(TracedArgument(argument, found.address, found.nbytes) for argument, found in buffers.items())
    total = math.prod(contract.grid_of(parameters))
    order = product_order(parameters, total, tuple(buffers))
    if work is not None:
        return Traced(name, trace, total, written=kernel.program).standing_for(work, order)
    written = {output.argument for output in problem.outputs}
    read = sum(value.nbytes for name, value in problem.arguments.items() if name not in written and hasattr(value, "nbytes"))
    return Traced(name, trace, total, order, read * total / math.prod(contract.grid_of(small)), written=kernel.program)


def product_order(parameters: Mapping[str, Any], workgroups: int, arguments: Sequence[str]) -> LoadOrder | None:
    """The order of tiles of a kernel whose parameters, arguments and grid are those of a matrix product."""
    tile = re.fullmatch(r"(\d+)x(\d+)x(\d+)", str(parameters.get("tile", "")))
    if tile is None or not {"a", "b"} <= set(arguments) or not all(isinstance(parameters.get(name), int) for name in ("m", "n", "k")):
        return None
    tm, tn, tk = (int(part) for part in tile.groups())
    rows, columns = -(-parameters["m"] // tm), -(-parameters["n"] // tn)
    order = GridOrder(rows, columns, parameters.get("window") or None, parameters.get("chunk") or None)
    if order.tiles != workgroups or workgroups > LARGEST_GRID:
        return None
    operands = arguments.index("a"), arguments.index("b")
    return LoadOrder(order.tiles_in_order(), operands, -(-parameters["k"] // tk), "the order of tiles")


def _work_order(work: LaunchWork, arguments: Sequence[str]) -> LoadOrder | None:
    """The order that a family tells of its workgroups."""
    if work.slabs is None or len(work.steps) > LARGEST_GRID:
        return None
    names = [name for name in work.slabs if name in arguments]
    slabs = list(zip(*(work.slabs[name] for name in names), strict=True))
    return LoadOrder(slabs, tuple(arguments.index(name) for name in names), max(1, int(work.steps.mean())), "the order of workgroups")


def smaller(contract: KernelContract, parameters: Mapping[str, Any], workgroups: int = 1) -> Mapping[str, Any]:
    """Fewer workgroups of the same kind, but so many at least: those of TRACED_EDGE, where its parameters count workgroups."""
    found = dict(parameters)
    for name, most in TRACED_EDGE.items():
        cut = found | {name: min(most, found[name])} if isinstance(found.get(name), int) else found
        if workgroups <= math.prod(contract.grid_of(cut)) < math.prod(contract.grid_of(found)):
            found = cut
    return found
