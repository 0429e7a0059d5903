"""A user's program on hip-python alone: module API, memory, streams, events, graphs, properties, errors. Argument: code objects by GPU.

As users of each version write it: up to 7.2 structures are the caller's, texts are bytes and kernelParams is an address.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from hip import hip

OLD = hip.__name__ == "hip.hip"  # later it is rocm.bindings.hip
COUNT = 1000
GRID, BLOCK = (4, 1, 1), (256, 1, 1)


def check(result: tuple[Any, ...]) -> Any:
    """The result of a call; RuntimeError with HIP's text where it fails."""
    code, *values = result
    if code != hip.hipError_t.hipSuccess:
        raise RuntimeError(f"{check(hip.hipGetErrorName(code))}: {check(hip.hipGetErrorString(code))}")
    return values[0] if len(values) == 1 else tuple(values)


def fails(name: str, result: tuple[Any, ...]) -> None:
    """The call must fail so, and be the last error once."""
    assert result[0].name == name, (name, result)
    assert hip.hipPeekAtLastError()[0].name == name
    assert hip.hipGetLastError()[0].name == name
    assert hip.hipGetLastError()[0] == 0


def device_properties(index: int) -> Any:
    if not OLD:
        return check(hip.hipGetDeviceProperties(index))
    found = hip.hipDeviceProp_t()
    check(hip.hipGetDeviceProperties(found, index))
    return found


def pointer_attributes(pointer: Any) -> Any:
    if not OLD:
        return check(hip.hipPointerGetAttributes(pointer))
    found = hip.hipPointerAttribute_t()
    check(hip.hipPointerGetAttributes(found, pointer))
    return found


def properties(index: int, arch: str) -> None:
    found = device_properties(index)
    for name in found.PROPERTIES():
        getattr(found, name)
    named, name = (value.decode() if OLD else value for value in (found.gcnArchName, found.name))
    assert named.split(":")[0] == arch and "emulator" in name, (named, name)
    assert (list(found.maxThreadsDim), list(found.maxGridSize)) == ([1024] * 3, [(1 << 31) - 1, 65536, 65536])
    assert (found.warpSize, found.major, found.minor) == (64, 9, int(arch[4]))
    assert found.sharedMemPerBlock == {"gfx942": 65536, "gfx950": 163840}[arch]
    kinds = hip.hipDeviceAttribute_t
    for kind, value in ((kinds.hipDeviceAttributeWarpSize, 64), (kinds.hipDeviceAttributeMaxBlockDimX, 1024),
                        (kinds.hipDeviceAttributeMultiprocessorCount, found.multiProcessorCount),
                        (kinds.hipDeviceAttributeMaxSharedMemoryPerBlock, found.sharedMemPerBlock)):
        assert check(hip.hipDeviceGetAttribute(kind, index)) == value, kind
    free, total = check(hip.hipMemGetInfo())
    assert 0 < free <= total == found.totalGlobalMem


def launches(path: str) -> None:
    kinds = hip.hipMemcpyKind
    a, b = (np.random.default_rng(7).standard_normal((2, COUNT))).astype(np.float32)
    c = np.zeros(COUNT, np.float32)
    module = check(hip.hipModuleLoad(path.encode()))
    kernel = check(hip.hipModuleGetFunction(module, b"vector_add"))
    stream, start, stop = check(hip.hipStreamCreate()), check(hip.hipEventCreate()), check(hip.hipEventCreate())
    da, db, dc = (check(hip.hipMalloc(a.nbytes)) for _ in range(3))
    check(hip.hipMemcpyAsync(da, a, a.nbytes, kinds.hipMemcpyHostToDevice, stream))
    check(hip.hipMemcpyAsync(db, b, b.nbytes, kinds.hipMemcpyHostToDevice, stream))
    check(hip.hipMemsetAsync(dc, 0, c.nbytes, stream))
    check(hip.hipEventRecord(start, stream))
    check(hip.hipModuleLaunchKernel(kernel, *GRID, *BLOCK, sharedMemBytes=0, stream=stream, kernelParams=None,
                                    extra=(dc, da, db, ctypes.c_int(COUNT))))
    check(hip.hipEventRecord(stop, stream))
    check(hip.hipEventSynchronize(stop))
    assert check(hip.hipEventElapsedTime(start, stop)) > 0
    check(hip.hipMemcpyAsync(c, dc, c.nbytes, kinds.hipMemcpyDeviceToHost, stream))
    check(hip.hipStreamSynchronize(stream))
    assert np.array_equal(c, a + b)

    # kernelParams: the address of each argument
    values = [ctypes.c_void_p(int(pointer)) for pointer in (dc, dc, db)] + [ctypes.c_int(10)]
    addresses = [ctypes.addressof(value) for value in values]
    table = (ctypes.c_void_p * len(addresses))(*addresses)
    check(hip.hipModuleLaunchKernel(kernel, *GRID, *BLOCK, 0, None, ctypes.addressof(table) if OLD else addresses, None))
    check(hip.hipMemcpy(c, dc, c.nbytes, kinds.hipMemcpyDeviceToHost))
    assert np.array_equal(c[:10], (a + b)[:10] + b[:10]) and np.array_equal(c[10:], (a + b)[10:])

    # a graph: nothing runs while the stream is captured, all of it at each launch
    check(hip.hipMemset(dc, 0, c.nbytes))
    check(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    check(hip.hipModuleLaunchKernel(kernel, *GRID, *BLOCK, 0, stream, None, (dc, dc, db, ctypes.c_int(COUNT))))
    other = check(hip.hipStreamCreate())
    fork, join = check(hip.hipEventCreate()), check(hip.hipEventCreate())
    check(hip.hipEventRecord(fork, stream))
    check(hip.hipStreamWaitEvent(other, fork, 0))
    check(hip.hipModuleLaunchKernel(kernel, *GRID, *BLOCK, 0, other, None, (dc, dc, db, ctypes.c_int(10))))
    check(hip.hipEventRecord(join, other))
    check(hip.hipStreamWaitEvent(stream, join, 0))
    assert check(hip.hipStreamIsCapturing(stream)) == hip.hipStreamCaptureStatus.hipStreamCaptureStatusActive
    graph = check(hip.hipStreamEndCapture(stream))
    executable = check(hip.hipGraphInstantiateWithFlags(graph, 0))
    check(hip.hipGraphDestroy(graph))
    for _ in range(3):
        check(hip.hipGraphLaunch(executable, stream))
    check(hip.hipStreamSynchronize(stream))
    check(hip.hipMemcpy(c, dc, c.nbytes, kinds.hipMemcpyDeviceToHost))
    assert np.allclose(c[10:], 3 * b[10:], rtol=1e-6) and np.allclose(c[:10], 6 * b[:10], rtol=1e-5)
    check(hip.hipGraphExecDestroy(executable))
    check(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    fails("hipErrorStreamCaptureUnsupported", hip.hipMalloc(16))
    fails("hipErrorStreamCaptureInvalidated", hip.hipStreamEndCapture(stream))

    # pinned and managed memory, rows with pitch
    pinned = check(hip.hipHostMalloc(c.nbytes, 0))
    check(hip.hipMemcpy(pinned, dc, c.nbytes, kinds.hipMemcpyDeviceToHost))
    assert ctypes.string_at(int(pinned), c.nbytes) == c.tobytes()
    rows, pitch = check(hip.hipMallocPitch(100, 3))
    assert pitch >= 100 and pitch % 256 == 0
    picture = np.arange(300, dtype=np.uint8).reshape(3, 100)
    check(hip.hipMemcpy2D(rows, pitch, picture, 100, 100, 3, kinds.hipMemcpyHostToDevice))
    back = np.zeros_like(picture)
    check(hip.hipMemcpy2D(back, 100, rows, pitch, 100, 3, kinds.hipMemcpyDeviceToHost))
    assert np.array_equal(back, picture)
    check(hip.hipMemsetD32(da, 0x3F800000, COUNT))
    check(hip.hipMemcpyDtoH(c, da, c.nbytes))
    assert (c == 1.0).all()
    found = pointer_attributes(db)
    assert found.type == hip.hipMemoryType.hipMemoryTypeDevice and int(found.devicePointer) == int(db)

    # what is wrong
    fails("hipErrorNotFound", hip.hipModuleGetFunction(module, b"vector_sub"))
    fails("hipErrorInvalidValue", hip.hipMemcpy(dc, a, 2 * a.nbytes, kinds.hipMemcpyHostToDevice))
    given = (dc, da, db, ctypes.c_int(1))
    fails("hipErrorInvalidConfiguration", hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 512, 1, 1, 0, None, None, given))
    fails("hipErrorInvalidValue", hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 256, 1, 1, 1 << 20, None, None, given))
    fails("hipErrorOutOfMemory", hip.hipMalloc(1 << 50))
    fails("hipErrorInvalidImage", hip.hipModuleLoadData(b"no code object" * 10))
    fails("hipErrorFileNotFound", hip.hipModuleLoad(b"/nowhere.co"))
    check(hip.hipFree(dc))
    fails("hipErrorInvalidValue", hip.hipFree(dc))
    check(hip.hipModuleLaunchKernel(kernel, *GRID, *BLOCK, 0, stream, None, (dc, da, db, ctypes.c_int(COUNT))))
    fails("hipErrorIllegalAddress", hip.hipStreamSynchronize(stream))
    fails("hipErrorIllegalAddress", hip.hipDeviceSynchronize())
    for event in (start, stop, fork, join):
        check(hip.hipEventDestroy(event))
    check(hip.hipStreamDestroy(stream))
    fails("hipErrorInvalidHandle", hip.hipStreamDestroy(stream))
    check(hip.hipModuleUnload(module))
    fails("hipErrorInvalidHandle", hip.hipModuleLaunchKernel(kernel, *GRID, *BLOCK, 0, None, None, (da, da, db, ctypes.c_int(1))))
    check(hip.hipDeviceReset())
    check(hip.hipDeviceSynchronize())


def main(paths: list[str]) -> None:
    assert check(hip.hipGetDeviceCount()) == len(paths)
    fails("hipErrorInvalidDevice", hip.hipSetDevice(len(paths)))
    for index, path in enumerate(paths):
        check(hip.hipSetDevice(index))
        properties(index, path.rpartition("_")[2].removesuffix(".co"))
        launches(path)
        if len(paths) > 1:
            fails("hipErrorNoBinaryForGpu", hip.hipModuleLoad(paths[1 - index].encode()))
    try:
        hip.hipIpcGetMemHandle(None)
        raise AssertionError("a call that is not there was made")
    except RuntimeError as error:
        assert "hipIpcGetMemHandle" in str(error)
    from hip import hiprtc

    try:
        hiprtc.hiprtcCreateProgram(b"", b"x.hip", 0, None, None)
        raise AssertionError("hiprtc was called")
    except RuntimeError as error:
        assert "hiprtcCreateProgram" in str(error)
    print("all of it")


main(sys.argv[1:])
