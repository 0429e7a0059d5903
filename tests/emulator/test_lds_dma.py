"""LDS-DMA: where each lane's data lands, of which sizes, and when it is there."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.emulator.machine.devicememory import Memory
from asmgen.isa.registers import s, v
from tests.atomic_reference import signed
from tests.emulator_harness import ARCHS, new_machine
from tests.lds_model import EXEC_MASK, WAVES, WORKGROUPS, Model, execute

pytestmark = pytest.mark.usefixtures("both_paths")
DMA_SIZES = {"ubyte": 1, "sbyte": 1, "ushort": 2, "sshort": 2, "dword": 4, "dwordx3": 12, "dwordx4": 16}
DMA = [(arch, space, suffix, size) for arch in ARCHS for space in ("buffer", "global") for suffix, size in DMA_SIZES.items()
       if size <= 4 or arch == "gfx950"]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("arch", "space", "suffix", "size"), DMA)
def test_lds_dma(arch: str, space: str, suffix: str, size: int, whole: bool) -> None:
    """Lane l lands at M0 + offset + 4 l, or 16 l for the wide ones (dwordx3 leaves every fourth dword); out of range is 0.

    `whole`: all lanes are active and in range, and so may move together.
    """
    big = arch == "gfx950"
    base = 0x1_8004 if big else 0x0804  # above 16 bits where the chip has so much LDS
    memory = Memory()
    machine = new_machine(arch, WAVES, WORKGROUPS, 0x1_A000 if big else 0x2000, memory)
    rng = np.random.default_rng(9)
    machine.lds[:] = rng.integers(0, 256, len(machine.lds), dtype=np.uint8)
    start = memory.allocate(4096)
    content = rng.integers(0, 256, 4096, dtype=np.uint8)
    memory.view(start, 4096)[:] = content
    records = 3000 if space == "buffer" and not whole else 4096
    machine.vector[2] = rng.integers(0, 3968 // 16, (WAVES, 64)) * 16
    mask = (1 << 64) - 1 if whole else EXEC_MASK
    model = Model(machine, mask)
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

    execute(machine, emit, m0=base | 0xFC00_0000, exec_mask=mask, sgprs={4: start & 0xFFFFFFFF, 5: start >> 32, 6: records, 7: 0})
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
