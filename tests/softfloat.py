"""Binary floats on bit patterns with Python integers and fractions: the independent reference of the emulator's float tests."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

NEAREST, UP, DOWN, ZERO = range(4)
NAN = "nan"  # an expected result: any NaN


@dataclass(frozen=True)
class Kind:
    """A format: mantissa and exponent bits."""

    mantissa: int
    exponent: int

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def sign(self) -> int:
        return 1 << self.bits - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def largest(self) -> int:
        return self.infinity - 1

    @property
    def quiet(self) -> int:
        return 1 << self.mantissa - 1

    def magnitude(self, pattern: int) -> int:
        return pattern & (self.sign - 1)

    def negative(self, pattern: int) -> bool:
        return bool(pattern & self.sign)

    def is_nan(self, pattern: int) -> bool:
        return self.magnitude(pattern) > self.infinity

    def is_signaling(self, pattern: int) -> bool:
        return self.is_nan(pattern) and not pattern & self.quiet

    def is_inf(self, pattern: int) -> bool:
        return self.magnitude(pattern) == self.infinity

    def is_denormal(self, pattern: int) -> bool:
        return 0 < self.magnitude(pattern) < 1 << self.mantissa

    def flush(self, pattern: int, wanted: bool = True) -> int:
        return pattern & self.sign if wanted and self.is_denormal(pattern) else pattern

    def value(self, pattern: int) -> Fraction:
        """Of a finite number."""
        magnitude = self.magnitude(pattern)
        field, fraction = magnitude >> self.mantissa, magnitude & (1 << self.mantissa) - 1
        if field:
            fraction |= 1 << self.mantissa
        power = max(field, 1) - self.bias - self.mantissa
        result = Fraction(fraction) * Fraction(2) ** power
        return -result if self.negative(pattern) else result

    def encode(self, value: Fraction, rounding: int = NEAREST, negative_zero: bool = False) -> int:
        """The nearest number as the rounding says; an exact zero has the given sign."""
        if value == 0:
            return self.sign if negative_zero else 0
        negative, size = value < 0, abs(value)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        if Fraction(2) ** exponent > size:
            exponent -= 1
        exponent = max(exponent, 1 - self.bias)
        scaled = size / Fraction(2) ** (exponent - self.mantissa)
        whole = scaled.numerator // scaled.denominator
        rest = scaled - whole
        if rounding == NEAREST:
            whole += rest > Fraction(1, 2) or rest == Fraction(1, 2) and whole & 1
        elif rounding == (DOWN if negative else UP):
            whole += rest > 0
        pattern = (exponent + self.bias - 1 << self.mantissa) + whole
        if pattern >= self.infinity:
            away = rounding == NEAREST or rounding == (DOWN if negative else UP)
            pattern = self.infinity if away else self.largest
        return pattern | (self.sign if negative else 0)

    def fma(self, a: int, b: int, c: int, rounding: int = NEAREST) -> int | str:
        """a*b + c on patterns."""
        if self.is_nan(a) or self.is_nan(b) or self.is_nan(c):
            return NAN
        negative = self.negative(a) != self.negative(b)
        if self.is_inf(a) or self.is_inf(b):
            if self.magnitude(a) == 0 or self.magnitude(b) == 0 or self.is_inf(c) and self.negative(c) != negative:
                return NAN
            return self.infinity | (self.sign if negative else 0)
        if self.is_inf(c):
            return c
        product, addend = self.value(a) * self.value(b), self.value(c)
        if product == 0 and addend == 0 and negative == self.negative(c):
            return self.sign if negative else 0
        return self.encode(product + addend, rounding, rounding == DOWN)

    def add(self, a: int, b: int, rounding: int = NEAREST) -> int | str:
        """a + b."""
        return self.fma(a, self.bias << self.mantissa, b, rounding)

    def mul(self, a: int, b: int, rounding: int = NEAREST) -> int | str:
        """a * b."""
        negative = self.negative(a) != self.negative(b)
        result = self.fma(a, b, self.sign if negative else 0, rounding)
        return result

    def convert(self, pattern: int, target: Kind, rounding: int = NEAREST) -> int | str:
        """To another format."""
        if self.is_nan(pattern):
            return NAN
        sign = target.sign if self.negative(pattern) else 0
        if self.is_inf(pattern):
            return target.infinity | sign
        return target.encode(self.value(pattern), rounding, bool(sign))


F16, F32, F64, BF16 = Kind(10, 5), Kind(23, 8), Kind(52, 11), Kind(7, 8)
KINDS = {"f16": F16, "f32": F32, "f64": F64, "bf16": BF16}
