"""HipDevice through hip-python: several GPUs, streams, capture, faults, unloading. Arguments: code objects for gfx942 and gfx950."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from hip import hip

from asmgen.codeobject.load import CodeObject
from asmgen.launch.device import DeviceError
from asmgen.launch.hip import HipDevice, hip_available

COUNT = 600
SIZES = ((3, 1, 1), (256, 1, 1))


def refused(call: Callable[[], Any], *parts: str) -> None:
    try:
        call()
    except DeviceError as error:
        assert all(part in error.sentence for part in parts), (parts, error.sentence)
        return
    raise AssertionError(f"was accepted, {parts} was expected")


def main(older: str, newer: str) -> None:
    assert hip_available()[1] == "GPU 0: asmgen emulator of gfx942 (gfx942), GPU 1: asmgen emulator of gfx950 (gfx950)"
    codes = {"gfx942": CodeObject.load(older), "gfx950": CodeObject.load(newer)}
    refused(lambda: HipDevice("gfx942", index=1), "no GPU here is gfx942 and has the number 1")
    data = np.arange(COUNT, dtype=np.float32)
    with HipDevice("gfx950") as device, HipDevice(index=0) as other:
        assert (device.gpu.index, other.arch, device.is_emulated) == (1, "gfx942", True)
        refused(lambda: other.load(codes["gfx950"]), "the code object is for gfx950, but", "is gfx942", "GPU 1 is gfx950")
        assert other.load(codes["gfx950"], codes["gfx942"]).kernel("vector_add").facts is not None
        results = []
        for one in (device, other, device):  # calls of several GPUs mixed
            kernel = codes[one.arch].kernel("vector_add")
            o, a, b = one.upload(data * 0), one.upload(data), one.upload(data)
            kernel.launch(one, *SIZES, (o, a, b, COUNT))
            results.append((one, o))
        for one, o in results:
            assert np.array_equal(one.read(o, np.float32, COUNT), 2 * data)
        foreign = results[1][1]
        refused(lambda: codes["gfx950"].kernel("vector_add").launch(device, *SIZES, (foreign, foreign, foreign, 1)),
                "argument 0 of vector_add", "does not hold")

        # nothing in a launch breaks a capture
        kernel, (o, a) = codes["gfx950"].kernel("vector_add"), (device.upload(data), device.upload(data))
        kernel.launch(device, *SIZES, (o, o, a, 0))  # loads the code object
        stream = device.stream()
        device.choose()
        assert hip.hipStreamBeginCapture(stream.handle, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal)[0] == 0
        kernel.launch(device, *SIZES, (o, o, a, COUNT), stream=stream)
        kernel.launch(device, *SIZES, {"0": o, "1": o, "2": a, "3": 10}, stream=stream)
        code, graph = hip.hipStreamEndCapture(stream.handle)
        assert code == 0, code
        assert np.array_equal(device.read(o, np.float32, COUNT), data)
        executable = hip.hipGraphInstantiateWithFlags(graph, 0)[1]
        for _ in range(2):
            assert hip.hipGraphLaunch(executable, stream.handle)[0] == 0
        stream.synchronize()
        assert np.array_equal(device.read(o, np.float32, COUNT), np.where(np.arange(COUNT) < 10, 5, 3) * data)
        stream.close()
        refused(lambda: kernel.launch(device, *SIZES, (o, o, a, COUNT), stream=stream), "the stream has been closed")

        # unloading, memory, faults
        module = device.load(codes["gfx950"])
        loaded = module.kernel("vector_add")
        module.unload()
        refused(lambda: device.launch(loaded, *SIZES, bytes(28)), "has been unloaded")
        refused(lambda: device.allocate(1 << 50), "hipMalloc(", "hipErrorOutOfMemory (2)", "ask for a smaller shape")
        begin, end = device.event(), device.event()
        refused(lambda: end.milliseconds_since(begin), "hipEventElapsedTime", "hipErrorInvalidHandle")
        kernel.launch(device, *SIZES, (o, 4096, a, COUNT))
        refused(device.synchronize, "hipDeviceSynchronize() failed with hipErrorIllegalAddress (700) after vector_add was launched",
                "--device emulator")
        other.synchronize()  # has no part in it
        refused(lambda: kernel.launch(device, *SIZES, (o, o, a, COUNT)), "hipModuleLaunchKernel(vector_add", "hipErrorIllegalAddress")
    print("all of it")


main(*sys.argv[1:])
