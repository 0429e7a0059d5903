"""Forms of the vector memory and LDS encodings: DS, MUBUF, MTBUF, FLAT, GLOBAL, SCRATCH."""

from __future__ import annotations

from asmgen.isa.encodings import NO_FLAGS, Row, destination, form, spec
from asmgen.isa.opcode import Form, MemoryUse, Opcode, OperandSpec, dwords

_DATA = "va"
_EXEC = frozenset({"exec"})
_EXEC_M0 = frozenset({"exec", "m0"})
_CACHE = frozenset({"sc0", "sc1", "nt"})
ELEMENT_BYTES = {"ubyte": 1, "sbyte": 1, "i8": 1, "u8": 1, "b8": 1, "ushort": 2, "sshort": 2, "i16": 2, "u16": 2, "b16": 2}
"""Bytes in memory of the elements narrower than a register."""


def expand(row: Row) -> Opcode:
    """The Opcode of a memory row."""
    if row.section == "DS":
        return _ds(row)
    return _flat(row) if row.section == "FLAT" else _buffer(row)


def _kind(row: Row) -> str:
    return next((kind for kind in ("load", "store", "atomic") if kind in row.flags), "load")


def _moved(row: Row, data_type: str) -> int:
    """Bytes that a lane moves."""
    if data_type in ELEMENT_BYTES:
        return ELEMENT_BYTES[data_type]
    return dwords(data_type) * (2 if "compare" in row.flags else 4)


def _ds(row: Row) -> Opcode:
    operands: list[OperandSpec] = []
    data_type, returns = "", False
    for location in row.types:
        kind, _, operand_type = location.partition(":")
        if kind == "d":
            returns = True
            operands.append(destination("vdst", operand_type, _DATA, "keep" in row.flags))
        elif kind == "a":
            operands.append(spec("addr", "u32", "v"))
        else:
            operands.append(spec("data0" if kind == "x" else "data1", operand_type, _DATA))
        data_type = data_type or operand_type
    offsets = frozenset({"offset0", "offset1"}) if "two" in row.flags else frozenset({"offset"})
    if "gws" in row.flags:
        return Opcode(row.name, "DS", (form("DS", "", operands, offsets, gds=True),), row.archs, reads=_EXEC_M0, lgkmcnt=1,
                      classes=frozenset({"lds", "gws"}), group="other", flags=frozenset({"even"}) if operands else NO_FLAGS)
    memory = None
    if "lane" not in row.flags:
        count = 2 if "two" in row.flags and "load" not in row.flags and "atomic" not in row.flags else 1
        memory = MemoryUse("lds", _kind(row), _moved(row, data_type) * count, data_type, returns and "atomic" in row.flags)
    group = "other" if row.name == "ds_nop" else "lds_read" if row.flags & {"load", "lane"} else "lds_write"
    return Opcode(row.name, "DS", (form("DS", "", operands, offsets if operands else NO_FLAGS),), row.archs,
                  reads=_EXEC_M0 if "m0" in row.flags else _EXEC, lgkmcnt=1, group=group, memory=memory,
                  classes=frozenset({"lds"} | ({"m0_lds"} if "addtid" in row.name else set())),
                  flags=row.flags & {"two", "keep", "hi", "tr"} | ({"st64"} if "st64" in row.name else set()))


def _buffer(row: Row) -> Opcode:
    if not row.types:
        return Opcode(row.name, "MUBUF", (form("MUBUF", "", [], _CACHE - {"nt"}),), row.archs, vmcnt=int(row.name != "buffer_inv"),
                      classes=frozenset({"vmem", "cache"}), group="other")
    data_type, kind = row.types[0], _kind(row)
    common = frozenset({"offset"}) | _CACHE | ({"format"} if row.section == "MTBUF" else NO_FLAGS)
    forms: list[Form] = []
    if kind == "atomic":
        for returns in (False, True):
            forms += _addressed(row, [spec("vdata", data_type, _DATA, True, returns)], common - {"sc0"}, sc0=returns)
    elif row.value("lds") is None:
        forms = _addressed(row, [_buffer_data(row, data_type, kind)], common)
    else:
        forms = _addressed(row, [_buffer_data(row, data_type, kind)], common, lds=False)
        archs = NO_FLAGS if row.value("lds") == "all" else frozenset({str(row.value("lds"))})
        for made in _addressed(row, [], common, lds=True):
            forms.append(Form(made.encoding, made.suffix, made.operands, made.modifiers, made.when, archs))
    stored = row.value("mem") or data_type
    return Opcode(row.name, row.section, tuple(forms), row.archs, reads=_EXEC, vmcnt=1, classes=frozenset({"vmem", "mubuf"}),
                  group="global_load" if kind == "load" else "global_store",
                  memory=MemoryUse("buffer", kind, _moved(row, stored), stored, kind == "atomic"),
                  flags=row.flags & {"keep", "hi", "format", "compare"})


def _buffer_data(row: Row, data_type: str, kind: str) -> OperandSpec:
    return destination("vdata", data_type, _DATA, "keep" in row.flags) if kind == "load" else spec("vdata", data_type, _DATA)


def _addressed(row: Row, data: list[OperandSpec], modifiers: frozenset[str], **when: bool) -> list[Form]:
    """The four ways in which a buffer instruction takes its address registers."""
    rsrc, soffset = spec("srsrc", "b128", "s"), spec("soffset", "b32", "sip")
    address, pair, off = spec("vaddr", "u32", "v"), spec("vaddr", "u64", "v"), spec("vaddr", "u32", "o")
    return [form(row.section, "", [*data, vaddr, rsrc, soffset], modifiers, idxen=idxen, offen=offen, **when)
            for vaddr, idxen, offen in ((off, False, False), (address, False, True), (address, True, False), (pair, True, True))]


def _flat(row: Row) -> Opcode:
    space = row.name.split("_", 1)[0]
    encoding = space.upper()
    kind = _kind(row)
    dma = "lds" in row.flags
    data_type = row.value("mem") or row.types[0]
    modifiers = _CACHE | {"offset"}
    data: list[OperandSpec] = []
    if not dma and kind == "load":
        data = [destination("vdst", row.types[0], _DATA, "keep" in row.flags)]
    elif not dma:
        data = [spec("vdata", row.types[0], _DATA)]
    forms: list[Form] = []
    for address in _addresses(space, dma):
        vaddr, saddr = address[0], address[1:]
        if kind != "atomic":
            order = [*data, vaddr, *saddr] if kind == "load" else [vaddr, *data, *saddr]
            forms.append(form(encoding, "", order, modifiers))
            continue
        value = row.types[0]
        size = dwords(value) // (2 if "compare" in row.flags else 1)
        result = {4: "b128", 2: "u64", 1: "u32"}[size] if "compare" in row.flags else value
        forms.append(form(encoding, "", [vaddr, *data, *saddr], modifiers - {"sc0"}, sc0=False))
        # LLVM refuses AGPRs in some returning forms, and loses sc1 beside AGPRs in others.
        choices = [("v", modifiers)] if row.flags & {"vret", "asc1"} else [(_DATA, modifiers)]
        if "asc1" in row.flags:
            choices.append((_DATA, modifiers - {"sc1"}))
        for files, legal in choices:
            forms.append(form(encoding, "", [destination("vdst", result, files), vaddr, spec("vdata", value, files), *saddr],
                              legal - {"sc0"}, sc0=True))
    group = "lds_dma" if dma else "global_load" if kind == "load" else "global_store"
    return Opcode(row.name, encoding, tuple(forms), row.archs, reads=_EXEC_M0 if dma else _EXEC, vmcnt=1, lgkmcnt=int(space == "flat"),
                  classes=frozenset({"vmem", space} | ({"lds_dma"} if dma else set())), group=group,
                  memory=MemoryUse(space, kind, _moved(row, data_type), data_type, kind == "atomic"),
                  flags=row.flags & {"keep", "hi", "compare"} | ({"lds_dma"} if dma else set()))


def _addresses(space: str, dma: bool) -> list[list[OperandSpec]]:
    wide, narrow = spec("vaddr", "u64", "v"), spec("vaddr", "u32", "v")
    if space == "flat":
        return [[wide]]
    if space == "global":
        return [[wide, spec("saddr", "u64", "o")], [narrow, spec("saddr", "u64", "s" if dma else "S")]]
    return [[spec("vaddr", "u32", "vo"), spec("saddr", "u32", "so")]]
