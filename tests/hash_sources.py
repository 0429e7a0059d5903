"""`python -m tests.hash_sources [FIRST] [COUNT]`: the expression of every vector instruction depends on each register that it takes.

Of each mnemonic of gfx950 that computes lane by lane, each source register holds another input in turn, whole or in its lower half alone.
Where the result has other bits in some lane, its hash must be another one there, or unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from asmgen.isa.errors import AsmgenError
from asmgen.isa.opcode import OperandSpec
from asmgen.isa.table import names, opcode
from tests.emulator.test_expression_hashes import INPUTS, Hashed

_ACROSS = ("v_cmp", "v_read", "v_write", "v_permlane", "v_swap", "v_nop", "v_clrexcp", "v_accvgpr", "v_mfma", "v_smfmac", "v_movrel",
           "v_prng", "v_screen")
_DOUBLE = ("f64", "b64", "u64", "i64")
_SOURCES, _RESULT, _OLD = 32, 64, 20
_BASE = "".join(f"v_mov_b32 v{_SOURCES + number}, v{number % INPUTS}\n" for number in range(32)) + \
    "".join(f"v_mov_b32 v{_RESULT + number}, v{INPUTS - 1 - number}\n" for number in range(2))


def _registers(place: OperandSpec) -> int:
    return max(place.width, 2 if place.type in _DOUBLE else 1)


def instructions() -> Iterator[tuple[str, list[int], int]]:
    """Each instruction, the registers that it takes, and how many it writes."""
    for name in names("gfx950"):
        row = opcode(name)
        if "valu" not in row.classes or name.startswith(_ACROSS):
            continue
        form = next((one for one in row.forms if one.encoding in ("VOP3P", "VOP3")), row.forms[0])
        if form.encoding in ("DPP", "SDWA"):
            continue
        texts, sources = [], list[int]()
        for number, place in enumerate(form.operands):
            count = _registers(place)
            if number and place.type == "b64" and place.name in ("vcc", "sdst", "src2"):
                texts.append("vcc")
                continue
            first = _RESULT if not number else _SOURCES + len(sources)
            texts.append(f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}")
            sources += range(first, first + count) if number else ()
        yield f"{name} {', '.join(texts)}", sources, _registers(form.operands[0])


def run(text: str) -> Hashed:
    """An instruction after its sources got their inputs."""
    hashed = Hashed()
    hashed.text(_BASE + text)
    return hashed


def wrong(text: str, sources: list[int], results: int) -> list[int]:
    """The source registers on which other bits depend, but not the hash. Raises AsmgenError for what does not run."""
    plain, found = run(text), []
    for source in sources if len(sources) < 6 else (*sources[:2], sources[len(sources) // 2], sources[-1]):
        other = (source + 3) % INPUTS
        half = f"v_mov_b32 v{_OLD}, 0xffff\nv_bfi_b32 v{source}, v{_OLD}, v{other}, v{source}\n"
        for change in (f"v_mov_b32 v{source}, v{other}\n", half):
            changed = run(change + text)
            if any(((plain.of(register) == changed.of(register)) & ~plain.unknown(register)
                    & (plain.machine.vector[register, 0] != changed.machine.vector[register, 0])).any()
                   for register in range(_RESULT, _RESULT + results)):
                found.append(source)
                break
    return found


def main(arguments: list[str]) -> int:
    """Prints what is wrong, and how many were looked at; status 1 where something is."""
    first, count = ([int(word) for word in arguments] + [0, 10_000][len(arguments):])[:2]
    looked = failed = 0
    for text, sources, results in list(instructions())[first:first + count]:
        try:
            bad = wrong(text, sources, results)
        except (AsmgenError, ValueError) as problem:
            print(f"not run: {text}: {problem}")
            continue
        looked, failed = looked + 1, failed + bool(bad)
        if bad:
            print(f"wrong: {text}: v{bad}")
    print(f"{looked} instructions, {failed} wrong")
    return min(1, failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
