"""Instructions whose semantic function others share, one by one: comparisons, scalar buffer memory, hardware registers, forks.

tools/replace_semantics.py replaces the function for one mnemonic at a time, which only a test of that mnemonic notices.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.emulator.binding.decode import EmulatorError
from asmgen.isa.operands import HwReg, Special
from asmgen.isa.registers import exec_, s, v
from asmgen.isa.table import names
from tests.emulator_harness import new_machine, run
from tests.emulator_launch import launch, load_pointers, store_by_item

MASK = 0xFF7F_FFFE_0F35_FFFF
FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 1.5, 2.0, -65504.0, 0.0625)
RELATIONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne}
TURNED = {"nlt": "lt", "nle": "le", "ngt": "gt", "nge": "ge", "neq": "eq", "nlg": "lg"}


def holds(relation: str, a: Any, b: Any) -> bool:
    """What a comparison says of two Python numbers."""
    if relation in TURNED:
        return not holds(TURNED[relation], a, b)
    ordered = not (math.isnan(a) or math.isnan(b))
    fixed = {"f": False, "t": True, "tru": True, "o": ordered, "u": not ordered, "lg": ordered and a != b}
    return fixed[relation] if relation in fixed else bool(RELATIONS[relation](a, b))


def is_of(value: float, classes: int) -> bool:
    """v_cmp_class of a number that is neither denormal nor a signalling NaN."""
    if math.isnan(value):
        return bool(classes >> 1 & 1)
    size = 2 if math.isinf(value) else 1 if value else 0
    return bool(classes >> ((9, 8, 6)[2 - size] if math.copysign(1, value) > 0 else (2, 3, 5)[2 - size]) & 1)


def int_values(kind: str) -> list[int]:
    bits = int(kind[1:])
    if kind[0] == "u":
        return [0, 1, 2, 5, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1]
    return [0, 1, 2, 5, -1, -(1 << bits - 1), (1 << bits - 1) - 1, -5]


@pytest.mark.parametrize("name", [name for name in names() if name.startswith(("v_cmp_", "v_cmpx_"))])
def test_comparisons_one_by_one(name: str) -> None:
    _, _, relation, kind = name.split("_")
    element = np.dtype(f"{kind[0]}{int(kind[1:]) // 8}")
    values: Any = FLOATS if kind[0] == "f" else int_values(kind)
    left = [values[lane % len(values)] for lane in range(64)]
    if relation == "class":
        right: list[Any] = [(1 << lane % 10, 0x3FF, 0x2AA)[lane % 7 % 3] for lane in range(64)]
        given = np.array(right, np.uint32)
        expected = [is_of(a, b) for a, b in zip(left, right, strict=True)]
    else:
        right = [values[lane // 3 % len(values)] for lane in range(64)]
        given = np.array(right, element)
        expected = [holds(relation, a, b) for a, b in zip(left, right, strict=True)]
    width = element.itemsize // 8
    wide = relation != "class" and width
    with np.errstate(over="ignore"):
        vgprs = {0: np.array(left, element), 2: given}
    result = run("gfx942", lambda k: (k.emit(name, s[10:11], v[0:1] if width else v[0], v[2:3] if wide else v[2]), k.v_mov_b32(v[9], 7)),
                 vgprs=vgprs, exec_mask=MASK)
    bits = sum(1 << lane for lane in range(64) if expected[lane] and MASK >> lane & 1)
    active = bits if name.startswith("v_cmpx_") else MASK
    assert result.s64(10) == bits and result.exec_mask == active
    assert result.v(9)[0].tolist() == [7 if active >> lane & 1 else 0 for lane in range(64)]


def atomic(name: str, old: int, data: int, bits: int) -> int:
    """Memory's new value, by the ISA's pseudo-code."""
    ones = (1 << bits) - 1

    def sign(x: int) -> int:
        return x - (1 << bits) if x >> bits - 1 else x

    results = {"swap": data, "add": old + data & ones, "sub": old - data & ones, "and": old & data, "or": old | data, "xor": old ^ data,
               "umin": min(old, data), "umax": max(old, data), "smin": old if sign(old) < sign(data) else data,
               "smax": old if sign(old) > sign(data) else data, "inc": 0 if old >= data else old + 1,
               "dec": data if old == 0 or old > data else old - 1}
    return results[name]


PAIRS = ((5, 3), (3, 5), (0, 7), (7, 7), (-1, 1), (1, -1), (6, -2), (-4, -3))


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ["swap", "add", "sub", "and", "or", "xor", "umin", "umax", "smin", "smax", "inc", "dec"])
def test_scalar_buffer_atomics(name: str, wide: bool, returns: bool) -> None:
    bits = 64 if wide else 32
    element, ones = np.dtype(f"u{bits // 8}"), (1 << bits) - 1
    pairs = [(old & ones, data & ones) for old, data in PAIRS]

    def emit(k: Builder) -> None:
        load_pointers(k, 2)
        k.s_mov_b64(s[20:21], s[8:9])
        k.s_mov_b32(s[22], 4096)
        k.s_mov_b32(s[23], 0x27000)
        for number, (_, data) in enumerate(pairs):
            k.s_mov_b32(s[30], data & 0xFFFFFFFF)
            k.s_mov_b32(s[31], data >> 32)
            k.emit(f"s_buffer_atomic_{name}{'_x2' if wide else ''}", s[30:31] if wide else s[30], s[20:23], number * bits // 8, glc=returns)
            k.s_waitcnt(lgkmcnt=0)
            k.emit("s_store_dwordx2" if wide else "s_store_dword", s[30:31] if wide else s[30], s[10:11], number * bits // 8)
        k.s_endpgm()

    before = np.array([old for old, _ in pairs], element)
    memory, given = launch("gfx942", emit, buffers=[before, np.zeros_like(before)]).buffers
    assert memory.tolist() == [atomic(name, old, data, bits) for old, data in pairs]
    assert given.tolist() == [old if returns else data for old, data in pairs]


@pytest.mark.parametrize("match", [False, True])
@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("returns", [False, True])
def test_scalar_compare_and_swap_of_both_widths(wide: bool, buffer: bool, match: bool, returns: bool) -> None:
    """The new value in the lower half of the registers, the one to compare with in the upper half."""
    count = 2 if wide else 1
    new, wanted, old = [111, 222][:count], [5, 6][:count], [5, 6 if match else 7] if wide else [5 if match else 4]

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_mov_b64(s[20:21], s[8:9])
        k.s_mov_b32(s[22], 4096)
        k.s_mov_b32(s[23], 0x27000)
        for number, value in enumerate(new + wanted):
            k.s_mov_b32(s[32 + number], value)
        name = f"s_{'buffer_' if buffer else ''}atomic_cmpswap{'_x2' if wide else ''}"
        k.emit(name, s[32:32 + 2 * count - 1], s[20:23] if buffer else s[8:9], 8, glc=returns)
        k.s_waitcnt(lgkmcnt=0)
        for number in range(2 * count):
            k.s_store_dword(s[32 + number], s[8:9], 16 + 4 * number)
        k.s_endpgm()

    before = np.array([1, 2, *old, *[0] * (6 - len(old))], np.uint32)
    after = launch("gfx950", emit, buffers=[before]).buffers[0].tolist()
    assert after[:2] == [1, 2] and after[2:2 + count] == (new if match else old)
    assert after[4:4 + 2 * count] == [*(old if returns else new), *wanted]


@pytest.mark.parametrize("width", [1, 2, 4])
def test_scalar_buffer_stores(width: int) -> None:
    target = s[32:31 + width] if width > 1 else s[32]

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_mov_b64(s[20:21], s[8:9])
        k.s_mov_b32(s[22], 48)
        k.s_mov_b32(s[23], 0x27000)
        k.s_mov_b32(s[24], 24)
        for word in range(width):
            k.s_mov_b32(s[32 + word], 100 + word)
        name = f"s_buffer_store_dword{f'x{width}' if width > 1 else ''}"
        k.emit(name, target, s[20:23], 4)
        k.emit(name, target, s[20:23], s[24])
        k.emit(name, target, s[20:23], 40)
        k.s_endpgm()

    expected = [0] * 16
    for first in (1, 6, 10):
        for word in range(width):
            if first + word < 12:  # 48 bytes are in range
                expected[first + word] = 100 + word
    assert launch("gfx942", emit, buffers=[np.zeros(16, np.uint32)]).buffers[0].tolist() == expected


def test_where_waves_run() -> None:
    """HW_ID: the waves of a workgroup go round the SIMDs (5:4), then the slots (3:0); workgroups have units (11:8) and slots (19:16)."""
    machine = new_machine("gfx942", 12, 2)
    result = run("gfx942", lambda k: k.s_getreg_b32(s[0], HwReg(4)), machine=machine)
    found = [result.s(0, wave) for wave in range(12)]
    assert [word >> 4 & 3 for word in found] == [0, 1, 2, 3, 0, 1] * 2
    assert [word & 15 for word in found] == [0, 0, 0, 0, 1, 1] * 2
    assert [word >> 16 & 15 for word in found] == [0] * 6 + [1] * 6
    assert len(set(found)) == 12


def test_the_bases_of_apertures_are_a_hardware_register() -> None:
    """SH_MEM_BASES holds bits 63:48 of both aperture bases, those of private memory in 15:0."""
    result = run("gfx950", lambda k: (k.s_getreg_b32(s[0], HwReg(15)), k.s_mov_b64(s[2:3], Special("src_private_base")),
                                      k.s_mov_b64(s[4:5], Special("src_shared_base"))))
    assert result.s(0) == result.s64(2) >> 48 | result.s64(4) >> 48 << 16
    assert result.s(0) & 0xFFFF and result.s(0) >> 16


def test_scalar_sources_that_are_no_registers() -> None:
    """src_execz of a wave without lanes; the limits of apertures are 4 GiB, less one, after their bases."""
    def emit(k: Builder) -> None:
        k.s_mov_b32(s[0], Special("src_execz"))
        k.s_mov_b32(s[1], Special("src_vccz"))
        for number, name in enumerate(("src_private_base", "src_private_limit", "src_shared_base", "src_shared_limit")):
            k.s_mov_b64(s[2 + 2 * number:3 + 2 * number], Special(name))

    result = run("gfx942", emit, exec_mask=0, vcc=1 << 33)
    assert [result.s(n) for n in (0, 1)] == [1, 0]
    assert result.s64(4) == result.s64(2) + 0xFFFFFFFF and result.s64(8) == result.s64(6) + 0xFFFFFFFF
    assert len({0, result.s64(2), result.s64(6)}) == 3


@pytest.mark.parametrize("waves", [1, 40])
@pytest.mark.parametrize("keeps", [False, True])
def test_denormal_sources_of_few_and_many_waves(keeps: bool, waves: int) -> None:
    """The flush of sources is compiled where it has many lanes to do; clamp keeps v_mul_f32 away from its own compiled loop."""
    tiny = np.float32(2.0**-127) * np.arange(64, dtype=np.float32)  # lanes 0 and 1 are zero and denormal, the others normal
    large = np.full(64, 2.0**119, np.float32)
    result = run("gfx950", lambda k: k.v_mul_f32(v[2], v[0], v[1], clamp=True), vgprs={0: tiny, 1: large}, waves=waves,
                 mode=0x3F0 if keeps else 0x3C0)
    expected = [lane / 256 if keeps or lane != 1 else 0.0 for lane in range(64)]
    assert all(row == expected for row in result.v(2, np.float32).tolist())


def test_a_fork_to_an_address_in_registers() -> None:
    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_mov_b32(s[60], 0)  # the stack's depth before the fork; the stack itself is s0 to s3
        k.s_mov_b64(s[50:51], s[8:9])
        k.s_mov_b64(s[62:63], 0x30FF00)
        k.v_mov_b32(v[1], 1)
        k.s_getpc_b64(s[64:65])
        k.s_add_u32(s[64], s[64], 7 * 8)  # seven instructions on: where nothing is assembled, each takes 8 bytes
        k.s_addc_u32(s[65], s[65], 0)
        k.s_cbranch_g_fork(s[62:63], s[64:65])
        k.v_add_u32(v[1], 1, v[1])
        k.v_add_u32(v[1], 2, v[1])
        k.v_add_u32(v[1], 3, v[1])
        k.s_branch("join")
        k.v_add_u32(v[1], 40, v[1])
        k.label("join")
        k.s_cbranch_join(s[60])
        k.s_mov_b64(exec_, -1)
        k.s_mov_b32(s[2], 0)
        store_by_item(k, 1, 64, base=50)
        k.s_endpgm()

    launched = launch("gfx942", emit, buffers=[np.zeros(64, np.uint32)])
    assert launched.buffers[0].tolist() == [41 if 0x30FF00 >> lane & 1 else 7 for lane in range(64)]


@pytest.mark.parametrize("name", ["s_rfe_b64", "s_rfe_restore_b64"])
def test_returns_from_a_trap_handler_are_refused(name: str) -> None:
    def emit(k: Builder) -> None:
        k.emit(name, s[4:5], *([s[6]] if "restore" in name else []))
        k.s_endpgm()

    with pytest.raises(EmulatorError, match="legal only in a trap handler"):
        launch("gfx942", emit)


@pytest.mark.parametrize("wide", [False, True])
def test_relative_destinations_leave_the_named_register(wide: bool) -> None:
    result = run("gfx942", lambda k: k.s_movreld_b64(s[10:11], s[2:3]) if wide else k.s_movreld_b32(s[10], s[2]), m0=6,
                 sgprs={2: 123, 3: 456, **{n: n for n in range(10, 20)}})
    assert [result.s(n) for n in range(10, 20)] == [10, 11, 12, 13, 14, 15, 123, 456 if wide else 17, 18, 19]


@pytest.mark.parametrize("width", [1, 2, 4])
def test_scalar_scratch_of_every_width(width: int) -> None:
    """An SGPR offset counts 64 bytes, an immediate one counts bytes."""
    suffix, target = f"x{width}" if width > 1 else "", s[20:19 + width] if width > 1 else s[20]

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_mov_b32(s[30], 1)
        k.emit(f"s_scratch_load_dword{suffix}", target, s[8:9], s[30])
        k.s_waitcnt(lgkmcnt=0)
        k.emit(f"s_scratch_store_dword{suffix}", target, s[8:9], 16)
        k.s_mov_b32(s[30], 2)
        k.emit(f"s_scratch_store_dword{suffix}", target, s[8:9], s[30])
        k.s_endpgm()

    before = np.arange(1, 65, dtype=np.uint32) * 3
    expected = before.copy()
    expected[4:4 + width] = expected[32:32 + width] = before[16:16 + width]
    assert launch("gfx942", emit, buffers=[before]).buffers[0].tolist() == expected.tolist()


FORMAT_16X4_UINT = 12 | 4 << 4  # data format 16_16_16_16, number format UINT, as tbuffer instructions encode them
SELECTS = 4 | 5 << 3 | 6 << 6 | 7 << 9  # of a descriptor: every component is itself


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("components", [1, 2, 3, 4])
def test_format_loads_and_stores_of_every_number_of_components(components: int, half: bool, typed: bool) -> None:
    """16-bit integers, four to an element, from one buffer to another. A store writes all four; of d16 two are in a register.

    What a store writes where it has no component is left out of the comparison.
    """
    name = f"{'tbuffer' if typed else 'buffer'}_{{}}_format_{'d16_' if half else ''}{'xyzw'[:components]}"
    count = -(-components // 2) if half else components
    given: dict[str, Any] = {"format": FORMAT_16X4_UINT} if typed else {}
    registers = v[10:9 + count] if count > 1 else v[10]

    def emit(k: Builder) -> None:
        load_pointers(k, 2)
        for base in (8, 10):
            first = 20 + 2 * (base - 8)
            k.s_mov_b64(s[first:first + 1], s[base:base + 1])
            k.s_mov_b32(s[first + 2], 512)
            k.s_mov_b32(s[first + 3], SELECTS | 4 << 12 | 12 << 15)
        k.v_lshlrev_b32(v[2], 3, v[0])
        k.emit(name.format("load"), registers, v[2], s[20:23], 0, offen=True, **given)
        k.s_waitcnt(vmcnt=0)
        for number in range(count):
            k.v_add_u32(v[10 + number], 3, v[10 + number])
        k.emit(name.format("store"), registers, v[2], s[24:27], 0, offen=True, **given)
        k.s_endpgm()

    source = np.random.default_rng(5).integers(0, 0xFF00, 256, dtype=np.uint16)
    after = launch("gfx950", emit, buffers=[source, np.full(256, 9, np.uint16)]).buffers[1].reshape(64, 4)
    added = [3 if not half or number % 2 == 0 else 0 for number in range(components)]
    assert after[:, :components].tolist() == (source.reshape(64, 4)[:, :components] + np.array(added, np.uint16)).tolist()


def test_lds_subtractions_at_different_addresses() -> None:
    """Where no two lanes meet, no running sums are made."""
    lanes = np.arange(64, dtype=np.uint32)
    machine = new_machine("gfx950", 1, 1, 1024)
    machine.lds_u32[:64] = 1000 * lanes
    result = run("gfx950", lambda k: (k.ds_sub_u32(v[0], v[1]), k.ds_sub_rtn_u32(v[2], v[0], v[1]), k.ds_rsub_u32(v[0], v[3])),
                 vgprs={0: 4 * lanes, 1: 7 * lanes + 1, 3: np.full(64, 5, np.uint32)}, machine=machine)
    assert result.v(2)[0].tolist() == [(993 * lane - 1) & 0xFFFFFFFF for lane in range(64)]
    assert machine.lds_u32[:64].tolist() == [(5 - 986 * lane + 2) & 0xFFFFFFFF for lane in range(64)]
