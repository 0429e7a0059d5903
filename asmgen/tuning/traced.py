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
from asmgen.tuning.started import launch_list, upload, values_of

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
        names = [argument.name for argument in self.trace.arguments]
        order = replace(order, items=work.items) if order is not None else _work_order(work, names)
        return replace(self, workgroups=len(work.steps), order=order, footprint=float(work.read_bytes),
                       steps=Steps(work.traced, work.steps, work.flops, work.items), flops=work.needed_flops or None)


def trace_launch(library: Family, kernel: Kernel, code: bytes, parameters: Mapping[str, Any], workgroups: int = 1,
                 memory_limit: int = MEMORY_LIMIT) -> Traced:
    """What `trace_launches` says of the variant's own kernel."""
    return trace_launches(library, kernel, code, parameters, workgroups, memory_limit)[len(kernel.before)]


def trace_launches(library: Family, kernel: Kernel, code: bytes, parameters: Mapping[str, Any], workgroups: int = 1,
                   memory_limit: int = MEMORY_LIMIT) -> tuple[Traced, ...]:
    """Run the first workgroups of each kernel of a library build on the emulator, in order: what stands in the code object, or the programs
    where there is no llvm-objdump. The problem is made smaller where that leaves them as they are, or as the family's `work` says. Nothing
    is compared.

    Raises AsmgenError where its data take more than the limit of memory."""
    contract, arch = kernel.contract, kernel.resources.arch
    work = None
    if library.work is not None and workgroups == 1:
        work = library.work(parameters, library.select(arch, kernel.parameters))
    small = smaller(contract, parameters if work is None else work.first, workgroups)
    with making_data(library.name, memory_limit):
        problem = library.problem(small, _FINITE)
    arrays = {name: value for name, value in problem.arguments.items() if hasattr(value, "nbytes")}
    own = contract.workspace_bytes_of(small)
    check_total(library.name, sum(value.nbytes for value in arrays.values()) + sum(own.values()), memory_limit)
    before, after = library.companions(kernel.parameters)
    further = (*(one.work for one in before), None, *(one.work for one in after))
    programs = {one.resources.name: one.program for one in kernel.launches} if find_tool("llvm-objdump") is None else {}
    found = []
    with EmulatedDevice(arch, Options(checks=False), programs, keep_errors=True) as device:
        launches = launch_list(CodeObject.load(code), contract, small)
        buffers = upload(device, contract, problem, small)
        values = values_of(contract, problem, buffers)
        for one, its, step in zip(kernel.launches, further, launches.steps, strict=True):
            trace = Trace(workgroups, idle=idle_arithmetic)
            device.options = replace(device.options, trace=trace)
            replace(launches, steps=(step,)).start(device, values)
            taken = {argument.name for argument in one.contract.arguments}
            trace.arguments = tuple(TracedArgument(name, buffer.address, buffer.nbytes) for name, buffer in buffers.items()
                                    if name in taken)
            total, of = (math.prod(one.contract.grid_of(values_)) for values_ in (parameters, small))
            traced = Traced(one.resources.name, trace, total, written=one.program)
            if one is kernel and work is not None:
                order = product_order(parameters, round(work.items * len(work.steps)), [each.name for each in trace.arguments])
                found.append(traced.standing_for(work, order))
            elif its is not None and work is not None:
                found.append(traced.standing_for(its(parameters, small)))
            else:
                order = product_order(parameters, total, [each.name for each in trace.arguments]) if one is kernel else None
                written = {output.argument for output in problem.outputs}  # which may take seconds to say
                read = sum(each.nbytes for each in trace.arguments if each.name not in written)
                found.append(replace(traced, order=order, footprint=read * total / of))
    return tuple(found)


def product_order(parameters: Mapping[str, Any], workgroups: int, arguments: Sequence[str]) -> LoadOrder | None:
    """The order of tiles of a kernel whose parameters, arguments and grid are those of a matrix product; where K is split, that of each
    part comes after those of the parts before, and those of each matrix of a batch after those of the matrices before."""
    tile = tile_edges(parameters)
    if tile is None or not {"a", "b"} <= set(arguments) or not all(isinstance(parameters.get(name), int) for name in ("m", "n", "k")):
        return None
    tm, tn, tk = tile
    rows, columns = -(-parameters["m"] // tm), -(-parameters["n"] // tn)
    order = GridOrder(rows, columns, parameters.get("window") or None, parameters.get("chunk") or None)
    parts, rest = divmod(workgroups, order.tiles)
    batch = parameters.get("batch", 1)
    if rest or not 1 <= parts <= parameters.get("split_k", 1) * batch or workgroups > LARGEST_GRID:
        return None
    operands = arguments.index("a"), arguments.index("b")
    slabs = [(row + part * rows, column + part * columns) for part in range(parts) for row, column in order.tiles_in_order()]
    return LoadOrder(slabs, operands, -(-parameters["k"] * batch // (tk * parts)), "the order of tiles")


def tile_edges(parameters: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Rows, columns and the part of K in a step of a matrix product's tile; None where the parameters have no such tile."""
    found = re.fullmatch(r"(\d+)x(\d+)x(\d+)", str(parameters.get("tile", "")))
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


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
