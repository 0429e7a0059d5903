"""Wait states: which instruction pairs the hardware does not interlock, and how many wait states stand between them, as data.

One row a rule. A wait state is one issued instruction; `s_nop n` is n + 1. A row fires where an instruction of its `producer`
class stands before one of its `consumer` class, the registers of the two roles meet (`overlap`), the `relation` holds, and
fewer than `states` wait states lie between. Several rows may fire for one pair: the largest counts. checks and emulator each evaluate them.

Sources, cited by each row: F = docs/facts/instructions.md with its section (LLVM 22.1.8 measured by `post-RA-hazard-rec`, CDNA3 and CDNA4
ISA texts); the ISA sections are CDNA3 ISA 4.5 and 7.5, CDNA4 ISA 4.5 and 7.6. Where LLVM and the ISA text differ the two stand as
two rows, each marked with who asks, and whoever inserts takes the larger (F 3.5). Open findings: docs/facts/errata.md section 2.
"""

from __future__ import annotations

from asmgen.isa.records import cached_property, dataclass

ARCHS = ("gfx942", "gfx950")
MOST_WAIT_STATES = 20
"""No rule asks for more wait states than this."""
NOP_LIMIT = 16
"""Wait states of the longest s_nop (operand 15; only bits 3:0 count, F 3)."""


@dataclass(frozen=True)
class States:
    """How many wait states: a constant for each architecture (None: no such rule there), plus the producer's passes where `passes`
    says so, plus one on gfx950 where `longer` says so and the producer has other than 2 passes ("g" of F 3)."""

    gfx942: int | None
    gfx950: int | None
    passes: bool = False
    longer: bool = False

    def on(self, arch: str, passes: int = 0) -> int:
        """The wait states on `arch` after a producer of that many passes; 0 where the architecture has no such rule."""
        constant = self.gfx950 if arch == "gfx950" else self.gfx942
        if constant is None:
            return 0
        extra = 1 if self.longer and arch == "gfx950" and passes != 2 else 0
        return constant + (passes if self.passes else 0) + extra


@dataclass(frozen=True)
class WaitRule:
    """One row.

    `producer` and `consumer` are classes (CLASSES). `overlap` is "ROLE>ROLE": which registers of the producer meet which of the
    consumer (ROLES); "any" needs no register in common. `relation` narrows it (RELATIONS). `asked_by` is "isa", "llvm", "both", or
    "open" where neither does but a public finding (isa/errata.py); an `artefact` row is LLVM's own mistake and is never asked for
    unless LLVM is to be matched. `text` stands after the registers in messages: "v[0:3] <text>". `doubt` says why a place that
    ignores the row may be sound although the row counts as asked for: such a place is no error but a warning, or a note where
    `doubtful` says so. `told`: a launch says it too, as what goes wrong is not seen later.
    """

    id: str
    producer: str
    consumer: str
    overlap: str
    relation: str
    states: States
    asked_by: str
    text: str
    source: str
    artefact: bool = False
    doubt: str = ""
    doubtful: str = "warning"
    told: bool = False

    @property
    def severity(self) -> str:
        """Of a place that ignores the row alone: an error where ISA text and LLVM both ask without doubt, a note where the text does
        not."""
        if self.asked_by == "both":
            return self.doubtful if self.doubt else "error"
        return "warning" if self.asked_by == "isa" else "note"

    def asked(self, who: str) -> bool:
        """Whether "isa" or "llvm" asks for it."""
        return self.asked_by in (who, "both")

    @cached_property
    def roles(self) -> tuple[str, str]:
        """The role of the producer's registers and that of the consumer's."""
        producer, _, consumer = self.overlap.partition(">")
        return producer, consumer

    def states_on(self, arch: str, passes: int = 0) -> int:
        """Wait states that the rule asks for on `arch`, 0 for none."""
        return self.states.on(arch, passes)

    @property
    def archs(self) -> frozenset[str]:
        """The architectures that have the rule."""
        return frozenset(arch for arch in ARCHS if getattr(self.states, arch) is not None)


CLASSES = {
    "mfma": "any matrix instruction",
    "xdl": "a matrix instruction whose inputs are neither f32 nor f64 (SMFMAC and xf32 too)",
    "sgemm": "a matrix instruction with f32 inputs",
    "dgemm": "a matrix instruction with f64 inputs",
    "sdgemm": "a matrix instruction with f32 or f64 inputs",
    "dgemm16": "v_mfma_f64_16x16x4_f64",
    "dgemm4": "v_mfma_f64_4x4x4_4b_f64",
    "two_pass": "a matrix instruction of 2 passes, not f64",
    "valu": "a vector instruction, no matrix instruction (v_accvgpr_* are)",
    "valu_scalar": "a vector instruction, no matrix instruction, that writes scalar registers",
    "valu_no_dot": "a vector instruction, neither matrix nor dot product",
    "vector": "any vector instruction, matrix instructions too",
    "vector_or_dma": "any vector instruction, or a load into LDS (LLVM counts it as one)",
    "not_trans": "a vector instruction that is not transcendental, matrix instructions too",
    "trans": "a transcendental instruction",
    "dot": "a dot product (v_dot*)",
    "shifted": "a vector instruction that moves its result to another place in the register",
    "part_convert": "a conversion with a choice of the part of the register that it writes",
    "mixhi": "v_fma_mixhi_f16",
    "packed_default": "a VOP3P instruction whose op_sel_hi[0] is 1",
    "fma_f64": "v_fma_f64 or v_fmac_f64",
    "dpp": "a DPP instruction",
    "permlane_swap": "v_permlane16_swap_b32 or v_permlane32_swap_b32",
    "read_lane": "v_readlane_b32 or v_readfirstlane_b32",
    "lane_access": "v_readlane_b32, v_readfirstlane_b32 or v_writelane_b32",
    "div_fmas": "v_div_fmas_f32 or v_div_fmas_f64",
    "memory": "a vector memory or LDS instruction",
    "vmem": "a buffer, global, flat or scratch instruction",
    "lds_dma": "a load into LDS",
    "load": "a memory instruction that writes vector registers",
    "wide_store": "a store or atomic with more than 64 bits of data (no buffer store with an SGPR soffset)",
    "wide_store_soffset": "a buffer store with more than 64 bits of data and an SGPR soffset",
    "salu": "a scalar ALU instruction that writes M0",
    "m0_reader": "an instruction that reads M0 late (s_sendmsg, s_movrel, add-TID, GWS, loads into LDS but for buffer loads)",
    "buffer_dma": "a buffer load into LDS",
    "setreg": "s_setreg_b32 or s_setreg_imm32_b32",
    "setreg_vskip": "s_setreg of a field of MODE, not all of it, with the vskip bit in it",
    "setvskip": "s_setvskip",
    "getreg": "s_getreg_b32",
    "rfe": "s_rfe_b64 or s_rfe_restore_b64",
}
"""Classes of instructions; one instruction is of several."""

ROLES = {
    "write": "registers written, implicit ones too",
    "read": "vector registers read",
    "touch": "vector registers read or written",
    "result": "vector registers written",
    "srcc": "SrcC of a matrix instruction (of SMFMAC: its D)",
    "srcab": "SrcA, SrcB, index and scales of a matrix instruction",
    "inputs": "every source of a matrix instruction",
    "data": "data of a store or an atomic",
    "constant": "scalar registers read as a constant operand",
    "carry": "scalar registers read as carry-in or select",
    "vcc": "both halves of VCC where any of it is read",
    "lane": "scalar register that selects the lane",
    "source": "vector register that the lane is read from",
    "dpp": "vector registers that a DPP instruction reads, and its destination (the old value)",
    "dpp_source": "vector register that a DPP instruction reads across lanes (src0)",
    "scalar": "scalar registers of a memory instruction",
    "exec": "EXEC, read implicitly",
    "zero_flag": "VCC after src_vccz, EXEC after src_execz",
    "hwreg": "the hardware register",
    "mode": "hardware register MODE",
    "trapsts": "hardware register TRAPSTS",
    "m0": "M0",
}
"""Roles that registers have in an instruction, for one side of `overlap`."""

RELATIONS = {
    "": "nothing more",
    "identical": "the same registers, class and passes",
    "identical_other": "the same registers, another class or number of passes",
    "identical_opcode": "the same registers, class and passes, another opcode",
    "overlapping": "overlapping registers, not the same",
    "same_opcode": "the same opcode in the same encoding",
    "other_opcode": "another opcode or encoding",
}


def _fixed(states: int) -> States:
    return States(states, states)


def _passes(constant: int, longer: bool = False) -> States:
    return States(constant, constant, passes=True, longer=longer)


XDL_COMMIT = _passes(3, longer=True)
"""From a matrix instruction to who reads what it wrote in another way than as SrcC."""
_SGEMM_COMMIT = _passes(2)
_FIGURES_942 = "2 passes 5, 4 passes 7, 8 passes 11, 16 passes 19"

MATRIX_RULES = (
    # SrcC: the accumulator is forwarded inside the matrix core where registers, class and passes are the same.
    WaitRule("xdl-srcc-same", "two_pass", "xdl", "write>srcc", "identical", _fixed(2), "both",
             "forwarded to SrcC of the next matrix instruction of 2 passes", "F 3.1 row 1; CDNA3 7.5 case 102"),
    WaitRule("xdl-srcc", "xdl", "xdl", "write>srcc", "overlapping", States(1, 2, passes=True), "both",
             "overlapping SrcC without being the same registers", "F 3.1 row 2; CDNA3 7.5 case 103"),
    WaitRule("xdl-srcc-passes", "xdl", "xdl", "write>srcc", "identical_other", States(1, 2, passes=True), "isa",
             "SrcC of a matrix instruction with another number of passes", "F 3.5 item 3; CDNA3 7.5 case 102"),
    WaitRule("xdl-srcc-opcode", "xdl", "xdl", "write>srcc", "identical_opcode", States(1, 2, passes=True), "open",
             "SrcC of a matrix instruction of another opcode", "docs/facts/errata.md section 2: llvm#218363"),
    WaitRule("xdl-sgemm-srcc", "xdl", "sdgemm", "write>srcc", "overlapping", _passes(1, longer=True), "both",
             "overlapping SrcC of an f32 or f64 matrix instruction", "F 3.1 row 3; CDNA3 7.5 case 104"),
    WaitRule("xdl-sgemm-srcc-class", "xdl", "sdgemm", "write>srcc", "identical_other", _passes(1, longer=True), "isa",
             "SrcC of a matrix instruction of another class", "F 3.5 item 3; CDNA3 7.5 case 104"),
    WaitRule("sgemm-srcc-same", "two_pass", "sgemm", "write>srcc", "identical", _fixed(2), "both",
             "forwarded to SrcC of the next matrix instruction of 2 passes", "F 3.1 row 6"),
    WaitRule("sgemm-srcc", "sgemm", "sdgemm", "write>srcc", "overlapping", _passes(0), "both",
             "overlapping SrcC without being the same registers", "F 3.1 row 7; CDNA3 7.5 case 109"),
    WaitRule("sgemm-srcc-passes", "sgemm", "sdgemm", "write>srcc", "identical_other", _passes(0), "isa",
             "SrcC of a matrix instruction with another number of passes", "F 3.5 item 3"),
    WaitRule("two-pass-srcc-other", "two_pass", "mfma", "write>srcc", "identical_other", _fixed(2), "llvm",
             "SrcC of a matrix instruction of another class or number of passes", "F 3.1 row 8, 3.5 last paragraph (item 3)"),
    WaitRule("dgemm16-srcc", "dgemm16", "sdgemm", "write>srcc", "overlapping", States(9, 17), "both",
             "overlapping SrcC without being the same registers", "F 3.1 row 11; CDNA3 7.5 case 113"),
    WaitRule("dgemm4-srcc-same", "dgemm4", "dgemm4", "write>srcc", "identical", _fixed(4), "both",
             "SrcC of the next v_mfma_f64_4x4x4_4b_f64", "F 3.1 row 17"),
    WaitRule("dgemm4-srcc", "dgemm4", "sdgemm", "write>srcc", "overlapping", _fixed(4), "both",
             "overlapping SrcC without being the same registers", "F 3.1 row 18"),
    # SrcA, SrcB, index, scale: the result has to be in the register file.
    WaitRule("xdl-srcab", "xdl", "mfma", "write>srcab", "", XDL_COMMIT, "both",
             "read as SrcA, SrcB, index or scale", f"F 3.1 row 4; CDNA3 7.5 case 105: {_FIGURES_942}"),
    WaitRule("sgemm-srcab", "sgemm", "mfma", "write>srcab", "", _SGEMM_COMMIT, "both",
             "read as SrcA, SrcB, index or scale", "F 3.1 row 9; CDNA3 7.5 case 110"),
    WaitRule("dgemm16-srcab", "dgemm16", "mfma", "write>srcab", "", States(11, 19), "both",
             "read as SrcA, SrcB, index or scale", "F 3.1 row 13; CDNA3 7.5 cases 116-118"),
    WaitRule("dgemm4-srcab", "dgemm4", "mfma", "write>srcab", "", _fixed(6), "both",
             "read as SrcA, SrcB, index or scale", "F 3.1 row 20"),
    # Vector instructions.
    WaitRule("xdl-valu-read", "xdl", "valu", "write>read", "", XDL_COMMIT, "both",
             "read by a vector instruction", f"F 3.1 row 5; CDNA3 7.5 case 106: {_FIGURES_942}"),
    WaitRule("xdl-valu-write", "xdl", "valu", "write>write", "", XDL_COMMIT, "both",
             "overwritten by a vector instruction", f"F 3.1 row 5; CDNA3 7.5 case 106: {_FIGURES_942}"),
    WaitRule("sgemm-valu-read", "sgemm", "valu", "write>read", "", _SGEMM_COMMIT, "both",
             "read by a vector instruction", "F 3.1 row 9; CDNA3 7.5 case 111"),
    WaitRule("sgemm-valu-write", "sgemm", "valu", "write>write", "", _SGEMM_COMMIT, "both",
             "overwritten by a vector instruction", "F 3.1 row 9; CDNA3 7.5 case 111"),
    WaitRule("dgemm16-valu-read", "dgemm16", "valu", "write>read", "", States(11, 19), "both",
             "read by a vector instruction", "F 3.1 row 14; CDNA3 7.5 case 119"),
    WaitRule("dgemm16-valu-write", "dgemm16", "valu", "write>write", "", _fixed(11), "both",
             "overwritten by a vector instruction", "F 3.1 row 15; CDNA3 7.5 case 119"),
    WaitRule("dgemm16-valu-write-isa", "dgemm16", "valu", "write>write", "", States(None, 19), "isa",
             "overwritten by a vector instruction", "F 3.5 item 2; CDNA4 7.6"),
    WaitRule("dgemm4-valu-read", "dgemm4", "valu", "write>read", "", _fixed(6), "both",
             "read by a vector instruction", "F 3.1 row 20"),
    WaitRule("dgemm4-valu-write", "dgemm4", "valu", "write>write", "", _fixed(6), "both",
             "overwritten by a vector instruction", "F 3.1 row 20"),
    # Memory instructions read data and address; a load's destination is LLVM's extension of the overwrite rows.
    WaitRule("xdl-memory-read", "xdl", "memory", "write>read", "", XDL_COMMIT, "both",
             "data or address of a memory instruction", f"F 3.1 row 5; CDNA3 7.5 case 106: {_FIGURES_942}"),
    WaitRule("sgemm-memory-read", "sgemm", "memory", "write>read", "", _SGEMM_COMMIT, "both",
             "data or address of a memory instruction", "F 3.1 row 9; CDNA3 7.5 case 111"),
    WaitRule("dgemm16-memory-read", "dgemm16", "memory", "write>read", "", _fixed(18), "both",
             "data or address of a memory instruction", "F 3.1 row 16; CDNA3 7.5 case 120"),
    WaitRule("dgemm4-memory-read", "dgemm4", "memory", "write>read", "", _fixed(9), "both",
             "data or address of a memory instruction", "F 3.1 row 21"),
    WaitRule("xdl-load-write", "xdl", "load", "write>write", "", XDL_COMMIT, "llvm",
             "overwritten by a load", "F 3.1 last paragraph, 3.5 item 8"),
    WaitRule("sgemm-load-write", "sgemm", "load", "write>write", "", _SGEMM_COMMIT, "llvm",
             "overwritten by a load", "F 3.1 last paragraph, 3.5 item 8"),
    WaitRule("dgemm16-load-write", "dgemm16", "load", "write>write", "", _fixed(11), "llvm",
             "overwritten by a load", "F 3.1 last paragraph, 3.5 item 8"),
    WaitRule("dgemm4-load-write", "dgemm4", "load", "write>write", "", _fixed(6), "llvm",
             "overwritten by a load", "F 3.1 last paragraph, 3.5 item 8"),
    WaitRule("dgemm-fma-f64", "dgemm", "fma_f64", "any", "", _fixed(2), "llvm",
             "before an f64 multiply-add", "F 3.1 row 22, 3.5 item 8"),
    # Overwriting SrcC while the matrix core still reads it.
    WaitRule("xdl-srcc-valu-write", "xdl", "valu", "srcc>write", "", _passes(-1), "both",
             "still read as SrcC when a vector instruction overwrites them", "F 3.2 row 1"),
    WaitRule("xdl-srcc-load-write", "xdl", "load", "srcc>write", "", _passes(-1), "llvm",
             "still read as SrcC when a load overwrites them", "F 3.2 row 2, 3.5 item 8"),
)
"""F 3.1 and 3.2: a matrix instruction first."""

VECTOR_RULES = (
    WaitRule("valu-sgpr-vmem", "valu_scalar", "vmem", "write>scalar", "", _fixed(5), "both",
             "read as descriptor, offset or base by a memory instruction", "F 3.3 row 1; CDNA3 4.5 case 10"),
    WaitRule("valu-exec-vmem", "valu_scalar", "vmem", "write>exec", "", _fixed(5), "llvm",
             "the lane mask of a memory instruction", "F 3.3 row 2, 3.5 item 8"),
    WaitRule("valu-sgpr-constant", "valu_scalar", "vector", "write>constant", "", _fixed(2), "both",
             "read as a constant by a vector instruction", "F 3.3 rows 5, 8, 11; CDNA3 4.5 case 18"),
    WaitRule("valu-sgpr-carry", "valu_scalar", "vector", "write>carry", "", _fixed(2), "llvm",
             "read as carry-in or select", "F 3.3 row 6, 3.5 item 8"),
    WaitRule("valu-vcc-half", "valu_scalar", "vector", "write>vcc", "", _fixed(2), "llvm",
             "half of VCC, which a vector instruction reads", "F 3.3 rows 5-6: LLVM looks at VCC as a whole"),
    WaitRule("valu-sgpr-lane", "valu_scalar", "lane_access", "write>lane", "", _fixed(4), "both",
             "selecting the lane", "F 3.3 row 7; CDNA3 4.5 case 6"),
    WaitRule("valu-vcc-div-fmas", "valu_scalar", "div_fmas", "write>carry", "", _fixed(4), "both",
             "the select of v_div_fmas", "F 3.3 row 9; CDNA3 4.5 case 7"),
    WaitRule("valu-vccz", "valu_scalar", "vector", "write>zero_flag", "", _fixed(5), "isa",
             "read as VCCZ or EXECZ by a vector instruction", "F 3.3 row 10, 3.5 item 1; CDNA3 4.5 case 5"),
    WaitRule("valu-exec-lane", "valu_scalar", "lane_access", "write>exec", "", _fixed(4), "both",
             "the lane mask of a lane access", "F 3.3 row 12; CDNA3 4.5 case 18"),
    WaitRule("valu-exec-dpp", "valu_scalar", "dpp", "write>exec", "", _fixed(5), "both",
             "the lane mask of a DPP instruction", "F 3.3 row 13; CDNA3 4.5 case 13"),
    WaitRule("valu-exec-mfma", "valu_scalar", "mfma", "write>exec", "", _fixed(4), "both",
             "written right before a matrix instruction", "F 3.3 row 14"),
    WaitRule("valu-exec-permlane", "valu_scalar", "permlane_swap", "write>exec", "", States(None, 4), "both",
             "the lane mask of a lane swap", "F 3.3 row 15; CDNA4 4.5"),
    WaitRule("valu-dpp", "valu", "dpp", "write>dpp_source", "", _fixed(2), "both",
             "read across lanes by a DPP instruction", "F 3.3 row 18; CDNA3 4.5 case 12"),
    WaitRule("valu-dpp-rest", "valu", "dpp", "write>dpp", "", _fixed(2), "both",
             "read by a DPP instruction (source or old value)", "F 3.3 row 18; CDNA3 4.5 case 12",
             doubt="the ISA text does not say which operand; only src0 passes between lanes, and shipping kernels of both chips read "
                   "src1 and the old value sooner"),
    WaitRule("load-dpp", "load", "dpp", "write>dpp", "", _fixed(2), "llvm",
             "read by a DPP instruction (source or old value)", "F 3.3 row 18, 3.5 item 8"),
    WaitRule("valu-read-lane", "valu", "read_lane", "write>source", "", _fixed(1), "both",
             "read across lanes", "F 3.3 row 19; CDNA3 4.5 case 19"),
    WaitRule("valu-permlane", "valu", "permlane_swap", "write>read", "", States(None, 2), "both",
             "swapped across lanes", "F 3.3 row 20; CDNA4 4.5"),
    WaitRule("valu-mfma", "valu_no_dot", "mfma", "write>inputs", "", _fixed(2), "both",
             "read by a matrix instruction", "F 3.3 row 22; CDNA3 7.5 case 100"),
    WaitRule("trans-valu", "trans", "not_trans", "write>read", "", _fixed(1), "both",
             "result of a transcendental, read by another vector instruction", "F 3.3 row 25; CDNA3 4.5 case 21"),
    WaitRule("trans-dma", "trans", "lds_dma", "write>read", "", _fixed(1), "llvm",
             "result of a transcendental, the address of a load into LDS", "LLVM 22.1.8 measured as in F 3"),
    WaitRule("shifted-read", "shifted", "vector", "write>read", "", _fixed(1), "both",
             "written to another place in the register, then read by a vector instruction", "F 3.3 row 26; CDNA3 4.5 case 20"),
    WaitRule("shifted-write", "shifted", "vector", "write>result", "", _fixed(1), "llvm",
             "written to another place in the register, then overwritten by a vector instruction", "F 3.3 row 26"),
    WaitRule("shifted-dma", "shifted", "lds_dma", "write>read", "", _fixed(1), "llvm",
             "written to another place in the register, then the address of a load into LDS", "LLVM 22.1.8 measured as in F 3"),
    WaitRule("part-part", "part_convert", "part_convert", "write>write", "", _fixed(1), "isa",
             "written in parts by two conversions", "F 3.5 item 4; CDNA4 7.3"),
    WaitRule("mixhi-read", "mixhi", "vector", "write>read", "", _fixed(1), "isa",
             "written to the high half, then read by a vector instruction", "F 3.5 item 4"),
    WaitRule("packed-touch", "packed_default", "vector_or_dma", "write>touch", "", _fixed(1), "llvm",
             "result of a packed instruction", "F 3.5 item 7: LLVM reads op_sel_hi as the bit of the destination", artefact=True),
    WaitRule("dot-same-srcab", "dot", "dot", "write>srcab", "same_opcode", _fixed(3), "both",
             "SrcA or SrcB of the same dot product", "F 3.3 row 28; CDNA3 7.5 case 101"),
    WaitRule("dot-valu-read", "dot", "valu", "write>read", "other_opcode", _fixed(3), "both",
             "result of a dot product, read by another vector instruction", "F 3.3 row 28; CDNA3 7.5 case 101"),
    WaitRule("dot-valu-write", "dot", "valu", "write>write", "other_opcode", _fixed(3), "both",
             "result of a dot product, overwritten by another vector instruction", "F 3.3 row 28; CDNA3 7.5 case 101"),
    WaitRule("dot-memory-read", "dot", "memory", "write>read", "", _fixed(3), "both",
             "result of a dot product, data or address of a memory instruction", "F 3.3 row 28; CDNA3 7.5 case 101"),
    WaitRule("dot-load-write", "dot", "load", "write>write", "", _fixed(3), "both",
             "result of a dot product, overwritten by a load", "F 3.3 row 28; CDNA3 7.5 case 101"),
    WaitRule("dot-mfma-read", "dot", "mfma", "write>inputs", "", _fixed(3), "isa",
             "result of a dot product, read by a matrix instruction", "F 3.5 item 5; CDNA3 7.5 case 101"),
)
"""F 3.3: a vector instruction (or a load before DPP) first."""

OTHER_RULES = (
    WaitRule("setreg-getreg", "setreg", "getreg", "hwreg>hwreg", "", _fixed(2), "both",
             "read by s_getreg", "F 3.3 row 30; CDNA3 4.5 case 1"),
    WaitRule("setreg-setreg", "setreg", "setreg", "hwreg>hwreg", "", _fixed(2), "both",
             "written again by s_setreg", "F 3.3 row 30; CDNA3 4.5 case 2"),
    WaitRule("setreg-rfe", "setreg", "rfe", "hwreg>trapsts", "", _fixed(1), "both",
             "TRAPSTS right before s_rfe", "F 3.3 row 31; CDNA3 4.5 case 15"),
    WaitRule("setvskip-getreg", "setvskip", "getreg", "mode>hwreg", "", _fixed(2), "isa",
             "read by s_getreg after s_setvskip", "CDNA3 4.5 case 3"),
    WaitRule("setreg-vskip", "setreg_vskip", "vector", "any", "", _fixed(2), "isa",
             "right before a vector instruction", "CDNA3 4.5 case 4"),
    WaitRule("salu-m0", "salu", "m0_reader", "write>m0", "", _fixed(1), "both",
             "read by an instruction that takes M0 late", "F 3.3 row 33; CDNA3 4.5 cases 11, 16, 17"),
    WaitRule("salu-m0-buffer", "salu", "buffer_dma", "write>m0", "", _fixed(1), "both",
             "read by a buffer load into LDS", "F 3.3 row 33; CDNA3 4.5 case 17",
             doubt="the ISA text names scratch and global loads into LDS and buffer_store_LDS_dword, which these chips lack, but no buffer "
                   "load; shipping kernels of both chips write M0 right before one (56 % of all warnings that lint had on them)",
             doubtful="note", told=True),
    WaitRule("wide-store-valu", "wide_store", "vector", "data>write", "", _fixed(2), "both",
             "still read by a wide store when a vector instruction overwrites them", "F 3.3 row 36; CDNA3 4.5 case 9"),
    WaitRule("wide-store-load", "wide_store", "load", "data>write", "", _fixed(1), "isa",
             "still read by a wide store when a load overwrites them", "F 3.3 row 38, 3.5 item 4; CDNA3 4.5 case 8"),
    WaitRule("wide-store-soffset", "wide_store_soffset", "vector", "data>write", "", _fixed(1), "isa",
             "still read by a wide store when a vector instruction overwrites them",
             "F 3.3 row 37, 3.5 item 6: measured on gfx950 by LLVM after 22; neither the ISA text nor LLVM 22 asks"),
)
"""F 3.3: scalar instructions and stores first."""

RULES = MATRIX_RULES + VECTOR_RULES + OTHER_RULES
"""Every row."""

CARRY_IN = frozenset({"v_cndmask_b32", "v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32"})
"""Vector instructions whose last operand is a carry-in or select (F 3.3 row 6)."""
PACKED_LOW_DEFAULT = ("v_fma_mix",)
"""Beginnings of VOP3P mnemonics whose op_sel_hi is 0 where it is not written (LLVM 22)."""
NO_OP_SEL = ("v_accvgpr_", "v_dot4_", "v_dot8_")
"""Beginnings of VOP3P mnemonics that have no op_sel at all (LLVM 22)."""
BYTE_DESTINATION = ("v_cvt_sr_fp8_f32", "v_cvt_sr_bf8_f32", "v_cvt_scalef32_pk_fp4_", "v_cvt_scalef32_sr_fp8_", "v_cvt_scalef32_sr_bf8_")
"""Beginnings of mnemonics whose op_sel[3:2] is the destination's byte; elsewhere the bit after the sources' is its half
(F 3.3 row 26; the positions measured with LLVM 22.1.8)."""
SHIFTED_ALWAYS = ("v_cvt_scalef32_sr_pk_fp4_",)
"""Beginnings of mnemonics that count as moving their result whatever op_sel says (F 3.3 row 26)."""
MODE_REGISTER, TRAPSTS_REGISTER = 1, 3
"""Numbers of the hardware registers that rows name."""
VSKIP_BIT = 28
"""Bit of MODE (CDNA3 ISA, MODE register)."""
WIDE_DATA = 2
"""Registers of store data beyond which the wide-store rows hold (F 3.3 row 36)."""
