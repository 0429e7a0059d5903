"""Throws damaged assembly text, listings and code objects at the reader: `python -m tests.fuzz.reader N [SEED]`.

Whatever the input, the reader must answer with Programs or with an AsmgenError, and soon. Inputs are made from a seed, so that a number
names an input for ever.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from asmgen.isa.errors import AsmgenError
from asmgen.reader.assembly import read_text
from asmgen.reader.file import read_file
from asmgen.toolchain import assemble, disassemble

ARCH = "gfx950"
SLOW = 10.0
"""Seconds after which an answer counts as a hang."""

SAMPLE = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
\t.amdhsa_code_object_version 6
\t.text
\t.protected sample
\t.globl sample
\t.p2align 8
\t.type sample,@function
sample: ; the kernel
\ts_load_dwordx4 s[4:7], s[0:1], 0x10
\ts_load_dword s8, s[0:1], s3 offset:0x20
\ts_mov_b32 m0, lit(0x4)
\ts_and_saveexec_b64 s[10:11], vcc // lanes
\ts_cbranch_execz .Lend
\ts_waitcnt vmcnt(0) & lgkmcnt(1) ; why it waits
\t; region loop
.Lloop:
\tv_mov_b32_dpp v0, v1 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf bound_ctrl:1
\tv_add_f32_sdwa v2, -v1, |v2| dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:DWORD
\tv_add_f32_e64 v3, neg(1.0), -|v1| clamp mul:2
\tv_pk_fma_f16 v4, v5, v6, v7 op_sel:[0,1,0] op_sel_hi:[1,0,1] neg_lo:[1,0,0]
\tv_mfma_f32_16x16x32_bf16 v[8:11], v[12:15], v[16:19], v[8:11]
\tv_mfma_scale_f32_16x16x128_f8f6f4 v[20:23], v[24:31], v[32:39], v[20:23], v40, v41 op_sel_hi:[0,0,0] cbsz:1
\tds_read_b128 v[12:15], v40 offset:4096 ; lds read A[0] 0x1000:0x2000
\tds_swizzle_b32 v42, v43 offset:swizzle(BITMASK_PERM,"01pip")
\tbuffer_load_dwordx4 v41, s[4:7], 0 offen offset:16 lds ; lds write A[1] 0x2000:0x3000; a comment
\tbuffer_store_dword v44, v45, s[4:7], s8 offen offset:2048 sc0 nt sc1
\ttbuffer_load_format_x v0, off, s[4:7], 0 format:[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_FLOAT] offset:8
\tglobal_load_dwordx2 v[46:47], v48, s[12:13] offset:-16
\tglobal_atomic_add_f32 v49, v[50:51], v52, off sc0
\tflat_store_dwordx3 v[50:51], v[54:56] /* inner
 comment */
\tv_accvgpr_write_b32 a4, v57
\ts_getreg_b32 s14, hwreg(HW_REG_MODE, 0, 4)
\ts_sendmsg sendmsg(MSG_INTERRUPT)
\ts_set_gpr_idx_on s14, gpr_idx(SRC0,DST)
\ts_add_u32 s15, s15, 0xfffffe44
\ts_cmp_lt_u32 s15, s16
\ts_cbranch_scc1 .Lloop
.Lend:
\ts_endpgm
\t.size sample, .-sample
\t.p2alignl 6, 0xbf800000
\t.fill 256, 4, 0xbf800000
\t.section .rodata,"a",@progbits
\t.p2align 6
\t.amdhsa_kernel sample
\t\t.amdhsa_next_free_vgpr 64
\t\t.amdhsa_next_free_sgpr 32
\t\t.amdhsa_accum_offset 60
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t.end_amdhsa_kernel
\t.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx950
amdhsa.kernels:
  - {.name: sample, .symbol: sample.kd, .kernarg_segment_size: 64, .kernarg_segment_align: 8, .group_segment_fixed_size: 0, .private_segment_fixed_size: 0, .wavefront_size: 64, .sgpr_count: 32, .vgpr_count: 64, .agpr_count: 4, .max_flat_workgroup_size: 64}
\t.end_amdgpu_metadata
"""  # noqa: E501  # a flow mapping stands on one line

PIECES = (
    "\0", "\x1b[31m", "\x0b", "\u2028", "\ufeff", "%", "@", "|", "(", "[", "]", "{", '"', "/*", "*/", ";", "//", ":", "::", "-", "\\", "#",
    "v", "s[", "v[0:99999999999999999999]", "0x", "1e999", "99999999999999999999999", "1:", "L_0:", ".rept 1000000000\n", ".macro m\n",
    ".set v0, 1\n", ".fill 99999999999\n", ".p2align 99\n", ".section x\n", ".include \"/dev/zero\"\n", "= 1\n", "s_nop 77777777\n",
    "v_add_f33 v0, v1, v2\n", "offset:", "quad_perm:[", "hwreg(", "lit(", "neg(neg(neg(", "vmcnt(99)", "-" * 50, "(" * 300, "v0, " * 900,
    "<sym+0x", "// 000000001000: BF800000",
)
_FIRST_WORD = b"\x00\x01\x0a\xc0"  # s_load_dwordx4 s[4:7], s[0:1]
_CODE_BYTES = 240
_TEXT, _LISTING, _OBJECT, _FILE = "text", "listing", "code object", "file"
_KINDS, _WEIGHTS = (_TEXT, _LISTING, _OBJECT, _FILE), (60, 25, 12, 3)


@dataclass(frozen=True)
class Case:
    """One input: its number, what the reader is told that it is, and its bytes."""

    number: int
    kind: str
    data: bytes


def cases(count: int, seed: int = 0) -> Iterator[Case]:
    """The inputs number 0 to count - 1 of a seed."""
    code_object = assemble(SAMPLE, ARCH)
    listing = disassemble(code_object, ARCH)
    for number in range(count):
        rng = random.Random(f"{seed}:{number}")
        kind = rng.choices(_KINDS, _WEIGHTS)[0]
        if kind == _OBJECT:
            yield Case(number, kind, _damaged_bytes(rng, code_object))
        else:
            text = listing if kind == _LISTING else SAMPLE
            yield Case(number, kind, damaged_text(rng, text).encode("utf-8", "surrogatepass"))


def answer(case: Case, folder: Path) -> str:
    """ "read" or the error's class, where the reader answers as it should; any other exception passes through."""
    try:
        if case.kind in (_TEXT, _LISTING):
            read_text(case.data.decode("utf-8", "replace"), ARCH)
        else:
            path = folder / "input"
            path.write_bytes(case.data)
            read_file(path, ARCH)
    except AsmgenError as error:
        if not str(error).isprintable() or len(str(error)) > 2000:
            raise ValueError(f"an error's sentence has {len(str(error))} characters or control characters: {str(error)[:80]!r}") from error
        return type(error).__name__
    return "read"


def damaged_text(rng: random.Random, text: str) -> str:
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(text) + 1)
        action = rng.randrange(8)
        if action == 0:
            text = text[:at] + text[at + rng.choice((1, 1, 2, 30)):]
        elif action == 1:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif action == 2:
            text = text[:at] + chr(rng.choice((rng.randrange(32, 127), rng.randrange(128), rng.randrange(0x800)))) + text[at + 1:]
        elif action == 3:
            lines = text.split("\n")
            first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            text = "\n".join(lines)
        elif action == 4:
            words = text.split(" ")
            words[rng.randrange(len(words))] = rng.choice(words)
            text = " ".join(words)
        elif action == 5:
            text = text[:at]
        elif action == 6:
            other = rng.randrange(len(text) + 1)
            text = text[:at] + text[other:other + rng.randrange(200)] + text[at:]
        else:
            digits = [position for position, character in enumerate(text) if character.isdigit()]
            if digits:
                position = rng.choice(digits)
                text = text[:position] + str(rng.choice((0, 9, 15, 64, 255, 256, 65536, 1 << 40))) + text[position + 1:]
    return text


def _damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    action = rng.randrange(5)
    if action == 0:
        return data[:rng.randrange(len(data))]
    if action == 1:
        return data[:4] + rng.randbytes(rng.randrange(2000))
    changed = bytearray(data)
    for _ in range(rng.choice((1, 4, 64))):
        at = rng.randrange(len(changed))
        if action == 2:
            changed[at] ^= 1 << rng.randrange(8)
        elif action == 3:
            changed[at:at + 8] = rng.choice((b"\0" * 8, b"\xff" * 8, rng.randbytes(8)))
        else:
            # The code alone: whatever words llvm-objdump prints must be read or reported.
            at = data.index(_FIRST_WORD) + rng.randrange(_CODE_BYTES)
            changed[at] = rng.randrange(256)
    return bytes(changed)


def main(arguments: list[str]) -> int:
    """Runs N inputs; prints every fault with its number and the counts of the answers. 1 where there was a fault."""
    if not 1 <= len(arguments) <= 2 or not all(argument.isdigit() for argument in arguments):
        print("usage: python -m tests.fuzz.reader N [SEED]", file=sys.stderr)
        return 2
    count, seed = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0
    counts: Counter[str] = Counter()
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(count, seed):
            start = time.monotonic()
            try:
                counts[f"{case.kind}: {answer(case, Path(folder))}"] += 1
            except Exception:
                faults += 1
                print(f"input {case.number} of seed {seed} ({case.kind}):\n{traceback.format_exc()}")
            if time.monotonic() - start > SLOW:
                faults += 1
                print(f"input {case.number} of seed {seed} ({case.kind}) took {time.monotonic() - start:.1f} s")
    for name, number in sorted(counts.items()):
        print(f"{number:8d}  {name}")
    print(f"{count} inputs, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
