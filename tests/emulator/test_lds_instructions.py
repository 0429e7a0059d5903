"""LDS instructions against a bytearray and Python integers, lane by lane: widths, transposition, crossing lanes."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.isa.registers import a, v
from tests.lds_model import EXEC_MASK, LDS_BYTES, WAVES, Model, addresses, execute, machine_with

pytestmark = pytest.mark.usefixtures("both_paths")
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
