"""Random launches of row kernels against their references: `python -m tests.random_rows [COUNT] [FIRST] [FAMILY ...]`.

Case number N is the same in each run, so that `60 0`, `60 60` and so on are slices of `300 0`; with names, only the cases of those
families.

The families norm, norm-backward, softmax, activation, rope and quantize in turn, both architectures, all types, odd columns, strides, one
row and more, and the three orders of waves. A build that fails counts as wrong. In even seeds rows hold NaN and infinities, and memory
that no kernel may read is NaN.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family
from tests.kernels.rows_harness import Case, run, wrong

ORDERS = ("lockstep", "serial", "random:5")
TYPES = ("bf16", "f16", "f32")
ARCHS = ("gfx950", "gfx942")
FAMILIES = ("norm", "norm-backward", "softmax", "activation", "rope", "quantize")
_LONG, _LONGEST = 6000, 1 << 16
Draw = np.random.Generator


def pick(random: Draw, *values: Any) -> Any:
    """One of the values."""
    return values[int(random.integers(len(values)))]


def drawn_columns(random: Draw) -> int:
    """Few or many, as a rule odd; one in seven so many that only the variants for the longest rows, or none, take them."""
    return int(pick(random, *2 * [random.integers(1, 140)], *2 * [random.integers(1, 1100)], *2 * [random.integers(1000, _LONG)],
                    random.integers(_LONG, _LONGEST + 1)))


def drawn_build(random: Draw, name: str, arch: str) -> dict[str, Any]:
    """Build parameters that fit together."""
    dtype, columns = pick(random, *TYPES), drawn_columns(random)
    yes = [bool(random.random() < 0.5) for _ in range(4)]
    if name == "rope":
        d = 8 * int(random.integers(1, 17))
        further = {name: bool(random.random() < 0.4) for name in ("offsets", "nope_first", "computed", "varlen", "cache")}
        forward = not yes[1]
        return {"d": d, "rotated": pick(random, 0, 8 * int(random.integers(1, d // 8 + 1))), "style": pick(random, "neox", "gptj"),
                "positions": pick(random, "none", "given"), "second": yes[0], "backward": yes[1], "dtype": dtype,
                **further, "table": "f32" if further["computed"] else pick(random, *TYPES), "index": pick(random, "i32", "i64"),
                "norm": pick(random, "none", "rms") if forward else "none", "cache": further["cache"] and yes[0] and forward,
                "cache_dtype": pick(random, "auto", "fp8") if further["cache"] and yes[0] and forward else "auto"}
    if name == "quantize":
        to = pick(random, "fp8", "bf8", "int8", *(("mxfp8", "mxbf8", "mxfp6", "mxbf6", "mxfp4") if arch == "gfx950" else ()))
        blocks, both = to.startswith("mx"), random.random() < 0.3
        if both:  # where blocks must be whole
            columns, yes[0] = -(-columns // 32) * 32, False
        return {"columns": columns, "from": dtype, "to": to, "smooth": yes[0], "columnwise": both,
                "group": "32" if blocks else pick(random, "tensor", "128", *([] if both else ["token"])),
                "rounding": pick(random, "even", "floor", "up") if blocks else "even",
                "layout": pick(random, "plain", "shuffled") if blocks else "plain"}
    build: dict[str, Any] = {"columns": columns, "dtype": dtype}
    if name == "norm":
        return build | {"kind": pick(random, "layer", "rms"), "residual": yes[0], "dropout": yes[1], "bias": yes[2],
                        "rounds": pick(random, 7, 10), "save": pick(random, "mask", "stats") if yes[3] else "none",
                        "out": pick(random, *TYPES, "fp8", "mxfp8", "mxfp4"), "layout": pick(random, "plain", "plain", "shuffled"),
                        "rounding": pick(random, "even", "even", "floor", "up"), "access": pick(random, "wide", "element")}
    if name == "norm-backward":
        return build | {"kind": pick(random, "layer", "rms"), "residual": yes[0], "bias": yes[1], "dropout": yes[2],
                        "dresidual": yes[2] and yes[3], "rounds": pick(random, 7, 10)}
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
        if build["second"]:
            shape["h2"] = int(random.integers(1, 9))
        if build["varlen"]:
            shape |= {"s": shape["b"] * shape["s"], "max_s": int(random.integers(shape["s"], shape["b"] * shape["s"] + 1))}
        elif random.random() < 0.4:  # heads before tokens
            shape |= {"x_stride_h": shape["s"] * build["d"], "x_stride_s": build["d"], "x_stride_b": shape["s"] * shape["h"] * build["d"]}
        return shape
    shape = {"rows": int(pick(random, 1, random.integers(1, 9), random.integers(1, 70)))}
    if build["columns"] > 1000:
        shape["rows"] = min(shape["rows"], 9 if build["columns"] < _LONG else 3)
    if random.random() < 0.5:
        shape["each"] = int(random.integers(1, 4))
    if random.random() < 0.5:
        first = "y" if build.get("backward") and name == "softmax" else "x"
        shape[f"{first}_stride"] = build["columns"] + build["columns"] % 2 + 2 * int(random.integers(0, 9))
    if name in ("norm", "norm-backward") and build["dropout"]:
        shape |= {"p": float(random.random()) * 0.9, "seed": int(random.integers(1 << 60)), "offset": int(random.integers(1 << 60))}
    return shape


def drawn(number: int) -> tuple[str, Case, int]:
    """The family and the launch of case `number`, and how many draws before it were not offered."""
    random = np.random.default_rng(number)
    name, arch, order = FAMILIES[number % len(FAMILIES)], ARCHS[number // len(FAMILIES) % 2], ORDERS[number // 7 % len(ORDERS)]
    again = 0
    while True:
        build = drawn_build(random, name, arch)
        shape = drawn_shape(random, name, build)
        try:
            contract = family(name).contract(arch, build)
            contract.resolve_run({**contract.resolve_build(build), **shape})
        except ContractError:
            again += 1
            continue
        return name, (arch, build, shape, order), again


def fault(name: str, case: Case, seed: int) -> str:
    """What is wrong with a launch, that it was not built among it; nothing if all is right."""
    try:
        return wrong(run(family(name), case, seed))
    except AsmgenError as error:
        return f"not built or launched: {error}"


def main(count: int, first: int, families: Sequence[str] = FAMILIES) -> int:
    """Run so many launches from that number on, of these families; the number of wrong ones."""
    failures = again = 0
    numbers = [number for number in range(first, first + count) if FAMILIES[number % len(FAMILIES)] in families]
    for number in numbers:
        name, case, refused = drawn(number)
        again += refused
        found = fault(name, case, number)
        if found:
            failures += 1
            print(f"{number} {name} {case}: {found}", flush=True)
    print(f"{len(numbers)} launches from {first}, {failures} wrong; {again} draws were not offered")
    return failures


if __name__ == "__main__":
    slice_ = [int(one) for one in (*sys.argv[1:3], *("300", "0")[len(sys.argv[1:3]):])]
    sys.exit(1 if main(slice_[0], slice_[1], sys.argv[3:] or FAMILIES) else 0)
