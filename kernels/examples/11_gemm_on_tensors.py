"""Call a GEMM of the library on tensors: PyTorch's where it is installed, numpy arrays on the emulator else.

    python kernels/examples/11_gemm_on_tensors.py
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels import gemm


def tensors(m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    """A, the weights B as torch.nn.Linear holds them, and where the product runs: on their GPU (None) or on the emulator."""
    if find_spec("torch") is not None:
        import torch

        where = "cuda" if torch.cuda.is_available() and torch.version.hip else "cpu"
        a, b = (torch.randn(rows, k, dtype=torch.bfloat16, device=where) for rows in (m, n))
        return a, b, None if where == "cuda" else ag.EmulatedDevice("gfx950")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    return a, b, ag.EmulatedDevice("gfx950")


def main() -> None:
    """[200, 128] times [150, 128] transposed. The first call builds the kernel, or finds it in the cache folder."""
    a, b, device = tensors(200, 150, 128)
    d = gemm.bf16(a, b, device=device)
    wide = [np.asarray(matrix.float().cpu() if hasattr(matrix, "float") else matrix, np.float64) for matrix in (a, b, d)]
    error = np.abs(wide[2] - wide[0] @ wide[1].T).max()
    print(f"gemm.bf16 of {list(a.shape)} and {list(b.shape)}: largest error {error:.3f}")
    assert error < 0.5


if __name__ == "__main__":
    main()
