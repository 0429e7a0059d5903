"""Every spelling of every instruction form that LLVM's assembler takes, against the reader: `python tests/spelling_scan.py [ARCH ...]`.

For each form of the table a legal instance is written in all the ways of `spellings`; llvm-mc is asked which of them it takes, and to which
bytes. What it takes the reader must take, and what the reader made of it must be the same bytes. Prints one line a fault and a summary;
the exit status is 1 where there is a fault. The suite runs a sample of the same (tests/test_reader_spellings.py).
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from instruction_samples import Sample, assembler_errors, legal

from asmgen.isa import table
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.operands import GprIdx, HwReg, SendMsg, Symbol, Waitcnt
from asmgen.reader.errors import NeedsAssembler, ReadError, UnknownSpelling
from asmgen.reader.instruction import InstructionReader

_SUFFIX = re.compile(r"_(e32|e64|dpp|sdwa)$")
_REGISTER = re.compile(r"\b([vas]|ttmp)(?:(\d+)|\[(\d+):(\d+)\])")
_NUMBER = re.compile(r"(?<![\w.\[:(])-?(?:0x[0-9a-f]+|\d+)(?![\w.])")
_FLOAT = re.compile(r"(?<![\w.])-?\d+\.\d+(?![\w.])")
_PATTERNS = {"0.5": "0x3f000000", "1.0": "0x3f800000", "2.0": "0x40000000", "4.0": "0x40800000", "-0.5": "0xbf000000", "-1.0": "0xbf800000",
             "-4.0": "0xc0800000"}
_NAMED = {"vcc": ("s[106:107]", "[vcc_lo,vcc_hi]", "VCC"), "exec": ("[exec_lo,exec_hi]", "s[126:127]"), "m0": ("M0", "s124"),
          "vcc_lo": ("s106",), "vcc_hi": ("s107",), "exec_lo": ("s126",), "flat_scratch": ("[flat_scratch_lo,flat_scratch_hi]", "s[102:103]"),
          "src_scc": ("scc",), "src_vccz": ("vccz",), "src_execz": ("execz",), "src_shared_base": ("shared_base",),
          "src_private_limit": ("private_limit",)}


@dataclass(frozen=True)
class Fault:
    """A spelling that LLVM takes; `why` says what the reader made of it."""

    text: str
    why: str


@dataclass(frozen=True)
class Verdict:
    """What a scan found: spellings that LLVM takes, those of them that the reader leaves to an assembler, and faults."""

    taken: int
    left: tuple[str, ...]
    faults: tuple[Fault, ...]


def spellings(sample: Sample) -> Iterator[str]:
    """Ways to write an instruction, right or wrong: the assembler judges."""
    text = " ".join(sample.text().split())
    name, _, tail = text.partition(" ")
    yield text
    yield from _mnemonics(name, tail)
    operands, modifiers = _parts(sample, tail)
    for number in range(len(operands)):
        yield _joined(name, operands[:number] + operands[number + 1:], modifiers)
    for number, operand in enumerate(operands):
        for other in _operand_spellings(operand):
            yield _joined(name, [*operands[:number], other, *operands[number + 1:]], modifiers)
    if len(operands) > 1:
        yield _joined(name, [operands[1], operands[0], *operands[2:]], modifiers)
    for number, modifier in enumerate(modifiers):
        yield _joined(name, operands, modifiers[:number] + modifiers[number + 1:])
        for other in _modifier_spellings(modifier):
            yield _joined(name, operands, [*modifiers[:number], other, *modifiers[number + 1:]])
    if modifiers:
        yield _joined(name, operands, modifiers[::-1])
        yield f"{name} {', '.join([*operands, *modifiers])}"
        yield f"{name} {' '.join([*modifiers, *operands])}"
    yield f"{name} {','.join(operands)} {' '.join(modifiers)}"
    yield f"{name} {' '.join([*operands, *modifiers])}"
    yield f"{name}\t{' , '.join(operands)}  {'  '.join(modifiers)}"
    yield _joined(name, operands, [*modifiers, "offset:0"])
    yield from (_joined(name, operands, [*modifiers, extra]) for extra in ("clamp", "noclamp", "gds", "nogds", "nosc0", "nont", "nosc1",
                                                                           "glc", "noglc", "slc", "row_mask:0xf", "bound_ctrl:1", "fi:0",
                                                                           "dst_sel:DWORD", "src0_sel:DWORD", "op_sel:[0,0,0]",
                                                                           "op_sel:[0,0]", "op_sel_hi:[1,1]", "neg_lo:[0,0]", "cbsz:0",
                                                                           "mul:1", "div:1", "format:1", "noidxen", "dst_unused:UNUSED_PAD"))


def _mnemonics(name: str, tail: str) -> Iterator[str]:
    base = _SUFFIX.sub("", name)
    for suffix in ("", "_e32", "_e64", "_dpp", "_sdwa", "_e64_dpp"):
        if base + suffix != name:
            yield f"{base}{suffix} {tail}"
    yield f"{name.upper()} {tail}"
    yield f"{name} {tail.upper()}"
    yield f"{base.capitalize()} {tail}"


def _parts(sample: Sample, tail: str) -> tuple[list[str], list[str]]:
    """The operands and modifiers as the sample's text has them."""
    plain = " ".join(Sample(sample.opcode, sample.operands, {}, sample.suffix).text().split()).partition(" ")[2]
    operands = [part.strip() for part in re.split(r",\s*(?![^\[(]*[\])])", plain)] if plain else []
    rest = tail[len(plain):].strip()
    modifiers = re.findall(r"[a-z_0-9]+:(?:\[[^\]]*\]|swizzle\([^)]*\)|\S+)|\S+", rest)
    return operands, modifiers


def _joined(name: str, operands: Sequence[str], modifiers: Sequence[str]) -> str:
    return " ".join(f"{name} {', '.join(operands)} {' '.join(modifiers)}".split())


def _operand_spellings(text: str) -> Iterator[str]:
    yield from _special_spellings(text)
    match = _REGISTER.search(text)
    if match is not None and text != "off" and "(" not in text.replace("sext(", ""):
        for other in _register_spellings(match[1], int(match[2] or match[3]), int(match[2] or match[4])):
            yield text[:match.start()] + other + text[match.end():]
        inner = text.strip("-|")
        yield f"-{text}"
        yield f"neg({inner})"
        yield f"abs({inner})"
        yield f"|{inner}|"
        yield f"-abs({inner})"
        yield f"neg(|{inner}|)"
        yield f"neg(abs({inner}))"
        yield f"-|{inner}|"
        yield f"- {inner}"
        yield f"| {inner} |"
        yield f"|-{inner}|"
        yield f"sext({inner})"
        yield f"SEXT({inner})"
        yield f"({inner})"
    number = _NUMBER.fullmatch(text)
    if number is not None:
        value = int(text, 0)
        yield from (str(value), hex(value), hex(value).upper(), f"0{abs(value):o}", f"{value}.0", f"+{value}", f"{value}+0", f"({value})",
                    f"{value + 1}-1", f"0b{abs(value):b}", f"{hex(value & 0xFFFFFFFF)}", f"lit({value})", f"lit({value & 0xFFFFFFFF:#x})",
                    f"{value}e0", f"abs({value})", f"|{value}|", f"neg({value})", f"-{value}", f"- {abs(value)}", f"sext({value})",
                    f"~{value}", f"!{value}", f"{value}*1", f"{value}u", f"0x{abs(value):x}.0p0", f"lit64({value})", f"{value & 255:x}h",
                    f"{hex(value & 0xFFFFFFFFFFFFFFFF)}", f"{value & 0xFFFF:#x}", f"{value}.", f"'{chr(65 + abs(value) % 26)}'")
    if _FLOAT.fullmatch(text):
        yield from (text.rstrip("0"), f"{text}e0", f"{float(text) * 10}e-1", f"+{text}", f"({text})", f"abs({text})", f"|{text}|",
                    f"neg({text})", f"-{text}", f"lit({text})", f"{text}f", f"{text}E+0", text.lstrip("0"), str(int(float(text))))
        if text in _PATTERNS:
            yield _PATTERNS[text]
    for other in _NAMED.get(text, ()):
        yield other
    yield f" {text} "


def _register_spellings(file: str, first: int, last: int) -> Iterator[str]:
    alias = "acc" if file == "a" else file
    if first == last:
        yield from (f"{file}{first}", f"{file}[{first}]", f"{file}[{first}:{first}]", f"[{file}{first}]", f"{alias}{first}", f"{file}0{first}",
                    f"{file.upper()}{first}", f"{file}[{hex(first)}]", f"{file}[{first}+0]", f"{file} {first}", f"{file}[ {first} ]",
                    f"{alias}[{first}]", f"{file} [{first}]", f"{file}[{first}:{first}+0]", f"[{file}[{first}]]")
    else:
        names = [f"{file}{number}" for number in range(first, last + 1)]
        yield from (f"[{','.join(names)}]", f"[ {' , '.join(names)} ]", f"{file}[{hex(first)}:{hex(last)}]", f"{alias}[{first}:{last}]",
                    f"{file}[{first}:{first}+{last - first}]", f"{file.upper()}[{first}:{last}]", f"{file}[ {first} : {last} ]",
                    f"[{','.join(f'{file}[{number}]' for number in range(first, last + 1))}]", f"{file}[{first}]",
                    f"{file} [{first}:{last}]", f"[{file}[{first}:{last}]]", f"[{names[0]},{file}[{first + 1}:{last}]]")
        if file == "s":
            yield f"[{','.join(names[:-1])}]"


def _special_spellings(text: str) -> Iterator[str]:
    yield from (other for other in ("off", "null", "OFF") if text == "off")
    if "(" in text or "&" in text:
        yield from (text.upper(), text.replace("(", "( ").replace(")", " )"), re.sub(r"\((\d+)\)", r"(\1+0)", text),
                    text.replace(", ", ","), text.replace(") ", ")&"), text.replace(") ", ") & "), text.replace(") ", "), "),
                    re.sub(r"(\d+)\)", lambda match: f"{int(match[1]):#x})", text))


def _modifier_spellings(text: str) -> Iterator[str]:
    key, colon, value = text.partition(":")
    yield from (text.upper(), f"no{text}", f"{text}, ")
    if not colon:
        yield from (f"{text}:1", f"{text}:0", f"{text}:true")
        return
    yield from (f"{key}: {value}", f"{key} :{value}", f"{key}:{value.upper()}", f"{key}:{value.lower()}", key)
    if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", value):
        number = int(value, 0)
        yield from (f"{key}:{number}", f"{key}:{hex(number)}", f"{key}:({number})", f"{key}:{number}+0", f"{key}:0{abs(number):o}",
                    f"{key}:0b{abs(number):b}", f"{key}:+{number}", f"{key}:-{abs(number)}", f"{key}:0", f"{key}:1")
    if value.startswith("["):
        inner = value.strip("[]").replace(" ", "")
        yield from (f"{key}:[{inner.replace(',', ', ')}]", f"{key}:[ {inner} ]", f"{key}:[{','.join(hex(int(part)) if part.isdigit() else part for part in inner.split(','))}]",
                    f"{key}:[{inner.rpartition(',')[0]}]", f"{key}:[{inner},0]", f"{key}:[{inner},1]", f"{key}:{inner}")


def special_cases() -> list[str]:
    """Spellings of instructions whose operands have a language of their own."""
    waits = ["0", "0x0", "0xc07f", "0xcf70", "vmcnt(0)", "vmcnt(0) lgkmcnt(0)", "vmcnt(0)&lgkmcnt(0)", "vmcnt(0), lgkmcnt(0)", "vmcnt(0),lgkmcnt(0)",
             "lgkmcnt(0) & vmcnt(3)", "vmcnt(0x3)", "vmcnt(1+1)", "vmcnt(1) vmcnt(2)", "vmcnt(2) vmcnt(1)", "vmcnt_sat(100)", "lgkmcnt_sat(16)",
             "vmcnt( 0 )", "vmcnt (0)", "VMCNT(0)", "vmcnt(63)", "expcnt(0)", "expcnt(7) lgkmcnt(15) vmcnt(63)", "vmcnt(0)lgkmcnt(0)", "-1",
             "0xffff", "vmcnt(-1)", "vmcnt(64)", "vmcnt(0) & expcnt(1) & lgkmcnt(2)", "1+1", "(0)", "vmcnt(0) 0", "vscnt(0)", "0x3000", "65535",
             "vmcnt(0) &", "vmcnt(0),", "lgkmcnt(0)&vmcnt(0)&expcnt(0)", "expcnt_sat(9)", "-32768", "~0", "vmcnt((1))", "vmcnt_sat(3)"]
    registers = ["hwreg(HW_REG_MODE)", "hwreg(HW_REG_MODE, 0, 32)", "hwreg(HW_REG_MODE,0,4)", "hwreg(1)", "hwreg(1, 0, 1)", "hwreg(1,4,2)", "1", "0x1",
                 "0xf801", "hwreg( HW_REG_STATUS , 0 , 1 )", "hwreg(HW_REG_MODE, 0x0, 0x20)", "hwreg(0x1)", "{id: 1, offset: 0, size: 32}",
                 "{id: 1}", "{id: HW_REG_MODE, size: 4}", "{offset: 2, id: 1}", "{}", "hwreg(HW_REG_HW_ID)", "hwreg(HW_REG_XCC_ID)", "hwreg(HW_REG_SHADER_CYCLES)",
                 "hwreg(63)", "hwreg(1+1)", "hwreg(HW_REG_MODE, 4, 2+2)", "hwreg(HW_REG_LDS_ALLOC, 12, 9)", "hwreg(HW_REG_TRAPSTS)",
                 "hwreg(HW_REG_EXCP_FLAG)", "hwreg (1)", "HWREG(1)", "2+2", "(1)", "hwreg(HW_REG_SQ_PERF_SNAPSHOT_DATA)", "hwreg(20)", "-1", "0xffff",
                 "{ id : 1 , size : 8 }", "{id: 0x1, offset: 0b10, size: 1+1}", "hwreg(HW_REG_IB_STS)", "hwreg(HW_REG_FLAT_SCR_LO)", "hwreg(HW_REG_GPR_ALLOC,0,6)"]
    messages = ["sendmsg(MSG_INTERRUPT)", "sendmsg(1)", "1", "0x1", "sendmsg(MSG_GS, GS_OP_EMIT, 0)", "sendmsg(MSG_GS, GS_OP_EMIT)", "sendmsg(2, 2, 0)",
                "sendmsg(MSG_GS_DONE, GS_OP_NOP)", "sendmsg(MSG_SYSMSG, SYSMSG_OP_REG_RD)", "sendmsg(MSG_SAVEWAVE)", "sendmsg(MSG_STALL_WAVE_GEN)",
                "sendmsg(MSG_HALT_WAVES)", "sendmsg(MSG_ORDERED_PS_DONE)", "sendmsg(MSG_EARLY_PRIM_DEALLOC)", "sendmsg(MSG_GS_ALLOC_REQ)",
                "sendmsg(MSG_GET_DOORBELL)", "sendmsg(MSG_GET_DDID)", "sendmsg(15, 2)", "sendmsg(0xf,1)", "sendmsg( 1 )", "sendmsg(MSG_GS,2,1)", "sendmsg(3)",
                "sendmsg(1+1, 1)", "sendmsg(MSG_SYSMSG,SYSMSG_OP_HOST_TRAP_ACK)", "sendmsg(MSG_SYSMSG,SYSMSG_OP_ECC_ERR_INTERRUPT)", "0xffff", "-1",
                "sendmsg(63)", "sendmsg(4, 0)", "sendmsg(15, 15)", "(1)", "sendmsg (1)", "SENDMSG(1)", "sendmsg(MSG_GS,GS_OP_EMIT_CUT,3)", "2+2"]
    modes = ["gpr_idx(SRC0)", "gpr_idx(SRC0,DST)", "gpr_idx(DST, SRC0)", "gpr_idx()", "1", "0xf", "gpr_idx( SRC0 , SRC1 )", "gpr_idx(SRC0,SRC1,SRC2,DST)",
             "gpr_idx (SRC0)", "0", "(1)", "1+1", "GPR_IDX(SRC0)", "15"]
    swizzles = ["offset:swizzle(QUAD_PERM,0,1,2,3)", "offset:swizzle(QUAD_PERM, 3, 2, 1, 0)", "offset:swizzle(SWAP,16)", "offset:swizzle(REVERSE,8)",
                'offset:swizzle(BITMASK_PERM,"01pi0")', "offset:swizzle(BROADCAST,8,7)", "offset:0xffff", "offset:65535", "", "offset:swizzle(SWAP, 0x1)",
                "offset: swizzle(SWAP,1)", "offset:swizzle( SWAP , 1 )", "offset:swizzle(FFT,0)", "offset:swizzle(ROTATE,0,1)", "offset:swizzle(ROTATE,1,3)",
                "offset:swizzle(FFT, 31)", "swizzle(SWAP,1)", "offset:swizzle(SWAP,1+1)", "offset:swizzle(BROADCAST,2,1)", "offset:0b101", "offset:swizzle(REVERSE,32)"]
    symbols = ["sym", "sym+4", "sym-4", "sym + 4", "(sym+4)", "sym@rel32@lo+4", "sym@rel32@hi+12", "sym@abs32@lo", "sym@abs32@hi", "sym@gotpcrel32@lo+4",
               "sym@gotpcrel32@hi+12", "sym-.", "sym@rel64", "4+sym", "sym+4*2", "lit(sym)", "-sym", "sym&0xff", "(sym-other)&0xff", "(sym-other)>>32", "sym-other",
               ".", ".+8", ".Lsym", "$sym", "_sym", "Sym.x", "\"sym\"", "\"quoted name\"", "v", "s", "off", "sym@rel32@lo", "sym@rel32@lo+4+4", "sym@GOTPCREL32@LO",
               "vmcnt", "offset", "clamp", "neg", "abs", "exec_z", "v0x", "scc0", "1f", "v256", "s_nop"]
    dpp = ["quad_perm:[0,1,2,3]", "quad_perm: [0,1,2,3]", "quad_perm:[0, 1, 2, 3] row_mask:0xa", "row_shl:1", "row_shl:0x1", "row_shl: 1", "row_shr:15", "row_ror:3",
           "wave_shl:1", "wave_rol:1", "wave_shr:1", "wave_ror:1", "row_mirror", "row_half_mirror", "row_bcast:15", "row_bcast:31", "row_bcast:0xf",
           "row_mirror row_mask:15 bank_mask:0b11", "row_shl:1 bound_ctrl:0", "row_shl:1 bound_ctrl:1", "row_shl:1 bound_ctrl", "row_newbcast:3", "row_share:3",
           "row_xmask:1", "row_shl:1 bound_ctrl:0 bank_mask:0x3 row_mask:0x1", "row_shl:1, row_mask:0xf", "row_newbcast:0xf", "row_mask:0xf", "dpp8:[0,1,2,3,4,5,6,7]",
           "quad_perm:[3,2,1,0] bound_ctrl:0 row_mask:0xf bank_mask:0xf", "row_shl:1 row_mask:0", "row_shl:1 fi:1"]
    branches = ["sym", "4", "-4", "0x10", ".", ".+8", "sym+4", "sym-4", "1f", "0xffff", "65535", "-32768", "4+4", "(4)", "\"sym\"", ".Lx", "sym+4*2", "off", "vcc", "s_nop"]
    formats = ["format:1", "format:[BUF_DATA_FORMAT_32]", "format:[BUF_NUM_FORMAT_FLOAT]", "format:[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_FLOAT]",
               "format:[BUF_NUM_FORMAT_FLOAT,BUF_DATA_FORMAT_32]", "format:[ BUF_DATA_FORMAT_32 , BUF_NUM_FORMAT_FLOAT ]", "dfmt:4 nfmt:7", "dfmt:4, nfmt:7", "nfmt:7",
               "dfmt:4", "nfmt:7 dfmt:4", "dfmt:4,nfmt:7", "format:0x7", "format:127", "format: 4", "format:(4)", "dfmt:0xf nfmt:0"]
    compares = [f"{name}{suffix} {tail}" for name in ("v_cmpx_gt_u32", "v_cmp_gt_u32", "v_cmpx_class_f32", "v_cmp_eq_f64", "v_cmpx_eq_u16")
                for suffix in ("", "_e32", "_e64", "_sdwa") for tail in ("32, v0", "vcc, 32, v0", "s[2:3], 32, v0", "exec, 32, v0", "vcc v1, v0", "s1, v0",
                                                                         "v[0:1], v[2:3]", "vcc, v[0:1], v[2:3]", "off, v1, v0", "v1, v0 src0_sel:BYTE_0")]
    others = ["s_nop", "s_nop 0x3", "s_nop 1+1", "s_endpgm", "s_endpgm 1", "s_endpgm 0", "s_barrier", "s_sleep 0x7f", "s_setprio 3", "s_trap 2", "s_icache_inv",
              "buffer_wbl2", "buffer_wbl2 sc1", "buffer_inv", "buffer_inv sc0 sc1", "buffer_inv sc1 sc0", "s_dcache_wb", "s_sethalt 1", "s_sethalt", "s_inst_prefetch 1",
              "s_set_gpr_idx_mode 1", "s_set_gpr_idx_off", "v_nop", "v_nop_e32", "v_nop_e64", "v_nop_dpp", "v_nop_sdwa", "s_code_end", "s_waitcnt_vscnt null, 0", "s_waitcnt_depctr 0",
              "s_movk_i32 s0, 0xffff", "s_movk_i32 s0, -1", "s_movk_i32 s0, 65535", "s_movk_i32 s0, sym", "s_cmpk_eq_i32 s0, -1", "s_cmpk_eq_u32 s0, 0xffff", "s_addk_i32 s0, 0x8000",
              "s_load_dword s0, s[2:3]", "s_load_dword s0, s[2:3], 0", "s_load_dword s0, s[2:3], s4", "s_load_dword s0, s[2:3], s4 offset:4", "s_load_dword s0, s[2:3], s4 offset:0x4",
              "s_load_dword s0, s[2:3], 0x10 glc", "s_load_dword s0, s[2:3], m0", "s_load_dword s0, s[2:3], offset:4", "s_load_dword s0, s[2:3], -4", "s_load_dword s0, s[2:3], 0x1fffff",
              "s_buffer_load_dword s0, s[4:7], 0", "s_buffer_load_dword s0, s[4:7]", "s_buffer_load_dword s0, s[4:7], s1 offset:0x10", "s_dcache_inv", "s_dcache_inv_vol",
              "s_atc_probe 1, s[2:3], 0x10", "s_memtime s[0:1]", "s_memrealtime s[0:1]", "s_store_dword s0, s[2:3], 4", "s_scratch_load_dword s0, s[2:3], 4",
              "ds_read_b32 v0, v1", "ds_read_b32 v0, v1 offset:0", "ds_read_b32 v0, v1 offset:65535", "ds_read_b32 v0, v1, offset:4", "ds_read_b32 v0 v1", "ds_read2_b32 v[0:1], v2 offset1:1",
              "ds_read2_b32 v[0:1], v2 offset0:1 offset1:2", "ds_read2_b32 v[0:1], v2 offset1:2 offset0:1", "ds_gws_init v0 gds", "ds_gws_init v0 offset:4 gds", "ds_gws_barrier v0 gds", "ds_nop",
              "ds_consume v0 offset:4", "ds_append v0", "ds_append v0 gds", "ds_gws_sema_v gds", "ds_write_b32 v0, v1 gds", "ds_add_u32 v0, v1", "ds_add_rtn_u32 v0, v1, v2 offset:4",
              "global_load_dword v0, v[2:3], off", "global_load_dword v0, v2, s[2:3]", "global_load_dword v0, v[2:3], off offset:-4096", "global_load_dword v0, v[2:3]", "global_load_dword v0, v2, s[2:3] offset: 4",
              "global_load_dword v0, v[2:3], off, offset:4", "global_load_dword v0, v[2:3], off nt sc1 sc0", "global_load_dword v0, v[2:3], off glc", "global_load_dword v0, v[2:3], off slc dlc",
              "global_load_lds_dword v[2:3], off", "global_load_lds_dword v2, s[2:3] offset:4", "global_load_dword v[2:3], off lds", "flat_load_dword v0, v[2:3]", "flat_load_dword v0, v[2:3] offset:4",
              "flat_load_dword v0, v[2:3], off", "scratch_load_dword v0, off, s0", "scratch_load_dword v0, v1, off", "scratch_load_dword v0, off, off", "scratch_load_dword v0, v1, s0", "scratch_load_dword v0, off",
              "scratch_load_dword v0, v1", "scratch_store_dword off, v0, s0", "scratch_store_dword off, v0, off offset:4", "scratch_store_dword v1, v0, off",
              "buffer_load_dword v0, off, s[4:7], 0", "buffer_load_dword v0, s[4:7], 0", "buffer_load_dword v0, off, s[4:7], s1", "buffer_load_dword v0, v1, s[4:7], 0 offen", "buffer_load_dword v0, v1, s[4:7], 0 idxen",
              "buffer_load_dword v0, v[2:3], s[4:7], 0 idxen offen", "buffer_load_dword v0, v[2:3], s[4:7], 0 offen idxen", "buffer_load_dword v0, off, s[4:7], 0 offset:4095", "buffer_load_dword off, s[4:7], 0 lds",
              "buffer_load_dword off, s[4:7], s1 offset:4 lds", "buffer_load_dword v1, s[4:7], 0 offen lds", "buffer_load_dword v0, off, s[4:7], 0 lds", "buffer_load_dword v0, off, s[4:7], 64",
              "buffer_load_dword v0, off, s[4:7], 0x41", "buffer_load_dword v0, off, s[4:7], 1.0", "buffer_load_dword v0, off, s[4:7], m0", "buffer_load_dword v0, off, s[4:7], vcc_lo", "buffer_load_dword v0, off, s[4:7]",
              "buffer_load_dword v0, off, [s4,s5,s6,s7], 0", "buffer_load_dword v0, off, ttmp[4:7], 0", "buffer_load_dword v0, v1, s[4:7], 0", "buffer_load_dword v0, off, s[4:7], 0 offset:0 glc slc", "buffer_store_dword v0, off, s[4:7], 0 nt",
              "buffer_atomic_add v0, off, s[4:7], 0 sc0", "buffer_atomic_add v0, off, s[4:7], 0 glc", "buffer_load_lds_dword off, s[4:7], 0", "buffer_load_dword_lds off, s[4:7], 0", "tbuffer_load_format_x v0, off, s[4:7], 0",
              "v_mov_b32 v0, 1.0", "v_mov_b32 v0, 1", "v_mov_b32 v0, 0x3f800000", "v_mov_b32 v0, 1e0", "v_mov_b32 v0, .5", "v_mov_b32 v0, 0.5e0", "v_mov_b32 v0, -0.0", "v_mov_b32 v0, 0.15915494", "v_mov_b32 v0, 0.15915494309189532",
              "v_mov_b32 v0, 0x3e22f983", "v_mov_b32 v0, 1.5", "v_mov_b32 v0, 1.0e10", "v_mov_b32 v0, 4294967295", "v_mov_b32 v0, -2147483648", "v_mov_b32 v0, 0xffffffff", "v_mov_b32 v0, -1", "v_mov_b32 v0, 0xffffffffffffffff",
              "v_mov_b32 v0, 0b1010", "v_mov_b32 v0, 017", "v_mov_b32 v0, 'a'", "v_mov_b32 v0, 1 + 2", "v_mov_b32 v0, (1+2)*3", "v_mov_b32 v0, ~1", "v_mov_b32 v0, -(-1)", "v_mov_b32 v0, 0x1.8p1", "v_mov_b32 v0, lit(1)", "v_mov_b32 v0, lit(0x1)",
              "v_mov_b32 v0, inf", "v_mov_b32 v0, nan", "v_mov_b32 v0, 1.0f", "v_mov_b32 v0, 10e-1", "v_mov_b32 v0, 5.", "v_mov_b32 v0, 1.E2", "v_mov_b32 v0, 0.1592", "v_mov_b32 v0, 1/(2*pi)", "v_mov_b32_e32 v0, s0", "v_mov_b32_e64 v0, s0",
              "v_mov_b32 v0, src_lds_direct", "v_mov_b32 v0, lds_direct", "v_mov_b32 v0, vccz", "v_mov_b32 v0, execz", "v_mov_b32 v0, scc", "v_mov_b32 v0, src_scc", "v_mov_b32 v0, shared_base", "v_mov_b32 v0, src_pops_exiting_wave_id",
              "v_mov_b32 v0, xnack_mask_lo", "v_mov_b32 v0, flat_scratch_lo", "v_mov_b32 v0, ttmp0", "v_mov_b32 v0, ttmp[1]", "v_mov_b32 v0, ttmp[1:1]", "v_mov_b32 v0, tma_lo", "v_mov_b32 v0, tba_lo", "v_mov_b32 v0, src_flat_scratch_base_lo",
              "s_mov_b64 s[0:1], xnack_mask", "s_mov_b64 s[0:1], [xnack_mask_lo,xnack_mask_hi]", "s_mov_b64 s[0:1], [vcc_lo,vcc_hi]", "s_mov_b64 s[0:1], vcc", "s_mov_b64 [s0,s1], [exec_lo,exec_hi]", "s_mov_b64 s[0:1], exec", "s_mov_b64 s[0:1], 1.0",
              "s_mov_b64 s[0:1], 0x100000000", "s_mov_b64 s[0:1], lit64(1)", "s_mov_b64 s[0:1], flat_scratch", "s_mov_b64 s[0:1], ttmp[2:3]", "s_mov_b64 s[0:1], [ttmp2,ttmp3]", "s_mov_b64 s[0:1], s[2]", "s_mov_b64 s[0:1], -1", "s_mov_b64 s[0:1], 0.5",
              "s_mov_b64 s[0:1], src_shared_base", "s_mov_b64 s[0:1], tma", "s_mov_b64 s[0:1], 0xffffffffffffffff", "s_mov_b32 s0, 0xffffffffffffffff", "s_mov_b32 m0, s0", "s_mov_b32 exec_lo, s0", "s_mov_b32 s0, m0", "s_mov_b32 S0, S1", "S_MOV_B32 s0, s1",
              "v_add_co_u32 v0, vcc, v1, v2", "v_add_co_u32 v0, v1, v2", "v_add_co_u32_e32 v0, v1, v2", "v_add_co_u32_e32 v0, vcc, v1, v2", "v_addc_co_u32 v0, vcc, v1, v2, vcc", "v_addc_co_u32 v0, v1, v2", "v_addc_co_u32_e32 v0, vcc, v1, v2",
              "v_addc_co_u32_e32 v0, v1, v2, vcc", "v_cndmask_b32 v0, v1, v2", "v_cndmask_b32_e32 v0, v1, v2", "v_cndmask_b32 v0, v1, v2, vcc", "v_cndmask_b32 v0, v1, v2, s[2:3]", "v_cndmask_b32_e64 v0, v1, v2, vcc", "v_cndmask_b32_e32 v0, v1, v2, vcc",
              "v_cndmask_b32_dpp v0, v1, v2 row_shl:1", "v_cndmask_b32_dpp v0, v1, v2, vcc row_shl:1", "v_cndmask_b32_sdwa v0, v1, v2 dst_sel:BYTE_0", "v_cndmask_b32_sdwa v0, v1, v2, vcc", "v_add_u32 v0, v1, v2", "v_add_u32 v0, vcc, v1, v2",
              "v_div_fmas_f32 v0, v1, v2, v3", "v_div_scale_f32 v0, vcc, v1, v2, v3", "v_div_scale_f32 v0, v1, v2, v3", "v_readlane_b32 s0, v1, s2", "v_readlane_b32 s0, v1, m0", "v_readlane_b32_e64 s0, v1, 3", "v_readfirstlane_b32 s0, v1",
              "v_readfirstlane_b32_e32 s0, v1", "v_readfirstlane_b32_e64 s0, v1", "v_writelane_b32 v0, s1, 3", "v_writelane_b32 v0, 1, m0", "v_writelane_b32_e64 v0, s1, 3", "v_writelane_b32 v0, s1, vcc_lo", "v_mac_f32 v0, v1, v2", "v_fmac_f32_e32 v0, v1, v2",
              "v_interp_p1_f32 v0, v1, attr0.x", "v_accvgpr_read_b32 v0, a1", "v_accvgpr_read v0, a1", "v_accvgpr_write_b32 a0, v1", "v_accvgpr_write a0, 1.0", "v_accvgpr_mov_b32 a0, a1", "v_accvgpr_read_b32 v0, acc1", "v_accvgpr_read_b32_e64 v0, a1",
              "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15]", "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], 0", "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], 1.0", "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15] cbsz:1 abid:2 blgp:3",
              "v_mfma_f32_32x32x8f16 acc[0:15], v[0:1], v[2:3], acc[0:15]", "v_mfma_f32_32x32x8_f16_e64 a[0:15], v[0:1], v[2:3], 0", "v_mfma_f32_16x16x16f16 v[0:3], v[4:5], v[6:7], v[0:3] blgp:0x3", "v_mfma_f64_16x16x4f64 a[0:7], v[0:1], v[2:3], a[0:7] neg:[1,0,0]",
              "v_mfma_f64_16x16x4_f64 a[0:7], v[0:1], v[2:3], a[0:7] neg:[1,0,0]", "v_mfma_f64_16x16x4f64 a[0:7], v[0:1], v[2:3], a[0:7] blgp:1", "v_mfma_f32_32x32x8bf16_1k a[0:15], v[0:1], v[2:3], a[0:15]", "v_mfma_i32_32x32x16_i8 a[0:15], v[0:1], v[2:3], 0",
              "v_mfma_i32_32x32x16i8 a[0:15], v[0:1], v[2:3], 0", "v_mfma_f32_32x32x16_fp8_fp8 a[0:15], v[0:1], v[2:3], 0", "v_mfma_f32_32x32x4_xf32 a[0:15], v[0:1], v[2:3], 0", "v_mfma_f32_32x32x4xf32 a[0:15], v[0:1], v[2:3], 0",
              "v_smfmac_f32_16x16x32_f16 a[0:3], v[0:1], v[4:7], v8", "v_smfmac_f32_16x16x32f16 a[0:3], v[0:1], v[4:7], v8", "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel_hi:[0,1,1]",
              "v_pk_mul_f32 v[0:1], s[2:3], v[4:5] op_sel_hi:[0,1]", "v_pk_add_f16 v0, v1, v2 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0] neg_hi:[0,1]", "v_pk_add_f16 v0, v1, 1.0", "v_pk_add_f16 v0, -v1, v2", "v_pk_mov_b32 v[0:1], v[2:3], v[4:5] op_sel:[0,1]",
              "v_dot2_f32_f16 v0, v1, v2, v3", "v_dot2c_f32_f16 v0, v1, v2", "v_dot4_i32_i8 v0, v1, v2, v3 neg_lo:[1,1,0]", "v_fma_mix_f32 v0, v1, v2, v3 op_sel:[1,0,0] op_sel_hi:[1,0,0]", "v_mad_mix_f32 v0, v1, v2, v3", "v_med3_f32 v0, |v1|, -v2, 1.0 clamp mul:2",
              "v_add_f32 v0, v1, v2 mul:2", "v_add_f32 v0, v1, v2 div:2", "v_add_f32 v0, v1, v2 mul:4 clamp", "v_add_f32 v0, v1, v2 clamp mul:4", "v_add_f32 v0, -1.0, v2", "v_add_f32 v0, neg(1.0), v2", "v_add_f32 v0, -|v1|, v2", "v_add_f32 v0, abs(v1), neg(v2)",
              "v_add_f32 v0, - v1, v2", "v_add_f32 v0, -(v1), v2", "v_add_f32 v0, |-1.0|, v2", "v_add_f32 v0, abs(-1.0), v2", "v_add_f32 v0, neg(abs(v1)), v2", "v_add_f32 v0, -abs(v1), v2", "v_add_f32 v0, |v1|, |v2|", "v_add_f32 v0, s[1], s[1]", "v_add_f32 v0 v1 v2",
              "v_add_f32 v0,v1,v2", "v_add_f32 v[0],v[1],v[2:2]", "v_add_f32 V0, V1, V2", "v_alignbit_b32 v0, v1, v2, v3", "v_alignbit_b32 v0, v1, v2, 3", "v_perm_b32 v0, v1, v2, s3", "v_lshl_add_u32 v0, v1, 2, v3", "v_mbcnt_lo_u32_b32 v0, -1, 0",
              "v_mbcnt_lo_u32_b32_e64 v0, -1, 0", "v_swap_b32 v0, v1", "v_permlane32_swap_b32 v0, v1", "v_permlane16_swap_b32_e64 v0, v1 bound_ctrl:1", "v_permlane32_swap_b32_e64 v0, v1 fi:1", "v_cvt_pk_bf16_f32 v0, v1, v2", "v_bitop3_b32 v0, v1, v2, v3 bitop3:0x35",
              "v_bitop3_b32 v0, v1, v2, v3", "v_bitop3_b32 v0, v1, v2, v3 bitop3:53", "v_cvt_scalef32_pk_f32_fp4 v[0:1], v2, v3 op_sel:[1,0,0]", "v_ashr_pk_i8_i32 v0, v1, v2, v3", "v_prng_b32 v0, v1", "v_cvt_sr_pk_f16_f32 v0, v1, v2, v3",
              "v_cvt_f16_f32_sdwa v0, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD", "v_cvt_f16_f32_sdwa v0, v1 dst_sel:WORD_1", "v_cvt_f16_f32 v0, v1 dst_sel:WORD_1", "v_cvt_f32_ubyte0 v0, v1", "v_mov_b32_sdwa v0, sext(v1) src0_sel:BYTE_0",
              "v_add_u32_sdwa v0, sext(v1), v2 src0_sel:BYTE_0", "v_add_u32 v0, sext(v1), v2 src0_sel:BYTE_0", "v_cmp_eq_u32_sdwa s[2:3], v1, v2 src0_sel:BYTE_0", "v_cmp_eq_u32_sdwa vcc, v1, v2 src0_sel:BYTE_0 src1_sel:WORD_1", "v_cmp_eq_u32 v1, v2",
              "s_cbranch_i_fork s[0:1], sym", "s_cbranch_g_fork s[0:1], s[2:3]", "s_cbranch_join s0", "s_call_b64 s[0:1], sym", "s_getpc_b64 s[0:1]", "s_setpc_b64 s[0:1]", "s_swappc_b64 s[0:1], s[2:3]", "s_rfe_b64 s[0:1]", "s_bitcmp1_b32 s0, 3",
              "s_setvskip s0, 1", "s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0x2f0", "s_setreg_imm32_b32 1, 3", "s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s0", "s_getreg_b32 s0, hwreg(HW_REG_XCC_ID, 0, 4)", "s_setreg_imm32_b32 hwreg(1,0,4), sym", "s_ttracedata",
              "s_version 1", "s_singleuse_vdst 1", "s_round_mode 1", "s_denorm_mode 1", "s_clause 3", "s_delay_alu 0", "s_decperflevel 1", "s_incperflevel 1", "s_wakeup", "s_endpgm_saved", "s_endpgm_ordered_ps_done", "s_set_gpr_idx_on s0, gpr_idx(SRC0)",
              "s_set_gpr_idx_on s0, 1", "s_set_gpr_idx_idx s0", "s_nop 65535", "s_nop 0", "s_waitcnt_expcnt null, 0", "s_waitcnt_lgkmcnt null, 0", "v_clrexcp", "v_clrexcp_e32", "s_bitset0_b32 s0, 4", "s_absdiff_i32 s0, s1, s2", "s_mul_hi_u32 s0, s1, 5"]
    made = [f"s_waitcnt {wait}" for wait in waits]
    made += [f"{head}{register}{tail}" for register in registers for head, tail in
             (("s_getreg_b32 s0, ", ""), ("s_setreg_b32 ", ", s0"), ("s_setreg_imm32_b32 ", ", 3"))]
    made += [f"{name} {message}" for message in messages for name in ("s_sendmsg", "s_sendmsghalt")]
    made += [f"{head}{mode}" for mode in modes for head in ("s_set_gpr_idx_mode ", "s_set_gpr_idx_on s0, ")]
    made += [f"ds_swizzle_b32 v0, v1 {swizzle}" for swizzle in swizzles]
    made += [f"{head}{symbol}" for symbol in symbols for head in ("s_mov_b32 s0, ", "s_add_u32 s0, s0, ", "v_mov_b32 v0, ", "s_mov_b64 s[0:1], ", "s_addk_i32 s0, ")]
    made += [f"{head} {control}" for control in dpp for head in ("v_mov_b32_dpp v0, v1", "v_mov_b32 v0, v1", "v_add_f32_dpp v0, -v1, |v2|", "v_mov_b64_dpp v[0:1], v[2:3]")]
    made += [f"{name} {branch}" for branch in branches for name in ("s_branch", "s_cbranch_scc0", "s_cbranch_execz")]
    made += [f"tbuffer_load_format_x v0, off, s[4:7], {form}0 {to}" for item in formats for form, to in ((f"{item}, ", ""), ("", item), (f"{item} ", ""))]
    return made + compares + others


def encoded(lines: Sequence[str], arch: str) -> list[str]:
    """The bytes of each line, all of them legal, with what is left to a linker."""
    run = subprocess.run(["llvm-mc-22", "-triple", "amdgcn", f"-mcpu={arch}", "-show-encoding"], input="\n".join(lines) + "\n",
                         capture_output=True, text=True, check=True)
    found: list[str] = []
    for line in run.stdout.splitlines():
        code = re.search(r"encoding: \[([^\]]*)\]", line)
        fixup = re.search(r"fixup [A-Z] - offset: (\d+), value: (.*), (?:relocation type|kind): (\w+)", line)
        if code is not None:
            found.append(re.sub(r"\b[A-Z]\b", "0x00", code[1]))
        elif fixup is not None:
            found[-1] += f" {fixup[1]} {re.sub(r'[() ]', '', fixup[2])} {fixup[3]}"
    assert len(found) == len(lines), (len(found), len(lines))
    return found


def judge(lines: Sequence[str], arch: str) -> Verdict:
    """The reader against llvm-mc on these spellings."""
    lines = list(dict.fromkeys(lines))
    refused = assembler_errors(lines, arch)
    taken = [line for number, line in enumerate(lines) if number not in refused]
    reader = InstructionReader(arch)
    left, read = [], []
    faults: list[Fault] = []
    for line in taken:
        try:
            read.append((line, reader.read(" ".join(line.split())).text))
        except (NeedsAssembler, UnknownSpelling):
            left.append(line)
        except ReadError as error:
            faults.append(Fault(line, f"refused: {error.sentence}"))
    wrong = assembler_errors([again for _, again in read], arch)
    faults += [Fault(read[number][0], f"read as `{read[number][1]}`, which LLVM refuses: {why}") for number, why in wrong.items()]
    fine = [pair for number, pair in enumerate(read) if number not in wrong]
    codes = encoded([line for line, _ in fine], arch)
    for (line, again), one, other in zip(fine, codes, encoded([again for _, again in fine], arch), strict=True):
        if one != other and not _same_offset(line, other, arch):
            faults.append(Fault(line, f"read as `{again}`: {other} instead of {one}"))
    _disassembled(left, reader, set(codes), faults)
    return Verdict(len(taken), tuple(left), tuple(faults))


def _same_offset(line: str, code: str, arch: str) -> bool:
    """Whether the bytes are the line's without its offset:0: of a scalar load with an SGPR offset, LLVM encodes that 0 too."""
    return " offset:0" in line and encoded([line.replace(" offset:0", "")], arch) == [code]


def _disassembled(lines: Sequence[str], reader: InstructionReader, known: set[str], faults: list[Fault]) -> None:
    """Spellings that are left to the assembler: what the disassembler prints for them must be read, and be the same bytes again.

    Bytes in `known` were read already, under another spelling.
    """
    left = {code: line for line, code in zip(lines, encoded(lines, reader.arch), strict=True) if " " not in code and code not in known}
    pairs: list[tuple[str, str, str]] = []  # spelling, what is printed for it, what the reader made of that
    for code, text in printed(list(left), reader.arch).items():
        plain = " ".join(re.sub(r"//.*", "", text).split())
        try:
            again = reader.read(plain).text
        except ReadError as error:
            if not _writes_constant(plain):
                faults.append(Fault(left[code], f"disassembled as `{text}`: {error.sentence}"))
            continue
        if again != plain:
            pairs.append((left[code], plain, again))
    # Where LLVM refuses what it prints itself there is nothing to compare with.
    refused = assembler_errors([plain for _, plain, _ in pairs], reader.arch)
    pairs = [pair for number, pair in enumerate(pairs) if number not in refused]
    wrong = assembler_errors([again for _, _, again in pairs], reader.arch)
    faults += [Fault(pairs[number][0], f"disassembled and read as `{pairs[number][2]}`: {why}") for number, why in wrong.items()]
    pairs = [pair for number, pair in enumerate(pairs) if number not in wrong]
    for (line, _, again), one, other in zip(pairs, encoded([plain for _, plain, _ in pairs], reader.arch),
                                            encoded([again for _, _, again in pairs], reader.arch), strict=True):
        if one != other:
            faults.append(Fault(line, f"disassembled and read as `{again}`: {other} instead of {one}"))


def _writes_constant(text: str) -> bool:
    """Whether the destination is a source that nothing can write (src_scc, src_execz): LLVM takes it, and nobody can mean it."""
    return text.partition(" ")[2].startswith("src_")


def printed(codes: Sequence[str], arch: str) -> dict[str, str]:
    """What the disassembler prints for each instruction, without those at which it crashes or that it does not know."""
    if not codes:
        return {}
    run = subprocess.run(["llvm-mc-22", "-triple", "amdgcn", f"-mcpu={arch}", "--disassemble"],
                         input="".join(f"[{code}]\n" for code in codes), capture_output=True, text=True, check=False)
    if run.returncode < 0:
        half = len(codes) // 2
        return {**printed(codes[:half], arch), **printed(codes[half:], arch)} if half else {}
    refused = {int(number) - 1 for number in re.findall(r"^<stdin>:(\d+):\d+: (?:warning|error)", run.stderr, re.MULTILINE)}
    shown = [line.strip() for line in run.stdout.splitlines() if line.strip() and not line.strip().startswith(".")]
    kept = [code for number, code in enumerate(codes) if number not in refused]
    assert len(kept) == len(shown), (len(kept), len(shown), run.stderr[:500])
    return dict(zip(kept, shown, strict=True))


def form_spellings(arch: str, seed: int, share: float, names: Sequence[str] | None = None) -> list[str]:
    """All spellings of one random legal instance of each form."""
    rng = random.Random(f"{arch} {seed} {share}")
    found = []
    for name in names or table.names(arch):
        for form in table.opcode(name).forms:
            if not form.archs or arch in form.archs:
                found += spellings(legal(rng, table.opcode(name), form, arch, share))
    return found


def main(archs: Sequence[str]) -> int:
    """Scan everything; the exit status."""
    failed = False
    for arch in archs or list(ARCHITECTURES):
        lines = special_cases()
        for share in (0.0, 0.4):
            lines += form_spellings(arch, 1, share)
        verdict = judge(lines, arch)
        for fault in verdict.faults:
            print(f"{arch}: `{fault.text}`: {fault.why}")
        for line in verdict.left:
            print(f"{arch}: left to the assembler: {line}")
        print(f"{arch}: {len(lines)} spellings, LLVM takes {verdict.taken}, the reader leaves {len(verdict.left)} to an assembler, "
              f"{len(verdict.faults)} faults {dict(Counter(fault.why[:7] for fault in verdict.faults))}")
        failed |= bool(verdict.faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
