"""Two kernels launched as one on a stream of hip-python: whether d is what it must be, with a workspace of garbage and with zeros."""

from __future__ import annotations

import numpy as np

from asmgen.launch.hip import HipDevice
from tests.launch.test_launch_list import N, X, in_parts

found = []
with HipDevice() as device, device.stream() as stream:
    for zeroed in (False, True):
        x, d = device.upload(X), device.upload(np.zeros(N, np.float32))
        in_parts(again=1, zeroed=zeroed).start(device, {"x": x, "d": d, "more": 0.25}, stream)
        stream.synchronize()
        found.append(bool((device.read(d, np.float32, N) == 4 * X + 0.5).all()))
print(*found)
