"""Buffer loads and stores against bytes and Python integers, lane by lane: bounds, strides, swizzles, the lane's number as an index."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.isa.operands import OFF
from asmgen.isa.registers import s, v
from tests.vmem_bench import LOADS, STORES, WAVES, Bench, by_dword, loaded

pytestmark = pytest.mark.usefixtures("both_paths")


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
    """idxen with a stride: index < num_records, in records; the bytes after the last record's are not checked."""
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
