"""Random launches of attention-forward and attention-backward against float64: `python -m tests.random_attention [COUNT] [SEED] [FIRST]`.

Sizes 1 to 700, groups of 1 to 8 heads, masks, windows, sequences of lengths of their own with empty ones, padding, sinks, dropout, both
types, strides, three orders of waves. Ordered gradients are launched in all three orders and must have the same bits. All checks are on,
and what is not written must stay as it was.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import RunReport, run_kernel

ORDERS = ("lockstep", "serial", "random:5")
BUILDS, SHAPES = 40, 5
"""Different builds, and the shapes that one has in turn: a build takes a second or more, and a run of a small shape much less."""


def drawn_build(random: np.random.Generator) -> dict[str, Any]:
    """Family, architecture and build parameters of one kernel."""
    backward = random.random() < 0.5
    mask = [{}, {"causal": True}, {"window": True}, {"causal": True, "window": True}][int(random.integers(4))]
    varlen = random.random() < 0.4
    build: dict[str, Any] = {"dtype": str(random.choice(["bf16", "f16"])), "d": int(random.choice([64, 128])), **mask, "varlen": varlen,
                             "padded": bool(varlen and random.random() < 0.3), "sink": bool(random.random() < 0.3),
                             "dropout": bool(random.random() < 0.3)}
    build["rng_state"] = bool(build["dropout"] and random.random() < 0.5)
    if backward:
        build["dq"] = "ordered" if random.random() < 0.5 else "atomic"
        arch = str(random.choice(["gfx942", "gfx950"]))
        if arch == "gfx942":
            build["rounding"] = str(random.choice(["nearest", "truncated"]))
        build["dq_type"] = "bf16" if build["dq"] == "atomic" and random.random() < 0.3 else "f32"
        if arch == "gfx950" and build["d"] == 128 and not build["dropout"]:
            build["waves"] = int(random.choice([8, 4]))
        return {"family": "attention-backward", "arch": arch, **build}
    arch = str(random.choice(["gfx942", "gfx950"]))
    build |= {"lse": bool(random.random() < 0.6), "scale": str(random.choice(["exact", "exact", "folded"])),
              "rescale": str(random.choice(["lazy", "lazy", "eager"]))}
    if arch == "gfx950" and not build["dropout"]:
        build["waves"] = int(random.choice([8, 4]))
    return {"family": "attention-forward", "arch": arch, **build}


def drawn_shape(random: np.random.Generator, build: dict[str, Any]) -> dict[str, Any]:
    """Run parameters that fit a build: mostly small ones, some long in one direction."""
    most = [(60, 60), (200, 200), (60, 700), (700, 60)][int(random.choice(4, p=[0.5, 0.3, 0.1, 0.1]))]
    sq, sk = (int(random.integers(1, one + 1)) for one in most)
    group, hkv = int(random.integers(1, 9)) if max(most) < 100 else int(random.integers(1, 3)), int(random.integers(1, 3))
    b = int(random.integers(1, 7)) if build["varlen"] else int(random.integers(1, 3))
    shape: dict[str, Any] = {"b": b, "hq": group * hkv, "hkv": hkv, "sq": sq, "sk": sk}
    if build["varlen"]:
        for name, rows in (("max_sq", sq), ("max_sk", sk)):
            shape[name] = int(random.integers(-(-rows // b), rows + 1))
    if build.get("window"):
        shape["left"] = int(random.choice([-1, 0, 5, 90, 300]))
        shape["right"] = -1 if build.get("causal") else int(random.choice([-1, 0, 5, 90, 300]))
    if build["dropout"]:
        shape |= {"p": float(random.choice([0.0, 0.1, 0.5, 0.9])), **{name: int(random.integers(1 << 62)) for name in ("seed", "offset")}}
    for name in "qkv":
        heads = shape["hq" if name == "q" else "hkv"]
        if random.random() < 0.4:
            shape[f"{name}_stride_s"] = heads * build["d"] + 8 * int(random.integers(0, 5))
    if random.random() < 0.3:
        shape["softmax_scale"] = float(random.choice([0.02, 0.3, 1.0]))
    return shape


@cache
def built(key: tuple[tuple[str, Any], ...]) -> Built:
    """One build, kept."""
    build = dict(key)
    return build_kernel(family(str(build.pop("family"))), str(build.pop("arch")), build)


def launched(build: dict[str, Any], shape: dict[str, Any], order: str, seed: int) -> RunReport:
    """One launch."""
    one, library = built(tuple(build.items())), family(str(build["family"]))
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    return run_kernel(library, one, parameters, "emulator", seed, Options(order=order, count_banks=True), program=one.kernel.program)


def faults(number: int, seed: int) -> str:
    """What is wrong with case `number`, "" if nothing is."""
    build = drawn_build(np.random.default_rng([seed, number % BUILDS]))
    random = np.random.default_rng([seed, BUILDS + number])
    shape = drawn_shape(random, build)
    orders = ORDERS if build.get("dq") == "ordered" else (ORDERS[number % len(ORDERS)],)
    try:
        reports = [launched(build, shape, order, number) for order in orders]
    except ContractError as error:
        return f"{build} {shape}: {error.sentence}"
    wrong = [order for order, report in zip(orders, reports, strict=True) if not report.passed or report.findings]
    if wrong or len({report.digest for report in reports}) > 1:
        worst = max(report.worst for report in reports)
        return f"{build} {shape}: wrong in {wrong}, {worst:.3g} of the bound, {len({report.digest for report in reports})} digests"
    return ""


def case(place: int) -> int:
    """The number of the case at a place of the order in which they run: those of a build stand together."""
    rounds, inside = divmod(place, BUILDS * SHAPES)
    build, shape = divmod(inside, SHAPES)
    return rounds * BUILDS * SHAPES + shape * BUILDS + build


def main(arguments: list[str]) -> int:
    """Run COUNT cases from place FIRST on and say which are wrong."""
    count, seed, first = (int(arguments[place]) if len(arguments) > place else usual for place, usual in ((0, 200), (1, 1), (2, 0)))
    found = 0
    for done in range(count):
        fault = faults(case(first + done), seed)
        if (first + done + 1) % SHAPES == 0:
            built.cache_clear()
        if fault:
            found += 1
            print(f"case {case(first + done)}: {fault}", flush=True)
        if (done + 1) % 20 == 0:
            print(f"{done + 1} of {count} cases, {found} wrong", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
