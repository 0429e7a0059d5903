"""Runs one vector ALU mnemonic on random and special values and compares every lane with a reference on bit patterns.

A reference takes the sources' bit patterns as Python integers (a carry-in as 0 or 1) and gives the destination's pattern, "nan" for any
NaN, or (pattern, flag) where there is a scalar result too. Registers of several words are lists of patterns.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from asmgen.author.emit.builder import Builder
from asmgen.isa.opcode import Form, dwords
from asmgen.isa.registers import Modified, s, v, vcc
from asmgen.isa.registers import a as agpr
from asmgen.isa.table import opcode
from tests.emulator_harness import MODE_DEFAULT, Result, run
from tests.softfloat import KINDS, NAN

_Test = TypeVar("_Test", bound=Callable[..., None])
EXEC_MASK = 0xF0F7_7FFF_1234_8001
WAVES = 3
OLD = 0xDEAD_BEEF_CAFE_F00D

_SPECIAL = {
    "f32": [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x3F000000, 0x3F7FFFFF, 0x40200000, 0x4B000001,
            0x4F000000, 0xCF000000, 0x4F800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFFC00000, 0x7F800001,
            0xFFA00000, 0x42FE0000, 0xC2FC0000, 0x33800000, 0x477FE000, 0x477FF000, 0x38800000, 0x33000000, 0x3E800000],
    "f16": [0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x3800, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E01, 0x7D01, 0xFD00, 0x3BFF,
            0x4100, 0x4300, 0xC100, 0x6400, 0x7400, 0x3400],
    "f64": [0, 1 << 63, 1, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FE0000000000000,
            0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000001, 0x7FF0000000000001, 0xFFF4000000000000,
            0x41E0000000000000, 0xC1E0000000000000, 0x41F0000000000000, 0x3FEFFFFFFFFFFFFF, 0x4004000000000000],
    "bf16": [0, 0x8000, 1, 0x007F, 0x0080, 0x3F80, 0xBF80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC1, 0x7F81],
}
_INTEGERS = [0, 1, 2, 3, 31, 32, 33, 63, 64, -1, -2, -31, -32]


def special(kind: str) -> list[int]:
    """Patterns of a type that break things."""
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    bits = bits_of(kind)
    edges = [1 << bits - 1, (1 << bits - 1) - 1, (1 << bits // 2), (1 << bits // 2) - 1, 0x00FF00FF00FF00FF, 0x8000800080008000]
    return [value & (1 << bits) - 1 for value in _INTEGERS + edges]


def bits_of(kind: str) -> int:
    """Bits of a source's pattern."""
    if kind in KINDS:
        return KINDS[kind].bits
    return 64 if kind.endswith("64") else 16 if kind in ("i16", "u16", "b16") else 32


def patterns(kind: str, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Random patterns, a third special, a third of floats of moderate size."""
    bits = bits_of(kind)
    raw = generator.integers(0, 1 << 63, shape, dtype=np.uint64) << np.uint64(1) ^ generator.integers(0, 1 << 63, shape, dtype=np.uint64)
    values = raw >> np.uint64(64 - bits)
    if kind in KINDS:
        fmt = KINDS[kind]
        spread = min(20, fmt.bias // 2)
        field = generator.integers(fmt.bias - spread, fmt.bias + spread, shape).astype(np.uint64)
        moderate = values & np.uint64(fmt.sign | (1 << fmt.mantissa) - 1) | field << np.uint64(fmt.mantissa)
        values = np.where(generator.random(shape) < 0.5, moderate, values)
    edges = np.array(special(kind), np.uint64)
    return np.where(generator.random(shape) < 0.35, generator.choice(edges, shape), values)


def pick_form(name: str, encoding: str | None) -> Form:
    """The form of that encoding, else the longest plain one."""
    forms = opcode(name).forms
    for wanted in (encoding,) if encoding else ("VOP3", "VOP3P", "VOP2", "VOP1", "VOPC"):
        for form in forms:
            if form.encoding == wanted:
                return form
    raise AssertionError(f"{name} has no form {encoding}")


def run_case(arch: str, name: str, reference: Callable[..., Any], *, encoding: str | None = None, mode: int = MODE_DEFAULT,
             modifiers: dict[str, Any] | None = None, signs: Sequence[tuple[bool, bool]] = (), accumulate: bool = False,
             given: dict[int, Sequence[int]] | None = None, exec_mask: int = EXEC_MASK, seed: int = 0,
             compare: Callable[[int, Any, list[Any]], bool] | None = None, kinds: dict[int, str] | None = None) -> Result:
    """Run and compare. `given` replaces the patterns of a source by a choice of these; `kinds` the type by which they are drawn."""
    form = pick_form(name, encoding)
    generator = np.random.default_rng(zlib.crc32(name.encode()) + seed)
    modifiers = dict(modifiers or {})
    vgprs: dict[int, Any] = {}
    sgprs: dict[int, Any] = {}
    operands: list[Any] = []
    drawn: list[list[Any]] = []  # per source: one pattern (or list) for each wave and lane, flat
    at = 0
    lanes = WAVES * 64
    flag_at = None
    vcc_value = None
    for place in form.operands:
        if place.writes and place.name == "vdst":
            operands.append((agpr if place.accepts == "a" else v)[200:199 + place.width] if place.width > 1 else
                            agpr[200] if place.accepts == "a" else v[200])
            destination = place
            continue
        if place.writes:
            operands.append(vcc if place.accepts == "c" else s[30:31])
            flag_at = place
            continue
        if place.type == "b64" and place.name in ("vcc", "src2") and "v" not in place.accepts:
            mask = generator.integers(0, 1 << 63, WAVES, dtype=np.uint64) << np.uint64(1)
            if place.accepts == "c":
                vcc_value = mask
                operands.append(vcc)
            else:
                sgprs[40], sgprs[41] = mask & np.uint64(0xFFFFFFFF), mask >> np.uint64(32)
                operands.append(s[40:41])
            drawn.append([int(mask[wave]) >> lane & 1 for wave in range(WAVES) for lane in range(64)])
            continue
        number = len(drawn)
        if place.accepts == "k":
            literal = 0x4248 if bits_of(place.type) == 16 else 0x40490FDB
            operands.append(literal)
            drawn.append([literal] * lanes)
            continue
        width = dwords(place.type)
        kind = (kinds or {}).get(number, place.type)
        if width > 2 or width == 2 and bits_of(place.type) == 32:
            element = "f32" if "f32" in place.type else "b32"
            block = patterns(element, generator, (width, WAVES, 64))
            for word in range(width):
                vgprs[at + word] = block[word].astype(np.uint32)
            flat = block.reshape(width, -1)
            drawn.append([[int(x) for x in flat[:, lane]] for lane in range(lanes)])
        else:
            block = patterns(kind, generator, (WAVES, 64))
            if given and number in given:
                block = generator.choice(np.array(given[number], np.uint64), (WAVES, 64))
            bits = bits_of(place.type)
            stored = block.astype(np.uint32) if bits < 64 else block
            if bits == 16:
                stored = stored | generator.integers(0, 1 << 16, block.shape, dtype=np.uint32) << np.uint32(16)
            vgprs[at] = stored
            drawn.append([int(x) for x in block.reshape(-1)])
        register: Any = (agpr if place.accepts == "a" else v)[at:at + width - 1] if width > 1 else (agpr if place.accepts == "a" else v)[at]
        negate, absolute = signs[number] if number < len(signs) else (False, False)
        operands.append(Modified(register, neg=negate, abs=absolute) if negate or absolute else register)
        at += width + (width & 1)
    agprs = {}
    if any(place.accepts == "a" and not place.writes for place in form.operands):
        agprs, vgprs = vgprs, {}
    old = np.arange(WAVES * 64, dtype=np.uint32).reshape(WAVES, 64) * np.uint32(2654435761) + np.uint32(OLD & 0xFFFFFFFF)
    target = agprs if destination_in_agprs(form) else vgprs
    if flag_at is None or any(place.name == "vdst" for place in form.operands):
        if accumulate:
            kind = destination.type
            if bits_of(kind) == 64:
                block = patterns(kind, generator, (WAVES, 64))
                target[200] = block
            else:
                block = patterns(kind, generator, (WAVES, 64))
                target[200] = block.astype(np.uint32)
            drawn.append([int(x) for x in block.reshape(-1)])
        else:
            for word in range(destination.width):
                target[200 + word] = old + np.uint32(word)
    result = run(arch, lambda k: k.emit(name + form.suffix, *operands, **modifiers), vgprs=vgprs, agprs=agprs, sgprs=sgprs,
                 exec_mask=exec_mask, vcc=vcc_value, mode=mode, waves=WAVES)
    _check(result, form, drawn, reference, exec_mask, flag_at, target, compare, name)
    return result


def destination_in_agprs(form: Form) -> bool:
    """Whether the vector destination is an AGPR."""
    return any(place.writes and place.accepts == "a" for place in form.operands)


def _check(result: Result, form: Form, drawn: list[list[Any]], reference: Callable[..., Any], exec_mask: int, flag_at: Any,
           before: dict[int, Any], compare: Any, name: str) -> None:
    vector = next((place for place in form.operands if place.name == "vdst"), None)
    count = vector.width if vector is not None else 0
    read = result.a if destination_in_agprs(form) else result.v
    words = [read(200 + n).reshape(-1) for n in range(count)]
    started = [np.broadcast_to(before[200 + n] if 200 + n in before else (before[200] >> np.uint64(32)), (WAVES, 64)).reshape(-1)
               for n in range(count)]
    active = 0
    for lane in range(WAVES * 64):
        wave, inside = divmod(lane, 64)
        sources = [source[lane] for source in drawn]
        old = [int(word[lane]) & 0xFFFFFFFF for word in started]
        got = [int(word[lane]) for word in words]
        flag = None
        if flag_at is not None:
            index = 106 if flag_at.accepts == "c" else 30
            flag = result.s64(index, wave) >> inside & 1
        if not exec_mask >> inside & 1:
            assert got == old, f"{name}: inactive lane {inside} of wave {wave} was written: {got} was {old}"
            assert not flag, f"{name}: inactive lane {inside} has its bit set"
            continue
        active += 1
        expected = reference(*sources)
        where = f"{name}{form.suffix} lane {inside} of wave {wave}: sources {_hex(sources)} gave {_hex(got)}"
        if flag is not None:
            wanted = expected if vector is None else expected[1]
            assert bool(flag) == bool(wanted), f"{where} flag {flag}, expected {wanted}"
            if vector is None:
                continue
            expected = expected[0]
        if isinstance(expected, list):
            assert got == expected, f"{where}, expected {_hex(expected)}"
            continue
        whole = sum(word << 32 * n for n, word in enumerate(got))
        if compare is not None:
            assert compare(whole, expected, sources), f"{where}, expected {_hex([expected])}"
        elif expected == NAN:
            kind = KINDS[vector.type]  # type: ignore[union-attr]
            assert kind.is_nan(whole & (1 << kind.bits) - 1), f"{where}, expected a NaN"
        else:
            if callable(expected):  # a result that keeps part of the old register
                expected = expected(old[0])
            assert whole == expected, f"{where}, expected {_hex([expected])}"
    assert active


def _hex(values: Any) -> str:
    return "[" + ", ".join(hex(value) if isinstance(value, int) else str(value) for value in values) + "]"


def emit_one(name: str, *operands: Any, **modifiers: Any) -> Callable[[Builder], object]:
    """For `run`: a program of one instruction."""
    return lambda k: k.emit(name, *operands, **modifiers)


class Cases:
    """Runs cases, and knows from what the tests of a file declare which mnemonics they test, whichever of them ran.

    >>> CASES = Cases()
    >>> @CASES.declares("v_cvt_{result}_f32")
    ... @pytest.mark.parametrize("result", ["i32", "u32"])
    ... def test(result: str) -> None: ...
    """

    def __init__(self) -> None:
        self.declared: set[str] = set()
        self._ran: set[str] = set()

    def check(self, name: str, reference: Callable[..., Any], arch: str = "gfx942", **options: Any) -> None:
        """As run_case."""
        self._ran.add(name)
        run_case(arch, name, reference, **options)

    def declares(self, *patterns: str, also: Callable[..., Sequence[str]] | None = None) -> Callable[[_Test], _Test]:
        """Declares for a test, above its parametrisation, the mnemonics that it tests: in braces its parameters; `also` gives
        further ones from the parameters. A test that runs others, or not all of these, fails.
        """
        def names(parameters: dict[str, Any]) -> set[str]:
            return {pattern.format(**parameters) for pattern in patterns} | set(also(**parameters) if also else ())

        def decorate(test: _Test) -> _Test:
            for parameters in _parameter_sets(test):
                self.declared |= names(parameters)

            @wraps(test)
            def checked(**parameters: Any) -> None:
                self._ran.clear()
                test(**parameters)
                assert self._ran == names(parameters), f"{test.__name__} declares {names(parameters)} and tests {self._ran}"

            return checked  # type: ignore[return-value]

        return decorate


def _parameter_sets(test: Callable[..., None]) -> list[dict[str, Any]]:
    """Every combination of a test's parameters."""
    found: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", []):
        names, values = mark.args
        names = [name.strip() for name in names.split(",")]
        rows = [row if len(names) > 1 else (row,) for row in values]
        found = [{**before, **dict(zip(names, row, strict=True))} for before in found for row in rows]
    return found
