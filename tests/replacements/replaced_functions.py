"""Replacements of what happens on the way: operand parts and signs, DPP and SDWA, MODE, output modifiers, addresses, compiled loops.

Each is a function of a module of the emulator; wherever a module has imported it by name, that name is replaced too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from asmgen.emulator.binding import decode
from asmgen.emulator.machine import floatmode
from asmgen.emulator.memory import addresses, atomics, lanes, lanes_kernels, ldsdma, ldslanes, ldsops, ldsread_kernels
from asmgen.emulator.semantics import (
    dpp,
    fastpath,
    integers,
    kernels,
    matrix,
    matrix_kernels,
    matrix_numpy,
    outputs,
    packedbind,
    rounding,
    sdwa,
    valu,
    values,
    vectorio,
)
from asmgen.isa.modifiers import DPP_CONTROLS
from tests.replacements.replaced_instructions import COMPILED
from tests.replacements.replacements import Function, Note, Replacement

_LANE = np.arange(64)


def spread(module: Any, name: str, value: Any) -> None:
    """Put `value` wherever the module's function of that name is known by a name in the emulator."""
    old = getattr(module, name)
    for part in [part for key, part in sys.modules.items() if key.startswith("asmgen.emulator.")]:
        for known, held in list(vars(part).items()):
            if held is old:
                setattr(part, known, value)


def _made(module: Any, name: str, label: str, make: Callable[[Function], Function]) -> Replacement:
    title = f"{module.__name__.rsplit('.', 1)[1]}.{name}"
    return Replacement("function", f"{title} {label}".rstrip(), f"function:{title}",
                       lambda: spread(module, name, make(getattr(module, name))))


def _first(number: int = 0) -> Callable[[Function], Function]:
    """The function returns one of its arguments."""
    return lambda function: lambda *given, **named: given[number]


def _changed(number: int, value: Any) -> Callable[[Function], Function]:
    """The function sees another value of one argument."""
    return lambda function: lambda *given, **named: function(*given[:number], value, *given[number + 1:], **named)


def _fields(**fixed: Any) -> Callable[[Function], Function]:
    """The dataclass that the function returns has other fields."""
    return lambda function: lambda *given: replace(function(*given), **fixed)


def all_functions() -> list[Replacement]:
    """Every replacement of this module."""
    return [*_operands(), *_modes(), *_lanes(), *_addresses(), *_matrix(), *_loops()]


def _operands() -> list[Replacement]:
    found = [
        _made(outputs, "clamp", "", _first(1)),
        _made(outputs, "scale_output", "", _first(3)),
        _made(rounding, "flush", "", _first()),
        _made(fastpath, "fast_flush", "", _first()),
        _made(vectorio, "part", "of the lower half", _changed(1, 0)),
        _made(vectorio, "store_field", "at bit 0", _changed(2, 0)),
        _made(valu, "_shifted", "", _first()),
        _made(sdwa, "select", "", _first()),
        _made(sdwa, "select", "without sign", _changed(2, False)),
        _made(sdwa, "insert", "", _first(1)),
        _made(integers, "bit_function", "", lambda function: lambda table: lambda a, b, c: a),
        _made(integers, "saturate_mad", "", lambda function: lambda signed: lambda a, b, c: _wrapped(function(signed), signed)(a, b, c)),
        _made(packedbind, "_flipped", "", _first()),
        _made(packedbind, "_negated", "", _first()),
        _made(atomics, "_own_nan", "", _first()),
        _made(rounding, "quiet", "", _first()),
    ]
    found += [_made(vectorio, "modified", f"without {sign}", partial(_signless, sign)) for sign in ("neg", "abs")]
    for unused, other in (("UNUSED_PRESERVE", "UNUSED_PAD"), ("UNUSED_SEXT", "UNUSED_PAD"), ("UNUSED_PAD", "UNUSED_PRESERVE")):
        found.append(_made(sdwa, "insert", f"with {other} for {unused}", partial(_other_rest, unused, other)))
    for name, default in (("op_sel", 0), ("op_sel_hi", 1), ("op_sel_hi", 0), ("neg_lo", 0), ("neg_hi", 0)):
        found.append(_made(packedbind, "op_bits", f"without {name}, {default} instead", partial(_fixed_bits, name, default)))
    for place in ("src0", "src1", "src2", "vdst"):
        found.append(Replacement("function", f"decode.moved without {place}", "function:decode.moved",
                                 partial(decode._MOVED.__setitem__, place, 0)))
    for name in ("src_scc", "src_vccz", "src_execz", "src_shared_base", "src_private_base", "src_shared_limit", "src_private_limit"):
        found.append(_made(values, "_fetch_special", name, partial(_zero_special, name)))
    return found


def _signless(sign: str, function: Function) -> Function:
    return lambda plain, operand, kind: function(plain, replace(operand, **{sign: False}), kind)


def _other_rest(unused: str, other: str, function: Function) -> Function:
    return lambda old, result, part, given: function(old, result, part, other if given == unused else given)


def _fixed_bits(name: str, default: int, function: Function) -> Function:
    return lambda modifiers, given, filled: (default,) * 3 if given == name else function(modifiers, given, filled)


def _wrapped(function: Function, signed: bool) -> Function:
    plain = integers.INTEGER["v_mad_i64_i32" if signed else "v_mad_u64_u32"]
    return lambda a, b, c: (plain(a, b, c)[0], function(a, b, c)[1])


def _zero_special(name: str, function: Function) -> Function:
    def fetch_special(machine: Any, given: str, element: Any) -> Any:
        fetch = function(machine, given, element)
        return (lambda group: np.zeros_like(fetch(group))) if given == name else fetch

    return fetch_special


def _modes() -> list[Replacement]:
    found = []
    for field, fixed in (("round32", 0), ("round_wide", 0), ("flush32_in", False), ("flush32_out", False), ("flush_wide_in", False),
                         ("flush_wide_out", False), ("flush32_in", True), ("flush32_out", True), ("flush_wide_in", True),
                         ("flush_wide_out", True), ("ieee", False), ("ieee", True), ("dx10_clamp", False), ("dx10_clamp", True),
                         ("fp16_overflow", False), ("fp16_overflow", True)):
        found.append(_made(floatmode, "float_mode", f"with {field} {fixed}", _fields(**{field: fixed})))
    return found


def _lanes() -> list[Replacement]:
    found = [_made(dpp, "_lanes", control, partial(_own_lanes, control)) for control in DPP_CONTROLS]
    for name, least, end in (("fft", 0xE000, 0x10000), ("rotation", 0xC000, 0xE000), ("quads", 0x8000, 0xC000), ("masks", 0, 0x8000)):
        found.append(_made(ldslanes, "swizzle_sources", name, partial(_unswizzled, range(least, end))))
    found += [_made(dpp, "parse_dpp", f"without {name}", _without(name)) for name in ("row_mask", "bank_mask", "bound_ctrl")]
    return found


def _own_lanes(control: str, function: Function) -> Function:
    return lambda name, value: (_LANE, np.ones(64, bool)) if name == control else function(name, value)


def _unswizzled(patterns: range, function: Function) -> Function:
    return lambda pattern: _LANE if pattern in patterns else function(pattern)


def _without(name: str) -> Callable[[Function], Function]:
    """The function's first argument, modifiers, lacks one of them."""
    return lambda function: lambda modifiers: function({key: value for key, value in modifiers.items() if key != name})


def _addresses() -> list[Replacement]:
    found = [_made(addresses, "_swizzled", "", lambda function: lambda index, offset, stride, flags: offset + index * stride),
             _made(addresses, "accesses_of", "without bounds", _unbounded)]
    for space in ("_buffer", "_global", "_flat", "_scratch"):
        found.append(_made(addresses, space, "without its offset", partial(_less, "offset")))
    for name in ("offen", "idxen"):
        found.append(_made(addresses, "_buffer", f"without {name}", partial(_less, name)))
    for space, place in (("_buffer", "soffset"), ("_global", "saddr"), ("_scratch", "saddr"), ("_scratch", "vaddr")):
        found.append(_made(addresses, space, f"without {place}", partial(_zero_place, place)))
    for name in ("SHARED_BASE", "PRIVATE_BASE"):
        found.append(Replacement("function", f"addresses._flat without {name}", "function:addresses._flat",
                                 partial(setattr, addresses, name, 1 << 62)))
    found += [_made(ldsdma, "to_lds", f"without {what}", make) for what, make in (("M0", _no_m0), ("offset", _dma_offset))]
    found.append(_made(ldsops, "locations", "without offsets", lambda function: lambda instruction, size:
                       tuple(replace(place, offset=0) for place in function(instruction, size))))
    found.append(_made(ldsops, "locations", "with st64 as 1", lambda function: lambda instruction, size:
                       function(_without_flag(instruction), size)))
    return found


def _without_flag(instruction: Any) -> Any:
    return replace(instruction, opcode=replace(instruction.opcode, flags=instruction.opcode.flags - {"st64"}))


def _unbounded(function: Function) -> Function:
    def unbounded(*given: Any) -> Function:
        accesses = function(*given)
        return lambda group: tuple(replace(access, limit=None, counted=None) if access.memory_name == "buffer" else access
                                   for access in accesses(group))

    return unbounded


def _less(name: str, function: Function) -> Function:
    def less(instruction: Any, *rest: Any) -> Any:
        fewer = {key: value for key, value in instruction.modifiers.items() if key != name}
        return function(replace(instruction, modifiers=fewer), *rest)

    return less


def _zero_place(place: str, function: Function) -> Function:
    def zero(instruction: Any, named: dict[str, Any], *rest: Any) -> Any:
        fewer = dict(named)
        if place == "soffset":
            fewer[place] = 0
        else:
            fewer.pop(place, None)
            if place == "saddr" and "saddr" in named and "_global" in function.__name__:
                return function(instruction, named | {"saddr": None}, *rest)
        return function(instruction, fewer, *rest)

    return zero


def _no_m0(function: Function) -> Function:
    def to_lds(*given: Any) -> Function:
        step = function(*given)

        def run(group: Any) -> None:
            scalar = group.machine.scalar
            old = scalar[ldsdma.M0, group.select].copy()
            scalar[ldsdma.M0, group.select] = 0
            step(group)
            scalar[ldsdma.M0, group.select] = old

        return run

    return to_lds


def _dma_offset(function: Function) -> Function:
    def to_lds(instruction: Any, *rest: Any) -> Any:
        fewer = {key: value for key, value in instruction.modifiers.items() if key != "offset"}
        return function(replace(instruction, modifiers=fewer), *rest)

    return to_lds


def _matrix() -> list[Replacement]:
    found = [
        _made(matrix, "flushes", "nothing", lambda function: lambda *given: np.zeros_like(function(*given))),
        _made(matrix_numpy, "to_xf32", "", _first()),
        _made(matrix, "flushed", "", _first()),
        _made(matrix_numpy, "_flushed", "", _first()),
        _made(matrix, "registers_of", "unmoved", lambda function: lambda *given: matrix._registers_of(*given)),
    ]
    for kind in ("fp8", "bf8", "fp6", "bf6", "fp4", "f16"):
        found.append(_made(matrix, "decode_table", kind, partial(_undecoded, kind)))
    found += [_made(matrix_kernels, name, "", lambda kernel: lambda *given: None) for name in COMPILED]
    return found


def _undecoded(kind: str, function: Function) -> Function:
    """Codes taken for their numbers."""
    return lambda given, arch: np.arange(len(function(given, arch)), dtype=np.float32) if given == kind else function(given, arch)


_NOTHING = ((lanes_kernels, "store_words"), (lanes_kernels, "store_narrow"), (ldsread_kernels, "read_lds"), (lanes_kernels, "write_lds"))


def _loops() -> list[Replacement]:
    """Compiled loops and what numpy does instead; those of FAST and of matrix instructions are replaced elsewhere."""
    found = [_made(home, name, "", lambda kernel: lambda *given: None) for home, name in _NOTHING]
    found += [
        _made(lanes_kernels, "load_words", "", lambda kernel: lambda *given: given[-1].fill(0)),
        _made(lanes_kernels, "locate_in_lds", "", lambda kernel: lambda *given: given[-1].fill(-1)),
        _made(lanes_kernels, "locate_in_buffer", "without offset", _changed(7, -1)),
        _made(lanes_kernels, "locate_in_buffer", "without index", _changed(6, -1)),
        _made(lanes_kernels, "locate_in_buffer", "without immediate", _changed(8, 0)),
        _made(kernels, "blend_b32", "", lambda kernel: lambda value, mask, out: out.__setitem__(slice(None), value)),
        _made(kernels, "flush_f32", "", lambda kernel: lambda x, out: out.__setitem__(slice(None), x)),
        _made(lanes, "_gather", "", lambda function: lambda window, at, size: np.zeros(len(at), np.uint32)),
        _made(lanes, "_scatter", "", lambda function: lambda *given: None),
        _made(atomics, "_running_sums", "", lambda function: lambda cells, at, order, start, begins, x: cells[at].copy()),
    ]
    return found


def witness_functions(note: Note) -> None:
    """Have `note` told of every use of a function that is replaced here."""
    done = set()
    for replacement in all_functions():
        title = replacement.trigger.removeprefix("function:")
        if title in done:
            continue
        done.add(title)
        module, name = title.split(".")
        home = next(part for key, part in sys.modules.items() if key.startswith("asmgen.emulator.") and key.endswith(f".{module}"))
        spread(home, name, _noted(getattr(home, name), replacement.trigger, note))


def _noted(function: Function, trigger: str, note: Note) -> Function:
    def noted(*given: Any, **named: Any) -> Any:
        note(trigger)
        return function(*given, **named)

    noted.__name__ = getattr(function, "__name__", "")
    return noted
