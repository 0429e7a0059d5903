"""Runs benchmarks: `python -m benchmarks [--quick] [NAME ...]`, all of them where none is named.

`--quick` runs each on the smallest size that goes through all of its code: its figures mean nothing, it shows that the benchmark runs.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

QUICK: dict[str, tuple[Any, ...]] = {
    "attention_forms": (512,),
    "article_products": (0,),
    "build": (1,),
    "choice_rule": ("gemm-bf16", "MI355X", "16x64x64"),
    "definedness": (1, 1, 128, 2),
    "emulator": (1, 1, 128, 2),
    "evidence": (),
    "facts": (2,),
    "few_rows": ("gemm-bf16", "MI355X", 2),
    "formats": (1, 1),
    "gemm": (64, 64, 64, 1),
    "launch": (50,),
    "lint": (1, 4),
    "lone_wave": (2,),
    "memory_loops": (8, 1),
    "mfma_loop": (8, 1),
    "peek": (200, 20, 1),
    "profile_kernel": (["gemm-bf16:gfx950"], 0.02, 128),
    "reader": (200,),
    "vector_loop": (1,),
}
"""Arguments of each benchmark's `main` for a quick run."""
FULL: dict[str, tuple[Any, ...]] = {"profile_kernel": (["gemm-bf16:gfx950", "--no-checks"],)}
"""Arguments where a full run cannot do without."""


def run(name: str, quick: bool) -> None:
    """One benchmark. Raises SystemExit where a full run does not reach what it asks for, or the name is unknown."""
    if name not in QUICK:
        raise SystemExit(f"there is no benchmark {name!r}; there are {', '.join(QUICK)}")
    print(f"== {name}", flush=True)
    missed = importlib.import_module(f"benchmarks.{name}").main(*(QUICK[name] if quick else FULL.get(name, ())))
    if missed and not quick:
        raise SystemExit(f"{name} missed its limit")


def main(arguments: list[str]) -> None:
    """Run those that are named, or all."""
    quick = "--quick" in arguments
    for name in [argument for argument in arguments if argument != "--quick"] or QUICK:
        run(name, quick)


if __name__ == "__main__":
    main(sys.argv[1:])
