"""Kernel arguments: bytes of scalars, natural alignment, argument tables, hidden arguments. Expected bytes are typed literals."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.author.contract.contract import ContractArgument
from asmgen.codeobject.arguments import (
    SCALAR_TYPES,
    ArgumentError,
    Piece,
    Typed,
    assemble,
    encode,
    hidden_values,
    natural_offsets,
    pack,
    pack_table,
)


@dataclass(frozen=True)
class Row:
    """One argument of a code object's table."""

    offset: int
    size: int
    value_kind: str
    name: str = ""


def refused(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        call(*args, **kwargs)
    return caught.value.sentence


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("i8", -2, "fe"),
        ("u8", 254, "fe"),
        ("i16", -2, "feff"),
        ("u16", 0x1234, "3412"),
        ("i32", -5, "fbffffff"),
        ("u32", 0x89ABCDEF, "efcdab89"),
        ("i64", -(1 << 63), "0000000000000080"),
        ("u64", 0x0123456789ABCDEF, "efcdab8967452301"),
        ("pointer", 0x7F00DEADBEE0, "e0beadde007f0000"),
        ("f16", 1.5, "003e"),
        ("f16", 65504, "ff7b"),
        ("bf16", -3.0, "40c0"),
        ("bf16", 1.01171875, "823f"),  # between 0x3f81 and 0x3f82, a tie: to even
        ("f32", 1.0, "0000803f"),
        ("f32", -0.1, "cdccccbd"),
        ("f64", -2.5, "00000000000004c0"),
        ("f16", math.inf, "007c"),
        ("bf16", -math.inf, "80ff"),
        ("f32", math.inf, "0000807f"),
        ("f32", numpy.float32(0.5), "0000003f"),
        ("i32", numpy.int16(-1), "ffffffff"),
    ],
)
def test_encode(type_name: str, value: Any, expected: str) -> None:
    assert encode(type_name, value).hex() == expected


def test_nan_stays_nan() -> None:
    assert math.isnan(struct.unpack("<e", encode("f16", math.nan))[0])
    assert math.isnan(struct.unpack("<f", b"\0\0" + encode("bf16", math.nan))[0])


def test_sizes_of_all_types() -> None:
    assert {name: row.size for name, row in SCALAR_TYPES.items()} == {
        **{"i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8},
        **{"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "pointer": 8},
    }


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.floats(min_value=-3.38e38, max_value=3.38e38) | st.floats(min_value=-1e-37, max_value=1e-37))
@pytest.mark.slow
def test_bf16_is_the_nearest_with_ties_to_even(value: float) -> None:
    bits = int.from_bytes(encode("bf16", value), "little")

    def exact(pattern: int) -> Fraction:
        return Fraction(struct.unpack("<f", struct.pack("<I", pattern << 16))[0])

    magnitude = bits & 0x7FFF
    error = abs(abs(Fraction(value)) - exact(magnitude))
    for neighbour in (magnitude - 1, magnitude + 1):
        if 0 <= neighbour < 0x7F80:
            other = abs(abs(Fraction(value)) - exact(neighbour))
            assert error < other or (error == other and magnitude % 2 == 0)
    assert (bits >> 15 == 1) == (math.copysign(1, value) < 0)


def test_bf16_rounds_once() -> None:
    # Just above the tie of 0x3f80 and 0x3f81; by way of float32 it would become the tie itself and go down to 0x3f80.
    assert encode("bf16", 1 + 2.0**-8 + 2.0**-40).hex() == "813f"
    assert encode("bf16", -(1 + 2.0**-8 - 2.0**-40)).hex() == "80bf"


@pytest.mark.parametrize(("name", "bits"), [("i8", 8), ("i16", 16), ("i32", 32), ("i64", 64)])
def test_signed_range(name: str, bits: int) -> None:
    high = (1 << (bits - 1)) - 1
    assert encode(name, high).hex() == "ff" * (bits // 8 - 1) + "7f"
    assert refused(encode, name, high + 1, "m") == f"m is {name} and holds {-high - 1} to {high}, got {high + 1}"
    refused(encode, name, -high - 2)


@pytest.mark.parametrize(("name", "bits"), [("u8", 8), ("u16", 16), ("u32", 32), ("u64", 64), ("pointer", 64)])
def test_unsigned_range(name: str, bits: int) -> None:
    assert encode(name, (1 << bits) - 1) == b"\xff" * (bits // 8)
    refused(encode, name, 1 << bits)
    refused(encode, name, -1)


@pytest.mark.parametrize(
    ("name", "largest", "too_large"),
    [("f16", 65519.9, 65520.0), ("bf16", 3.3961775e38, 3.3961776e38), ("f32", 3.4028235e38, 3.4028236e38)],
)
def test_float_overflow(name: str, largest: float, too_large: float) -> None:
    assert len(encode(name, largest)) == SCALAR_TYPES[name].size
    for value in (too_large, -too_large):
        assert "is larger than its largest finite number" in refused(encode, name, value, "alpha")


def test_encode_refuses_other_kinds_of_values() -> None:
    assert refused(encode, "i32", 1.5, "argument m") == "argument m is i32 and needs a whole number, got 1.5"
    assert refused(encode, "f32", "1.5", "argument x") == "argument x is f32 and needs a number, got '1.5'"
    refused(encode, "f32", None)
    refused(encode, "f64", 10**400)
    refused(encode, "pointer", "0x10")
    assert "unknown argument type 'float'; known are i8" in refused(encode, "float", 1.0)


ARGUMENTS = (
    ContractArgument("a", "pointer", ""),
    ContractArgument("flag", "u8", ""),
    ContractArgument("alpha", "bf16", ""),
    ContractArgument("m", "i32", ""),
    ContractArgument("n", "i32", ""),
    ContractArgument("d", "pointer", ""),
)
VALUES = {"a": 0x1122334455667788, "flag": 0xAB, "alpha": 1.0, "m": -1, "n": 0x01020304, "d": 16}


def test_pack_aligns_naturally() -> None:
    expected = "8877665544332211" + "ab00" + "803f" + "ffffffff" + "04030201" + "00000000" + "1000000000000000"
    assert pack(ARGUMENTS, VALUES).hex() == expected
    assert pack(ARGUMENTS, VALUES, 48).hex() == expected + "00" * 16
    assert natural_offsets(argument.type for argument in ARGUMENTS) == (0, 8, 10, 12, 16, 24)


def test_pack_refuses_names_and_sizes() -> None:
    assert refused(pack, ARGUMENTS, {**VALUES, "k": 1}) == "the kernel has no argument 'k'; it takes a, flag, alpha, m, n, d"
    assert refused(pack, ARGUMENTS, {"a": 1, "flag": 0, "alpha": 0}) == "the kernel needs a value for m, n, d"
    assert "argument d takes bytes 24 to 31, but the kernel's arguments end at 31" in refused(pack, ARGUMENTS, VALUES, 31)
    assert refused(pack, ARGUMENTS, {**VALUES, "m": 1 << 31}).startswith("argument m is i32 and holds -2147483648 to 2147483647")


def test_assemble_places_pieces_with_and_without_offset() -> None:
    pieces = [Piece("x", b"\1", 1), Piece("y", b"\2\2", 2), Piece("z", b"\3" * 4, 4, offset=16), Piece("w", b"\4" * 8, 8)]
    pieces.append(Piece("late", b"\5", offset=12))
    assert assemble(pieces).hex() == "01000202" + "00" * 8 + "05000000" + "03030303" + "00000000" + "04" * 8
    assert assemble([]) == b"" and assemble([], 3) == b"\0\0\0"


def test_assemble_refuses_overlap_and_bounds() -> None:
    first, second = Piece("x", b"\1" * 8, 8, offset=8), Piece("y", b"\2" * 8, 8, offset=0)
    assert len(assemble([first, second])) == 16
    assert refused(assemble, [first, Piece("y", b"\2" * 8, offset=1)]) == "y (offset 1, 8 bytes) and x (offset 8) overlap"
    refused(assemble, [first, Piece("y", b"\2", offset=15)])
    refused(assemble, [first, Piece("y", b"\2", offset=8)])
    assert len(assemble([first, Piece("y", b"\2", offset=16)])) == 17
    assert "begin at 0" in refused(assemble, [Piece("y", b"\2", offset=-1)])


TABLE = (
    Row(0, 8, "global_buffer", "a"),
    Row(8, 4, "by_value", "alpha"),
    Row(12, 12, "by_value", "shape"),
    Row(24, 2, "by_value", "count"),
    Row(32, 4, "hidden_block_count_x"),
    Row(36, 2, "hidden_group_size_y"),
    Row(40, 8, "hidden_printf_buffer"),
)


def test_pack_table() -> None:
    values = {"a": 0x55, "alpha": Typed("f32", 1.0), "shape": b"abcdefghijkl", "count": -2}
    hidden = hidden_values(TABLE, (300, 2, 1), (64, 3, 1))
    segment = pack_table(TABLE, values, 64, hidden)
    expected = "5500000000000000" + "0000803f" + b"abcdefghijkl".hex() + "feff" + "00" * 6 + "2c010000" + "0300" + "0000" + "00" * 24
    assert segment.hex() == expected


def test_pack_table_unnamed_arguments_go_by_position() -> None:
    table = (Row(0, 8, "global_buffer"), Row(8, 8, "hidden_global_offset_x"), Row(16, 4, "by_value"))
    assert pack_table(table, {"0": 1, "1": 2}, 24).hex() == "01" + "00" * 15 + "02000000" + "00000000"


def test_pack_table_refuses() -> None:
    values: dict[str, Any] = {"a": 0x55, "alpha": 7, "shape": bytes(12), "count": 65535}
    assert pack_table(TABLE, values, 48)[24:26] == b"\xff\xff"
    assert refused(pack_table, TABLE, {**values, "count": 65536}, 48) == "argument count has 2 bytes and holds -32768 to 65535, got 65536"
    assert refused(pack_table, TABLE, {**values, "count": -32769}, 48).endswith("got -32769")
    assert refused(pack_table, TABLE, {**values, "alpha": Typed("f64", 1.0)}, 48) == (
        "argument alpha has 4 bytes in the code object, but f64 has 8"
    )
    assert refused(pack_table, TABLE, {**values, "shape": bytes(11)}, 48).endswith("has 12 bytes in the code object, but 11 were given")
    assert "1.5 needs one, f32 for example" in refused(pack_table, TABLE, {**values, "alpha": 1.5}, 48)
    assert "give its 12 bytes" in refused(pack_table, TABLE, {**values, "shape": 1}, 48)
    assert "got 'x'" in refused(pack_table, TABLE, {**values, "a": "x"}, 48)
    assert "no argument 'hidden_printf_buffer'" in refused(pack_table, TABLE, {**values, "hidden_printf_buffer": 1}, 48)
    assert "needs a value for alpha" in refused(pack_table, TABLE, {"a": 0, "shape": bytes(12), "count": 0}, 48)
    assert "end at 47" in refused(pack_table, TABLE, values, 47)


def test_hidden_values_of_code_object_v5() -> None:
    kinds = [f"hidden_{what}_{axis}" for what in ("block_count", "group_size", "remainder", "global_offset") for axis in "xyz"]
    kinds += ["hidden_grid_dims", "hidden_dynamic_lds_size", "hidden_private_base", "hidden_shared_base", "hidden_printf_buffer"]
    kinds += ["hidden_hostcall_buffer", "hidden_multigrid_sync_arg", "hidden_heap_v1", "hidden_default_queue", "hidden_completion_action"]
    kinds += ["hidden_queue_ptr", "hidden_none", "hidden_of_the_future"]
    table = [Row(8 * index, 8, kind) for index, kind in enumerate(kinds)] + [Row(400, 8, "global_buffer", "a")]
    values = hidden_values(table, (5, 6, 7), (64, 3, 2), 1234)
    assert set(values) == set(kinds)
    assert {kind: value for kind, value in values.items() if value} == {
        "hidden_block_count_x": 5,
        "hidden_block_count_y": 6,
        "hidden_block_count_z": 7,
        "hidden_group_size_x": 64,
        "hidden_group_size_y": 3,
        "hidden_group_size_z": 2,
        "hidden_grid_dims": 3,
        "hidden_dynamic_lds_size": 1234,
    }


def test_hidden_values_list_only_what_the_table_lists() -> None:
    assert hidden_values([Row(0, 8, "global_buffer", "a")], (1, 1, 1), (1, 1, 1)) == {}


def test_a_hidden_value_that_does_not_fit_is_refused() -> None:
    table = [Row(0, 2, "hidden_group_size_x")]
    assert "hidden_group_size_x has 2 bytes" in refused(pack_table, table, {}, 8, {"hidden_group_size_x": 65536})
