"""Small number formats as data, and exact vectorised conversions: fp4, fp6, fp8, e8m0, bf16, f16, MX blocks of 32.

Sources. [OCP8] OCP 8-bit Floating Point Specification (OFP8) 1.0, tables 1 to 3. [MX] OCP Microscaling Formats (MX) 1.0,
sections 5 and 6.3. [I4] CDNA4 ISA 7.3 (conversion rules, FP16_OVFL table) and 12.11 (pseudo-code). [HIP] AMD's host versions
of the gfx950 conversions (ROCm's amd_hip_ocp headers), read for facts only.
docs/facts/semantics.md sections 4 and 12, docs/facts/instructions.md section 2.
A docstring says "inferred" where no source settles a point; nothing here was run on hardware. The two OCP documents were not at
hand: their rules are cited from general knowledge, and checked against [I4], [HIP] and ml_dtypes where those say the same.

How the hardware's conversions map onto `encode`:

- v_cvt_pk_fp8_f32 / v_cvt_pk_bf8_f32: rounding "nearest_even" whatever MODE says; `saturate` is MODE.FP16_OVFL. [I4] 7.3: set,
  an infinity or a too large value becomes +-max; clear, NaN in e4m3 and infinity in e5m2. That is also [OCP8] table 3.
  gfx942 converts to the FNUZ formats; that its overflow without FP16_OVFL is NaN follows from their having no infinity (inferred).
- v_cvt_sr_*: rounding "stochastic", see `encode`. v_cvt_pk_bf16_f32: "nearest_even" to bf16; gfx942 kernels round as they please.
- v_cvt_scalef32_*: pass `scale=scale_from_f32(operand)`; only exponent bits of the f32 operand count ([I4] 12.11). To fp4 and
  fp6 always saturating, to fp8 by FP16_OVFL ([I4] 7.3). The multi-element stochastic forms step the seed with `prng_step`.
- v_cvt_scalef32_* from a small format: `mx_dequantize` to float32; for bf16 or f16 results to float64 and then `encode`, one rounding.

ml_dtypes agrees with saturate=False for the fp8 formats and bf16 (its casts overflow to NaN or infinity), rounds only to nearest
even, saturates fp4 and fp6, and turns NaN into a zero of the opposite sign there, where [HIP] gives the largest magnitude. What NaN
becomes in fp4 and fp6 is the least certain rule here: another AMD emulator gives +0 (the hardware was not tried).
"""

from __future__ import annotations

from asmgen.isa.numbers.blocks import mx_dequantize, mx_quantize, mx_scale, pack, scale_decode, scale_from_f32, unpack
from asmgen.isa.numbers.codec import ROUNDINGS, decode, encode, prng_step
from asmgen.isa.numbers.numberformat import FORMATS, MX_BLOCK, SCALE_BIAS, SCALE_NAN, Format, FormatError, hardware_format, resolve_format

__all__ = [
    "FORMATS", "MX_BLOCK", "ROUNDINGS", "SCALE_BIAS", "SCALE_NAN", "Format", "FormatError", "decode", "encode", "hardware_format",
    "mx_dequantize", "mx_quantize", "mx_scale", "pack", "prng_step", "resolve_format", "scale_decode", "scale_from_f32", "unpack",
]
