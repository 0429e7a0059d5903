"""How many workgroups a compute unit holds (docs/facts/instructions.md section 5)."""

from __future__ import annotations

import pytest

from asmgen.isa.arch import GFX942, GFX950, Architecture


@pytest.mark.parametrize(("arch", "registers", "lds", "waves", "workgroups"), [
    (GFX942, 64, 0, 1, 32), (GFX942, 65, 0, 1, 28), (GFX942, 128, 0, 8, 2), (GFX942, 256, 0, 3, 2),  # wave slots; 72; whole groups
    (GFX942, 512, 0, 8, 0), (GFX942, 64, 32768, 4, 2), (GFX942, 64, 32769, 4, 1), (GFX942, 64, 1, 1, 32), (GFX942, 512, 1, 1, 4),
    (GFX950, 64, 32769, 4, 4), (GFX950, 64, 163840, 4, 1), (GFX950, 64, 163841, 4, 0),
])
def test_workgroups_of_a_compute_unit(arch: Architecture, registers: int, lds: int, waves: int, workgroups: int) -> None:
    assert arch.workgroups_per_cu(registers, lds, waves) == workgroups


def test_lds_is_allocated_in_granules() -> None:
    assert [GFX942.allocated_lds(size) for size in (0, 1, 512, 513)] == [0, 512, 512, 1024]
    assert [GFX950.allocated_lds(size) for size in (1280, 1281)] == [1280, 2560]
