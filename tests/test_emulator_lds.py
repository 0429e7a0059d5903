"""LDS instructions against a bytearray and Python integers, lane by lane: widths, transposition, crossing lanes, atomics, LDS-DMA."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from asmgen.builder import Builder
from asmgen.emulator.compiled import Work
from asmgen.emulator.memory import Memory
from asmgen.emulator.state import Machine
from asmgen.isa.registers import a, s, v
from asmgen.isa.table import names
from tests.emulator_harness import ARCHS, Result, new_machine, run

LDS_BYTES = 4096
WAVES = 4
WORKGROUPS = 2
EXEC_MASK = 0xF0F0_1234_FFFF_00FE
Words = NDArray[np.uint32]


@pytest.fixture(params=["numpy", "compiled"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which lanes gather and scatter."""
    chosen: str = request.param
    monkeypatch.setattr(Work, "pays", lambda self, more: chosen == "compiled")
    return chosen


def machine_with(arch: str = "gfx950", seed: int = 0, size: int = LDS_BYTES) -> Machine:
    """Random LDS and registers, two workgroups of two waves."""
    machine = new_machine(arch, WAVES, WORKGROUPS, size)
    rng = np.random.default_rng(seed)
    machine.vector[:64] = rng.integers(0, 1 << 32, (64, WAVES, 64), dtype=np.uint32)
    machine.lds[:] = rng.integers(0, 256, len(machine.lds), dtype=np.uint8)
    return machine


class Model:
    """LDS as bytearrays, registers as lists: what the tests compare the emulator with."""

    def __init__(self, machine: Machine, exec_mask: int) -> None:
        self.size = machine.lds_bytes
        stride = machine.lds_stride
        self.lds = [bytearray(machine.lds[n * stride:n * stride + self.size].tobytes()) for n in range(machine.workgroups)]
        self.registers = machine.vector[:64].copy()
        self.exec_mask = exec_mask

    def lanes(self) -> Iterator[tuple[int, int, bytearray]]:
        """Active lanes in order: (wave, lane, the workgroup's LDS)."""
        for wave in range(WAVES):
            for lane in range(64):
                if self.exec_mask >> lane & 1:
                    yield wave, lane, self.lds[wave // 2]

    def word(self, register: int, wave: int, lane: int, count: int = 1) -> int:
        """One register or more as an integer."""
        return sum(int(self.registers[register + n, wave, lane]) << 32 * n for n in range(count))

    def put(self, register: int, wave: int, lane: int, value: int, count: int = 1) -> None:
        """An integer into registers."""
        for n in range(count):
            self.registers[register + n, wave, lane] = value >> 32 * n & 0xFFFFFFFF

    def read(self, lds: bytearray, at: int, size: int) -> int:
        """Bytes as an integer; 0 where any of them is outside."""
        return int.from_bytes(lds[at:at + size], "little") if at + size <= self.size else 0

    def write(self, lds: bytearray, at: int, value: int, size: int) -> None:
        """The low bytes of an integer; nothing where any is outside."""
        if at + size <= self.size:
            lds[at:at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def compare(self, machine: Machine) -> None:
        """All registers and all of LDS."""
        stride = machine.lds_stride
        for number, lds in enumerate(self.lds):
            found = machine.lds[number * stride:number * stride + self.size]
            differing = np.flatnonzero(found != np.frombuffer(lds, np.uint8))
            assert not len(differing), f"LDS of workgroup {number}, byte {int(differing[0]):#x}"
        wrong = np.argwhere(machine.vector[:64] != self.registers)
        assert not len(wrong), f"register, wave, lane {wrong[0]}"


def execute(machine: Machine, emit: Callable[[Builder], Any], **settings: Any) -> Result:
    return run(machine.arch.name, emit, machine=machine, exec_mask=settings.pop("exec_mask", EXEC_MASK), **settings)


def addresses(machine: Machine, register: int, align: int, seed: int = 1, high: int = LDS_BYTES + 32) -> None:
    """Random byte addresses, some out of range, most lanes apart."""
    rng = np.random.default_rng(seed)
    machine.vector[register] = rng.permuted(np.resize(np.arange(0, high, align), (WAVES, max(64, high // align))), axis=1)[:, :64]


WIDTHS = {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16}


@pytest.mark.parametrize("align", ["natural", "odd"])
@pytest.mark.parametrize(("name", "size"), [(f"ds_read_{kind}", size) for kind, size in WIDTHS.items() if size >= 4])
def test_wide_reads(name: str, size: int, align: str) -> None:
    machine = machine_with()
    addresses(machine, 2, size if align == "natural" else 3)
    model, count = Model(machine, EXEC_MASK), size // 4
    for wave, lane, lds in model.lanes():
        model.put(10, wave, lane, model.read(lds, model.word(2, wave, lane) + 20, size), count)
    execute(machine, lambda k: k.emit(name, v[10:9 + count], v[2], offset=20))
    model.compare(machine)


def test_a_wide_read_over_its_own_address_and_into_agprs() -> None:
    machine = machine_with()
    addresses(machine, 2, 16)
    model = Model(machine, EXEC_MASK)
    into = np.zeros((4, WAVES, 64), np.uint32)
    for wave, lane, lds in model.lanes():
        value = model.read(lds, model.word(2, wave, lane), 16)
        into[:, wave, lane] = [value >> 32 * n & 0xFFFFFFFF for n in range(4)]
        model.put(2, wave, lane, value, 4)

    def both(k: Builder) -> None:
        k.ds_read_b128(a[4:7], v[2])
        k.ds_read_b128(v[2:5], v[2])

    execute(machine, both)
    assert (machine.vector[260:264] == into).all()
    model.compare(machine)


NARROW = {"ds_read_u8": (1, False, None), "ds_read_i8": (1, True, None), "ds_read_u16": (2, False, None), "ds_read_i16": (2, True, None),
          "ds_read_u8_d16": (1, False, 0), "ds_read_i8_d16": (1, True, 0), "ds_read_u16_d16": (2, False, 0),
          "ds_read_u8_d16_hi": (1, False, 16), "ds_read_i8_d16_hi": (1, True, 16), "ds_read_u16_d16_hi": (2, False, 16)}


@pytest.mark.parametrize("name", NARROW)
def test_narrow_reads(name: str) -> None:
    size, signed, half = NARROW[name]
    machine = machine_with()
    addresses(machine, 2, 1)
    model = Model(machine, EXEC_MASK)
    for wave, lane, lds in model.lanes():
        value = model.read(lds, model.word(2, wave, lane) + 3, size)
        value -= (signed and value >> 8 * size - 1) << 8 * size
        if half is not None:
            value = model.word(10, wave, lane) & ~(0xFFFF << half) | (value & 0xFFFF) << half
        model.put(10, wave, lane, value & 0xFFFFFFFF)
    execute(machine, lambda k: k.emit(name, v[10], v[2], offset=3))
    model.compare(machine)


WRITES = {"ds_write_b8": (1, 0), "ds_write_b16": (2, 0), "ds_write_b8_d16_hi": (1, 16), "ds_write_b16_d16_hi": (2, 16),
          "ds_write_b32": (4, 0), "ds_write_b64": (8, 0), "ds_write_b96": (12, 0), "ds_write_b128": (16, 0)}


@pytest.mark.parametrize("align", [1, 4])
@pytest.mark.parametrize("name", WRITES)
def test_writes_in_lane_order(name: str, align: int) -> None:
    """Addresses overlap: the higher lane's bytes stay."""
    size, shift = WRITES[name]
    machine = machine_with()
    addresses(machine, 2, align, high=256)
    machine.vector[2, 1] = 0x200 + 4 * (np.arange(64)[::-1] % 20)
    machine.vector[2, :, 5] = LDS_BYTES - 2
    model, count = Model(machine, EXEC_MASK), max(1, size // 4)
    for wave, lane, lds in model.lanes():
        model.write(lds, model.word(2, wave, lane) + 8, model.word(10, wave, lane, count) >> shift, size)
    execute(machine, lambda k: k.emit(name, v[2], v[10:9 + count], offset=8))
    model.compare(machine)


@pytest.mark.parametrize("stride", ["", "st64"])
@pytest.mark.parametrize("size", [4, 8])
def test_two_addresses(size: int, stride: str) -> None:
    unit, count = size * (64 if stride else 1), size // 4
    machine = machine_with(size=8192)
    addresses(machine, 2, size, high=1024)
    model = Model(machine, EXEC_MASK)
    for wave, lane, lds in model.lanes():
        base = model.word(2, wave, lane)
        for number, offset in enumerate((3, 6)):
            model.put(10 + number * count, wave, lane, model.read(lds, base + offset * unit, size), count)
    for number, offset in enumerate((9, 1)):
        for wave, lane, lds in model.lanes():
            model.write(lds, model.word(2, wave, lane) + offset * unit, model.word(20 + 4 * number, wave, lane, count), size)

    def both(k: Builder) -> None:
        k.emit(f"ds_read2{stride}_b{8 * size}", v[10:9 + 2 * count], v[2], offset0=3, offset1=6)
        k.emit(f"ds_write2{stride}_b{8 * size}", v[2], v[20:19 + count], v[24:23 + count], offset0=9, offset1=1)

    execute(machine, both)
    model.compare(machine)


def test_addtid_takes_its_base_from_m0() -> None:
    machine = machine_with()
    model = Model(machine, EXEC_MASK)
    for wave, lane, lds in model.lanes():
        model.put(10, wave, lane, model.read(lds, 0x120 + 0x40 + 4 * lane, 4))
    for wave, lane, lds in model.lanes():
        model.write(lds, 0x120 + 0x400 + 4 * lane, model.word(11, wave, lane), 4)

    def both(k: Builder) -> None:
        k.ds_read_addtid_b32(v[10], offset=0x40)
        k.ds_write_addtid_b32(v[11], offset=0x400)

    execute(machine, both, m0=0xABC0_0120)
    model.compare(machine)


@pytest.mark.parametrize(("name", "bits"), [("ds_read_b64_tr_b16", 16), ("ds_read_b64_tr_b8", 8), ("ds_read_b64_tr_b4", 4),
                                            ("ds_read_b96_tr_b6", 6)])
def test_transposing_reads(name: str, bits: int) -> None:
    """out[l][j] = M[row j][column l]: rows of 16 elements, lane after lane, each at the lane's own address."""
    size = 12 if bits == 6 else 8
    count = 8 * size // bits
    machine = machine_with()
    addresses(machine, 2, 16, high=LDS_BYTES)
    mask = (1 << 64) - 1
    model = Model(machine, mask)
    named = {(wave, lane): model.read(lds, model.word(2, wave, lane) + 16, size) for wave, lane, lds in model.lanes()}
    for wave, lane, _ in model.lanes():
        first, column = lane // 16 * 16, lane % 16
        value = 0
        for row in range(count):
            source, element = divmod(16 * row + column, count)
            value |= (named[wave, first + source] >> bits * element & (1 << bits) - 1) << bits * row
        model.put(10, wave, lane, value, size // 4)
    execute(machine, lambda k: k.emit(name, v[10:9 + size // 4], v[2], offset=16), exec_mask=mask)
    model.compare(machine)


def test_tr_b16_as_the_facts_have_it() -> None:
    machine = machine_with()
    machine.vector[2] = 8 * np.arange(64)
    machine.lds[:512].view(np.uint16)[:] = np.arange(256)
    execute(machine, lambda k: k.ds_read_b64_tr_b16(v[10:11], v[2]), exec_mask=(1 << 64) - 1)
    halves = np.ascontiguousarray(np.moveaxis(machine.vector[10:12, 0], 0, -1)).view(np.uint16)
    for lane in range(64):
        group, l = divmod(lane, 16)
        assert halves[lane].tolist() == [4 * (16 * group + 4 * j + l // 4) + l % 4 for j in range(4)]


SWIZZLES = [0x8000 | 0b00_01_10_11, 0x8000 | 0b11_11_00_10, 0x041F, 0x1F << 10 | 0x1F, 0x3 << 10 | 0x2 << 5 | 0x1C, 0x0010, 0x7C1F,
            0xC000 | 3 << 5, 0xC000 | 1 << 10 | 5 << 5, 0xC000 | 2 << 5 | 0x18, 0xE000, 0xE010, 0xE01C, 0xE01F]


def swizzled_lane(pattern: int, lane: int) -> int:
    """The ISA's rules in words of one lane: FFT from 0xe000, rotation from 0xc000, quads with bit 15, else masks."""
    low, base = lane % 32, lane - lane % 32
    if pattern >= 0xE000:
        mask = pattern & 31
        mirrored = int(f"{low:05b}"[::-1], 2)
        return base + (mirrored >> bin(mask).count("1") | low & mask)
    if pattern >= 0xC000:
        mask, turn = pattern & 31, pattern >> 5 & 31
        turned = (low - turn if pattern & 0x400 else low + turn) % 32
        return base + (low & mask | turned & ~mask)
    if pattern & 0x8000:
        return lane // 4 * 4 + (pattern >> 2 * (lane % 4) & 3)
    return base + (((low & pattern & 31) | pattern >> 5 & 31) ^ (pattern >> 10 & 31))


@pytest.mark.parametrize("pattern", SWIZZLES)
def test_swizzle(pattern: int) -> None:
    machine = machine_with()
    model = Model(machine, EXEC_MASK)
    for wave, lane, _ in model.lanes():
        source = swizzled_lane(pattern, lane)
        model.registers[10, wave, lane] = machine.vector[2, wave, source] if EXEC_MASK >> source & 1 else 0
    execute(machine, lambda k: k.ds_swizzle_b32(v[10], v[2], offset=pattern))
    model.compare(machine)


@pytest.mark.parametrize("mask", [EXEC_MASK, (1 << 64) - 1])
@pytest.mark.parametrize("offset", [0, 8, 1000])
def test_permutes(mask: int, offset: int) -> None:
    """Backwards pulls, 0 from an inactive lane; forwards pushes, the highest lane wins, 0 where nobody pushes."""
    machine = machine_with(seed=4)
    model = Model(machine, mask)
    before = machine.vector.copy()
    pushed = {}
    for wave, lane, _ in model.lanes():
        source = (int(before[2, wave, lane]) + offset) % (1 << 32) // 4 % 64
        model.registers[10, wave, lane] = before[3, wave, source] if mask >> source & 1 else 0
        pushed[wave, source] = before[3, wave, lane]
    for wave, lane, _ in model.lanes():
        model.registers[11, wave, lane] = pushed.get((wave, lane), 0)

    def both(k: Builder) -> None:
        k.ds_bpermute_b32(v[10], v[2], v[3], offset=offset)
        k.ds_permute_b32(v[11], v[2], v[3], offset=offset)

    execute(machine, both, exec_mask=mask)
    model.compare(machine)


def signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def as_float(value: int, bits: int) -> float:
    code = {16: "e", 32: "f", 64: "d"}[bits]
    return struct.unpack(f"<{code}", value.to_bytes(bits // 8, "little"))[0]


def float_bits(value: float, bits: int) -> int:
    """Rounded to nearest even; overflow is infinity, an invented NaN the positive quiet one."""
    if math.isnan(value):
        return {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8 << 48}[bits]
    code = {16: "e", 32: "f", 64: "d"}[bits]
    try:
        return int.from_bytes(struct.pack(f"<{code}", value), "little")
    except OverflowError:
        return int.from_bytes(struct.pack(f"<{code}", math.copysign(math.inf, value)), "little")


def add_pair(kind: str, old: int, x: int) -> int:
    """Two halves added; a sum of bf16 or f16 is exact in a double, and rounded once."""
    result = 0
    for shift in (0, 16):
        first, second = old >> shift & 0xFFFF, x >> shift & 0xFFFF
        if kind == "f16":
            half = float_bits(as_float(first, 16) + as_float(second, 16), 16)
        else:
            total = as_float(first << 16, 32) + as_float(second << 16, 32)
            whole = float_bits(total, 64)
            # To nearest even of 8 bits: a double's pattern cut at 45 bits, exponents moved by way of an f32 that is exact for the rest.
            cut = whole & ~((1 << 45) - 1)
            rest = whole & (1 << 45) - 1
            if not math.isnan(total) and not math.isinf(total) and abs(total) >= 2.0**-126:
                cut += (1 << 45) if rest > 1 << 44 or rest == 1 << 44 and cut >> 45 & 1 else 0
            half = float_bits(as_float(cut, 64), 32) >> 16
        result |= half << shift
    return result


def changed(operation: str, kind: str, old: int, x: int, y: int) -> int:
    """An atomic's result by the ISA's pseudo-code. `x` and `y` are data0 and data1."""
    bits = int(kind.lstrip("uibf"))
    top = (1 << bits) - 1
    if operation == "pk_add_f16":
        return add_pair("f16", old, x)
    if operation == "pk_add_bf16":
        return add_pair("bf16", old, x)
    if kind[0] == "f":
        first, second = as_float(old, bits), as_float(x, bits)
        if operation == "add":
            return float_bits(first + second, bits)
        if operation == "cmpst":
            return y if first == second else old
        return x if (second < first if operation == "min" else second > first) else old
    if operation in ("min", "max"):
        key: Callable[[int], int] = (lambda n: signed(n, bits)) if kind[0] == "i" else (lambda n: n)
        return (min if operation == "min" else max)(old, x, key=key)
    if operation == "condxchg32":
        low = x & 0x7FFFFFFF if x >> 31 & 1 else old & 0xFFFFFFFF
        high = x >> 32 & 0x7FFFFFFF if x >> 63 else old >> 32
        return low | high << 32
    return {"add": old + x, "sub": old - x, "rsub": x - old, "inc": 0 if old >= x else old + 1,
            "dec": x if old == 0 or old > x else old - 1,
            "and": old & x, "or": old | x, "xor": old ^ x, "mskor": old & ~x | y, "cmpst": y if old == x else old, "wrxchg": x,
            "wrap": old - x if old >= x else old + y}[operation] & top


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


def moderate(machine: Machine, operation: str, kind: str, rng: np.random.Generator) -> None:
    """Values for which something happens: small integers for counters, equal ones to compare, floats without NaN payloads."""
    lds = machine.lds.reshape(-1)
    if kind[0] == "f" or operation.startswith("pk"):
        element = {"pk_add_f16": np.float16, "pk_add_bf16": np.float32}.get(operation, np.float64 if kind.endswith("64") else np.float32)
        special = np.array([np.inf, -np.inf, 0.0, -0.0, 1e-7, 3e38 if element != np.float16 else 6e4], element)

        def some(count: int) -> NDArray[np.uint8]:
            values = rng.standard_normal(count).astype(element)
            values[::9] = rng.choice(special, len(values[::9]))
            if operation == "pk_add_bf16":
                return np.ascontiguousarray(values.view(np.uint32) >> np.uint32(16), np.uint32).astype(np.uint16).view(np.uint8)
            return values.view(np.uint8)

        size = 2 if operation.startswith("pk") else np.dtype(element).itemsize
        lds[:] = some(len(lds) // size)
        data = some(2 * WAVES * 64 * 8 // size).view(np.uint32).reshape(2, WAVES, 64, 2)
        for number, register in enumerate((10, 14)):
            machine.vector[register], machine.vector[register + 1] = data[number, ..., 0], data[number, ..., 1]
    if operation in ("inc", "dec", "wrap", "cmpst"):
        size = int(kind.lstrip("uibf")) // 8
        small = rng.integers(0, 5, len(lds) // size).astype(f"u{size}")
        if kind[0] == "f":
            small = small.astype(f"f{size}").view(f"u{size}")
        lds[:] = small.view(np.uint8)
        for register in (10, 14):
            values = rng.integers(0, 5, (WAVES, 64)).astype(f"u{size}")
            if kind[0] == "f":
                values = values.astype(f"f{size}").view(f"u{size}")
            machine.vector[register] = values & values.dtype.type(0xFFFFFFFF)
            machine.vector[register + 1] = (values.astype(np.uint64) >> np.uint64(32)) if size == 8 else 0


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


DMA_SIZES = {"ubyte": 1, "sbyte": 1, "ushort": 2, "sshort": 2, "dword": 4, "dwordx3": 12, "dwordx4": 16}
DMA = [(arch, space, suffix, size) for arch in ARCHS for space in ("buffer", "global") for suffix, size in DMA_SIZES.items()
       if size <= 4 or arch == "gfx950"]


@pytest.mark.parametrize(("arch", "space", "suffix", "size"), DMA)
def test_lds_dma(arch: str, space: str, suffix: str, size: int) -> None:
    """Lane l lands at M0 + offset + 4 l, or 16 l for the wide ones (dwordx3 leaves every fourth dword); out of range is 0."""
    big = arch == "gfx950"
    base = 0x1_8004 if big else 0x0804  # above 16 bits where the chip has so much LDS
    memory = Memory()
    machine = new_machine(arch, WAVES, WORKGROUPS, 0x1_A000 if big else 0x2000, memory)
    rng = np.random.default_rng(9)
    machine.lds[:] = rng.integers(0, 256, len(machine.lds), dtype=np.uint8)
    start = memory.allocate(4096)
    content = rng.integers(0, 256, 4096, dtype=np.uint8)
    memory.view(start, 4096)[:] = content
    records = 3000 if space == "buffer" else 4096
    machine.vector[2] = rng.integers(0, 3968 // 16, (WAVES, 64)) * 16
    model = Model(machine, EXEC_MASK)
    stride = 16 if size > 4 else 4
    for wave, lane, lds in model.lanes():
        source = int(machine.vector[2, wave, lane]) + 12
        if size < 4:
            value = int.from_bytes(content[source:source + size].tobytes(), "little") if source + size <= records else 0
            value = signed(value, 8 * size) & 0xFFFFFFFF if suffix[0] == "s" else value
            model.write(lds, base + 12 + lane * stride, value, 4)
            continue
        for word in range(size // 4):
            at = source + 4 * word
            value = int.from_bytes(content[at:at + 4].tobytes(), "little") if at + 4 <= records else 0
            model.write(lds, base + 12 + lane * stride + 4 * word, value, 4)

    def emit(k: Builder) -> None:
        if space == "buffer":
            k.emit(f"buffer_load_{suffix}", v[2], s[4:7], 0, offen=True, offset=12, lds=True)
        else:
            k.emit(f"global_load_lds_{suffix}", v[2], s[4:5], offset=12)
        k.s_waitcnt(vmcnt=0)

    execute(machine, emit, m0=base | 0xFC00_0000, sgprs={4: start & 0xFFFFFFFF, 5: start >> 32, 6: records, 7: 0})
    model.compare(machine)


def test_lds_dma_data_is_not_there_before_the_wait() -> None:
    memory = Memory()
    machine = new_machine("gfx950", 1, 1, 1024, memory)
    start = memory.allocate(256)
    memory.view(start, 256)[:] = 7
    machine.vector[2] = 4 * np.arange(64)

    def emit(k: Builder) -> None:
        k.global_load_lds_dword(v[2], s[4:5])
        k.ds_read_b32(v[10], v[2])
        k.s_waitcnt(vmcnt=0)
        k.ds_read_b32(v[11], v[2])

    execute(machine, emit, exec_mask=(1 << 64) - 1, m0=0, sgprs={4: start & 0xFFFFFFFF, 5: start >> 32})
    assert (machine.vector[10] == 0).all() and (machine.vector[11] == 0x07070707).all()


def test_global_lds_dma_drops_the_low_bits_of_m0() -> None:
    memory = Memory()
    machine = new_machine("gfx942", 1, 1, 1024, memory)
    start = memory.allocate(256)
    memory.view(start, 256)[:] = 7
    machine.vector[2] = 0

    def emit(k: Builder) -> None:
        k.global_load_lds_dword(v[2], s[4:5])
        k.s_waitcnt(vmcnt=0)

    execute(machine, emit, exec_mask=1, m0=0x43, sgprs={4: start & 0xFFFFFFFF, 5: start >> 32})
    assert np.flatnonzero(machine.lds).tolist() == [0x40, 0x41, 0x42, 0x43]
