"""LDS atomics, exchanges and counters against Python integers, lane after lane."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.isa.registers import v
from asmgen.isa.table import names
from tests.atomic_reference import changed, moderate
from tests.lds_model import EXEC_MASK, LDS_BYTES, WAVES, Model, addresses, execute, machine_with

pytestmark = pytest.mark.usefixtures("both_paths")
OTHERS = ("read", "write", "gws", "permute", "swizzle", "nop", "append", "consume", "wrxchg2")
ATOMICS = [name for name in names() if name.startswith("ds_") and not any(part in name for part in OTHERS)]


def parse(name: str) -> tuple[str, str, bool]:
    parts = name.split("_")[1:]
    returns = "rtn" in parts
    parts = [part for part in parts if part != "rtn"]
    return ("_".join(parts), "b32", returns) if parts[0] == "pk" else (parts[0], parts[-1], returns)


@pytest.mark.parametrize("crowd", [1, 7, 64])
@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_in_lane_order(name: str, crowd: int) -> None:
    """`crowd` lanes share an address; special values are among the floats; every returned value is the one before the lane's turn."""
    operation, kind, returns = parse(name)
    size = int(kind.lstrip("uibf")) // 8
    machine = machine_with(seed=len(name))
    rng = np.random.default_rng([crowd, *name.encode()])
    machine.vector[2] = size * rng.integers(0, -(-64 // crowd), (WAVES, 64)) + 64 if crowd > 1 else size * rng.permutation(64) + 64
    machine.vector[2, :, 1] = LDS_BYTES - 8
    moderate(machine, operation, kind, rng)
    model, count = Model(machine, EXEC_MASK), size // 4
    data = {"data0": 10, "data1": 14}
    two = operation in ("cmpst", "mskor", "wrap")
    for wave, lane, lds in model.lanes():
        at = model.word(2, wave, lane) + 16
        old = model.read(lds, at, size)
        x, y = (model.word(register, wave, lane, count) for register in data.values())
        model.write(lds, at, changed(operation, kind, old, x, y), size)
        if returns:
            model.put(20, wave, lane, old, count)
    operands = ([v[20:19 + count]] if returns else []) + [v[2], v[10:9 + count]] + ([v[14:13 + count]] if two else [])
    execute(machine, lambda k: k.emit(name, *operands, offset=16))
    model.compare(machine)


@pytest.mark.parametrize("stride", ["", "st64"])
@pytest.mark.parametrize("size", [4, 8])
def test_exchange_of_two(size: int, stride: str) -> None:
    unit, count = size * (64 if stride else 1), size // 4
    machine = machine_with()
    addresses(machine, 2, size, high=512)
    model = Model(machine, EXEC_MASK)
    found: dict[tuple[int, int, int], int] = {}
    for number, offset in enumerate((1, 3)):
        for wave, lane, lds in model.lanes():
            at = model.word(2, wave, lane) + offset * unit
            found[number, wave, lane] = model.read(lds, at, size)
            model.write(lds, at, model.word(10 + 4 * number, wave, lane, count), size)
    for (number, wave, lane), old in found.items():
        model.put(10 + number * count, wave, lane, old, count)
    # The result lies over the data of both exchanges.
    name = f"ds_wrxchg2{stride}_rtn_b{8 * size}"
    execute(machine, lambda k: k.emit(name, v[10:9 + 2 * count], v[2], v[10:9 + count], v[14:13 + count], offset0=1, offset1=3))
    model.compare(machine)


def test_append_and_consume() -> None:
    machine = machine_with()
    model = Model(machine, EXEC_MASK)
    active = EXEC_MASK.bit_count()
    for name, register in (("append", 10), ("consume", 11)):
        for wave in range(WAVES):
            lds = model.lds[wave // 2]
            old = model.read(lds, 0x48, 4)
            model.write(lds, 0x48, old + (active if name == "append" else -active), 4)
            for lane in range(64):
                if EXEC_MASK >> lane & 1:
                    model.registers[register, wave, lane] = old

    def both(k: Builder) -> None:
        k.ds_append(v[10], offset=8)
        k.ds_consume(v[11], offset=8)

    execute(machine, both, m0=0x7_0040)
    model.compare(machine)
