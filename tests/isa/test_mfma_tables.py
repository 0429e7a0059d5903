"""Every element of every matrix instruction's operands against the published rules, typed here as formulas and tables of numbers.

Nothing is taken from the code under test but the list of instructions: shapes and consecutive k of a lane are literals. Sources: CDNA3 and
CDNA4 ISA, matrix chapters; AMD's matrix calculator for f64 4x4x4.
"""

from __future__ import annotations

import pytest

from asmgen.isa.layout import identity, product, renaming
from asmgen.isa.layouts_mfma import operand_layout
from asmgen.isa.mfmaoperands import Element, layout
from asmgen.isa.opcodes.mfma import MFMA

# M, N, K, blocks, consecutive k of a lane (of A and B), bits of an A or B element.
DENSE = {
    "f32_16x16x4_f32": (16, 16, 4, 1, 1, 32), "f32_32x32x2_f32": (32, 32, 2, 1, 1, 32), "f32_16x16x1_4b_f32": (16, 16, 1, 4, 1, 32),
    "f32_32x32x1_2b_f32": (32, 32, 1, 2, 1, 32), "f32_4x4x1_16b_f32": (4, 4, 1, 16, 1, 32),
    "f32_16x16x8_xf32": (16, 16, 8, 1, 2, 32), "f32_32x32x4_xf32": (32, 32, 4, 1, 2, 32),
    "i32_16x16x32_i8": (16, 16, 32, 1, 8, 8), "i32_16x16x64_i8": (16, 16, 64, 1, 16, 8), "i32_32x32x16_i8": (32, 32, 16, 1, 8, 8),
    "i32_32x32x32_i8": (32, 32, 32, 1, 16, 8), "i32_16x16x4_4b_i8": (16, 16, 4, 4, 4, 8), "i32_32x32x4_2b_i8": (32, 32, 4, 2, 4, 8),
    "i32_4x4x4_16b_i8": (4, 4, 4, 16, 4, 8), "f64_16x16x4_f64": (16, 16, 4, 1, 1, 64), "f64_4x4x4_4b_f64": (4, 4, 4, 4, 1, 64),
}
for _type in ("f16", "bf16"):
    DENSE |= {f"f32_16x16x16_{_type}": (16, 16, 16, 1, 4, 16), f"f32_16x16x32_{_type}": (16, 16, 32, 1, 8, 16),
              f"f32_32x32x8_{_type}": (32, 32, 8, 1, 4, 16), f"f32_32x32x16_{_type}": (32, 32, 16, 1, 8, 16),
              f"f32_16x16x4_4b_{_type}": (16, 16, 4, 4, 4, 16), f"f32_32x32x4_2b_{_type}": (32, 32, 4, 2, 4, 16),
              f"f32_4x4x4_16b_{_type}": (4, 4, 4, 16, 4, 16)}
for _type in ("fp8_fp8", "fp8_bf8", "bf8_fp8", "bf8_bf8"):
    DENSE |= {f"f32_16x16x32_{_type}": (16, 16, 32, 1, 8, 8), f"f32_32x32x16_{_type}": (32, 32, 16, 1, 8, 8)}

# M = N, K, bits; for each lane group the first packed p of A, then the first k of B's lower and (of doubled shapes) upper registers.
EIGHT_BITS = (("i32", "i8"), ("f32", "fp8_fp8"), ("f32", "fp8_bf8"), ("f32", "bf8_fp8"), ("f32", "bf8_bf8"))
SPARSE = {
    **{f"f32_16x16x32_{t}": (16, 32, 16, (0, 4, 8, 12), (0, 8, 16, 24), ()) for t in ("f16", "bf16")},
    **{f"f32_32x32x16_{t}": (32, 16, 16, (0, 4), (0, 8), ()) for t in ("f16", "bf16")},
    **{f"f32_16x16x64_{t}": (16, 64, 16, (0, 8, 16, 24), (0, 8, 16, 24), (32, 40, 48, 56)) for t in ("f16", "bf16")},
    **{f"f32_32x32x32_{t}": (32, 32, 16, (0, 8), (0, 8), (16, 24)) for t in ("f16", "bf16")},
    **{f"{d}_16x16x64_{t}": (16, 64, 8, (0, 8, 16, 24), (0, 16, 32, 48), ()) for d, t in EIGHT_BITS},
    **{f"{d}_32x32x32_{t}": (32, 32, 8, (0, 8), (0, 16), ()) for d, t in EIGHT_BITS},
    **{f"{d}_16x16x128_{t}": (16, 128, 8, (0, 16, 32, 48), (0, 16, 32, 48), (64, 80, 96, 112)) for d, t in EIGHT_BITS},
    **{f"{d}_32x32x64_{t}": (32, 64, 8, (0, 16), (0, 16), (32, 48)) for d, t in EIGHT_BITS},
}
F8F6F4 = {"f32_16x16x128_f8f6f4": (16, 128), "f32_32x32x64_f8f6f4": (32, 64)}
Place = tuple[int, int, int, int]


def at(lane: int, item: int, bits: int) -> Place:
    return lane, item * bits // 32, item * bits % 32, bits


def table(name: str, operand: str, **modifiers: int) -> dict[tuple[int, int, int], Place]:
    elements: list[Element] = layout(name, operand, sorted(MFMA[name].archs)[-1], **modifiers)
    assert len({element.index for element in elements}) == len(elements)
    return {element.index: (element.lane, element.register, element.bit, element.bits) for element in elements}


def test_no_instruction_is_left_out() -> None:
    names = {f"v_mfma_{name}" for name in {**DENSE, **F8F6F4}} | {f"v_mfma_scale_{name}" for name in F8F6F4}
    assert names | {f"v_smfmac_{name}" for name in SPARSE} == set(MFMA)


@pytest.mark.parametrize("short", DENSE)
def test_dense_inputs(short: str) -> None:
    m, n, depth, blocks, together, bits = DENSE[short]
    for operand, edge in (("a", m), ("b", n)):
        want = {}
        for block in range(blocks):
            for x in range(edge):
                for k in range(depth):
                    index = (block, x, k) if operand == "a" else (block, k, x)
                    want[index] = at(x + edge * (block + blocks * (k // together)), k % together, bits)
        assert table(f"v_mfma_{short}", operand) == want


def d_place(m: int, block: int, i: int, j: int) -> tuple[int, int]:
    """Register and lane of D with 32-bit elements."""
    if m == 32:
        return 16 * block + 4 * (i // 8) + i % 4, j + 32 * (i // 4 % 2)
    if m == 16:
        return 4 * block + i % 4, j + 16 * (i // 4)
    return i, 4 * block + j


@pytest.mark.parametrize("name", [name for name in MFMA if "f64" not in name])
def test_results(name: str) -> None:
    short = name.removeprefix("v_mfma_").removeprefix("scale_").removeprefix("v_smfmac_")
    m, blocks = (DENSE[short][0], DENSE[short][3]) if name.startswith("v_mfma") and short in DENSE else (int(short[4:].split("x")[0]), 1)
    want = {}
    for block in range(blocks):
        for i in range(m):
            for j in range(m):
                register, lane = d_place(m, block, i, j)
                want[block, i, j] = lane, register, 0, 32
    assert table(name, "d") == want


def test_results_of_f64() -> None:
    assert table("v_mfma_f64_16x16x4_f64", "d") == {
        (0, i, j): (16 * (i % 4) + j, 2 * (i // 4), 0, 64) for i in range(16) for j in range(16)}
    assert table("v_mfma_f64_4x4x4_4b_f64", "d") == {
        (block, i, j): (16 * i + 4 * block + j, 0, 0, 64) for block in range(4) for i in range(4) for j in range(4)}


@pytest.mark.parametrize("name", [prefix + short for short in F8F6F4 for prefix in ("v_mfma_", "v_mfma_scale_")])
@pytest.mark.parametrize(("code", "bits"), [(0, 8), (1, 8), (2, 6), (3, 6), (4, 4)])
def test_f8f6f4_in_each_format(name: str, code: int, bits: int) -> None:
    edge, depth = F8F6F4[name.removeprefix("v_mfma_").removeprefix("scale_")]
    want = {}
    for group in range(64 // edge):
        for x in range(edge):
            for item in range(32):
                if bits == 8:
                    k = 16 * group + item if item < 16 else depth // 2 + 16 * group + item - 16
                else:
                    k = 32 * group + item
                want[x, k] = at(x + edge * group, item, bits)
    assert len(want) == edge * depth
    assert table(name, "a", cbsz=code, blgp=4 - code) == {(0, x, k): place for (x, k), place in want.items()}
    assert table(name, "b", blgp=code, cbsz=4 - code) == {(0, k, x): place for (x, k), place in want.items()}


@pytest.mark.parametrize("short", F8F6F4)
@pytest.mark.parametrize("byte", range(4))
def test_scales(short: str, byte: int) -> None:
    """One byte for 32 true k, whatever lanes hold those k."""
    edge, depth = F8F6F4[short]
    want = {(x, block): (x + edge * block, 0, 8 * byte, 8) for x in range(edge) for block in range(depth // 32)}
    name = f"v_mfma_scale_{short}"
    assert table(name, "scale_a", op_sel=byte) == {(0, x, block): place for (x, block), place in want.items()}
    assert table(name, "scale_b", op_sel=byte) == {(0, block, x): place for (x, block), place in want.items()}


@pytest.mark.parametrize("short", SPARSE)
def test_sparse_inputs_and_indices(short: str) -> None:
    edge, depth, bits, packed, lower, upper = SPARSE[short]
    run = 256 // bits // 2  # consecutive k of B in four registers
    b, a, index = {}, {}, {}
    for half, firsts in enumerate((lower, upper)):
        for group, first in enumerate(firsts):
            for x in range(edge):
                for item in range(run):
                    b[0, first + item, x] = at(x + edge * group, half * run + item, bits)
    for group, first in enumerate(packed):
        for x in range(edge):
            for item in range(packed[1]):
                a[0, x, first + item] = at(x + edge * group, item, bits)
                index[0, x, first + item] = at(x + edge * group, item, 2)
    assert len(b) == edge * depth and len(a) == edge * depth // 2
    name = f"v_smfmac_{short}"
    assert table(name, "b") == b and table(name, "a") == a and table(name, "index") == index
    sets = {(16, False): 4, (8, False): 2, (16, True): 2, (8, True): 1}[bits, bool(upper)]
    for chosen in range(sets):
        assert table(name, "index", abid=chosen) == {spot: (lane, register, bit + 32 // sets * chosen, size)
                                                     for spot, (lane, register, bit, size) in index.items()}


def test_the_result_of_a_score_tile_is_the_next_operand() -> None:
    """Attention forward by 32x32x16: registers 8s to 8s+7 of S^T (rows kv), packed in pairs, are B of k-step s if its k order is
    kv = 16 s + 8 (e / 4) + 4 h + e % 4. In the instruction's own k order a move between lanes would be needed."""
    scores = operand_layout(MFMA["v_mfma_f32_32x32x16_bf16"], "d").only(None, ["i", "j"]).renamed(i="k")
    reordered = product(identity("item", "k", 4), identity("lane", "j", 32), identity("lane", "k", 2), identity("item", "k", 2),
                        identity("item", "k", 2)).only(["item", "lane"], ["k", "j"])
    own = operand_layout(MFMA["v_mfma_f32_32x32x16_bf16"], "b").only(None, ["k", "j"]) * identity("item", "k", 2)
    assert renaming(scores, reordered, together=2) == tuple(range(8))
    assert all(reordered(item=8 * s + e, lane=32 * h)["k"] == 16 * s + 8 * (e // 4) + 4 * h + e % 4
               for s in range(2) for e in range(8) for h in range(2))
    assert renaming(scores, own) is None
