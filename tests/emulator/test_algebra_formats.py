"""Residues of all float formats: every conversion of the table, doubles, formats of 6 bits, scales, and what is 0 or denormal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.algebra.elements import PACKED_WIDTHS
from asmgen.emulator.algebra.residues import STANDARD, Residues
from asmgen.isa.formats import decode, encode, hardware_format
from asmgen.isa.table import names, opcode
from tests.algebra_harness import Followed, same

_FORMATS = "f64|f32|f16|bf16|fp8|bf8|fp4|fp6|bf6"
_CONVERSION = re.compile(rf"v_cvt_(?:scalef32_)?(?:sr_pk32_|2xpk16_|pk32_|sr_pk_|sr_|pk_|pkrtz_)?({_FORMATS})_({_FORMATS})$")
SCALE = 2.0


def fill(run: Followed, register: int, count: int, kind: str) -> None:
    """Registers of small even integers in a format, with elements that are these: what is exact is the run's own then."""
    width = PACKED_WIDTHS[kind]
    values = 2.0 * run.random.integers(-1, 2, (64, 32 * count // width))
    if kind in ("f64", "f32", "f16"):
        codes = values.astype(f"f{width // 8}").view(f"u{width // 8}")
    elif kind == "bf16":
        codes = values.astype(np.float32).view(np.uint32) >> np.uint32(16)
    else:
        codes = encode(values, hardware_format(kind, run.machine.arch), "nearest_even", True)
    bits = (codes.astype(np.uint64)[..., None] >> np.arange(width, dtype=np.uint64) & np.uint64(1)).astype(np.uint8).reshape(64, -1)
    run.machine.vector[register:register + count, 0] = np.packbits(bits, axis=1, bitorder="little").view(np.uint32).T
    slots = np.zeros((64, 8 * count), np.uint32)
    slots[:, (width * np.arange(values.shape[1]) + width - 1) // 4] = run.algebra.table.made(STANDARD.embedded(values), kind)
    run.follower.carrier.shadow.vector[register:register + count, 0] = run.algebra.tracker.cells.joined(slots.reshape(64, count, 8)).T


def contents(run: Followed, register: int, count: int, kind: str) -> tuple[Any, Any]:
    """The values of registers in a format, and their elements, [64, numbers]."""
    width = PACKED_WIDTHS[kind]
    words = np.ascontiguousarray(run.machine.vector[register:register + count, 0].T)
    numbers = 32 * count // width
    if kind in ("f64", "f32", "f16"):
        values = words.view(f"f{width // 8}").astype(np.float64)
    elif kind == "bf16":
        values = (words.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    else:
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :numbers * width].reshape(64, numbers, width)
        codes = (bits.astype(np.uint32) << np.arange(width, dtype=np.uint32)).sum(axis=-1).astype(np.uint32)
        values = decode(codes.astype(np.uint8), hardware_format(kind, run.machine.arch)).astype(np.float64)
    slots = run.algebra.tracker.cells.expanded(run.follower.carrier.shadow.vector[register:register + count, 0].T).reshape(64, -1)
    return values, slots[:, (width * np.arange(numbers) + width - 1) // 4]


@pytest.mark.parametrize(("name", "arch"), [(name, arch) for arch in ("gfx942", "gfx950") for name in names(arch)
                                            if _CONVERSION.match(name) and (arch == "gfx950" or "gfx950" not in opcode(name).archs)])
def test_every_conversion_between_float_formats_keeps_numbers(name: str, arch: str) -> None:
    """What is exact embeds as the run's own values, wherever in its registers it stands; nothing that was converted is without element."""
    match = _CONVERSION.match(name)
    assert match is not None
    target, given = match.groups()
    run = Followed(arch)
    places, texts, register = opcode(name).forms[0].operands, [], 32
    for place in places:
        first = 4 if place.writes else register
        texts.append(f"v[{first}:{first + place.width - 1}]" if place.width > 1 else f"v{first}")
        if place.type.endswith(given) and not place.writes and not ("scalef32" in name and place is places[-1]):
            fill(run, first, place.width, given)
        elif "scalef32" in name and place is places[-1]:
            run.machine.vector[first] = np.float32(SCALE).view(np.uint32)
        register += 0 if place.writes else place.width
    run.text(f"{name} {', '.join(texts)}")
    values, ids = contents(run, 4, places[0].width, target)
    numbers = 32 if "pk32" in name or "2xpk16" in name else 2 if "_pk" in name else 1
    assert (ids != 0)[:, :numbers].all() and not (ids != 0)[:, numbers:].any()
    found = run.algebra.table.numbers(ids[:, :numbers], target, lambda: np.nan)
    assert same(found, STANDARD.embedded(values[:, :numbers])) and len(np.unique(values[:, :numbers])) == 3


@pytest.mark.parametrize("text", ["v_dot2_f32_bf16 v2, v0, v1, v2", "v_dot2c_f32_bf16 v2, v0, v1", "v_dot2_f32_f16 v2, v0, v1, v2",
                                  "v_dot2c_f32_f16 v2, v0, v1"])
def test_dot_products_of_integers_are_the_runs_own(text: str) -> None:
    run = Followed()
    for register in (0, 1):
        fill(run, register, 1, "bf16" if "bf16" in text else "f16")
    fill(run, 2, 1, "f32")
    run.text(text)
    assert run.ids(2).all() and same(run.number(2), STANDARD.embedded(run.machine.vector[2].view(np.float32)))


DOUBLES: dict[str, Callable[..., Residues]] = {
    "v_add_f64 v[8:9], v[0:1], -v[2:3]": lambda a, b, c: a - b,
    "v_mul_f64 v[8:9], |v[0:1]|, v[2:3]": lambda a, b, c: -(a * b),
    "v_fma_f64 v[8:9], v[0:1], v[2:3], -v[4:5]": lambda a, b, c: a * b - c,
    "v_mov_b64 v[8:9], v[4:5]\nv_fmac_f64 v[8:9], v[0:1], v[2:3]": lambda a, b, c: a * b + c,
    "v_max_f64 v[8:9], v[0:1], v[2:3]": lambda a, b, c: b,
    "v_min_f64 v[8:9], v[0:1], 0.5": lambda a, b, c: a,
    "v_ldexp_f64 v[8:9], v[0:1], -70": lambda a, b, c: a.scaled(-70),
    "v_rcp_f64 v[8:9], v[2:3]": lambda a, b, c: b.reciprocal(),
    "v_rsq_f64 v[8:9], v[2:3]": lambda a, b, c: b.hashed("rsq"),
    "v_sqrt_f64 v[8:9], v[2:3]": lambda a, b, c: b * b.hashed("rsq"),
    "v_frexp_mant_f64 v[8:9], v[2:3]": lambda a, b, c: b.scaled(-2),
    "v_cvt_f32_f64 v8, v[0:1]\nv_cvt_f64_f32 v[8:9], -v8": lambda a, b, c: -a,
    # the sign is in the upper word, and what the lower one loses is rounding
    "v_mov_b32 v8, v0\nv_xor_b32 v9, 0x80000000, v1": lambda a, b, c: -a,
    "v_mov_b32 v8, 0\nv_mov_b32 v9, v1": lambda a, b, c: a,
    "v_lshlrev_b64 v[8:9], 32, v[0:1]\nv_mov_b32 v9, v1": lambda a, b, c: a,
    # a quotient as compilers write it
    "v_div_scale_f64 v[10:11], vcc, v[2:3], v[2:3], v[0:1]\nv_div_scale_f64 v[12:13], vcc, v[0:1], v[2:3], v[0:1]\n"
    "v_rcp_f64 v[14:15], v[10:11]\nv_fma_f64 v[16:17], -v[10:11], v[14:15], 1.0\nv_fma_f64 v[14:15], v[14:15], v[16:17], v[14:15]\n"
    "v_mul_f64 v[16:17], v[12:13], v[14:15]\nv_fma_f64 v[18:19], -v[10:11], v[16:17], v[12:13]\n"
    "v_div_fmas_f64 v[18:19], v[18:19], v[14:15], v[16:17]\nv_div_fixup_f64 v[8:9], v[18:19], v[2:3], v[0:1]":
        lambda a, b, c: a * b.reciprocal(),
}


def doubles(run: Followed) -> list[Residues]:
    """-1.25, 3.0 and 1e200 with residues of their own."""
    given = []
    for number, value in enumerate((-1.25, 3.0, 1e200)):
        run.machine.vector[2 * number:2 * number + 2] = np.float64(value).reshape(1).view(np.uint32)[:, None, None]
        given.append(Residues.random(run.random, (1, 64)))
        run.follower.carrier.shadow.vector[2 * number + 1] = run.algebra.table.made(given[-1], "f64")
    return given


def double(run: Followed, register: int) -> Residues:
    ids = run.algebra.tracker.cells.element(run.follower.carrier.shadow.vector[register + 1], 7)
    return run.algebra.table.numbers(ids, "f64", lambda: np.ascontiguousarray(
        np.moveaxis(run.machine.vector[register:register + 2], 0, -1)).view(np.float64)[..., 0])


@pytest.mark.parametrize("text", DOUBLES, ids=lambda text: text.split("\n")[-1].split(" ")[0])
def test_doubles(text: str) -> None:
    run = Followed()
    given = doubles(run)
    run.text(text)
    assert same(double(run, 8), DOUBLES[text](*given))


@pytest.mark.parametrize("text", ["v_mov_b32 v8, v1\nv_mov_b32 v9, 0x40000000", "v_add_u32 v9, 0x100000, v1", "v_fract_f64 v[8:9], v[0:1]",
                                  "v_cvt_f32_f64 v9, v[4:5]"])
def test_other_changes_of_a_doubles_words_leave_no_such_number(text: str) -> None:
    """A word in the wrong place, an integer sum, a fraction; and a conversion to f32 that overflows."""
    run = Followed()
    given = doubles(run)
    run.text(text)
    assert not any(same(double(run, 8), one) for one in given)


@pytest.mark.parametrize("text", ["v_cvt_scalef32_pk32_f32_fp6 v[64:95], v[32:37], v40", "v_cvt_scalef32_pk_f32_fp8 v[64:65], v32, v40",
                                  "v_cvt_scalef32_sr_pk32_bf6_f32 v[64:69], v[0:31], v41, v40"])
def test_a_scale_that_is_nan_leaves_nothing(text: str) -> None:
    run = Followed()
    fill(run, 32, 6, "fp6" if "fp6" in text else "fp8")
    fill(run, 0, 32, "f32")
    run.machine.vector[40] = 0x7F800000
    run.text(text)
    kind, count = ("bf6", 6) if "bf6" in text else ("f32", 2)
    _, ids = contents(run, 64, count, kind)
    assert (ids == 1).all()


@pytest.mark.parametrize(("value", "sign", "exponent"), [(-0.0, 0, 0), (5e-324, 1, -1074), (-(2.0 ** -149), -1, -149),
                                                         (2.0 ** -127, 1, -127)])
def test_zeros_and_denormals_are_numbers(value: float, sign: int, exponent: int) -> None:
    """Each by value: -0, the least double, the least f32, and e8m0's least scale."""
    one = STANDARD.embedded(np.array([1.0])).scaled(exponent)
    assert same(STANDARD.embedded(np.array([value])), one if sign > 0 else -one if sign else one - one)


@pytest.mark.parametrize("kind", ["fp8", "bf8", "fp6", "bf6", "fp4"])
def test_denormals_of_small_formats_are_numbers(kind: str) -> None:
    """All codes that stand for numbers, by value, as a conversion to f32 has them."""
    run = Followed()
    fmt = hardware_format(kind, run.machine.arch)
    codes = (np.arange(64) % (1 << fmt.bits)).astype(np.uint8)
    values = decode(codes, fmt).astype(np.float64)
    run.machine.vector[32:38] = codes
    name = f"v_cvt_scalef32_pk32_f32_{kind} v[64:95], v[32:37], 1.0" if kind in ("fp6", "bf6") else \
        f"v_cvt_scalef32_pk_f32_{kind} v[64:65], v32, 1.0"
    run.text(name)
    found = run.number(64)
    finite = np.isfinite(values)
    assert ((found.has != 0) == finite).all()
    assert (found.q == STANDARD.embedded(values).q)[:, finite].all() and (found.p == STANDARD.embedded(values).p)[:, finite].all()
