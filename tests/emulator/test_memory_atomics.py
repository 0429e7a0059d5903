"""Atomics of device memory against Python integers, lane after lane."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.isa.registers import Reg, s, v
from asmgen.isa.table import names
from tests.atomic_reference import changed, moderate
from tests.emulator_harness import new_machine
from tests.vmem_bench import SIZE, WAVES, Bench

pytestmark = pytest.mark.usefixtures("both_paths")
ATOMICS = [name for name in names() if "_atomic_" in name and name.startswith(("buffer", "global", "flat"))]


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("crowd", [1, 64])
@pytest.mark.parametrize("name", ATOMICS)
def test_atomics(name: str, crowd: int, returns: bool) -> None:
    """Wave by wave, lane by lane; compare-and-swap takes the new value first, then the one to compare with."""
    bench = Bench(seed=len(name))
    operation, kind = parts_of(name)
    size = int(kind.lstrip("uibf")) // 8
    count = size // 4
    compares = operation == "cmpst"
    rng = np.random.default_rng([crowd, *name.encode()])
    place = size * rng.permuted(np.resize(np.arange(64), (WAVES, 64)), axis=1) if crowd == 1 else size * rng.integers(0, 3, (WAVES, 64))
    fill(bench, operation, kind, rng)
    bench.machine.vector[2], bench.machine.vector[3] = (bench.start + place) & 0xFFFFFFFF, (bench.start + place) >> 32
    bench.machine.vector[4] = place
    if compares:
        low = bench.machine.vector[14:14 + count].copy()
        bench.machine.vector[10 + count:10 + 2 * count] = low
    bench.model()
    target = 10 if name.startswith("buffer") else 20
    for wave, lane in bench.lanes():
        at = int(place[wave, lane]) + 16
        if name.startswith("buffer") and at + size > 400:
            if returns:
                bench.put(target, wave, lane, 0, count)
            continue
        old = bench.load(at, size)
        x, y = bench.word(10, wave, lane, count), bench.word(10 + count, wave, lane, count)
        bench.store(at, changed(operation, kind, old, *((y, x) if compares else (x, y))), size)
        if returns:
            bench.put(target, wave, lane, old, count)
    data = v[10:9 + count * (1 + compares)]

    def emit(k: Builder) -> None:
        chosen = {"sc0": True} if returns else {}
        result: list[Reg] = [v[20:19 + count]] if returns else []
        if name.startswith("buffer"):
            k.emit(name, data, v[4], s[4:7], 0, offen=True, offset=16, **chosen)
        elif name.startswith("global"):
            k.emit(name, *result, v[4], data, s[4:5], offset=16, **chosen)
        else:
            k.emit(name, *result, v[2:3], data, offset=16, **chosen)

    sgprs = bench.descriptor(400)
    bench.compare(bench.run(emit, sgprs=sgprs))


def parts_of(name: str) -> tuple[str, str]:
    """Operation and type in LDS's words: ("max", "i64") of global_atomic_smax_x2."""
    wide = name.endswith("_x2")
    operation = name.split("_atomic_")[1].removesuffix("_x2")
    if operation.startswith("pk"):
        return operation, "b32"
    operation, _, kind = operation.partition("_f")
    if kind:
        return operation, f"f{kind}"
    sign = "i" if operation in ("smin", "smax") else "u"
    plain = {"smin": "min", "smax": "max", "umin": "min", "umax": "max", "swap": "wrxchg", "cmpswap": "cmpst"}.get(operation, operation)
    return plain, sign + ("64" if wide else "32")


def fill(bench: Bench, operation: str, kind: str, rng: np.random.Generator) -> None:
    """Suitable data in memory and registers: LDS's test knows how."""
    helper = new_machine("gfx950", 4, 1, SIZE)
    helper.lds[:] = rng.integers(0, 256, len(helper.lds), dtype=np.uint8)
    helper.vector[:64] = rng.integers(0, 1 << 32, (64, 4, 64), dtype=np.uint32)
    moderate(helper, operation, kind, rng)
    bench.memory.view(bench.start, SIZE)[:] = helper.lds[:SIZE]
    bench.machine.vector[:64] = helper.vector[:64, :WAVES]
