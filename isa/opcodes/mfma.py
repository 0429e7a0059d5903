"""Every matrix instruction of gfx942 and gfx950 (source: docs/facts/instructions.md section 1, passes measured with LLVM 22).

A pass is 4 cycles. A name says the shape and the types: `v_mfma_<D type>_<M>x<N>x<K>[_<blocks>b]_<A type>[_<B type>]`.
The f8f6f4 instructions take their A format from `cbsz` and their B format from `blgp`, and with it width and passes.
"""

from __future__ import annotations

import re

from asmgen.isa.encodings import spread
from asmgen.isa.records import dataclass

# Name, class, registers of A/B/CD, passes on gfx942 and gfx950 ("-": not there). "{x,y}" stands for one row each.
# For f8f6f4 the registers are those of 8-bit data; "4:8" is 4 passes without and 8 with an 8-bit operand.
_TABLE = """
v_mfma_f32_16x16x128_f8f6f4                 xdl    8/8/4    -   4:8
v_mfma_f32_32x32x64_f8f6f4                  xdl    8/8/16   -   8:16
v_mfma_scale_f32_16x16x128_f8f6f4           xdl    8/8/4    -   4:8
v_mfma_scale_f32_32x32x64_f8f6f4            xdl    8/8/16   -   8:16
v_mfma_f32_16x16x16_{f16,bf16}              xdl    2/2/4    4   4
v_mfma_f32_16x16x32_{f16,bf16}              xdl    4/4/4    -   4
v_mfma_f32_16x16x32_{fp8,bf8}_{fp8,bf8}     xdl    2/2/4    4   4
v_mfma_f32_16x16x4_4b_{f16,bf16}            xdl    2/2/16   8   8
v_mfma_f32_16x16x8_xf32                     xdl    2/2/4    4   -
v_mfma_f32_32x32x16_{f16,bf16}              xdl    4/4/16   -   8
v_mfma_f32_32x32x16_{fp8,bf8}_{fp8,bf8}     xdl    2/2/16   8   8
v_mfma_f32_32x32x4_2b_{f16,bf16}            xdl    2/2/32   16  16
v_mfma_f32_32x32x4_xf32                     xdl    2/2/16   8   -
v_mfma_f32_32x32x8_{f16,bf16}               xdl    2/2/16   8   8
v_mfma_f32_4x4x4_16b_{f16,bf16}             xdl    2/2/4    2   2
v_mfma_i32_16x16x32_i8                      xdl    2/2/4    4   4
v_mfma_i32_16x16x4_4b_i8                    xdl    1/1/16   8   8
v_mfma_i32_16x16x64_i8                      xdl    4/4/4    -   4
v_mfma_i32_32x32x16_i8                      xdl    2/2/16   8   8
v_mfma_i32_32x32x32_i8                      xdl    4/4/16   -   8
v_mfma_i32_32x32x4_2b_i8                    xdl    1/1/32   16  16
v_mfma_i32_4x4x4_16b_i8                     xdl    1/1/4    2   2
v_smfmac_f32_16x16x128_{fp8,bf8}_{fp8,bf8}  xdl    4/8/4    -   4
v_smfmac_f32_16x16x32_{f16,bf16}            xdl    2/4/4    4   4
v_smfmac_f32_16x16x64_{f16,bf16}            xdl    4/8/4    -   4
v_smfmac_f32_16x16x64_{fp8,bf8}_{fp8,bf8}   xdl    2/4/4    4   4
v_smfmac_f32_32x32x16_{f16,bf16}            xdl    2/4/16   8   8
v_smfmac_f32_32x32x32_{f16,bf16}            xdl    4/8/16   -   8
v_smfmac_f32_32x32x32_{fp8,bf8}_{fp8,bf8}   xdl    2/4/16   8   8
v_smfmac_f32_32x32x64_{fp8,bf8}_{fp8,bf8}   xdl    4/8/16   -   8
v_smfmac_i32_16x16x128_i8                   xdl    4/8/4    -   4
v_smfmac_i32_16x16x64_i8                    xdl    2/4/4    4   4
v_smfmac_i32_32x32x32_i8                    xdl    2/4/16   8   8
v_smfmac_i32_32x32x64_i8                    xdl    4/8/16   -   8
v_mfma_f32_16x16x1_4b_f32                   sgemm  1/1/16   8   8
v_mfma_f32_16x16x4_f32                      sgemm  1/1/4    8   8
v_mfma_f32_32x32x1_2b_f32                   sgemm  1/1/32   16  16
v_mfma_f32_32x32x2_f32                      sgemm  1/1/16   16  16
v_mfma_f32_4x4x1_16b_f32                    sgemm  1/1/4    2   2
v_mfma_f64_16x16x4_f64                      dgemm  2/2/8    8   16
v_mfma_f64_4x4x4_4b_f64                     dgemm  2/2/2    4   4
"""

F8F6F4_FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")
"""Formats by the value of cbsz (A) and blgp (B) of the f8f6f4 instructions."""
F8F6F4_WIDTHS = (8, 8, 6, 6, 4)
"""Registers of an f8f6f4 operand by format number."""

_NAME = re.compile(r"v_(?P<op>mfma|mfma_scale|smfmac)_(?P<cd>[fi]\d+)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)"
                   r"(?:_(?P<blocks>\d+)b)?_(?P<a>[a-z]+\d+[a-z0-9]*)(?:_(?P<b>[a-z0-9]+))?$")


@dataclass(frozen=True)
class MfmaRow:
    """One matrix instruction: D[b] = A[b] (M x K) times B[b] (K x N) plus C[b], for each of `blocks` blocks.

    `kind` is the hazard class (xdl, sgemm, dgemm). `a_type` and `b_type` are "f8f6f4" where cbsz and blgp choose.
    `a_regs`, `b_regs`, `cd_regs` count 32-bit registers per lane (f8f6f4: of 8-bit data, see `registers`); of a sparse row
    A holds K/2 values. `passes` are (arch, without 8-bit operand, with one) and are the same twice but for f8f6f4.
    """

    name: str
    kind: str
    m: int
    n: int
    k: int
    blocks: int
    a_type: str
    b_type: str
    cd_type: str
    a_regs: int
    b_regs: int
    cd_regs: int
    passes: tuple[tuple[str, int, int], ...]
    sparse: bool
    scaled: bool

    @property
    def f8f6f4(self) -> bool:
        """Whether cbsz and blgp choose the formats of A and B."""
        return self.a_type == "f8f6f4"

    @property
    def archs(self) -> frozenset[str]:
        """The architectures that have it."""
        return frozenset(arch for arch, _, _ in self.passes)

    def passes_on(self, arch: str, cbsz: int = 0, blgp: int = 0) -> int:
        """Passes (of 4 cycles) on `arch`; cbsz and blgp matter for f8f6f4 only. Raises KeyError where `arch` lacks it."""
        for name, short, long in self.passes:
            if name == arch:
                return long if not self.f8f6f4 or cbsz < 2 or blgp < 2 else short
        raise KeyError(f"{self.name} does not exist on {arch}")

    def registers(self, cbsz: int = 0, blgp: int = 0) -> tuple[int, int, int]:
        """Registers per lane of A, B and C/D."""
        if not self.f8f6f4:
            return self.a_regs, self.b_regs, self.cd_regs
        return F8F6F4_WIDTHS[cbsz], F8F6F4_WIDTHS[blgp], self.cd_regs

    def formats(self, cbsz: int = 0, blgp: int = 0) -> tuple[str, str]:
        """Element types of A and B."""
        if not self.f8f6f4:
            return self.a_type, self.b_type
        return F8F6F4_FORMATS[cbsz], F8F6F4_FORMATS[blgp]


def _rows() -> dict[str, MfmaRow]:
    rows = {}
    for line in _TABLE.strip().splitlines():
        pattern, kind, widths, *passes = line.split()
        a_regs, b_regs, cd_regs = (int(part) for part in widths.split("/"))
        spans = tuple((arch, int(text.split(":")[0]), int(text.split(":")[-1]))
                      for arch, text in zip(("gfx942", "gfx950"), passes, strict=True) if text != "-")
        for name, _ in spread(pattern):
            parts = _NAME.match(name)
            assert parts is not None, name
            rows[name] = MfmaRow(name, kind, int(parts["m"]), int(parts["n"]), int(parts["k"]), int(parts["blocks"] or 1),
                                 parts["a"], parts["b"] or parts["a"], parts["cd"], a_regs, b_regs, cd_regs, spans,
                                 parts["op"] == "smfmac", parts["op"] == "mfma_scale")
    return rows


MFMA: dict[str, MfmaRow] = _rows()
"""All matrix instructions by their llvm-objdump name."""
