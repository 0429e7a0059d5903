"""What float instructions of the vector ALU are on residues, by mnemonic: functions of sources with their numbers and the run's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asmgen.emulator.algebra.residues import Residues
from asmgen.emulator.machine.floatmode import FloatMode
from asmgen.emulator.semantics.floats import FLOAT

Values = Any
RATIO = {"v_div_fmas_f32": 64, "v_div_fmas_f64": 128}
"""Exponents by which v_div_fmas scales where VCC says so (CDNA3 ISA, V_DIV_FMAS_F32 and V_DIV_FMAS_F64)."""


@dataclass(frozen=True)
class Given:
    """A source of the run: its typed value with modifiers, and its numbers."""

    value: Values
    numbers: Residues


Rule = Callable[[FloatMode, str, Sequence[Given]], Residues]


def _exact(function: Callable[..., Residues]) -> Rule:
    """What the numbers alone decide."""
    return lambda mode, name, sources: function(*(source.numbers for source in sources))


def _chosen(mode: FloatMode, name: str, sources: Sequence[Given]) -> Residues:
    """One of the sources, as the run has it: minima, maxima, medians. Of equal ones the one with the least residues, so that lanes that
    reduce a row in orders of their own have the same number of it."""
    result = np.asarray(FLOAT[name](mode, *(source.value for source in sources)))
    found, taken = Residues.missing(result.shape), np.zeros(result.shape, bool)
    for source in sources:
        numbers = source.numbers.broadcast(result.shape)
        fits = np.asarray(source.value) == result
        less = (numbers.q < found.q) | (numbers.q == found.q) & (numbers.p < found.p)
        found, taken = numbers.where(fits & (~taken | less), found), taken | fits
    return found


def _exp2(mode: FloatMode, name: str, sources: Sequence[Given]) -> Residues:
    """exp2(-inf) is 0, of which everything is known."""
    nothing = np.asarray(sources[0].value) == -np.inf
    found = sources[0].numbers.exp2()
    if not nothing.any():
        return found
    zero = Residues.of(np.zeros(found.shape, np.uint64), 0, 0, 3)
    return zero.where(nothing, found)


def _ldexp(mode: FloatMode, name: str, sources: Sequence[Given]) -> Residues:
    """The exponent is a number of the run."""
    exponents = np.asarray(sources[1].value)
    return sources[0].numbers.scaled(exponents.view(np.int32) if exponents.dtype == np.uint32 else exponents)


def _mantissa(mode: FloatMode, name: str, sources: Sequence[Given]) -> Residues:
    """By the exponent of the run."""
    return sources[0].numbers.scaled(-np.frexp(np.asarray(sources[0].value, np.float64))[1])


def _quotient(mode: FloatMode, name: str, sources: Sequence[Given]) -> Residues:
    """v_div_fixup: the quotient that was found, which exactly computed is the quotient."""
    return sources[0].numbers


def _div_scale(mode: FloatMode, name: str, sources: Sequence[Given]) -> Residues:
    """The first source times a power of two, by the run."""
    result, _ = FLOAT[name](mode, *(source.value for source in sources))
    given = np.asarray(sources[0].value, np.float64)
    return sources[0].numbers.scaled(np.frexp(np.asarray(result, np.float64))[1] - np.frexp(given)[1])


def _div_fmas(mode: FloatMode, name: str, sources: Sequence[Given]) -> Residues:
    """A product and a sum, scaled where VCC says so: up where the addend is large, else down (as the emulator has it)."""
    plain = sources[0].numbers * sources[1].numbers + sources[2].numbers
    up = np.abs(np.asarray(sources[2].value)) >= 2
    return plain.scaled(np.where(sources[3].value, np.where(up, RATIO[name], -RATIO[name]), 0))


RULES: dict[str, Rule] = {
    "exp": _exp2, "log": _exact(Residues.log2), "rcp": _exact(Residues.reciprocal), "rcp_iflag": _exact(Residues.reciprocal),
    "rsq": _exact(lambda a: a.hashed("rsq")), "sqrt": _exact(lambda a: a * a.hashed("rsq")),
    "sin": _exact(lambda a: a.hashed("sin")), "cos": _exact(lambda a: a.hashed("cos")),
    "add": _exact(lambda a, b: a + b), "sub": _exact(lambda a, b: a - b), "subrev": _exact(lambda a, b: b - a),
    "mul": _exact(lambda a, b: a * b), "mul_legacy": _exact(lambda a, b: a * b),
    **dict.fromkeys(("fma", "fmac", "fmamk", "fmaak", "mad", "mac", "madmk", "madak", "mad_legacy", "fma_legacy"),
                    _exact(lambda a, b, c: a * b + c)),
    **dict.fromkeys(("max", "min", "max3", "min3", "med3", "minimum3", "maximum3"), _chosen),
    "ldexp": _ldexp, "frexp_mant": _mantissa, "div_fixup": _quotient, "div_scale": _div_scale, "div_fmas": _div_fmas,
}
"""By the middle of the mnemonic, v_STEM_f64, v_STEM_f32 or v_STEM_f16."""
RUN = frozenset({"trunc", "ceil", "rndne", "floor", "frexp_exp_i32", "frexp_exp_i16", "trig_preop"})
"""Whose results are integers, or are those of the run."""
PAIRS: dict[str, Rule] = {"v_pk_add": RULES["add"], "v_pk_mul": RULES["mul"], "v_pk_fma": RULES["fma"], "v_pk_fmac": RULES["fma"]}
"""Of packed instructions on f32 or f16, without minima and maxima."""


def rule_of(name: str) -> tuple[Rule, str] | None:
    """The rule of an instruction with one float result and its format; None where there is none."""
    stem, _, kind = name.removeprefix("v_").rpartition("_")
    return (RULES[stem], kind) if kind in ("f64", "f32", "f16") and stem in RULES else None


def of_the_run(name: str) -> bool:
    """Whether an instruction gives a number of the run: an integer, a truth, an exponent."""
    stem, _, kind = name.removeprefix("v_").rpartition("_")
    if name.startswith(("v_cmp_", "v_cmpx_")) or stem in RUN:
        return True
    parts = name.split("_")
    return parts[1] == "cvt" and (parts[2][0] in "iu" and parts[2][1:].isdigit() or kind[0] in "iu" or kind.startswith("ubyte")
                                  or parts[2] in ("rpi", "flr"))
