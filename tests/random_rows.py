"""Random launches of row kernels against their references: `python -m tests.random_rows [COUNT] [SEED]`.

Families norm, norm-backward, softmax, activation, rope and quantize in turn, both architectures, all types, odd columns, strides, one row
and more, and the three orders of waves. In even seeds rows hold NaN and infinities, and memory that no kernel may read is NaN.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.tools.build import Built, build_kernel
from asmgen.tools.runner import run_kernel

ORDERS = ("lockstep", "serial", "random:5")
TYPES = ("bf16", "f16", "f32")
ARCHS = ("gfx950", "gfx942")
FAMILIES = ("norm", "norm-backward", "softmax", "activation", "rope", "quantize")
_LONGEST = 6000
Draw = np.random.Generator


def pick(random: Draw, *values: Any) -> Any:
    """One of the values."""
    return values[int(random.integers(len(values)))]


def drawn_columns(random: Draw) -> int:
    """Few or many, as a rule odd."""
    return int(pick(random, random.integers(1, 140), random.integers(1, 1100), random.integers(1000, _LONGEST)))


def drawn_build(random: Draw, name: str, arch: str) -> dict[str, Any]:
    """Build parameters that fit together."""
    dtype, columns = pick(random, *TYPES), drawn_columns(random)
    yes = [bool(random.random() < 0.5) for _ in range(4)]
    if name == "rope":
        d = 8 * int(random.integers(1, 17))
        return {"d": d, "rotated": pick(random, 0, 8 * int(random.integers(1, d // 8 + 1))), "style": pick(random, "neox", "gptj"),
                "positions": pick(random, "none", "given"), "second": yes[0], "backward": yes[1], "dtype": dtype,
                "table": pick(random, *TYPES)}
    if name == "quantize":
        to = pick(random, "fp8", "bf8", "int8", *(("mxfp8", "mxbf8", "mxfp6", "mxbf6", "mxfp4") if arch == "gfx950" else ()))
        blocks = to.startswith("mx")
        return {"columns": columns, "from": dtype, "to": to, "smooth": yes[0],
                "group": "32" if blocks else pick(random, "token", "tensor", "128"),
                "rounding": pick(random, "even", "floor", "up") if blocks else "even",
                "layout": pick(random, "plain", "shuffled") if blocks else "plain"}
    build: dict[str, Any] = {"columns": columns, "dtype": dtype}
    if name == "norm":
        return build | {"kind": pick(random, "layer", "rms"), "residual": yes[0], "dropout": yes[1], "bias": yes[2],
                        "rounds": pick(random, 7, 10), "save": "stats" if yes[3] else "none", "out": pick(random, *TYPES, "fp8"),
                        "access": pick(random, "wide", "element")}
    if name == "norm-backward":
        return build | {"kind": pick(random, "layer", "rms"), "residual": yes[0], "bias": yes[1]}
    if name == "softmax":
        mask = "none" if yes[1] else pick(random, "none", "causal", "length")
        return build | {"log": yes[0], "backward": yes[1], "mask": mask, "out": pick(random, *TYPES),
                        "access": pick(random, "wide", "element")}
    kind = pick(random, "silu", "gelu", "swiglu")
    return build | {"kind": kind, "gated": yes[0] or kind == "swiglu", "backward": yes[1],
                    "approximate": pick(random, "none", "tanh") if kind == "gelu" else "none"}


def drawn_shape(random: Draw, name: str, build: dict[str, Any]) -> dict[str, Any]:
    """Run parameters that fit a build."""
    if name == "rope":
        shape = {"b": int(random.integers(1, 4)), "s": int(random.integers(1, 40)), "h": int(random.integers(1, 9))}
        if random.random() < 0.4:  # heads before tokens
            shape |= {"x_stride_h": shape["s"] * build["d"], "x_stride_s": build["d"], "x_stride_b": shape["s"] * shape["h"] * build["d"]}
        return shape
    shape = {"rows": int(pick(random, 1, random.integers(1, 9), random.integers(1, 70)))}
    if build["columns"] > 1000:
        shape["rows"] = min(shape["rows"], 9)
    if random.random() < 0.5:
        shape["each"] = int(random.integers(1, 4))
    if random.random() < 0.5:
        first = "y" if build.get("backward") and name == "softmax" else "x"
        shape[f"{first}_stride"] = build["columns"] + build["columns"] % 2 + 2 * int(random.integers(0, 9))
    if name == "norm" and build["dropout"]:
        shape |= {"p": float(random.random()) * 0.9, "seed": int(random.integers(1 << 60)), "offset": int(random.integers(1 << 60))}
    return shape


@cache
def built(name: str, arch: str, build: tuple[tuple[str, Any], ...]) -> Built:
    """A kernel, built once."""
    return build_kernel(family(name), arch, dict(build))


def check(name: str, arch: str, build: dict[str, Any], shape: dict[str, Any], order: str, seed: int) -> str:
    """What is wrong with one run, nothing if all is right. Raises ContractError for what the family does not offer."""
    parameters = family(name).contract(arch, build).resolve_run({**build, **shape})
    report = run_kernel(family(name), built(name, arch, tuple(build.items())), parameters, "emulator", seed=seed,
                        options=Options(order=order, count_banks=True))
    wrong = {"result": not report.passed, "other bytes": not report.untouched, "findings": report.findings != (),
             "bank conflicts": report.bank_conflicts != 0}
    return ", ".join(one for one, is_so in wrong.items() if is_so)


def main(count: int, seed: int) -> int:
    """Run so many launches; the number of wrong ones. What a family does not offer is drawn again."""
    random = np.random.default_rng(seed)
    failures = again = number = 0
    while number < count:
        name, arch, order = FAMILIES[number % len(FAMILIES)], ARCHS[number // len(FAMILIES) % 2], ORDERS[number // 7 % len(ORDERS)]
        build = drawn_build(random, name, arch)
        shape = drawn_shape(random, name, build)
        try:
            wrong = check(name, arch, build, shape, order, number)
        except ContractError:
            again += 1
            continue
        if wrong:
            failures += 1
            print(f"{name} {arch} {build} {shape} {order} seed {number}: {wrong}", flush=True)
        number += 1
    print(f"{count} launches, {failures} wrong; {again} draws were not offered")
    return failures


if __name__ == "__main__":
    sys.exit(1 if main(*(int(one) for one in (*sys.argv[1:], *("300", "0")[len(sys.argv) - 1:]))) else 0)
