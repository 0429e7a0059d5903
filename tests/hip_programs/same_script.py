"""One script for --device hip and --device emulator: prints the same on both. Arguments: the device, the architecture, a code object."""

from __future__ import annotations

import hashlib
import sys

import numpy as np

from asmgen.codeobject.load import CodeObject
from asmgen.isa.errors import AsmgenError
from asmgen.launch.emulated import EmulatedDevice
from asmgen.launch.hip import choose_device


class Tensor:
    """Speaks DLPack through a numpy array, on the host."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def main(kind: str, arch: str, path: str) -> None:
    code = CodeObject.load(path)
    kernel = code.kernel("vector_add")
    choice = choose_device(kind, arch, lambda: EmulatedDevice(arch))
    rng = np.random.default_rng(3)
    count = 1000
    a, b = (rng.standard_normal(count).astype(np.float32) for _ in range(2))
    with choice.device as device:
        print(device.arch)
        o = np.zeros(count, np.float32)
        kernel.launch(device, (4, 1, 1), (256, 1, 1), (o, a, b, count))
        print("arrays", np.array_equal(o, a + b))
        buffers = [device.upload(value) for value in (np.zeros_like(a), a, b)]
        for size in (count, 10, count):
            kernel.launch(device, (4, 1, 1), (256, 1, 1), (*buffers, np.int32(size)))
        kernel.launch(device, (4, 1, 1), (256, 1, 1), {"0": buffers[0], "1": buffers[0], "2": buffers[2], "3": 700})
        device.synchronize()
        result = device.read(buffers[0], np.float32, count)
        print("buffers", np.array_equal(result[:700], (a + b)[:700] + b[:700]), np.array_equal(result[700:], (a + b)[700:]))
        axpy = code.kernel("axpy4")
        axpy.launch(device, (1, 1, 1), (256, 1, 1), [*buffers, 0.5, count])
        print("f32", hashlib.sha256(device.read(buffers[0], np.float32, count).tobytes()).hexdigest()[:16])
        back = np.zeros_like(a)
        with device.stream() as stream:
            begin, end = device.event(), device.event()
            begin.record(stream)
            device.write_async(buffers[1], b, stream)
            kernel.launch(device, (4, 1, 1), (256, 1, 1), (*buffers, count), stream=stream)
            device.read_async(back, buffers[0], stream)
            end.record(stream)
            end.synchronize()
            stream.synchronize()
        print("stream", np.array_equal(back, b + b))
        wrong = [
            ((*buffers,), "too few"), ((*buffers, count, 1), "too many"),
            ((buffers[0], 1.0, buffers[2], count), "float for pointer"), ((*buffers, buffers[0]), "buffer for number"),
            ({"0": buffers[0], "x": 1}, "names"), ((*buffers, 1 << 40), "range"),
        ]
        for values, what in wrong:
            try:
                kernel.launch(device, (4, 1, 1), (256, 1, 1), values)
                print(what, "was accepted")
            except AsmgenError as error:
                print(what, "|", error)
        for grid, block, lds in (((0, 1, 1), (256, 1, 1), 0), ((1, 1, 1), (512, 1, 1), 0), ((1, 1, 1), (256, 1, 1), 1 << 20)):
            try:
                kernel.launch(device, grid, block, (*buffers, count), lds)
                print(grid, block, lds, "was accepted")
            except AsmgenError as error:
                print(error)
        device.free(buffers[1])
        try:
            kernel.launch(device, (4, 1, 1), (256, 1, 1), (*buffers, count))
            print("a freed buffer was accepted")
        except AsmgenError:
            print("a freed buffer is refused")


main(*sys.argv[1:])
