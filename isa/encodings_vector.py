"""Forms of the vector ALU encodings: VOP1, VOP2, VOPC, VOP3, VOP3P and the matrix instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asmgen.isa.encodings import FLOATS, NO_FLAGS, Row, destination, element, form, spec
from asmgen.isa.modifiers import DPP_CONTROLS
from asmgen.isa.opcode import Form, Opcode, OperandSpec

if TYPE_CHECKING:
    from asmgen.isa.opcodes.mfma import MfmaRow

_ANY = "vsip"
_OUTPUT = frozenset({"clamp", "mul", "div"})
_CLAMP = frozenset({"clamp"})
_PACKED = frozenset({"op_sel", "op_sel_hi", "neg_lo", "neg_hi"})
_DPP_MASKS = frozenset({"row_mask", "bank_mask", "bound_ctrl"})
_DPP = frozenset(DPP_CONTROLS) | _DPP_MASKS
_DPP64 = frozenset({"row_newbcast"}) | _DPP_MASKS
_EXEC = frozenset({"exec"})


def expand(row: Row) -> Opcode:
    """The Opcode of a vector ALU row."""
    forms = {"VOP1": _vop1, "VOP2": _vop2, "VOPC": _vopc, "VOP3": _vop3, "VOP3P": _vop3p}[row.section](row)
    classes = row.classes | {"valu"} | row.flags & {"trans", "dot"}
    if "opsel" in row.flags and row.flags & {"keep", "rw"}:
        classes |= {"partial_dst"}
    accvgpr = row.name.startswith("v_accvgpr")
    reads = NO_FLAGS if row.name in ("v_nop", "v_clrexcp", "v_readlane_b32", "v_writelane_b32") else _EXEC
    if "rvcc" in row.flags:
        reads |= {"vcc"}
    return Opcode(row.name, row.section, tuple(forms), row.archs, reads=reads, writes=row.flags & _EXEC, classes=classes,
                  group="accvgpr" if accvgpr else "nop" if row.name == "v_nop" else "valu",
                  flags=row.flags & {"keep", "swap"})


def _is_float(operand_type: str) -> bool:
    return element(operand_type) in FLOATS


def _output_modifiers(row: Row) -> frozenset[str]:
    """clamp and omod of a long form, as the row's types and flags have it."""
    if "plain" in row.flags:
        return NO_FLAGS
    if row.floating:
        return _CLAMP if "-omod" in row.flags else _OUTPUT
    return _CLAMP if "clamp" in row.flags else NO_FLAGS


def _modified(row: Row, operand_type: str, accepts: str) -> str:
    return accepts + "m" if _is_float(operand_type) or "mods" in row.flags else accepts


def _sdwa_source(row: Row, name: str, operand_type: str) -> OperandSpec:
    """SDWA sources have neg and abs for floats, sext for integers; small floats and dot products have neither."""
    accepts = _modified(row, operand_type, _ANY)
    if operand_type == "v2f16":
        # LLVM takes the pair's constants for 32 bits here, and loses -x and |x|.
        return spec(name, "b32", _ANY)
    if accepts == _ANY and operand_type not in ("fp8", "bf8"):
        accepts += "x"
    return spec(name, operand_type, accepts)


def _dpp_modifiers(specs: list[OperandSpec]) -> frozenset[str]:
    # The 64-bit data path has the broadcast alone (LLVM 22: "DP ALU dpp only supports row_newbcast").
    return _DPP64 if any(slot.width == 2 and slot.accepts != "c" for slot in specs) else _DPP


def _vop1(row: Row) -> list[Form]:
    if not row.types:
        return [form("VOP1", "", [])]
    if "acc" in row.flags:
        return [form("VOP1", "", [destination("vdst", "b32", "a"), spec("src0", "b32", "a")])]
    if "sdst" in row.flags:
        return [form("VOP1", "", [destination("sdst", "b32", "M"), spec("src0", "b32", "v")])]
    if "swap" in row.flags:
        operands = [destination("vdst", "b32", "v", True), spec("src0", "b32", "v", True, True)]
        if "fi" not in row.flags:
            return [form("VOP1", "", operands)]
        return [form("VOP1", "_e32", operands), form("VOP3", "_e64", operands, frozenset({"bound_ctrl", "fi"}))]
    kind, source = row.types
    vdst = destination("vdst", kind, "v")
    wide = vdst.width == 2 or spec("src0", source, "v").width == 2
    forms = [form("VOP1", "_e32", [vdst, spec("src0", source, "vsilp")]),
             form("VOP3", "_e64", [vdst, spec("src0", source, _modified(row, source, _ANY))], _output_modifiers(row))]
    if not wide or "sdwa" in row.flags:
        modifiers = {"clamp", "src0_sel"} | ({"mul", "div"} if _is_float(kind) else set())
        if "-dst_sel" not in row.flags:
            modifiers |= {"dst_sel", "dst_unused"}
        forms.append(form("SDWA", "_sdwa", [vdst, _sdwa_source(row, "src0", source)], frozenset(modifiers)))
    operands = [vdst, spec("src0", source, _modified(row, source, "v"))]
    forms.append(form("DPP", "_dpp", operands, _dpp_modifiers(operands)))
    return forms


def _vop2(row: Row) -> list[Form]:
    if "k" in row.types:
        return _vop2_literal(row)
    kind, first, second = row.types
    vdst = destination("vdst", kind, "v", "rw" in row.flags)
    carry_out, carry_in = "cout" in row.flags, "cin" in row.flags

    def slots(source0: OperandSpec, source1: OperandSpec, carry: str) -> list[OperandSpec]:
        result = [vdst, source0, source1]
        if carry_out:
            result.insert(1, destination("sdst", "b64", carry))
        if carry_in:
            result.append(spec("src2" if carry == "s" else "vcc", "b64", carry))
        return result

    modified = "m" if "mods" in row.flags or _is_float(first) else ""
    forms = [form("VOP2", "_e32", slots(spec("src0", first, "vsilp"), spec("src1", second, "v"), "c")),
             form("VOP3", "_e64", slots(spec("src0", first, _ANY + modified), spec("src1", second, _modified(row, second, _ANY)), "s"),
                  _output_modifiers(row))]
    if "-sdwa" not in row.flags and vdst.width == 1:
        modifiers = {"clamp", "dst_sel", "dst_unused", "src0_sel", "src1_sel"} | ({"mul", "div"} if _is_float(kind) else set())
        forms.append(form("SDWA", "_sdwa", slots(_sdwa_source(row, "src0", first), _sdwa_source(row, "src1", second), "c"),
                          frozenset(modifiers)))
    operands = slots(spec("src0", first, "v" + modified), spec("src1", second, _modified(row, second, "v")), "c")
    forms.append(form("DPP", "_dpp", operands, _dpp_modifiers(operands)))
    return forms


def _vop2_literal(row: Row) -> list[Form]:
    """v_fmamk and the like: a literal is part of the encoding, and there is no other form."""
    operands = [destination("vdst", row.types[0], "v"), spec("src0", row.types[1], "vsilp")]
    for kind in row.types[2:]:
        operands.append(spec("simm32", row.types[0], "k") if kind == "k" else spec("src1", kind, "v"))
    return [form("VOP2", "", operands)]


def _vopc(row: Row) -> list[Form]:
    first, second = row.types
    clamp = _CLAMP if _is_float(second) else NO_FLAGS
    forms = [form("VOPC", "_e32", [destination("sdst", "b64", "c"), spec("src0", first, "vsilp"), spec("src1", second, "v")]),
             form("VOP3", "_e64", [destination("sdst", "b64", "s"), spec("src0", first, _modified(row, first, _ANY)),
                                   spec("src1", second, _modified(row, second, _ANY))], clamp)]
    if not first.endswith("64"):
        forms.append(form("SDWA", "_sdwa", [destination("sdst", "b64", "s"), _sdwa_source(row, "src0", first),
                                            _sdwa_source(row, "src1", second)], frozenset({"src0_sel", "src1_sel"})))
    return forms


def _vop3(row: Row) -> list[Form]:
    if row.name == "v_readlane_b32":
        return [form("VOP3", "", [destination("sdst", "b32", "M"), spec("src0", "b32", "v"), spec("src1", "b32", "sip")])]
    if row.name == "v_writelane_b32":
        return [form("VOP3", "", [destination("vdst", "b32", "v", True), spec("src0", "b32", "sip"), spec("src1", "b32", "sip")])]
    operands = [destination("vdst", row.types[0], "v", "rw" in row.flags)]
    if "sdst" in row.flags:
        operands.append(destination("sdst", "b64", "s"))
    for number, kind in enumerate(row.types[1:]):
        accepts = "v" if "vgpr0" in row.flags and number == 0 or spec("", kind, "v").width > 2 else _ANY
        if _is_float(kind) and "nomods" not in row.flags:
            accepts += "N" if "neg" in row.flags else "m"
        operands.append(spec(f"src{number}", kind, accepts))
    modifiers = _output_modifiers(row) | {flag for flag in ("bitop3",) if flag in row.flags}
    if "opsel" in row.flags:
        modifiers |= {"op_sel"}
    return [form("VOP3", "", operands, frozenset(modifiers))]


def _vop3p(row: Row) -> list[Form]:
    if "accread" in row.flags:
        return [form("VOP3P", "", [destination("vdst", "b32", "v"), spec("src0", "b32", "a")])]
    if "accwrite" in row.flags:
        return [form("VOP3P", "", [destination("vdst", "b32", "a"), spec("src0", "b32", _ANY)])]
    if "scale" in row.flags:
        return [form("VOP3P", "", [spec("src0", "b32", _ANY), spec("src1", "b32", _ANY)], frozenset({"op_sel", "op_sel_hi"}))]
    accepts = _ANY + "m" if "mix" in row.flags else _ANY
    operands = [destination("vdst", row.types[0], "v", "rw" in row.flags)]
    operands += [spec(f"src{number}", kind, accepts) for number, kind in enumerate(row.types[1:])]
    modifiers = _PACKED if "pk" in row.flags else frozenset({"neg_lo", "neg_hi"}) if "dot" in row.flags \
        else frozenset({"op_sel", "op_sel_hi"})
    return [form("VOP3P", "", operands, modifiers | _CLAMP)]


def expand_matrix(row: MfmaRow) -> Opcode:
    """The Opcode of a matrix instruction; f8f6f4 has a form for each pair of operand widths."""
    classes = {"mfma", row.kind} | ({"smfmac"} if row.sparse else set())
    forms = []
    if row.f8f6f4:
        for cbsz in ((0, 1), (2, 3), (4,)):
            for blgp in ((0, 1), (2, 3), (4,)):
                made = _matrix_form(row, row.registers(cbsz[0], blgp[0]))
                forms.append(Form(made.encoding, made.suffix, made.operands, made.modifiers, (("cbsz", cbsz), ("blgp", blgp))))
    else:
        forms.append(_matrix_form(row, row.registers()))
    return Opcode(row.name, "MAI", tuple(forms), row.archs, classes=frozenset(classes), group="matrix")


def _matrix_form(row: MfmaRow, registers: tuple[int, int, int]) -> Form:
    def slot(name: str, kind: str, count: int, accepts: str, reads: bool = True, writes: bool = False) -> OperandSpec:
        return OperandSpec(name, kind, count, accepts, reads, writes)

    a_regs, b_regs, cd_regs = registers
    operands = [slot("vdst", row.cd_type, cd_regs, "va", row.sparse, True), slot("src0", row.a_type, a_regs, "va"),
                slot("src1", row.b_type, b_regs, "va")]
    if row.sparse:
        return form("MAI", "", [*operands, slot("src2", "b32", 1, "v")], frozenset({"cbsz", "abid"}))
    # LLVM assembles src_scc and the like as C too, but into words that it cannot disassemble.
    operands.append(slot("src2", row.cd_type, cd_regs, "vai"))
    if row.scaled:
        operands += [slot("scale_src0", "b32", 1, "v"), slot("scale_src1", "b32", 1, "v")]
        return form("MAI", "", operands, frozenset({"cbsz", "blgp", "op_sel", "op_sel_hi"}))
    if row.f8f6f4:
        return form("MAI", "", operands, frozenset({"cbsz", "blgp"}))
    return form("MAI", "", operands, frozenset({"cbsz", "abid", "neg" if row.kind == "dgemm" else "blgp"}))
