"""HIP calls about code objects and their kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from asmgen.codeobject.arguments import hidden_values, is_hidden
from asmgen.codeobject.bundle import BUNDLE_MAGIC, COMPRESSED_MAGIC
from asmgen.codeobject.descriptor import CodeObjectError
from asmgen.codeobject.load import CodeObject
from asmgen.files import FileError, read_plain
from asmgen.isa.arch import LANES, MOST_WORK_ITEMS
from asmgen.isa.errors import AsmgenError
from asmgen.launch.emulated import EmulatedKernel, EmulatedModule
from asmgen.launch.hipemulator.errors import HipError
from asmgen.launch.hipemulator.hipstate import GpuState, Runtime, put_int, put_size, unsigned
from asmgen.launch.hipemulator.properties import CHIPS, binding
from asmgen.launch.launchcall import LAUNCH_PARAM_BUFFER_POINTER, LAUNCH_PARAM_BUFFER_SIZE, LAUNCH_PARAM_END

_ELF_SIZES = Struct("<32xQQ6xHHHH")  # program and section header offsets, then entry sizes and counts
_MOST_GRID = 1 << 32
_MOST_EXTRA = 16  # words of the `extra` array


@dataclass
class Module:
    """A loaded file or image: one code object for each source file of the program."""

    gpu: GpuState
    parts: tuple[EmulatedModule, ...]
    functions: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Function:
    """A kernel."""

    gpu: GpuState
    kernel: EmulatedKernel


def hipModuleLoad(runtime: Runtime, module: int, name: int) -> None:
    if not name:
        raise HipError("hipErrorInvalidValue")
    path = Path(ctypes.string_at(name).decode(errors="surrogateescape"))
    try:
        data = read_plain(path)
    except FileError as error:
        raise HipError("hipErrorFileNotFound", error.sentence) from None
    _load(runtime, module, data, str(path))


def hipModuleLoadData(runtime: Runtime, module: int, image: int) -> None:
    if not image:
        raise HipError("hipErrorInvalidValue")
    _load(runtime, module, image_bytes(image), "the image")


def hipModuleLoadDataEx(runtime: Runtime, module: int, image: int, count: int, options: int, values: int) -> None:
    hipModuleLoadData(runtime, module, image)


hipModuleLoadFatBinary = hipModuleLoadData


def image_bytes(address: int) -> bytes:
    """A code object or an offload bundle in memory, whose size only it knows. Raises HipError for anything else."""
    start = ctypes.string_at(address, 4)
    if start == b"\x7fELF":
        programs, sections, program_size, program_count, section_size, section_count = _ELF_SIZES.unpack(
            ctypes.string_at(address, _ELF_SIZES.size))
        return ctypes.string_at(address, max(programs + program_size * program_count, sections + section_size * section_count))
    if start == COMPRESSED_MAGIC and int.from_bytes(ctypes.string_at(address + 4, 2), "little") in (2, 3):
        wide = int.from_bytes(ctypes.string_at(address + 4, 2), "little") == 3
        return ctypes.string_at(address, int.from_bytes(ctypes.string_at(address + 8, 8 if wide else 4), "little"))
    if start == BUNDLE_MAGIC[:4] and ctypes.string_at(address, len(BUNDLE_MAGIC)) == BUNDLE_MAGIC:
        return ctypes.string_at(address, _bundle_size(address))
    raise HipError("hipErrorInvalidImage", "the image begins neither as a code object nor as an offload bundle")


def _bundle_size(address: int) -> int:
    at = len(BUNDLE_MAGIC)
    count = int.from_bytes(ctypes.string_at(address + at, 8), "little")
    if count > 1024:
        raise HipError("hipErrorInvalidImage", f"the image is an offload bundle that announces {count} entries")
    at += 8
    end = at
    for _ in range(count):
        offset, size, name = Struct("<QQQ").unpack(ctypes.string_at(address + at, 24))
        at += 24 + name
        end = max(end, at, offset + size)
    return end


def _load(runtime: Runtime, module: int, data: bytes, origin: str) -> None:
    runtime.not_while_capturing()
    gpu = runtime.gpu()
    try:
        CodeObject.load_all(data, gpu.profile.name, origin)
    except CodeObjectError as error:
        fits = _other_architecture(data, origin)
        raise HipError("hipErrorNoBinaryForGpu" if fits else "hipErrorInvalidImage", error.sentence) from None
    parts = tuple(gpu.device.load(part) for part in CodeObject.load_all(data, gpu.profile.name, origin))
    put_size(module, runtime.keep(Module(gpu, parts)))


def _other_architecture(data: bytes, origin: str) -> bool:
    """Whether it is good code, for another GPU."""
    try:
        CodeObject.load_all(data, None, origin)
    except CodeObjectError as error:
        return "another GPU" in error.sentence or "offload bundle that holds" in error.sentence
    return True


def hipModuleUnload(runtime: Runtime, module: int) -> None:
    runtime.not_while_capturing()
    gone = runtime.drop(module, Module)
    for function in gone.functions.values():
        runtime.drop(function, Function)
    for part in gone.parts:
        part.unload()


def hipModuleGetFunction(runtime: Runtime, function: int, module: int, name: int) -> None:
    found = runtime.find(module, Module)
    if not name or not function:
        raise HipError("hipErrorInvalidValue")
    wanted = ctypes.string_at(name).decode(errors="replace")
    if wanted not in found.functions:
        part = next((part for part in found.parts if wanted in part.code_object.kernels), None)
        if part is None:
            raise HipError("hipErrorNotFound")
        found.functions[wanted] = runtime.keep(Function(found.gpu, part.kernel(wanted)))
    put_size(function, found.functions[wanted])


def hipModuleGetFunctionCount(runtime: Runtime, count: int, module: int) -> None:
    put_int(count, sum(len(part.code_object.kernels) for part in runtime.find(module, Module).parts))


def hipModuleGetGlobal(runtime: Runtime, pointer: int, size: int, module: int, name: int) -> None:
    if not name:
        raise HipError("hipErrorInvalidValue")
    wanted = ctypes.string_at(name).decode(errors="replace")
    for part in runtime.find(module, Module).parts:
        symbol = part.code_object.symbols.get(wanted)
        if symbol is not None and symbol.kind == "object":
            if pointer:
                put_size(pointer, part.base + symbol.address)
            if size:
                put_size(size, symbol.size)
            return
    raise HipError("hipErrorNotFound")


def hipModuleLaunchKernel(runtime: Runtime, function: int, grid_x: int, grid_y: int, grid_z: int, block_x: int, block_y: int, block_z: int,
                          dynamic: int, stream: int, parameters: int, extra: int) -> None:
    found = runtime.find(function, Function)
    grid, block = (grid_x, grid_y, grid_z), (block_x, block_y, block_z)
    _check_sizes(found, grid, block, dynamic)
    if parameters and extra:
        raise HipError("hipErrorInvalidValue", "arguments came both in kernelParams and in extra")
    given = _from_parameters(found, parameters) if parameters else _from_extra(extra) if extra else b""
    runtime.enqueue(stream, _launching(runtime, found, grid, block, _kernarg(found, given, grid, block, dynamic), dynamic))


def hipModuleLaunchCooperativeKernel(runtime: Runtime, function: int, grid_x: int, grid_y: int, grid_z: int, block_x: int, block_y: int,
                                     block_z: int, dynamic: int, stream: int, parameters: int) -> None:
    hipModuleLaunchKernel(runtime, function, grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic, stream, parameters, 0)


def _check_sizes(found: Function, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic: int) -> None:
    name, resources = found.kernel.name, found.kernel.kernel.resources
    if min(grid) < 1 or min(block) < 1 or any(count * size >= _MOST_GRID for count, size in zip(grid, block, strict=True)):
        raise HipError("hipErrorInvalidConfiguration", f"{name}: grid {grid} of blocks {block} has no work-items, or 2^32 in a dimension")
    items, most = block[0] * block[1] * block[2], min(MOST_WORK_ITEMS, resources.max_flat_workgroup_size)
    if items > most:
        raise HipError("hipErrorInvalidConfiguration", f"{name} allows {most} work-items a workgroup, block {block} has {items}")
    limit = found.gpu.profile.lds_bytes
    if resources.lds + dynamic > limit:
        raise HipError("hipErrorInvalidValue", f"{name}: {resources.lds} bytes of static and {dynamic} of dynamic LDS were asked for; "
                                               f"a workgroup of {found.gpu.profile.name} has {limit}")


def _from_parameters(found: Function, parameters: int) -> bytes:
    """The segment from kernelParams: an address for each explicit argument, whose place and size the metadata has."""
    explicit = [row for row in found.kernel.kernel.arguments if not is_hidden(row)]
    segment = bytearray(max((row.offset + row.size for row in explicit), default=0))
    addresses = (ctypes.c_void_p * len(explicit)).from_address(parameters)
    for row, address in zip(explicit, addresses, strict=True):
        if not address:
            raise HipError("hipErrorInvalidValue", f"{found.kernel.name}: kernelParams has no address for the argument at {row.offset}")
        segment[row.offset : row.offset + row.size] = ctypes.string_at(address, row.size)
    return bytes(segment)


def _from_extra(extra: int) -> bytes:
    """The segment from extra: pairs of a key and a value, up to the end mark."""
    words = (ctypes.c_uint64 * _MOST_EXTRA).from_address(extra)
    pointer = size = 0
    at = 0
    while at + 1 < _MOST_EXTRA and words[at] != LAUNCH_PARAM_END:
        if words[at] == LAUNCH_PARAM_BUFFER_POINTER:
            pointer = words[at + 1]
        elif words[at] == LAUNCH_PARAM_BUFFER_SIZE:
            size = ctypes.c_size_t.from_address(words[at + 1]).value
        else:
            raise HipError("hipErrorInvalidValue", f"extra has the unknown key {words[at]}")
        at += 2
    if size and not pointer:
        raise HipError("hipErrorInvalidValue", "extra has a size but no buffer")
    return ctypes.string_at(pointer, size) if size else b""


def _kernarg(found: Function, given: bytes, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic: int) -> bytes:
    """The whole segment: what the caller gave, and the hidden arguments, which the runtime fills in."""
    facts = found.kernel.kernel
    needed = max((row.offset + row.size for row in facts.arguments if not is_hidden(row)), default=0)
    if len(given) < needed:
        raise HipError("hipErrorInvalidValue", f"{facts.name} takes {needed} bytes of arguments, {len(given)} were given")
    segment = bytearray(given.ljust(facts.resources.kernarg_size, b"\0"))
    hidden = hidden_values(facts.arguments, grid, block, dynamic)
    for row in facts.arguments:
        if is_hidden(row):
            value = hidden.get(row.value_kind, 0) & (1 << 8 * row.size) - 1
            segment[row.offset : row.offset + row.size] = value.to_bytes(row.size, "little")
    return bytes(segment)


def _launching(runtime: Runtime, found: Function, grid: tuple[int, int, int], block: tuple[int, int, int], kernarg: bytes,
               dynamic: int) -> Callable[[], None]:
    def operation() -> None:
        try:
            result = found.gpu.device.launch(found.kernel, grid, block, kernarg, dynamic)
        except AsmgenError as error:  # the launch itself has begun: like a fault of the kernel, this shows at the next call that waits
            runtime.say(f"{found.kernel.name}: {error}")
            found.gpu.fault = found.gpu.fault or ("hipErrorLaunchFailure", found.kernel.name)
            return
        found.gpu.device.launches.clear()
        runtime.report(found.gpu, found.kernel.name, result.findings)

    return operation


def hipFuncGetAttribute(runtime: Runtime, value: int, which: int, function: int) -> None:
    found = runtime.find(function, Function, "hipErrorInvalidDeviceFunction")
    resources, arch = found.kernel.kernel.resources, found.gpu.profile
    known = {"MAX_THREADS_PER_BLOCK": resources.max_flat_workgroup_size, "SHARED_SIZE_BYTES": resources.lds, "CONST_SIZE_BYTES": 0,
             "LOCAL_SIZE_BYTES": resources.scratch, "NUM_REGS": resources.vgpr_count, "PTX_VERSION": 90, "BINARY_VERSION": 90,
             "CACHE_MODE_CA": 0, "MAX_DYNAMIC_SHARED_SIZE_BYTES": arch.lds_bytes - resources.lds, "PREFERRED_SHARED_MEMORY_CARVEOUT": 0}
    names = {int(row): row.name.removeprefix("HIP_FUNC_ATTRIBUTE_") for row in binding().hipFunction_attribute}
    if names.get(which) not in known:
        raise HipError("hipErrorInvalidValue")
    put_int(value, known[names[which]])


def _blocks_per_unit(found: Function, items: int, dynamic: int) -> int:
    """Workgroups of `items` work-items that a compute unit holds: by registers and by LDS."""
    resources = found.kernel.kernel.resources
    return found.gpu.profile.workgroups_per_cu(resources.vgpr_count, resources.lds + dynamic, -(-items // LANES))


def hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(runtime: Runtime, count: int, function: int, items: int, dynamic: int) -> None:
    found = runtime.find(function, Function, "hipErrorInvalidDeviceFunction")
    if items < 1:
        raise HipError("hipErrorInvalidValue")
    put_int(count, _blocks_per_unit(found, items, unsigned(dynamic)))


def hipModuleOccupancyMaxPotentialBlockSize(runtime: Runtime, grid: int, block: int, function: int, dynamic: int, limit: int) -> None:
    found = runtime.find(function, Function, "hipErrorInvalidDeviceFunction")
    most = min(found.kernel.kernel.resources.max_flat_workgroup_size, MOST_WORK_ITEMS, limit or MOST_WORK_ITEMS)
    sizes = list(range(LANES, most + 1, LANES)) or [most]
    best = max(sizes, key=lambda size: (_blocks_per_unit(found, size, unsigned(dynamic)) * size, size))
    units = CHIPS[found.gpu.profile.name][0]
    put_int(grid, max(1, _blocks_per_unit(found, best, unsigned(dynamic))) * units)
    put_int(block, best)
