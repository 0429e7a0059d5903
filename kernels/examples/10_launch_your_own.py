"""Launch assembly of your own from Python, on a GPU or on the emulator: the same lines for both.

    python kernels/examples/10_launch_your_own.py [--device emulator|hip] [--arch gfx950|gfx942]
    asmgen hip-emulator python kernels/examples/10_launch_your_own.py --device hip     # hip-python without a GPU
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import asmgen as ag


def main(kind: str, arch: str) -> None:
    """Scales 1000 numbers, first through numpy arrays, then in device buffers on a stream."""
    code = ag.CodeObject.load(ag.assemble(Path(__file__).with_name("10_scale.s").read_text(), arch))
    scale = code.kernel("scale")
    x = np.arange(1000, dtype=np.float32)
    y = np.zeros_like(x)
    grid, block = (-(-x.size // 64), 1, 1), (64, 1, 1)
    with ag.choose_device(kind, arch, lambda: ag.EmulatedDevice(arch)).device as device:
        scale.launch(device, grid, block, {"x": x, "y": y, "f": 0.5, "n": x.size})  # launches move arrays to the device and back
        assert (y == 0.5 * x).all()

        source, target = device.upload(x), device.upload(y)
        with device.stream() as stream:
            for factor in (2.0, 3.0):  # only what changes is packed again
                scale.launch(device, grid, block, (source, target, factor, x.size), stream=stream)
            device.read_async(y, target, stream)
        assert (y == 3 * x).all()
        print(f"scale ran on {kind} ({device.arch}): y = 3 x")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--device", choices=["emulator", "hip"], default="emulator")
    parser.add_argument("--arch", choices=["gfx950", "gfx942"], default="gfx950")
    given = parser.parse_args()
    main(given.device, given.arch)
