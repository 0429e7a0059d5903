"""HIP calls about devices and contexts. A context is its device: its handle is the device's number plus one."""

from __future__ import annotations

import ctypes

from asmgen.launch.hipemulator.errors import HipError
from asmgen.launch.hipemulator.hipstate import TOTAL_BYTES, Runtime, put, put_int, put_size, put_text
from asmgen.launch.hipemulator.properties import attribute, fill_properties

_VERSION = 7 * 10_000_000 + 0 * 100_000  # of HIP: major, minor, patch
_CONTEXT = 0x7D00_0000_0000


def hipInit(runtime: Runtime, flags: int) -> None:
    if flags:
        raise HipError("hipErrorInvalidValue")
    if not runtime.gpus:
        raise HipError("hipErrorNoDevice")


def hipDriverGetVersion(runtime: Runtime, version: int) -> None:
    put_int(version, _VERSION)


def hipRuntimeGetVersion(runtime: Runtime, version: int) -> None:
    put_int(version, _VERSION)


def hipGetDeviceCount(runtime: Runtime, count: int) -> None:
    put_int(count, len(runtime.gpus))
    if not runtime.gpus:
        raise HipError("hipErrorNoDevice")


def hipGetDevice(runtime: Runtime, device: int) -> None:
    put_int(device, runtime.gpu().index)


def hipSetDevice(runtime: Runtime, device: int) -> None:
    runtime.thread.gpu = runtime.gpu(device).index


def hipDeviceGet(runtime: Runtime, device: int, ordinal: int) -> None:
    put_int(device, runtime.gpu(ordinal).index)


def hipDeviceGetName(runtime: Runtime, name: int, size: int, device: int) -> None:
    put_text(name, size, runtime.gpu(device).name)


def hipDeviceTotalMem(runtime: Runtime, size: int, device: int) -> None:
    put_size(size, TOTAL_BYTES[runtime.gpu(device).profile.name])


def hipDeviceComputeCapability(runtime: Runtime, major: int, minor: int, device: int) -> None:
    name = runtime.gpu(device).profile.name
    put_int(major, 9)
    put_int(minor, int(name[4]))


def hipDeviceGetAttribute(runtime: Runtime, value: int, which: int, device: int) -> None:
    put_int(value, attribute(runtime.gpu(device), which))


def hipDeviceGetPCIBusId(runtime: Runtime, text: int, size: int, device: int) -> None:
    put_text(text, size, f"0000:{runtime.gpu(device).index + 1:02x}:00.0")


def hipDeviceGetUuid(runtime: Runtime, uuid: int, device: int) -> None:
    put(uuid, (ctypes.c_ubyte * 16)(*f"asmgen-{runtime.gpu(device).index:09d}".encode()))


def hipGetDevicePropertiesR0600(runtime: Runtime, properties: int, device: int) -> None:
    fill_properties(runtime.gpu(device), properties)


def hipDeviceSynchronize(runtime: Runtime) -> None:
    runtime.not_while_capturing()
    runtime.check_fault()


def hipDeviceReset(runtime: Runtime) -> None:
    gpu = runtime.gpu()
    for start in [row.start for row in runtime.allocations.values() if row.gpu == gpu.index and row.kind == "device"]:
        del runtime.allocations[start]
        runtime.memory.free(start)
    gpu.used = 0
    gpu.fault = None


def hipDeviceCanAccessPeer(runtime: Runtime, can: int, device: int, peer: int) -> None:
    put_int(can, int(runtime.gpu(device) is not runtime.gpu(peer)))


def hipDeviceEnablePeerAccess(runtime: Runtime, peer: int, flags: int) -> None:
    if runtime.gpu(peer) is runtime.gpu():
        raise HipError("hipErrorInvalidDevice")


def hipDeviceDisablePeerAccess(runtime: Runtime, peer: int) -> None:
    if runtime.gpu(peer) is runtime.gpu():
        raise HipError("hipErrorInvalidDevice")


def hipDeviceGetStreamPriorityRange(runtime: Runtime, least: int, greatest: int) -> None:
    put_int(least, 1)
    put_int(greatest, -1)


def hipGetDeviceFlags(runtime: Runtime, flags: int) -> None:
    put_int(flags, 0)


def hipSetDeviceFlags(runtime: Runtime, flags: int) -> None:
    runtime.gpu()


def hipDeviceGetLimit(runtime: Runtime, value: int, limit: int) -> None:
    stack, heap = 0, 2  # hipLimitStackSize, hipLimitMallocHeapSize
    if limit not in (stack, heap):
        raise HipError("hipErrorUnsupportedLimit")
    put_size(value, {stack: 1024, heap: 0}[limit])


def _of_context(runtime: Runtime, context: int) -> int:
    if not _CONTEXT <= context - 16 < _CONTEXT + 16 * len(runtime.gpus):
        raise HipError("hipErrorInvalidContext")
    return (context - _CONTEXT) // 16 - 1


def _context(index: int) -> int:
    return _CONTEXT + 16 * (index + 1)


def hipCtxCreate(runtime: Runtime, context: int, flags: int, device: int) -> None:
    runtime.thread.gpu = runtime.gpu(device).index
    put_size(context, _context(device))


def hipCtxDestroy(runtime: Runtime, context: int) -> None:
    _of_context(runtime, context)


def hipCtxSetCurrent(runtime: Runtime, context: int) -> None:
    runtime.thread.gpu = _of_context(runtime, context) if context else 0


def hipCtxGetCurrent(runtime: Runtime, context: int) -> None:
    put_size(context, _context(runtime.gpu().index))


def hipCtxPushCurrent(runtime: Runtime, context: int) -> None:
    runtime.thread.gpu = _of_context(runtime, context)


def hipCtxPopCurrent(runtime: Runtime, context: int) -> None:
    put_size(context, _context(runtime.gpu().index))


def hipCtxGetDevice(runtime: Runtime, device: int) -> None:
    put_int(device, runtime.gpu().index)


def hipCtxSynchronize(runtime: Runtime) -> None:
    hipDeviceSynchronize(runtime)


def hipDevicePrimaryCtxRetain(runtime: Runtime, context: int, device: int) -> None:
    put_size(context, _context(runtime.gpu(device).index))


def hipDevicePrimaryCtxRelease(runtime: Runtime, device: int) -> None:
    runtime.gpu(device)


def hipProfilerStart(runtime: Runtime) -> None:
    """There is nothing to profile."""


def hipProfilerStop(runtime: Runtime) -> None:
    """There is nothing to profile."""
