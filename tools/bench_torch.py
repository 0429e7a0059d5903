"""PyTorch's own matrix product, timed as `asmgen bench` times a kernel: what `--against torch` compares with."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from asmgen.isa.errors import AsmgenError


def torch_times(family: str, parameters: Mapping[str, Any], sets: int, warm_ups: int, runs: int) -> list[float]:
    """Milliseconds of each of `runs` products after `warm_ups` others, on `sets` pairs of matrices that take turns.

    Raises AsmgenError where PyTorch with ROCm is not there, or the kernel is none that PyTorch has a function for.
    """
    if not {"m", "n", "k"} <= parameters.keys():
        raise AsmgenError(f"PyTorch has no one function for {family}; --against torch is for matrix products")
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        raise AsmgenError("--against torch needs PyTorch built for ROCm, and no torch is installed here") from None
    if not getattr(torch.version, "hip", None) or not torch.cuda.is_available():
        raise AsmgenError(f"--against torch needs PyTorch built for ROCm with a GPU; torch {torch.__version__} here is not that")
    m, n, k = (int(parameters[name]) for name in "mnk")
    dtype = torch.float16 if parameters.get("dtype") == "f16" else torch.bfloat16
    pairs = [(torch.randn(m, k, device="cuda").to(dtype), torch.randn(n, k, device="cuda").to(dtype)) for _ in range(sets)]
    events = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(runs)]
    for number in range(-warm_ups, runs):
        a, b = pairs[number % sets]
        if number < 0:
            torch.nn.functional.linear(a, b)
            continue
        begin, end = events[number]
        begin.record()
        torch.nn.functional.linear(a, b)
        end.record()
    torch.cuda.synchronize()
    return [float(begin.elapsed_time(end)) for begin, end in events]
