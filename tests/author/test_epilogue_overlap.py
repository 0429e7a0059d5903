"""Epilogue overlap: the code behind a pipeline in the windows of a copy of its last step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.loop.overlap import crossed, filled, handing_on, overlapped
from asmgen.author.schedule.schedules import Sync
from asmgen.author.step.effects import Unit
from asmgen.isa.registers import a, s, v
from asmgen.program.program import Instruction


def units(k: Builder, emit: object) -> list[Unit]:
    """What a function emits, taken out of the builder again."""
    with k.section() as section:
        emit()  # type: ignore[operator]
    found = section.units
    k.cut(section.start)
    return found


def products(k: Builder, count: int, first: int = 0) -> list[Unit]:
    """Matrix instructions on accumulators of their own."""
    def emit() -> None:
        for number in range(first, first + count):
            k.v_mfma_f32_16x16x32_bf16(a[4 * number:4 * number + 3], v[0:3], v[4:7], a[4 * number:4 * number + 3])

    return units(k, emit)


def texts(order: Sequence[Sync | Unit]) -> list[str]:
    return [entry.kind if isinstance(entry, Sync) else entry.first.text.split()[0] for entry in order]


def place_of(order: Sequence[Sync | Unit], unit: Unit) -> int:
    return next(place for place, entry in enumerate(order) if entry is unit)


def test_each_window_has_room_for_what_its_matrix_instruction_hides() -> None:
    """Of 16 clk 12, of 32 clk 28."""
    k = Builder("epilogue", "gfx950")
    copy = products(k, 8)
    code = units(k, lambda: [k.v_mov_b32(v[20 + number], number) for number in range(30)])
    order = overlapped(copy, code, "gfx950")
    assert [entry for entry in order if entry in code] == code and [entry for entry in order if entry in copy] == copy
    kinds = "".join("M" if text.startswith("v_mfma") else "." for text in texts(order))
    assert kinds == "M..." * 8 + "." * 6
    long = units(k, lambda: [k.v_mfma_f32_16x16x128_f8f6f4(a[0:3], v[0:7], v[8:15], a[0:3]) for _ in range(2)])
    kinds = "".join("M" if text.startswith("v_mfma") else "." for text in texts(overlapped(long, code, "gfx950")))
    assert kinds == "M......." * 2 + "." * 16
    read = units(k, lambda: k.ds_read_b128(v[12:15], v[16]))
    names = texts(overlapped([copy[0], *read, *read, copy[1]], code[:4], "gfx950"))
    assert names == [*texts(copy[:1]), "ds_read_b128", "ds_read_b128", "v_mov_b32", *texts(copy[1:2]), *["v_mov_b32"] * 3]


def test_a_result_is_read_when_it_is_there_and_operands_stay_until_they_are_read() -> None:
    k = Builder("epilogue", "gfx950")
    copy = products(k, 10)
    early, late, overwrites = (units(k, emit)[0] for emit in (
        lambda: k.v_accvgpr_read_b32(v[20], a[0]), lambda: k.v_accvgpr_read_b32(v[21], a[36]), lambda: k.v_mov_b32(v[4], 0)))
    order = overlapped(copy, [early, late], "gfx950")
    assert place_of(order, early) == 4 and place_of(order, late) == len(order) - 1  # four matrix instructions, then the read
    order = overlapped(copy, [overwrites, early], "gfx950")
    assert place_of(order, overwrites) == 10 and place_of(order, early) == 11


def test_what_tests_scc_is_not_parted_from_its_test_by_a_sync() -> None:
    """Which may be emitted as code that writes SCC. The first window has room for three instructions, so that a pair is begun."""
    k = Builder("epilogue", "gfx950")
    copy = products(k, 3)

    def pairs() -> None:
        for number in range(4):
            k.s_add_u32(s[10 + 2 * number], s[10 + 2 * number], s[4])
            k.s_addc_u32(s[11 + 2 * number], s[11 + 2 * number], 0)

    names = texts(overlapped([*copy[:2], Sync("level"), copy[2]], units(k, pairs), "gfx950"))
    product, one, other = "v_mfma_f32_16x16x32_bf16", "s_add_u32", "s_addc_u32"
    assert names == [product, one, other, one, product, other, "level", product, one, other, one, other]


def test_code_that_hands_an_scc_on_stands_together_and_never_between_the_units_of_a_copy_that_do() -> None:
    k = Builder("epilogue", "gfx950")
    pair = units(k, lambda: [k.s_add_u32(s[10], s[10], s[4]), k.s_addc_u32(s[11], s[11], 0)])
    reset, test = units(k, lambda: k.s_add_u32(s[20], s[20], 1)), units(k, lambda: k.s_cmp_eq_u32(s[20], 0))
    select = units(k, lambda: k.s_cselect_b32(s[21], 1, 0))
    product = products(k, 2)
    for place in (filled, crossed):
        assert place([product[0], *reset, product[1]], pair, "gfx950") == [product[0], *reset, *pair, product[1]]
    copy = [*test, *product, *select]
    assert filled(copy, pair, "gfx950") == [*copy, *pair]
    assert crossed(copy, pair, "gfx950") == [*pair, *copy]


def test_what_uses_an_scc_from_before_is_counted() -> None:
    k = Builder("epilogue", "gfx950")
    move, test, carry = units(k, lambda: [k.s_mov_b32(s[1], 0), k.s_cmp_eq_u32(s[1], 0), k.s_addc_u32(s[2], s[2], 0)])
    select = units(k, lambda: k.s_cselect_b32(s[3], 1, 0))[0]
    assert [handing_on(code) for code in ([], [move, test, select], [move, select, move, select, test, select], [select, carry, select])] \
        == [0, 0, 4, 3]


def test_memory_keeps_its_order() -> None:
    k = Builder("epilogue", "gfx950")
    fill = units(k, lambda: k.ds_write_b128(v[8], v[12:15]))
    read = units(k, lambda: k.ds_read_b128(v[20:23], v[9]))
    copy = [*products(k, 5), *fill, *products(k, 1, 5)]
    assert place_of(overlapped(copy, read, "gfx950"), read[0]) > place_of(overlapped(copy, read, "gfx950"), fill[0])
    assert place_of(overlapped([*fill, *products(k, 5)], read, "gfx950"), read[0]) == 2


@pytest.mark.parametrize(("arch", "share"), [("gfx950", 4), ("gfx942", 2)])
@pytest.mark.parametrize("schedule", ["interleave", "ping-pong"])
@pytest.mark.slow_after_first
def test_gemm_stores_its_first_accumulators_before_its_last_product(schedule: str, arch: str, share: int) -> None:
    """By 16 bytes a lane."""
    from asmgen.kernels.registry import family

    program = family("gemm-bf16").build(arch, {"tile": "256x256x64", "schedule": schedule}).program
    code: tuple[Instruction, ...] = program.instructions
    end = next(place for place, item in enumerate(code) if item.name == "s_endpgm")
    last = max(place for place in range(end) if "mfma" in code[place].name)
    stores = [place for place in range(end) if "store" in code[place].name]
    assert stores and sum(place < last for place in stores) >= len(stores) // share
    assert {code[place].name for place in stores} == {"buffer_store_dwordx4"}
