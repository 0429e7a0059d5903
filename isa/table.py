"""The instruction table: a mnemonic's Opcode, made from its row of isa/opcodes when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from asmgen.isa import encodings_memory, encodings_scalar, encodings_vector
from asmgen.isa.encodings import BOTH, Row, parse_row, spread
from asmgen.isa.errors import OperandError
from asmgen.isa.opcode import Opcode
from asmgen.isa.opcodes import scalar, vector, vector3, vectormemory

SUFFIXES = ("_e32", "_e64", "_dpp", "_sdwa")
_MATRIX = ("v_mfma_", "v_smfmac_")
_EXPANDERS: tuple[tuple[dict[str, str], Callable[[Row], Opcode]], ...] = (
    (scalar.TABLES, encodings_scalar.expand), (vector.TABLES, encodings_vector.expand), (vector3.TABLES, encodings_vector.expand),
    (vectormemory.TABLES, encodings_memory.expand),
)
_OLD_TYPES = frozenset({"bf16", "f16", "f32", "f64", "xf32", "i8"})


@cache
def _index() -> dict[str, tuple[int, str, str, tuple[str, ...]]]:
    """For each mnemonic: its expander's number, its section, the rest of its row, and the choices its name made."""
    index: dict[str, tuple[int, str, str, tuple[str, ...]]] = {}
    for number, (tables, _) in enumerate(_EXPANDERS):
        for section, text in tables.items():
            for line in text.strip().splitlines():
                pattern, rest = line.split(None, 1)
                if "{" not in pattern:
                    index[pattern] = number, section, rest, ()
                    continue
                for name, chosen in spread(pattern):
                    index[name] = number, section, rest, chosen
    return index


@cache
def find(name: str) -> Opcode | None:
    """The Opcode of a canonical mnemonic (no encoding suffix, no alias), None where there is none."""
    entry = _index().get(name)
    if entry is not None:
        number, section, rest, chosen = entry
        return _EXPANDERS[number][1](parse_row(name, section, rest, chosen))
    if not name.startswith(_MATRIX):
        return None
    # The matrix table is only loaded by kernels that use it.
    from asmgen.isa.opcodes.mfma import MFMA
    row = MFMA.get(name)
    return None if row is None else encodings_vector.expand_matrix(row)


@cache
def opcode(name: str) -> Opcode:
    """The Opcode of a mnemonic; an alias or a name with an encoding suffix resolves too.

    Raises OperandError with the three nearest known mnemonics where there is none.
    """
    found = find(canonical(name)[0])
    if found is None:
        raise OperandError(f"no instruction {name!r} is known; the nearest mnemonics are {', '.join(nearest(name))}")
    return found


@cache
def canonical(name: str) -> tuple[str, str]:
    """A mnemonic as llvm-objdump spells it and its encoding suffix: "v_add_f32_e64" is ("v_add_f32", "_e64").

    Aliases that the assembler accepts are resolved. An unknown name comes back as it is.
    """
    if known(name):
        return name, ""
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            base = name[: -len(suffix)]
            return base if known(base) else _aliases().get(base, base), suffix
    return _aliases().get(name, name), ""


def known(name: str) -> bool:
    """Whether a name is a canonical mnemonic of any architecture."""
    if name in _index():
        return True
    if not name.startswith(_MATRIX) or name == "v_mfma_ld_scale_b32":
        return False
    from asmgen.isa.opcodes.mfma import MFMA
    return name in MFMA


@cache
def _aliases() -> dict[str, str]:
    """Other spellings that LLVM 22 accepts: matrix instructions without underscores and block counts, bf16 also with `_1k`."""
    from asmgen.isa.opcodes.mfma import MFMA
    aliases = {"v_mul_lo_i32": "v_mul_lo_u32", "v_accvgpr_read": "v_accvgpr_read_b32", "v_accvgpr_write": "v_accvgpr_write_b32"}
    for name, row in MFMA.items():
        if row.sparse:
            types = row.a_type + (row.b_type if row.a_type in ("fp8", "bf8") else "")
            aliases[f"v_smfmac_{row.cd_type}_{row.m}x{row.n}x{row.k}{types}"] = name
        if row.sparse or row.scaled or row.a_type not in _OLD_TYPES:
            continue
        old = f"v_mfma_{row.cd_type}_{row.m}x{row.n}x{row.k}{row.a_type}"
        aliases[old] = name
        # The suffix told gfx90a's four-values-a-lane shapes from the older ones with two.
        if row.a_type == "bf16" and row.a_regs == 2:
            aliases[old + "_1k"] = name
    return aliases


@cache
def _all_names() -> tuple[str, ...]:
    from asmgen.isa.opcodes.mfma import MFMA
    return tuple(sorted([*_index(), *MFMA]))


def names(arch: str | None = None) -> list[str]:
    """Every mnemonic in alphabetical order, of one architecture or of any."""
    if arch is None:
        return list(_all_names())
    return [name for name in _all_names() if arch in _archs(name)]


def _archs(name: str) -> frozenset[str]:
    entry = _index().get(name)
    if entry is not None:
        return frozenset({"gfx950"}) if "@gfx950" in entry[2] else BOTH
    from asmgen.isa.opcodes.mfma import MFMA
    return MFMA[name].archs


def nearest(name: str, count: int = 3) -> list[str]:
    """The known mnemonics most like an unknown one."""
    import difflib
    wanted = canonical(name.lower()[:64])[0]
    near = difflib.get_close_matches(wanted, _all_names(), count, 0.6)
    # Comparing with every name in full takes ten times as long, so only text that is like no name pays for it.
    return near if len(near) == count else difflib.get_close_matches(wanted, _all_names(), count, 0.0)
