"""A, B and their scales of gemm-mx: types, bytes, and where a scale lies in memory. Source: docs/facts/blockscales.md section 2."""

from __future__ import annotations

import asmgen as ag

BLOCK = 32
"""Columns of K that share a scale."""
ELEMENTS = {"fp4": 4, "fp6": 6, "bf6": 6, "fp8": 8, "bf8": 8}
"""Bits of the types of A and B, under the names that matrix instructions use."""
WIDEST = 8
DEEP = 256
"""The depth of a tile of fp4; others have 128."""
STREAMED, BASIC, WHOLE_K = "streamed", "basic", "whole-k"
"""The schedules of variants whose waves load straight into registers (`streamed`)."""
DIRECT = (STREAMED, BASIC, WHOLE_K)
BLOCKED = "blocked"
"""The schedule of a small tile whose waves share what each quantises through LDS."""
RAW = ("bf16", "f16")
"""Types of A that the kernel quantises."""
WHOLE_COLUMNS = 512
"""The most columns of K of the schedule that asks for all of them first."""
ORDERS = ("shuffled", "plain")
"""shuffled: AITER's, 32 rows x 8 scales as 64 dwords. plain: row after row."""
GROUP_ROWS, GROUP_COLUMNS = 32, 8
"""Rows and columns of scales that lie together in the shuffled order: a dword for each lane."""
FRAGMENT_ROWS = 16
"""Rows of a matrix instruction, and of weights that are shuffled together."""
SHAPES = ("16x16x128", "32x32x64")
"""What a matrix instruction multiplies: rows and columns of D, columns of K. The second makes as much of D in half as many instructions."""
WEIGHT_ORDERS = ("plain", "shuffled")
"""shuffled: as AITER's shuffle_weight(16, 16) has them: 16 bytes of each of 16 rows lie together. Needs rows of whole 32 bytes."""
_SHUFFLED_BYTES = 32


def least_stride(order: str, k: int) -> int:
    """Scales from a row to the next of a matrix of k columns without gaps."""
    scales = -(-k // BLOCK)
    return scales if order == "plain" else -(-scales // GROUP_COLUMNS) * GROUP_COLUMNS


def bits_of(dtype: str) -> int:
    """Bits of an element of A or B in memory."""
    return ELEMENTS.get(dtype, 16)


def is_quantised(build: ag.Values) -> bool:
    """Whether the kernel quantises A."""
    return build["a_dtype"] in RAW


def multiplied(build: ag.Values) -> str:
    """The type of A as it is multiplied."""
    return str(build["quantise_to"] if is_quantised(build) else build["a_dtype"])


def row_multiple(dtype: str) -> int:
    """The elements of a row stride are a multiple of this: rows begin at multiples of 16 bytes, of 6 bits at multiples of 24."""
    return BLOCK if bits_of(dtype) < 8 else 16 * 8 // bits_of(dtype)


def takes_weights(p: ag.Values) -> bool:
    """Whether B may lie as `b_order` says: AITER shuffles whole bytes, 16 rows by 32 bytes at a time."""
    if p["b_order"] == "plain":
        return True
    bits = ELEMENTS[p["b_dtype"]]
    whole = _SHUFFLED_BYTES * 8 // bits
    return bits != 6 and p["n"] % FRAGMENT_ROWS == 0 and p["k"] % whole == 0 and p["ldb"] % whole == 0


def shapes_of(variant: ag.Variant) -> tuple[str, ...]:
    """The shapes of matrix instructions that a variant may have."""
    return SHAPES if variant.tile[:2] == (256, 256) and variant.tile[2] == DEEP else SHAPES[:1]


def cells_of(variant: ag.Variant) -> int:
    """The parts of a tile of A or B that are refilled one by one, each under a descriptor of its own."""
    return 2 if variant.stages == 2 else 1


def padded_rows(rows: int, together: int = GROUP_ROWS) -> int:
    """Rows of an array whose rows lie together: of shuffled scales, or of so many."""
    return -(-rows // together) * together


def rows_in_memory(p: ag.Values, name: str) -> int:
    """Rows that A or B has in memory: of planes those of whole fragments."""
    rows = int(p["m" if name == "a" else "n"])
    return padded_rows(rows, FRAGMENT_ROWS) if bits_of(p[f"{name}_dtype"]) == 6 and p["fp6_storage"] == "planes" else rows


def scale_bytes(p: ag.Values, name: str) -> int:
    """Bytes of the scales of A or B."""
    rows = int(p["m" if name == "a" else "n"])
    return (padded_rows(rows) if p["scale_order"] == "shuffled" else rows) * int(p[f"lds{name}"])


def arranged(build: ag.Values) -> bool:
    """Whether a kernel before the product brings scales into the order of its dwords: all but shuffled ones for 16 rows by 256 columns."""
    return bool(build["scales"] != "none" and build["schedule"] not in DIRECT and (
        build["scale_order"] == "plain" or build["mfma"] != SHAPES[0] or not str(build["tile"]).endswith(f"x{DEEP}")))


def group_rows(tile: tuple[int, ...], axis: int) -> int:
    """The rows whose scales of a step lie in one dword of each lane: 2 fragments 256 deep, or a wave's fragments of a half, 128 deep."""
    return GROUP_ROWS if tile[2] == DEEP else tile[axis] // 4


def bytes_of_dword(tile: tuple[int, ...], axis: int, shape: str = SHAPES[0]) -> list[tuple[int, int]]:
    """(row, scale along K) of each byte of a dword, from the lane's first on; the lane's first is row lane % r, scale lane / r, r being the
    rows of a matrix instruction."""
    rows = int(shape.partition("x")[0])
    return [(row, along) for along in range(0, tile[2] // BLOCK, ag.LANES // rows) for row in range(0, group_rows(tile, axis), rows)]


def word_bytes(p: ag.Values, tile: tuple[int, ...], axis: int) -> int:
    """Bytes of the dwords of A (axis 0) or B."""
    return int(-(-p["mn"[axis]] // group_rows(tile, axis)) * -(-p["k"] // tile[2]) * 4 * ag.LANES)


SCALE_ARGUMENTS = (
    ag.ContractArgument("a_scale", "pointer", "scales of A (e8m0 bytes); shuffled: 4-byte aligned, no pad of columns 255"),
    ag.ContractArgument("b_scale", "pointer", "scales of B, likewise"),
    ag.ContractArgument("ldsa", "u32", "bytes from a row of A's scales to the next; shuffled: its columns with their pads"),
    ag.ContractArgument("ldsb", "u32", "the same of B's scales"),
    ag.ContractArgument("a_scale_stride_batch", "u64", "bytes from the scales of one A of a batch to those of the next"),
    ag.ContractArgument("b_scale_stride_batch", "u64", "the same of B's scales"),
)
WORDS = tuple(ag.ContractArgument(f"{name}_words", "pointer", f"scales of {name.upper()} as dwords of lanes") for name in "ab")
