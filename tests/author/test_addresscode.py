"""Planned address code: right at every lane, as short as what an exhaustive search finds, encodable; and splits into immediates."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.author.address.addresscode import SEMANTICS, AddressCode, Input, plan
from asmgen.author.emit.builder import Builder
from asmgen.author.tiles.immediates import BUFFER_IMMEDIATES, GLOBAL_IMMEDIATES, split_immediates
from asmgen.isa.layout import LayoutError, from_bits, identity
from asmgen.isa.layouts_lds import PUBLISHED
from asmgen.isa.layouts_mfma import operand_layout
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.placement import Pads, Placement, Swizzle, row_major
from asmgen.isa.registers import Reg, s, v
from tests.emulator_harness import run
from tests.placement_addresses import address_of, addresses

LANE, WAVE = Input("lane", 64), Input("wave", 4, scalar=True)
LANES = [{"lane": lane} for lane in range(64)]


def swizzled(name: str, offset: int) -> int:
    return PUBLISHED[name](offset)


# Address, inputs, instructions, VALU instructions among them: no more than these. Written by hand, the best known to the author.
CASES: dict[str, tuple[Callable[..., int], list[Input], int, int]] = {
    "lane": (lambda lane: lane, [LANE], 0, 0),
    "constant": (lambda lane: 4096, [LANE], 0, 0),
    "DMA order": (lambda lane: 16 * lane + 64, [LANE], 1, 1),
    "A of 128-byte rows": (lambda lane: 128 * (lane % 16) + 16 * (lane // 16), [LANE], 2, 2),
    "the same, swizzled": (lambda lane: 128 * (lane % 16) + 16 * (lane // 16 ^ lane % 8), [LANE], 5, 5),
    "the same, of a wave": (lambda lane, wave: 128 * (64 * wave + lane % 16) + 16 * (lane // 16 ^ lane % 8), [LANE, WAVE], 6, 6),
    "DMA, swizzled": (lambda lane: 128 * (lane // 8) + 16 * (lane % 8 ^ lane // 8), [LANE], 3, 3),
    "the paper's": (lambda lane: swizzled("st_16x32", 64 * (lane % 16) + 16 * (lane // 16)), [LANE], 5, 5),
    "MXFP4 article": (lambda lane: swizzled("bf16_256", 256 * (lane % 16) + 64 * (lane // 16)), [LANE], 8, 8),
    "rows of 384 bytes": (lambda lane: 384 * (lane % 16) + 16 * (lane // 16), [LANE], 3, 3),
    "rows of 192 bytes, waves of 96 rows": (lambda lane, wave: 192 * (96 * wave + lane % 32) + 16 * (lane // 32), [LANE, WAVE], 6, 5),
    "rows of 384 bytes, swizzled": (lambda lane: 384 * (lane % 16) + 16 * (lane // 16 ^ lane % 8), [LANE], 6, 6),
    "pads of 16 bytes each 1024": (lambda lane: Pads(((1024, 16),))(128 * (lane % 16) + 16 * (lane // 16)), [LANE], 4, 4),
    "D of 512-byte rows": (lambda lane: 2048 * (lane // 16) + 2 * (lane % 16), [LANE], 2, 2),
    "second half of swizzled rows": (lambda lane: (64 * (lane % 32) + 16 * (lane // 32) ^ 16 * (lane // 4 % 4) ^ 32) - 32, [LANE], 7, 7),
    "DMA of a line that begins in a swizzle": (lambda lane, wave: 16 * (lane % 8 ^ lane // 16 ^ 4 ^ wave), [LANE, WAVE], 7, 6),
    "a grid of waves": (lambda lane, wave: 8192 * (wave // 2) + 32 * (wave % 2) + 128 * (lane % 16) + 16 * (lane // 16),
                        [LANE, WAVE], 5, 3),
    "three waves": (lambda wave, lane: 12288 * wave + 4 * lane, [Input("wave", 3, scalar=True), LANE], 2, 2),
    "item of a workgroup": (lambda thread: 1024 * (thread // 64) + 16 * (thread % 64), [Input("thread", 256)], 1, 1),
}


def inline(part: object) -> bool:
    return not isinstance(part, int) or -16 <= part <= 64


def is_encodable(code: AddressCode, inputs: list[Input]) -> bool:
    """At most one scalar register or literal for a VALU instruction, a literal only in the first place of a two-operand one."""
    scalars = {one.name for one in inputs if one.scalar}
    for op in code.ops:
        if op.opcode.startswith("s_"):
            scalars.add(op.result)
            if any(isinstance(part, str) and part not in scalars for part in op.operands):
                return False
            continue
        literals = [place for place, part in enumerate(op.operands) if not inline(part)]
        read = {part for part in op.operands if part in scalars}
        if len(literals) + len(read) > 1 or literals not in ([], [0]) or literals and len(op.operands) > 2:
            return False
        if len(op.operands) == 2 and op.operands[1] in scalars:
            return False
    return True


@pytest.mark.parametrize("name", CASES)
def test_short_right_and_encodable(name: str) -> None:
    address, inputs, most, most_vector = CASES[name]
    code = plan(address, inputs)
    for values in itertools.product(*(range(one.size) for one in inputs)):
        point = dict(zip([one.name for one in inputs], values, strict=True))
        assert code.evaluate(**point) == address(**point)
    assert len(code.ops) <= most and code.vector_ops <= most_vector
    assert is_encodable(code, inputs), [str(op) for op in code.ops]


def emit(k: Builder, code: AddressCode) -> Reg | int | None:
    """The plan's instructions with lane in v0, wave in s0, results from v1 and s1 on."""
    places: dict[str, Reg | int] = {"lane": v[0], "thread": v[0], "wave": s[0]}
    for number, op in enumerate(code.ops):
        places[op.result] = s[number + 1] if op.opcode.startswith("s_") else v[number + 1]
        getattr(k, op.opcode)(places[op.result], *(places[part] if isinstance(part, str) else part for part in op.operands))
    return places[code.result] if code.result else None


@pytest.mark.parametrize("name", [name for name, (_, _, most, _) in CASES.items() if most and name != "item of a workgroup"])
def test_the_emulator_computes_the_same(name: str) -> None:
    """What the plan says its opcodes do is what they do: emitted with the builder's checks, run on the emulator."""
    address, inputs, _, _ = CASES[name]
    code = plan(address, inputs)
    for wave in range(next((one.size for one in inputs if one.name == "wave"), 1)):
        result = run("gfx950", lambda k: emit(k, code), vgprs={0: np.arange(64, dtype=np.uint32)}, sgprs={0: wave})
        register = int(str(code.result).removeprefix("t")) + 1 if code.result != "lane" else 0
        wanted = [address(**{one.name: {"lane": lane, "wave": wave}[one.name] for one in inputs}) for lane in range(64)]
        assert (result.v(register)[0].astype(np.int64) + code.constant).tolist() == wanted


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.permutations([2, 3, 4, 5, 6, 7, 8, 9, 10]), st.lists(st.integers(0, 5), min_size=1, max_size=3))
def test_random_xor_layouts(places: list[int], swizzle: list[int]) -> None:
    """Six lane bits to any six bits of the offset, some of them to a second one: code is always found, two instructions a field."""
    images = [1 << place for place in places[:6]]
    for bit in swizzle:
        images[bit] ^= 1 << places[6 + bit % 3]
    layout = from_bits({"lane": [{"offset": image} for image in images]}, {"offset": 2048})
    code = plan(lambda lane: layout(lane=lane)["offset"], [LANE])
    assert all(code.evaluate(lane=lane) == layout(lane=lane)["offset"] for lane in range(64))
    assert is_encodable(code, [LANE])
    assert len(code.ops) <= 3 * 6 - 1


TWO_OPERANDS = ("v_lshlrev_b32", "v_lshrrev_b32", "v_and_b32", "v_xor_b32", "v_add_u32", "v_mul_u32_u24")
CONSTANTS = sorted({(1 << width) - 1 << low for width in range(1, 12) for low in range(12)} | set(range(1, 17)))
Table = tuple[int, ...]


def one_more(values: set[Table]) -> set[Table]:
    """All that one instruction makes of the values: with a constant, two of them, two of them with a shift."""
    found = set()
    for value in values:
        for opcode in TWO_OPERANDS:
            compute = SEMANTICS[opcode]
            found |= {tuple([compute(constant, one) for one in value]) for constant in CONSTANTS if "lsh" not in opcode or constant < 16}
        for other in values:
            pairs = list(zip(value, other, strict=True))
            found |= {tuple([a ^ b for a, b in pairs])} | {tuple([(a << shift) + b for a, b in pairs]) for shift in range(12)}
    return found


def test_nothing_shorter_exists() -> None:
    """Exhaustively: one instruction, or two with constants of one run of bits, do not give what more were planned for."""
    lane = tuple(range(64))
    once = one_more({lane}) | {lane}
    for name, ops in (("DMA order", 1), ("A of 128-byte rows", 2), ("D of 512-byte rows", 2), ("DMA, swizzled", 3)):
        address, _, _, _ = CASES[name]
        wanted = tuple(address(lane=one) - address(lane=0) for one in lane)
        assert len(plan(address, [LANE]).ops) == ops
        assert wanted != lane and (ops == 1 or wanted not in once)
        if ops < 3:
            continue
        for value in once:
            pairs = list(zip(value, lane, strict=True))
            for opcode in TWO_OPERANDS:
                compute = SEMANTICS[opcode]
                # Most constants fail at the last lane already.
                for constant in CONSTANTS:
                    if ("lsh" not in opcode or constant < 16) and compute(constant, value[63]) == wanted[63]:
                        assert tuple([compute(constant, a) for a in value]) != wanted
            assert tuple([a ^ b for a, b in pairs]) != wanted
            for shift in range(12):
                assert [(a << shift) + b for a, b in pairs] != list(wanted) != [(b << shift) + a for a, b in pairs]


def test_errors() -> None:
    with pytest.raises(LayoutError, match="31-bit"):
        plan(lambda lane: lane - 1, [LANE])
    with pytest.raises(LayoutError, match="no short code"):
        plan(lambda lane: lane * lane * 7 % 61, [LANE])
    with pytest.raises(LayoutError, match="same points"):
        split_immediates([(0, 1), (0,)])
    with pytest.raises(LayoutError, match="do not allow 0"):
        split_immediates([(0, 1)], (4, 8))


A_LANES = operand_layout(MFMA["v_mfma_f32_16x16x32_bf16"], "a").only(["lane"], ["i", "k"]).renamed(i="row", k="column")


@pytest.mark.parametrize(("swizzle", "pads", "bases"), [
    ("", (), 1), ("rows_128", (), 2), ("", ((1024, 16),), 1), ("fp8_128", (), 2)])
def test_bases_of_a_gemm_tile(swizzle: str, pads: tuple[tuple[int, int], ...], bases: int) -> None:
    """Eight row tiles by two halves of K of a 128 x 64 bf16 tile, two stages: a XOR costs a base for each half, pads cost none."""
    placement = Placement(row_major(64, 128, 16), PUBLISHED[swizzle] if swizzle else Swizzle(), Pads(pads), (("stage", 16384),))
    accesses = [addresses(address_of(placement, A_LANES, {"row": 16 * row, "column": 32 * half}, stage=stage), LANES)
                for stage in range(2) for row in range(8) for half in range(2)]
    split = split_immediates(accesses)
    assert len(split.bases) == bases
    for access, (base, immediate) in zip(accesses, split.addresses, strict=True):
        assert [address + immediate for address in split.bases[base]] == list(access)
    assert all(min(base) == 0 for base in split.bases)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20000)), min_size=1, max_size=12),
       st.sampled_from([BUFFER_IMMEDIATES, GLOBAL_IMMEDIATES, (0, 65535)]))
def test_splits_cover_every_access(what: list[tuple[int, int]], limits: tuple[int, int]) -> None:
    patterns = [[0, 16, 32], [0, 16, 48], [16, 0, 32]]
    accesses = [[at + offset for offset in patterns[pattern]] for pattern, at in what]
    split = split_immediates(accesses, limits)
    for access, (base, immediate) in zip(accesses, split.addresses, strict=True):
        assert limits[0] <= immediate <= limits[1]
        assert [address + immediate for address in split.bases[base]] == access
    span = limits[1] - limits[0] + 1
    for pattern in range(3):
        starts = sorted({at for kind, at in what if kind == pattern})
        fewest, end = 0, -1
        for start in starts:
            if start >= end:
                fewest, end = fewest + 1, start + span
        assert len({base for (base, _), (kind, _) in zip(split.addresses, what, strict=True) if kind == pattern}) <= fewest


def test_columns_of_192_share_one_base() -> None:
    """96 rows of 192 columns: three tiles of 64 columns each; no size here is a power of two."""
    placement = Placement(row_major(192, 96, 16))
    lanes = A_LANES * identity("wave", "row", 2)
    accesses = [addresses(address_of(placement, lanes, {"row": 32 * tile, "column": 32 * part}),
                          [{"lane": lane, "wave": wave} for wave in range(2) for lane in range(64)])
                for tile in range(3) for part in range(6)]
    split = split_immediates(accesses)
    assert len(split.bases) == 1 and max(immediate for _, immediate in split.addresses) == 64 * 384 + 320
    code = plan(lambda lane, wave: 384 * (16 * wave + lane % 16) + 16 * (lane // 16), [LANE, Input("wave", 2, scalar=True)])
    assert [code.evaluate(lane=lane, wave=wave) for wave in range(2) for lane in range(64)] == list(split.bases[0])
