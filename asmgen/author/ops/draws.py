"""Philox 4x32 as a tile operation: 128 random bits for each element's counter and a key for all.

    philox(k, (w0, w1, w2, w3), (number, 0, row, column), (seed[0:0], seed[1:1]), rounds=7)

Each of the four results is an i32 tile (or vector); each word of the counter is one of that layout, an SGPR or a number. The product of 64
bits is one v_mad_u64_u32. gfx950 takes three XORs in one instruction: 4 instructions a round, 6 on gfx942. Keys are scalars, which all
elements of a group share; a group is as many elements as keep 64 VGPRs busy at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from asmgen.author.ops.constants import constant
from asmgen.author.ops.tileoperands import Target, TileSource, operands_of, targets_of
from asmgen.author.ops.vectors import Vector
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.numbers.philox import BUMPS, MULTIPLIERS, ROUNDS, XOR3
from asmgen.isa.registers import Reg, vcc

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

_Value = Reg | int | float
_GROUP = 4
"""Elements whose rounds are computed in turns, so that none waits for its product before; each takes 8 VGPRs."""


def philox(k: TileBuilder, out: Sequence[Target], counter: Sequence[TileSource], key: Sequence[Reg | int], rounds: int = 10,
           at: StepIndex | None = None) -> None:
    """The four words of Philox 4x32 with 7 or 10 `rounds`. Results may be words of the counter. Changes SCC and VCC.

    Raises TileError for other counts of words, results of another type or layout, or another number of rounds.
    """
    if len(out) != 4 or len(counter) != 4 or len(key) != 2 or rounds not in ROUNDS:
        raise TileError(f"philox: {len(out)} results, {len(counter)} words of counter, {len(key)} of key and {rounds} rounds; 4, 4, 2 and "
                        f"{' or '.join(map(str, ROUNDS))} would do", k.here())
    wrong = next((one for one in out if one.dtype != "i32"), None)
    if wrong is not None:
        raise TileError(f"philox: {wrong} is {wrong.dtype}; random words are i32", k.here())
    held = [one for one in counter if isinstance(one, (Tile, Vector))]
    reads = writes = 0
    for one in held:
        reads |= one.registers.mask
    for target in out:
        writes |= target.registers.mask
    indices = [one.index for one in (*out, *held)]
    with operation(k, f"philox {out[0].name}", indices, reads=reads, writes=writes, at=at), ExitStack() as stack:
        words = [operands_of(k, "philox", out[0], source) for source in counter]
        targets = [targets_of(k, "philox", one) for one in out]
        for one in out[1:]:
            operands_of(k, "philox", out[0], one)  # of one shape and layout
        factors = [stack.enter_context(constant(k, "philox_factor", factor)) for factor in MULTIPLIERS]
        keys = [stack.enter_context(k.scratch("philox_key", file="s")) for _ in key]
        for first in range(0, len(targets[0]), _GROUP):
            some = range(first, min(first + _GROUP, len(targets[0])))
            with k.scratch("philox_state", 8 * len(some)) as state:
                _group(k, [[one[number] for one in targets] for number in some], [[one[number] for one in words] for number in some],
                       [state[8 * number:8 * number + 7] for number in range(len(some))], factors, key, keys, rounds)


def _group(k: TileBuilder, targets: Sequence[Sequence[Reg]], words: Sequence[Sequence[_Value]], states: Sequence[Reg],
           factors: Sequence[Reg], key: Sequence[Reg | int], keys: Sequence[Reg], rounds: int) -> None:
    """Elements together. The state of one is two pairs (low and high words of the two products), old and new ones in turns."""
    for held, one in zip(keys, key, strict=True):
        k.s_mov_b32(held, one)
    current = [[_in_vgpr(k, word, state[4 + number]) for number, word in enumerate(line)]
               for line, state in zip(words, states, strict=True)]
    for round_ in range(rounds):
        last = round_ == rounds - 1
        following = []
        for line, state in zip(current, states, strict=True):
            at = 4 * (round_ % 2)
            for pair, (word, factor) in enumerate(zip((line[0], line[2]), factors, strict=True)):
                k.v_mad_u64_u32(state[at + 2 * pair:at + 2 * pair + 1], vcc, word, factor, 0)
        for line, state, target in zip(current, states, targets, strict=True):
            at = 4 * (round_ % 2)
            low0, high0, low1, high1 = (state[at + number] for number in range(4))
            _xor3(k, target[0] if last else high1, high1, line[1], keys[0])
            _xor3(k, target[2] if last else high0, high0, line[3], keys[1])
            if last:
                k.v_mov_b32(target[1], low1)
                k.v_mov_b32(target[3], low0)
            following.append([high1, low1, high0, low0])
        if not last:
            for held, bump in zip(keys, BUMPS, strict=True):
                k.s_add_u32(held, held, bump)
        current = following


def _in_vgpr(k: TileBuilder, word: _Value, free: Reg) -> Reg:
    """A word of the counter where products reach it beside a scalar factor."""
    if isinstance(word, Reg) and word.file == "v":
        return word
    k.v_mov_b32(free, word if isinstance(word, Reg) else int(word) & 0xFFFFFFFF)
    return free


def _xor3(k: TileBuilder, out: Reg, a: Reg, b: Reg, key: Reg) -> None:
    if k.arch == "gfx950":
        k.v_bitop3_b32(out, a, b, key, bitop3=XOR3)
        return
    k.v_xor_b32(out, a, b)
    k.v_xor_b32(out, key, out)
