"""Host cost of a launch that was launched before: argument packing and the call through hip-python, without the runtime behind it.

A process of its own loads the unpatched hip-python with a runtime library whose hipModuleLaunchKernel returns at once. At most 10 us
(median) are allowed where nothing, a number or a buffer changes between launches.
"""

from __future__ import annotations

import subprocess
import sys

LIMIT = 10.0  # us
_SCRIPT = """
import statistics, sys, time
import numpy as np
from asmgen.codeobject.load import CodeObject
from asmgen.codeobject.metadata import arguments
from asmgen.kernels.registry import family
from asmgen.launch.hip import HipDevice
from asmgen.toolchain import assemble

runs = int(sys.argv[1])
text = family("gemm-bf16").build("gfx950").text()
kernel = CodeObject.load(assemble(text, "gfx950")).kernel()

class Tensor:  # what a tensor of PyTorch on ROCm shows
    dtype, shape = "torch.bfloat16", (128, 128)
    class device:
        type, index = "cuda", 0
    def __init__(self, buffer): self.buffer = buffer
    def data_ptr(self): return self.buffer.address
    def stride(self): return (128, 1)
    def element_size(self): return 2

with HipDevice("gfx950") as device:
    a, b, d, other = (device.allocate(1 << 16) for _ in range(4))
    rest = (128, 128, 128, 128, 128, 128, 1.0, 0.0, 128, other, other, 0, 0, 0, 0)
    grid, block = (1, 1, 1), (256, 1, 1)
    tensors = [Tensor(buffer) for buffer in (a, b, d)]
    cases = {
        "nothing changes": lambda n: (a, b, d, *rest),
        "one buffer and one number change": lambda n: (a, (b, other)[n & 1], d, n, *rest[1:]),
        "tensors": lambda n: (*tensors, *rest),
        "all change, by name": lambda n: dict(zip("abd", ((a, b, d), (b, d, a))[n & 1]), m=n, n=n, k=n, lda=n, ldb=n, ldd=n,
                                             alpha=1.0, beta=0.0, ldc=n, c=other, bias=other, a_stride_batch=n, b_stride_batch=n,
                                             d_stride_batch=n, c_stride_batch=n),
    }
    for name, values in cases.items():
        times = []
        for number in range(runs):
            given = values(number)
            began = time.perf_counter()
            kernel.launch(device, grid, block, given)
            times.append((time.perf_counter() - began) * 1e6)
        print(f"{statistics.median(times):.2f} {statistics.quantiles(times, n=10)[-1]:.2f} {name}")
"""


def main(runs: int = 20000) -> bool:
    """Prints median and 90th percentile; True where the median misses the limit."""
    from asmgen.launch.hipemulator.command import environment

    variables = environment(["gfx950"], idle=frozenset({"hipModuleLaunchKernel"}))
    done = subprocess.run([sys.executable, "-c", _SCRIPT, str(runs)], env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    print("host cost of a cached launch, us")
    missed = False
    for line in done.stdout.splitlines():
        median, tail, name = line.split(maxsplit=2)
        print(f"  {name:34} median {median:>6}   90 % below {tail:>6}")
        missed |= runs >= 1000 and float(median) > LIMIT
    return missed


if __name__ == "__main__":
    sys.exit(main())
