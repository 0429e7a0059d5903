"""Global, flat and scratch memory against bytes and Python integers, lane by lane, and what accesses outside of it give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.emulator.machine.state import PRIVATE_BASE, SHARED_BASE
from asmgen.isa.operands import OFF
from asmgen.isa.registers import a, s, v
from tests.vmem_bench import LOADS, SIZE, STORES, WAVES, Bench, loaded

pytestmark = pytest.mark.usefixtures("both_paths")


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
    """A lane's private bytes, extended, to M0 + offset + 4 * lane; the immediate moves both (docs/facts/semantics.md section 7)."""
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
