"""Random calls of `gemm.matmul` against float64: `python -m tests.random_matmul [COUNT] [SEED]`.

Views of tensors that are used where they are: transposed, cut out of larger ones, with odd strides and addresses, expanded, every second
column, none of an edge; batches that broadcast; bias, C, scales, all types. What lies beside a view of what is read is NaN, beside that of
`out` canaries.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np

from asmgen.kernels import gemm
from asmgen.kernels import productplan as module
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tuning.candidates import candidates
from tests.drawn_cases import failed_of
from tests.launch.test_launch_values import TorchTensor

CANARY = -77.0
MOST = 300
BF16 = ml_dtypes.bfloat16
EIGHTS = {"gfx950": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2), "gfx942": (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz)}


def view(random: np.random.Generator, shape: tuple[int, ...], dtype: Any, beside: float, plain: bool = False) -> np.ndarray[Any, Any]:
    """A view of that shape into a larger array that holds `beside` elsewhere; `plain` ones have a stride of 1 and share no element."""
    *batch, rows, columns = shape
    kind = str(random.choice(["dense", "dense", "rows", "columns", "odd", *([] if plain else ["second", "expanded", "one batch"])]))
    transposed = bool(random.random() < 0.5)
    down, across = (columns, rows) if transposed else (rows, columns)
    step = 2 if kind == "second" else 1
    pads = {"dense": (0, 0), "rows": (3, 0), "columns": (0, 8), "odd": (1, int(random.integers(1, 8)))}.get(kind, (0, 0))
    whole = np.full((*batch, down + pads[0], across * step + pads[1]), beside, np.float32)
    at = tuple(int(random.integers(0, pad + 1)) if kind == "odd" else 0 for pad in pads)
    room = int(random.choice([0, 0, 1, 8])) if kind != "dense" else 0
    flat = np.full(whole.size + room, beside, np.float32).astype(dtype)
    made = flat[room:].reshape(whole.shape)[..., at[0]:at[0] + down, at[1]:at[1] + across * step:step]
    made[...] = random.standard_normal(made.shape).astype(dtype)
    made = made.swapaxes(-1, -2) if transposed else made
    if kind == "expanded":
        return np.broadcast_to(made[..., :1, :], made.shape) if rows else made
    if kind == "one batch" and batch:
        return np.broadcast_to(made[:1], made.shape) if batch[0] else made
    return made


def close(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], k: int, scale: float) -> bool:
    unit = {2: 2.0**-8 if found.dtype == BF16 else 2.0**-11, 4: 2.0**-23}[found.dtype.itemsize]
    bound = np.abs(expected) * 2 * unit + 2.0**-20 * scale * (k + 4)
    return bool((np.abs(found.astype(np.float64) - expected) <= bound).all())


@dataclass(frozen=True)
class Call:
    """The arguments of a call, and what D has to be, within `size` times the error of a product of 1."""

    arch: str
    a: np.ndarray[Any, Any]
    b: np.ndarray[Any, Any]
    out: np.ndarray[Any, Any]
    more: dict[str, Any]

    @property
    def expected(self) -> tuple[np.ndarray[Any, Any], float]:
        """D in float64, and the largest product that it adds."""
        left, right = self.a.astype(np.float64), self.b.astype(np.float64)
        if "a_scale" in self.more:
            left, right = left * self.more["a_scale"][..., :, None], right * self.more["b_scale"][..., None, :]
        found = self.more["alpha"] * (left @ right)
        if self.more.get("beta"):
            found = found + self.more["beta"] * self.more["c"].astype(np.float64)
        if "bias" in self.more:
            found = found + self.more["bias"].astype(np.float64)
        return found, float(np.abs(left).max(initial=1)) * float(np.abs(right).max(initial=1))

    def __str__(self) -> str:
        def said(one: Any) -> str:
            if not hasattr(one, "dtype"):
                return str(one)
            return f"{one.dtype}{list(one.shape)} by {[stride // one.itemsize for stride in one.strides]}"

        named = {"a": self.a, "b": self.b, "out": self.out, **self.more}
        return f"{self.arch} " + ", ".join(f"{name} {said(one)}" for name, one in named.items())


def drawn_edge(random: np.random.Generator) -> int:
    return int(random.choice([0, 1, 2, 64, 128, 200])) if random.random() < 0.3 else int(np.exp(random.uniform(0, np.log(MOST))))


def drawn_call(random: np.random.Generator) -> Call:
    """One call; D holds NaN."""
    arch = str(random.choice(["gfx950", "gfx942"]))
    eight = bool(random.random() < 0.35)
    types = [random.choice(EIGHTS[arch]) for _ in "ab"] if eight else [random.choice([BF16, np.float16])] * 2
    m, n, k = (drawn_edge(random) for _ in range(3))
    batch: tuple[int, ...] = [(), (), (), (2,), (2, 3), (0,)][int(random.integers(6))] if random.random() < 0.9 else (1, 2)
    shapes = [batch, batch]
    if batch and random.random() < 0.5:
        shapes[int(random.integers(2))] = [(), (1,) * len(batch), batch[1:]][int(random.integers(3))]
    a, b = view(random, (*shapes[0], m, k), types[0], np.nan), view(random, (*shapes[1], k, n), types[1], np.nan)
    made = np.dtype(random.choice([BF16, np.float16, np.float32]))
    out = view(random, (*batch, m, n), made, CANARY, plain=True)
    out[...] = np.full(out.shape, np.nan).astype(made)
    more: dict[str, Any] = {"alpha": float(random.choice([1.0, 1.0, -0.5]))}
    if random.random() < 0.4:
        more |= {"c": view(random, (*batch, m, n), made, np.nan), "beta": float(random.choice([0.0, 2.0]))}
    if random.random() < 0.4:
        more["bias"] = view(random, (1, n), made, np.nan)[0]
    if eight:
        for name, edge, own in (("a_scale", m, shapes[0]), ("b_scale", n, shapes[1])):
            whole = own if own == batch or all(axis == 1 for axis in own) else ()
            held = [(1,), (edge,), (*whole, edge)][int(random.integers(3))]
            flat = np.abs(view(random, (1, int(np.prod(held))), np.float32, np.nan)[0])
            more[name] = np.repeat(flat, 2)[::2].reshape(held) if random.random() < 0.5 or len(held) > 1 else flat
    return Call(arch, a, b, out, more)


def beside_is_kept(out: np.ndarray[Any, Any]) -> bool:
    """Whether all elements beside `out` are canaries still."""
    base = out
    while base.base is not None:
        base = base.base
    covered = np.zeros(base.size, bool)
    strides = [stride // out.itemsize for stride in out.strides]
    np.lib.stride_tricks.as_strided(covered[(out.ctypes.data - base.ctypes.data) // out.itemsize:], out.shape, strides)[...] = True
    return bool((base.reshape(-1)[~covered].astype(np.float64) == CANARY).all())


def failure(number: int, seed: int = 0) -> str:
    """Call it once, with any variant that serves; what is wrong, or nothing."""
    random = np.random.default_rng([seed, number, 31])
    call = drawn_call(random)
    expected, size = call.expected

    def drawn(kernel: str, arch: str, gpu: str, given: dict[str, Any]) -> Any:
        found = candidates(family(kernel), arch, given, 256)
        return found[int(random.integers(len(found)))].build

    module.product_plan.cache_clear()
    tensors = {name: TorchTensor(value) if isinstance(value, np.ndarray) else value for name, value in call.more.items()}
    tensors["invariant"] = number % 3 == 0
    with patch.object(module, "choose", drawn), EmulatedDevice(call.arch) as device:
        try:
            gemm.matmul(TorchTensor(call.a), TorchTensor(call.b), TorchTensor(call.out), **tensors, device=device)
        except gemm.TensorError as error:
            return f"case {number}: {call}: refused: {error}"
        if any(launch.findings for launch in device.launches):
            return f"case {number}: {call}: {[launch.findings for launch in device.launches]}"
    if not close(call.out, expected, call.a.shape[-1], size):
        return f"case {number}: {call}: wrong by {np.abs(call.out.astype(np.float64) - expected).max()}"
    return "" if beside_is_kept(call.out) else f"case {number}: {call}: wrote beside out"


def main(count: int, seed: int) -> int:
    """Run that many cases; returns how many failed."""
    return failed_of(failure, count, seed)


if __name__ == "__main__":
    sys.exit(min(1, main(*(int(argument) for argument in [*sys.argv[1:3], *("200", "0")[len(sys.argv) - 1:]]))))
