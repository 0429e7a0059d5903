"""Vector memory against bytes and Python integers, lane by lane: buffers with their bounds, global, flat, scratch, atomics, findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from asmgen.builder import Builder
from asmgen.emulator.compiled import Work
from asmgen.emulator.memory import Memory
from asmgen.emulator.state import PRIVATE_BASE, SHARED_BASE, Machine
from asmgen.isa.operands import OFF
from asmgen.isa.registers import Reg, a, s, v
from asmgen.isa.table import names
from tests.emulator_harness import Result, new_machine, run
from tests.test_emulator_lds import changed, moderate, signed

WAVES = 3
SIZE = 8192
EXEC_MASK = 0x8F0F_4321_0FFF_80FD


@pytest.fixture(params=["numpy", "compiled"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which lanes gather and scatter."""
    chosen: str = request.param
    monkeypatch.setattr(Work, "pays", lambda self, more: chosen == "compiled")
    return chosen


class Bench:
    """A machine with a buffer of random bytes, and what it should become."""

    def __init__(self, arch: str = "gfx950", exec_mask: int = EXEC_MASK, seed: int = 0, scratch: int = 0) -> None:
        self.memory = Memory()
        self.start = self.memory.allocate(SIZE)
        self.machine: Machine = new_machine(arch, WAVES, 1, 1024, self.memory)
        self.machine.scratch_bytes = scratch
        self.rng = np.random.default_rng(seed)
        self.memory.view(self.start, SIZE)[:] = self.rng.integers(0, 256, SIZE, dtype=np.uint8)
        self.machine.vector[:64] = self.rng.integers(0, 1 << 32, (64, WAVES, 64), dtype=np.uint32)
        self.exec_mask = exec_mask

    def model(self) -> None:
        """Take the state as it is for the expected one."""
        self.bytes = bytearray(self.memory.view(self.start, SIZE).tobytes())
        self.registers = self.machine.vector[:64].copy()

    def lanes(self) -> Iterator[tuple[int, int]]:
        """Active lanes in order."""
        for wave in range(WAVES):
            for lane in range(64):
                if self.exec_mask >> lane & 1:
                    yield wave, lane

    def word(self, register: int, wave: int, lane: int, count: int = 1) -> int:
        return sum(int(self.registers[register + n, wave, lane]) << 32 * n for n in range(count))

    def put(self, register: int, wave: int, lane: int, value: int, count: int = 1) -> None:
        for n in range(count):
            self.registers[register + n, wave, lane] = value >> 32 * n & 0xFFFFFFFF

    def load(self, at: int, size: int) -> int:
        return int.from_bytes(self.bytes[at:at + size], "little")

    def store(self, at: int, value: int, size: int) -> None:
        self.bytes[at:at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def descriptor(self, records: int, stride: int = 0, flags: int = 0, swizzle: bool = False) -> dict[int, int]:
        """s[4:7]."""
        return {4: self.start & 0xFFFFFFFF, 5: self.start >> 32 | stride << 16 | swizzle << 31, 6: records, 7: flags}

    def run(self, emit: Callable[[Builder], Any], **settings: Any) -> Result:
        return run(self.machine.arch.name, emit, machine=self.machine, exec_mask=self.exec_mask, **settings)

    def compare(self, result: Result, findings: int = 0) -> None:
        assert len(result.findings.all()) == findings, [finding.sentence() for finding in result.findings.all()]
        assert self.memory.view(self.start, SIZE).tobytes() == bytes(self.bytes)
        wrong = np.argwhere(self.machine.vector[:64] != self.registers)
        assert not len(wrong), f"register, wave, lane {wrong[0]}"


LOADS = {"ubyte": (1, False, None), "sbyte": (1, True, None), "ushort": (2, False, None), "sshort": (2, True, None),
         "dword": (4, False, None), "dwordx2": (8, False, None), "dwordx3": (12, False, None), "dwordx4": (16, False, None),
         "ubyte_d16": (1, False, 0),
         "sbyte_d16": (1, True, 0), "short_d16": (2, False, 0), "ubyte_d16_hi": (1, False, 16), "sbyte_d16_hi": (1, True, 16),
         "short_d16_hi": (2, False, 16)}
STORES = {"byte": (1, 0), "short": (2, 0), "byte_d16_hi": (1, 16), "short_d16_hi": (2, 16), "dword": (4, 0), "dwordx2": (8, 0),
          "dwordx3": (12, 0), "dwordx4": (16, 0)}


def loaded(suffix: str, raw: int, old: int) -> int:
    """A register's value after a narrow load."""
    size, has_sign, half = LOADS[suffix]
    if size >= 4:
        return raw
    value = signed(raw, 8 * size) if has_sign else raw
    return value & 0xFFFFFFFF if half is None else old & ~(0xFFFF << half) & 0xFFFFFFFF | (value & 0xFFFF) << half


def by_dword(bench: Bench, at: int, size: int, in_range: Callable[[int, int], bool]) -> int:
    """What a load gives where each dword (or the narrow element) is checked by itself."""
    step = min(size, 4)
    return sum((bench.load(at + n, step) if in_range(at + n, step) else 0) << 8 * n for n in range(0, size, step))


@pytest.mark.parametrize("align", [1, 4])
@pytest.mark.parametrize("suffix", LOADS)
def test_raw_buffer_loads(suffix: str, align: int) -> None:
    """offen, soffset and an immediate; each dword is checked against num_records - soffset, unsigned."""
    bench, (size, _, _) = Bench(), LOADS[suffix]
    records, soffset = 4001, 40
    bench.machine.vector[2] = bench.rng.integers(0, 4400 // align, (WAVES, 64)) * align
    bench.machine.vector[2, 0, 6] = 0xFFFFFFF0
    bench.model()
    for wave, lane in bench.lanes():
        at = bench.word(2, wave, lane) + 16
        raw = by_dword(bench, at + soffset, size, lambda place, count: place - soffset + count <= records - soffset)
        bench.put(10, wave, lane, loaded(suffix, raw, bench.word(10, wave, lane)), max(1, size // 4))
    target = v[10:9 + max(1, size // 4)]
    bench.compare(bench.run(lambda k: k.emit(f"buffer_load_{suffix}", target, v[2], s[4:7], s[8], offen=True, offset=16),
                            sgprs={**bench.descriptor(records), 8: soffset}))


@pytest.mark.parametrize("suffix", STORES)
def test_raw_buffer_stores_in_lane_order(suffix: str) -> None:
    bench, (size, shift) = Bench(), STORES[suffix]
    bench.machine.vector[2] = bench.rng.integers(0, 260, (WAVES, 64))
    bench.machine.vector[2, 1] *= 4
    bench.model()
    records = 250
    for wave, lane in bench.lanes():
        at, value = bench.word(2, wave, lane) + 3, bench.word(10, wave, lane, max(1, size // 4)) >> shift
        for n in range(0, size, 4):
            if at + n + min(size, 4) <= records:
                bench.store(at + n, value >> 8 * n, min(size, 4))
    data = v[10:9 + max(1, size // 4)]
    bench.compare(bench.run(lambda k: k.emit(f"buffer_store_{suffix}", data, v[2], s[4:7], 0, offen=True, offset=3),
                            sgprs=bench.descriptor(records)))


def test_records_are_counted_where_an_index_is_used() -> None:
    """idxen with a stride: index < num_records, in records; the bytes behind the last record's are not checked."""
    bench = Bench()
    stride, records = 20, 60
    bench.machine.vector[2] = bench.rng.integers(0, 70, (WAVES, 64))
    bench.machine.vector[3] = bench.rng.integers(0, 10, (WAVES, 64)) * 4
    bench.model()
    for wave, lane in bench.lanes():
        index, offset = bench.word(2, wave, lane), bench.word(3, wave, lane)
        inside = index < records
        bench.put(10, wave, lane, bench.load(index * stride + 8, 8) if inside else 0, 2)
        bench.put(12, wave, lane, bench.load(index * stride + offset + 4, 4) if inside else 0)

    def emit(k: Builder) -> None:
        k.buffer_load_dwordx2(v[10:11], v[2], s[4:7], 0, idxen=True, offset=8)
        k.buffer_load_dword(v[12], v[2:3], s[4:7], 0, idxen=True, offen=True, offset=4)

    bench.compare(bench.run(emit, sgprs=bench.descriptor(records, stride)))


def test_bytes_are_counted_without_an_index() -> None:
    """A stride in the descriptor does not matter to offen alone."""
    bench = Bench()
    bench.machine.vector[2] = bench.rng.integers(0, 200, (WAVES, 64))
    bench.model()
    for wave, lane in bench.lanes():
        at = bench.word(2, wave, lane)
        bench.put(10, wave, lane, bench.load(at, 4) if at + 4 <= 100 else 0)
    bench.compare(bench.run(lambda k: k.buffer_load_dword(v[10], v[2], s[4:7], 0, offen=True), sgprs=bench.descriptor(100, 20)))


@pytest.mark.parametrize("group", range(4))
def test_swizzled_buffers(group: int) -> None:
    """Index groups of 8 << group records, interleaved dword by dword (CDNA3 ISA, 9.1.5.2); bits 20:19 of the last word are no size."""
    bench = Bench()
    stride, records = 16, 100
    together = 8 << group
    bench.machine.vector[2] = bench.rng.integers(0, 110, (WAVES, 64))
    bench.machine.vector[3] = bench.rng.integers(0, 5, (WAVES, 64)) * 4
    bench.model()
    for wave, lane in bench.lanes():
        index, offset = bench.word(2, wave, lane), bench.word(3, wave, lane)
        at = (index // together * stride + offset // 4 * 4) * together + index % together * 4 + offset % 4
        bench.put(10, wave, lane, bench.load(at, 4) if index < records and offset < stride else 0)
    bench.compare(bench.run(lambda k: k.buffer_load_dword(v[10], v[2:3], s[4:7], 0, idxen=True, offen=True),
                            sgprs=bench.descriptor(records, stride, 3 << 19 | group << 21, swizzle=True)))


def test_places_in_a_swizzled_buffer() -> None:
    """Typed from the formula: stride 8, 8 indices together. Record 0's dwords lie 32 bytes apart, record 8 begins at 64."""
    bench = Bench(exec_mask=(1 << 8) - 1)
    bench.machine.vector[2, :, :8] = [0, 0, 1, 7, 7, 8, 9, 17]
    bench.machine.vector[3, :, :8] = [0, 4, 0, 0, 4, 0, 4, 4]
    bench.model()
    for wave, lane in bench.lanes():
        bench.put(10, wave, lane, bench.load([0, 32, 4, 28, 60, 64, 100, 164][lane], 4))
    bench.compare(bench.run(lambda k: k.buffer_load_dword(v[10], v[2:3], s[4:7], 0, idxen=True, offen=True),
                            sgprs=bench.descriptor(100, 8, swizzle=True)))


ADD_TID = 1 << 23


def test_the_lane_number_as_an_index() -> None:
    """ADD_TID_ENABLE without an index: a private buffer, which is not checked against num_records (CDNA3 ISA, 9.1.5.1)."""
    bench = Bench()
    bench.model()
    for wave, lane in bench.lanes():
        bench.put(10, wave, lane, bench.load(lane * 12 + 4, 4))
    bench.compare(bench.run(lambda k: k.buffer_load_dword(v[10], OFF, s[4:7], 0, offset=4), sgprs=bench.descriptor(50, 12, ADD_TID)))


def test_the_lane_number_is_added_to_an_index() -> None:
    bench = Bench()
    bench.machine.vector[2] = bench.rng.integers(0, 40, (WAVES, 64))
    bench.model()
    for wave, lane in bench.lanes():
        index = bench.word(2, wave, lane) + lane
        bench.put(10, wave, lane, bench.load(index * 12 + 4, 4) if index < 60 else 0)
    bench.compare(bench.run(lambda k: k.buffer_load_dword(v[10], v[2], s[4:7], 0, idxen=True, offset=4),
                            sgprs=bench.descriptor(60, 12, ADD_TID)))


def test_stride_bits_of_a_private_buffer() -> None:
    """With ADD_TID_ENABLE the data format holds stride bits 17:14 (table 45), but not where the instruction converts by a format."""
    bench = Bench(exec_mask=3)
    far = bench.memory.allocate(0x8040)
    bench.memory.view(far, 0x8040)[:] = bench.rng.integers(0, 256, 0x8040, dtype=np.uint8)
    bench.model()
    for wave, lane in bench.lanes():
        wide, narrow = far + lane * (2 << 14 | 12) + 4, far + lane * 12 + 4
        bench.put(10, wave, lane, int.from_bytes(bench.memory.view(wide, 4).tobytes(), "little"))
        bench.put(11, wave, lane, int.from_bytes(bench.memory.view(narrow, 2).tobytes(), "little"))
        bench.put(12, wave, lane, int.from_bytes(bench.memory.view(narrow, 4).tobytes(), "little"))

    def emit(k: Builder) -> None:
        k.buffer_load_dword(v[10], OFF, s[4:7], 0, offset=4)
        k.buffer_load_format_x(v[11], OFF, s[4:7], 0, offset=4)
        k.emit("tbuffer_load_format_x", v[12], OFF, s[4:7], 0, offset=4, format=4 | 4 << 4)

    # Data format 2 is one component of 16 bits; number format 4 UINT; x selects R.
    flags = ADD_TID | 2 << 15 | 4 << 12 | 4
    bench.compare(bench.run(emit, sgprs={4: far & 0xFFFFFFFF, 5: far >> 32 | 12 << 16, 6: 0, 7: flags}))


def test_soffset_beyond_the_records_reads_zero_and_warns() -> None:
    bench = Bench()
    bench.machine.vector[2] = 0
    bench.model()
    for wave, lane in bench.lanes():
        bench.put(10, wave, lane, 0)
    result = bench.run(lambda k: k.buffer_load_dword(v[10], v[2], s[4:7], s[8], offen=True), sgprs={**bench.descriptor(64), 8: 65})
    bench.compare(result, 1)
    finding = result.findings.all()[0]
    assert (finding.check, finding.severity) == ("soffset-out-of-range", "warning")
    calm = bench.run(lambda k: k.buffer_load_dword(v[10], v[2], s[4:7], s[8], offen=True), sgprs={**bench.descriptor(64), 8: 64})
    assert not calm.findings.all()


@pytest.mark.parametrize("space", ["global", "flat"])
@pytest.mark.parametrize("suffix", LOADS)
def test_loads_by_64_bit_addresses(space: str, suffix: str) -> None:
    """A VGPR pair, and for global an SGPR pair with an unsigned VGPR, and a signed immediate."""
    bench, (size, _, _) = Bench(), LOADS[suffix]
    count = max(1, size // 4)
    place = bench.rng.integers(64, SIZE - 64, (WAVES, 64))
    bench.machine.vector[2] = (bench.start + place) & 0xFFFFFFFF
    bench.machine.vector[3] = (bench.start + place) >> 32
    bench.machine.vector[4] = place
    bench.model()
    offset = -13 if space == "global" else 13
    for wave, lane in bench.lanes():
        raw = bench.load(int(place[wave, lane]) + offset, size)
        for register in (10, 20)[:1 + (space == "global")]:
            bench.put(register, wave, lane, loaded(suffix, raw, bench.word(register, wave, lane)), count)

    def emit(k: Builder) -> None:
        if space == "flat":
            k.emit(f"flat_load_{suffix}", v[10:9 + count], v[2:3], offset=offset)
        else:
            k.emit(f"global_load_{suffix}", v[10:9 + count], v[2:3], OFF, offset=offset)
            k.emit(f"global_load_{suffix}", v[20:19 + count], v[4], s[4:5], offset=offset)

    bench.compare(bench.run(emit, sgprs={4: bench.start & 0xFFFFFFFF, 5: bench.start >> 32}))


@pytest.mark.parametrize("space", ["global", "flat"])
@pytest.mark.parametrize("suffix", STORES)
def test_stores_by_64_bit_addresses(space: str, suffix: str) -> None:
    bench, (size, shift) = Bench(), STORES[suffix]
    count = max(1, size // 4)
    place = bench.rng.integers(16, 300, (WAVES, 64))
    bench.machine.vector[2] = (bench.start + place) & 0xFFFFFFFF
    bench.machine.vector[3] = (bench.start + place) >> 32
    bench.model()
    for wave, lane in bench.lanes():
        bench.store(int(place[wave, lane]) + 7, bench.word(10, wave, lane, count) >> shift, size)
    tail = (OFF,) if space == "global" else ()
    bench.compare(bench.run(lambda k: k.emit(f"{space}_store_{suffix}", v[2:3], v[10:9 + count], *tail, offset=7)))


def test_agpr_data() -> None:
    bench = Bench()
    place = np.arange(64) * 32
    bench.machine.vector[2] = place
    bench.model()
    for _, lane in bench.lanes():
        bench.store(int(place[lane]) + 16, bench.load(int(place[lane]), 16), 16)

    def emit(k: Builder) -> None:
        k.buffer_load_dwordx4(a[4:7], v[2], s[4:7], 0, offen=True)
        k.s_waitcnt(vmcnt=0)
        k.global_store_dwordx4(v[2], a[4:7], s[4:5], offset=16)

    sgprs = bench.descriptor(SIZE)
    bench.compare(bench.run(emit, sgprs={**sgprs}))


SCRATCH = 256


@pytest.mark.parametrize("form", ["vaddr", "saddr", "both", "neither"])
@pytest.mark.parametrize("suffix", LOADS)
def test_scratch_is_private_to_each_lane(suffix: str, form: str) -> None:
    """What a lane stored, it loads again, by any form of address; lanes and waves do not meet."""
    bench, (size, _, _) = Bench(scratch=SCRATCH), LOADS[suffix]
    count = max(1, size // 4)
    bench.machine.vector[2] = bench.rng.integers(0, 25, (WAVES, 64))
    bench.model()
    private = {place: bytearray(SCRATCH) for place in bench.lanes()}
    for wave, lane in bench.lanes():
        memory = private[wave, lane]
        memory[64:80] = bench.word(30, wave, lane, 4).to_bytes(16, "little")
        memory[80:92] = bench.word(34, wave, lane, 3).to_bytes(12, "little")
        at = 60 + (bench.word(2, wave, lane) if form in ("vaddr", "both") else 0) + (5 if form in ("saddr", "both") else 0)
        raw = int.from_bytes(memory[at:at + size], "little")
        bench.put(10, wave, lane, loaded(suffix, raw, bench.word(10, wave, lane)), count)
    vaddr: Any = v[2] if form in ("vaddr", "both") else OFF
    saddr: Any = s[8] if form in ("saddr", "both") else OFF

    def emit(k: Builder) -> None:
        k.scratch_store_dwordx4(OFF, v[30:33], OFF, offset=64)
        k.scratch_store_dwordx3(OFF, v[34:36], s[9], offset=-20)
        k.emit(f"scratch_load_{suffix}", v[10:9 + count], vaddr, saddr, offset=60)

    bench.compare(bench.run(emit, sgprs={8: 5, 9: 100}))


@pytest.mark.parametrize("suffix", ["ubyte", "sbyte", "ushort", "sshort", "dword"])
def test_scratch_loads_into_lds(suffix: str) -> None:
    """A lane's private bytes, extended, to M0 + offset + 4 * lane; the immediate offset moves both addresses (semantics.md 7)."""
    bench, (size, _, _) = Bench(scratch=SCRATCH), LOADS[suffix]
    bench.machine.vector[2] = bench.rng.integers(0, 12, (WAVES, 64))
    bench.model()
    expected = bench.machine.lds.copy()
    for wave, lane in bench.lanes():  # every wave to the same place, the last stays
        private = bytes(8) + bench.word(10, wave, lane, 4).to_bytes(16, "little")
        at = bench.word(2, wave, lane) + 8
        value = loaded(suffix, int.from_bytes(private[at:at + size], "little"), 0)
        expected[0x108 + 4 * lane:0x10C + 4 * lane] = np.frombuffer(value.to_bytes(4, "little"), np.uint8)

    def emit(k: Builder) -> None:
        k.scratch_store_dwordx4(OFF, v[10:13], OFF, offset=8)
        k.emit(f"scratch_load_lds_{suffix}", v[2], OFF, offset=8)
        k.s_waitcnt(vmcnt=0)

    bench.compare(bench.run(emit, m0=0x103))
    assert (bench.machine.lds == expected).all()


@pytest.mark.parametrize("suffix", STORES)
def test_narrow_and_wide_scratch_stores(suffix: str) -> None:
    bench, (size, shift) = Bench(scratch=SCRATCH), STORES[suffix]
    count = max(1, size // 4)
    bench.machine.vector[2] = bench.rng.integers(0, 12, (WAVES, 64))
    bench.model()
    for wave, lane in bench.lanes():
        memory = bytearray(48)
        at = bench.word(2, wave, lane) + 8
        memory[at:at + size] = (bench.word(10, wave, lane, count) >> shift & (1 << 8 * size) - 1).to_bytes(size, "little")
        bench.put(20, wave, lane, int.from_bytes(memory[8:24], "little"), 4)
        bench.put(24, wave, lane, int.from_bytes(memory[24:40], "little"), 4)

    def emit(k: Builder) -> None:
        k.emit(f"scratch_store_{suffix}", v[2], v[10:9 + count], OFF, offset=8)
        k.scratch_load_dwordx4(v[20:23], OFF, OFF, offset=8)
        k.scratch_load_dwordx4(v[24:27], OFF, OFF, offset=24)

    bench.compare(bench.run(emit))


def test_flat_addresses_choose_lds_private_or_device_memory() -> None:
    bench = Bench(scratch=SCRATCH)
    bench.machine.lds[:] = bench.rng.integers(0, 256, len(bench.machine.lds), dtype=np.uint8)
    kinds = bench.rng.integers(0, 3, (WAVES, 64))
    offsets = bench.rng.integers(0, 60, (WAVES, 64)) * 4
    base = np.array([SHARED_BASE, PRIVATE_BASE, bench.start])[kinds] + offsets
    bench.machine.vector[2], bench.machine.vector[3] = base & 0xFFFFFFFF, base >> 32
    bench.model()
    lds = bench.machine.lds.copy()
    for wave, lane in bench.lanes():
        kind, at = kinds[wave, lane], int(offsets[wave, lane]) + 4
        private = [wave << 8 | lane, 0xABC00000 | wave << 8 | lane]
        value = {0: int.from_bytes(lds[at:at + 4].tobytes(), "little"), 2: bench.load(at, 4)}.get(kind, private[0] if at == 4 else 0)
        bench.put(10, wave, lane, value)
        bench.put(20, wave, lane, private[0])
    bench.machine.vector[20] = bench.registers[20]

    def emit(k: Builder) -> None:
        k.scratch_store_dword(OFF, v[20], OFF, offset=4)
        k.flat_load_dword(v[10], v[2:3], offset=4)

    bench.compare(bench.run(emit))

    bench.model()
    for wave, lane in bench.lanes():
        kind, at = kinds[wave, lane], int(offsets[wave, lane])
        value = bench.word(11, wave, lane)
        if kind == 2:
            bench.store(at, value, 4)
        elif kind == 0:
            lds[at:at + 4] = np.frombuffer(value.to_bytes(4, "little"), np.uint8)
    bench.compare(bench.run(lambda k: k.flat_store_dword(v[2:3], v[11])))
    assert (bench.machine.lds == lds).all()


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


def test_unknown_memory_is_a_finding_and_is_not_touched() -> None:
    bench = Bench()
    place = np.where(np.arange(64) == 9, SIZE - 8, 16 * np.arange(64))
    bench.machine.vector[2], bench.machine.vector[3] = (bench.start + place) & 0xFFFFFFFF, (bench.start + place) >> 32
    bench.exec_mask = (1 << 64) - 1
    bench.model()
    for wave, lane in bench.lanes():
        bench.put(10, wave, lane, 0 if lane == 9 else bench.load(int(place[lane]), 16), 4)
    result = bench.run(lambda k: k.global_load_dwordx4(v[10:13], v[2:3], OFF))
    bench.compare(result, 1)
    finding = result.findings.all()[0]
    assert finding.check == "access-outside-registry" and "lane 9" in finding.message and finding.wave == 0


@pytest.mark.parametrize("name", ["global_store_dwordx4", "global_atomic_add"])
def test_stores_to_unknown_memory(name: str) -> None:
    bench = Bench()
    place = np.where(np.arange(64) == 3, SIZE, 16 * np.arange(64))
    bench.machine.vector[4] = place
    bench.model()
    size = 16 if "x4" in name else 4
    for wave, lane in bench.lanes():
        if lane != 3:
            old = bench.load(int(place[lane]), 4)
            value = bench.word(10, wave, lane, size // 4)
            bench.store(int(place[lane]), value if size == 16 else old + value, size)
    result = bench.run(lambda k: k.emit(name, v[4], v[10:9 + size // 4], s[4:5]), sgprs={4: bench.start & 0xFFFFFFFF, 5: bench.start >> 32})
    bench.compare(result, 1)


def test_a_buffer_that_reaches_beyond_its_memory_is_a_finding() -> None:
    bench = Bench()
    bench.machine.vector[2] = SIZE - 2
    bench.model()
    for wave, lane in bench.lanes():
        bench.put(10, wave, lane, 0)
    bench.compare(bench.run(lambda k: k.buffer_load_dword(v[10], v[2], s[4:7], 0, offen=True), sgprs=bench.descriptor(SIZE + 100)), 1)


def test_scratch_beyond_its_size_is_a_finding() -> None:
    bench = Bench(scratch=64)
    bench.machine.vector[2] = np.where(np.arange(64) == 11, 61, 8)
    bench.exec_mask = 1 << 11 | 1
    bench.model()
    for wave, lane in bench.lanes():
        bench.put(10, wave, lane, 0)
    result = bench.run(lambda k: k.scratch_load_dword(v[10], v[2], OFF))
    bench.compare(result, 1)
    assert "lane 11" in result.findings.all()[0].message and "private memory" in result.findings.all()[0].message


def test_cache_control_changes_nothing() -> None:
    bench = Bench()
    bench.model()

    def emit(k: Builder) -> None:
        k.buffer_wbl2(sc0=True, sc1=True)
        k.buffer_inv(sc1=True)

    bench.compare(bench.run(emit))
