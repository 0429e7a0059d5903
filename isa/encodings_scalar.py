"""Forms of the scalar encodings: SOP1, SOP2, SOPC, SOPK, SOPP, SMEM."""

from __future__ import annotations

from asmgen.isa.encodings import NO_FLAGS, Row, destination, form, spec
from asmgen.isa.modifiers import OFFSETS
from asmgen.isa.opcode import Form, MemoryUse, Opcode, OperandSpec, dwords

_SOURCE = "silp"
_IMPLICIT_READS = {"rscc": "scc", "rvcc": "vcc", "rexec": "exec", "rm0": "m0"}
_IMPLICIT_WRITES = {"scc": "scc", "exec": "exec", "m0": "m0"}
_GROUPS = {"branch": "branch", "wait": "wait", "nop": "nop", "barrier": "barrier"}


def expand(row: Row) -> Opcode:
    """The Opcode of a scalar row."""
    if row.section == "SMEM":
        return _smem(row)
    operands = {"SOP1": _sop1, "SOP2": _sop2, "SOPC": _sopc, "SOPK": _sopk, "SOPP": _sopp}[row.section](row)
    classes = row.classes
    group = next((_GROUPS[name] for name in classes if name in _GROUPS), "other" if row.section == "SOPP" else "salu")
    if row.section != "SOPP":
        classes |= {"salu"}
    forms = [form(row.section, "", operands)]
    if "code" in row.flags:
        forms.append(form(row.section, "", [_immediate("value:0:65535")]))
    return Opcode(row.name, row.section, tuple(forms), row.archs,
                  reads=frozenset(_IMPLICIT_READS[flag] for flag in row.flags if flag in _IMPLICIT_READS),
                  writes=frozenset(_IMPLICIT_WRITES[flag] for flag in row.flags if flag in _IMPLICIT_WRITES),
                  lgkmcnt=int("sendmsg" in classes), classes=classes, group=group)


def _source(row: Row, name: str, operand_type: str) -> OperandSpec:
    accepts = "s" if "register" in row.flags else "sip" if "nolit" in row.flags else _SOURCE
    return spec(name, operand_type, accepts)


def _sop1(row: Row) -> list[OperandSpec]:
    operands = []
    if row.types[0] != "-":
        operands.append(destination("sdst", row.types[0], "s", "rw" in row.flags))
    if row.types[1] != "-":
        operands.append(_source(row, "ssrc0", row.types[1]))
    return operands


def _sop2(row: Row) -> list[OperandSpec]:
    operands = [destination("sdst", row.types[0], "s")] if row.types[0] != "-" else []
    return [*operands, _source(row, "ssrc0", row.types[1]), _source(row, "ssrc1", row.types[2])]


def _sopc(row: Row) -> list[OperandSpec]:
    first = _source(row, "ssrc0", row.types[0])
    return [first, _immediate("gpr_idx") if row.types[1] == "gpr_idx" else _source(row, "ssrc1", row.types[1])]


def _immediate(kind: str) -> OperandSpec:
    """The place of an immediate: what `kind` of the tables means."""
    if ":" in kind:
        _, low, high = kind.split(":")
        return spec("simm16", "i16", "n", low=int(low), high=int(high))
    return {
        "imm": spec("simm16", "i16", "n", low=-32768, high=65535),
        "uimm": spec("simm16", "u16", "n", low=0, high=65535),
        "target": spec("simm16", "i16", "b", low=-32768, high=65535),
        "waitcnt": spec("simm16", "u16", "wn", low=0, high=65535),
        "hwreg": spec("simm16", "u16", "hn", low=0, high=65535),
        "sendmsg": spec("simm16", "u16", "tn", low=0, high=65535),
        "gpr_idx": spec("imm4", "u16", "gn", low=0, high=15),
        # LLVM takes a float here and encodes 0.
        "lit": spec("simm32", "b32", "n", low=-(1 << 31), high=(1 << 32) - 1),
    }[kind]


def _sopk(row: Row) -> list[OperandSpec]:
    operands = []
    for position, kind in enumerate(row.types):
        if kind[0] == "-":
            operands.append(spec("sdst", kind[1:], "s"))
        elif kind in ("b32", "i32", "u32", "b64"):
            operands.append(destination("sdst", kind, "s", "rw" in row.flags) if position == 0 else spec("sdst", kind, "s"))
        else:
            operands.append(_immediate(kind))
    return operands


def _sopp(row: Row) -> list[OperandSpec]:
    return [_immediate(kind) for kind in row.types]


def _smem(row: Row) -> Opcode:
    data_type, base_type = row.types
    buffer = base_type == "rsrc"
    encoding = "SMEM_BUFFER" if buffer else "SMEM"
    low, high = OFFSETS[encoding]
    atomic, cached = "atomic" in row.flags, not row.flags & {"cache", "time"}
    forms: list[Form] = []
    for returns in (False, True) if atomic else (False,):
        operands = []
        if data_type == "probe":
            operands.append(spec("sdata", "u32", "n", low=0, high=127))
        elif data_type != "-":
            load = bool(row.flags & {"load", "time"})
            operands.append(spec("sdata", data_type, "S", not load, load or returns))
        when = {"glc": returns} if atomic else {}
        modifiers = frozenset({"glc"}) if cached and not atomic else NO_FLAGS
        if base_type == "-":
            forms.append(form("SMEM", "", operands))
            continue
        operands.append(spec("sbase", "b128" if buffer else "b64", "s"))
        forms.append(form(encoding, "", [*operands, spec("offset", "i32", "n", low=low, high=high)], modifiers, **when))
        forms.append(form(encoding, "", [*operands, spec("soffset", "b32", "s")], modifiers | {"offset"}, **when))
    size = dwords(data_type) if data_type not in ("-", "probe") else 1
    kind = next((name for name in ("load", "store", "atomic") if name in row.flags), None)
    moved = size * 4 // (2 if "cmpswap" in row.name else 1)
    memory = MemoryUse("scalar", kind, moved, data_type, atomic) if kind else None
    return Opcode(row.name, "SMEM", tuple(forms), row.archs, lgkmcnt=1 if size == 1 else 2, classes=frozenset({"smem"}),
                  group="other" if "cache" in row.flags else "salu", memory=memory)
