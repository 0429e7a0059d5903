"""Address registers of LDS accesses: one serves all accesses that are a constant away from it at each lane of each wave.

Accesses of all tiles share them: cells, stages, parts that differ by a constant, and other tiles that lie in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from asmgen.author.address.addressing import WaveIndex, emit_address
from asmgen.author.emit.kernel import Kept
from asmgen.author.tiles.immediates import DS_IMMEDIATES, split_immediates
from asmgen.isa.arch import LANES
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder


def wave_values(waves: Sequence[WaveIndex]) -> list[dict[str, int]]:
    """The values of the waves' numbers together, the last one fastest: with the 64 lanes of each the points of an address."""
    return [dict(zip((wave.name for wave in waves), values, strict=True))
            for values in itertools.product(*(range(wave.count) for wave in waves))]


def lds_bases(k: TileBuilder, name: str, accesses: Sequence[Sequence[int]], waves: Sequence[WaveIndex]) -> list[tuple[Reg, int]]:
    """(VGPR, immediate) of each access, given by its byte for each lane of `wave_values(waves)`. Registers that are not there yet get
    that name, and are made where the builder stands. Raises LayoutError where no code was found for an address."""
    key = "lds bases", tuple((wave.name, wave.register, wave.count) for wave in waves)
    pool = k.made.setdefault(key, {})
    assert isinstance(pool, dict)
    inputs = [wave.register for wave in waves if isinstance(wave.register, Reg)]
    found: dict[int, tuple[Reg, int]] = {}
    for number, access in enumerate(accesses):
        low = min(access)
        for start, kept in pool.get(tuple(byte - low for byte in access), ()):
            if DS_IMMEDIATES[0] <= low - start <= DS_IMMEDIATES[1] and k.holds_since(kept.position, [kept.value, *inputs]):
                found[number] = kept.value, low - start
                break
    rest = [number for number in range(len(accesses)) if number not in found]
    if rest:
        split = split_immediates([accesses[number] for number in rest], DS_IMMEDIATES)
        registers = [_emit(k, k.registers.unused(name), base, waves) for base in split.bases]
        for base, register in zip(split.bases, registers, strict=True):
            low = min(base)
            pool.setdefault(tuple(byte - low for byte in base), []).append((low, Kept(register, len(k.items))))
        found |= {number: (registers[which], offset) for number, (which, offset) in zip(rest, split.addresses, strict=True)}
    return [found[number] for number in range(len(accesses))]


def _emit(k: TileBuilder, name: str, base: Sequence[int], waves: Sequence[WaveIndex]) -> Reg:
    numbers = {tuple(values.values()): number for number, values in enumerate(wave_values(waves))}

    def address(lane: int, **values: int) -> int:
        return base[numbers[tuple(values[wave.name] for wave in waves)] * LANES + lane]

    return emit_address(k, name, address, k.lane, waves)
