"""HIP calls about allocations. Device memory is the host's own, so every kind of it can be read by the host and by kernels."""

from __future__ import annotations

import ctypes

from asmgen.launch.hipemulator.errors import HipError
from asmgen.launch.hipemulator.hipstate import TOTAL_BYTES, Allocation, Runtime, put_int, put_size, unsigned
from asmgen.launch.hipemulator.properties import binding

_PITCH = 256
_TYPES = {"host": "hipMemoryTypeHost", "registered": "hipMemoryTypeHost", "device": "hipMemoryTypeDevice",
          "managed": "hipMemoryTypeManaged"}


def _allocate(runtime: Runtime, pointer: int, size: int, kind: str, flags: int = 0) -> None:
    size = unsigned(size)
    gpu = runtime.gpu()
    runtime.not_while_capturing()
    if not pointer:
        raise HipError("hipErrorInvalidValue")
    if not size:
        put_size(pointer, 0)
        return
    if gpu.used + size > TOTAL_BYTES[gpu.profile.name]:
        raise HipError("hipErrorOutOfMemory")
    start = runtime.memory.allocate(size, f"{kind} memory {len(runtime.allocations)}")
    # Which buffers the program will read is not known: a copy to the host looks whether its bytes are defined (copies.py).
    runtime.memory.unread.add(start)
    runtime.allocations[start] = Allocation(start, size, kind, gpu.index, flags)
    gpu.used += size
    put_size(pointer, start)


def _free(runtime: Runtime, address: int, kinds: tuple[str, ...]) -> None:
    runtime.not_while_capturing()
    if not address:
        return
    found = runtime.allocations.get(address)
    if found is None or found.kind not in kinds:
        raise HipError("hipErrorInvalidValue")
    del runtime.allocations[address]
    runtime.memory.free(address)
    if found.kind != "registered":
        runtime.gpus[found.gpu].used -= found.size


def hipMalloc(runtime: Runtime, pointer: int, size: int) -> None:
    _allocate(runtime, pointer, size, "device")


def hipExtMallocWithFlags(runtime: Runtime, pointer: int, size: int, flags: int) -> None:
    _allocate(runtime, pointer, size, "device", flags)


def hipFree(runtime: Runtime, address: int) -> None:
    _free(runtime, address, ("device", "managed"))


def hipMallocAsync(runtime: Runtime, pointer: int, size: int, stream: int) -> None:
    runtime.stream(stream)
    _allocate(runtime, pointer, size, "device")


def hipFreeAsync(runtime: Runtime, address: int, stream: int) -> None:
    runtime.stream(stream)
    if not address:
        raise HipError("hipErrorInvalidValue")
    _free(runtime, address, ("device",))


def hipMallocManaged(runtime: Runtime, pointer: int, size: int, flags: int) -> None:
    _allocate(runtime, pointer, size, "managed", flags)


def hipHostMalloc(runtime: Runtime, pointer: int, size: int, flags: int) -> None:
    _allocate(runtime, pointer, size, "host", flags)


hipHostAlloc = hipHostMalloc


def hipMallocHost(runtime: Runtime, pointer: int, size: int) -> None:
    _allocate(runtime, pointer, size, "host")


hipMemAllocHost = hipMallocHost


def hipHostFree(runtime: Runtime, address: int) -> None:
    _free(runtime, address, ("host",))


hipFreeHost = hipHostFree


def hipHostRegister(runtime: Runtime, address: int, size: int, flags: int) -> None:
    size = unsigned(size)
    if not address or not size:
        raise HipError("hipErrorInvalidValue")
    if any(interval.start < address + size and address < interval.end for interval in runtime.memory.intervals):
        raise HipError("hipErrorHostMemoryAlreadyRegistered")
    runtime.memory.register(address, size, f"registered memory {len(runtime.allocations)}")
    runtime.memory.unread.add(address)
    runtime.allocations[address] = Allocation(address, size, "registered", runtime.gpu().index, flags)


def hipHostUnregister(runtime: Runtime, address: int) -> None:
    if not address:
        raise HipError("hipErrorInvalidValue")
    found = runtime.allocations.get(address)
    if found is None or found.kind != "registered":
        raise HipError("hipErrorHostMemoryNotRegistered")
    _free(runtime, address, ("registered",))


def hipHostGetDevicePointer(runtime: Runtime, pointer: int, address: int, flags: int) -> None:
    found = runtime.allocation(address)
    if found is None or found.kind not in ("host", "registered") or flags:
        raise HipError("hipErrorInvalidValue")
    put_size(pointer, address)


def hipHostGetFlags(runtime: Runtime, flags: int, address: int) -> None:
    found = runtime.allocation(address)
    if found is None or found.kind not in ("host", "registered"):
        raise HipError("hipErrorInvalidValue")
    put_int(flags, found.flags)


def hipMallocPitch(runtime: Runtime, pointer: int, pitch: int, width: int, height: int) -> None:
    row = -(-unsigned(width) // _PITCH) * _PITCH
    _allocate(runtime, pointer, row * unsigned(height), "device")
    put_size(pitch, row)


def hipMemGetInfo(runtime: Runtime, free: int, total: int) -> None:
    gpu = runtime.gpu()
    everything = TOTAL_BYTES[gpu.profile.name]
    if free:
        put_size(free, everything - gpu.used)
    if total:
        put_size(total, everything)


def hipMemGetAddressRange(runtime: Runtime, base: int, size: int, address: int) -> None:
    found = runtime.allocation(address)
    if found is None:
        raise HipError("hipErrorNotFound")
    if base:
        put_size(base, found.start)
    if size:
        put_size(size, found.size)


def hipMemPtrGetInfo(runtime: Runtime, address: int, size: int) -> None:
    found = runtime.allocations.get(address)
    if found is None:
        raise HipError("hipErrorInvalidValue")
    put_size(size, found.size)


def hipPointerGetAttributes(runtime: Runtime, attributes: int, address: int) -> None:
    found = runtime.allocation(address)
    if not attributes or found is None:
        raise HipError("hipErrorInvalidValue")
    hip = binding()
    row = hip.hipPointerAttribute_t.fromObj(attributes)
    ctypes.memset(attributes, 0, int(row.c_sizeof()))
    row.type = getattr(hip.hipMemoryType, _TYPES[found.kind])
    row.device = found.gpu
    row.devicePointer = address
    row.hostPointer = address if found.kind != "device" else 0
    row.isManaged = int(found.kind == "managed")
    row.allocationFlags = found.flags


def hipMemAdvise(runtime: Runtime, address: int, size: int, advice: int, device: int) -> None:
    if runtime.allocation(address) is None:
        raise HipError("hipErrorInvalidValue")


def hipMemPrefetchAsync(runtime: Runtime, address: int, size: int, device: int, stream: int) -> None:
    runtime.stream(stream)
    if runtime.allocation(address) is None:
        raise HipError("hipErrorInvalidValue")
