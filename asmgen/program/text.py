"""Program to assembly text, one instruction a line, with tokens, reasons and comments after it.

The comment forms are read back (asmgen.reader): `; lds write NAME LOW:HIGH` is a token (that of an s_barrier says what waves that go
another way read after theirs), the comment of an s_waitcnt or s_nop is its reason, `; region NAME` begins a region, `; stagger N` says
by how many barriers waves may run out of phase, `; roles LABEL LABEL` at which labels code begins that only some waves of a workgroup have.
"""

from __future__ import annotations

from asmgen.program.program import Align, Instruction, Item, Label, Program, Region

_COMMENT_COLUMN = 64


def program_text(program: Program) -> str:
    """The body of a kernel, from its first instruction to its last."""
    stagger = f"\t; stagger {program.stagger}\n" if program.stagger else ""
    roles = f"\t; roles {' '.join(program.roles)}\n" if program.roles else ""
    return stagger + roles + "".join(f"{_line(item)}\n" for item in program.items)


def _line(item: Item) -> str:
    if isinstance(item, Label):
        return f"{item.name}:"
    if isinstance(item, Align):
        return f"\t.p2alignl {item.bytes.bit_length() - 1}, 0xbf800000"
    if isinstance(item, Region):
        return f"\t; region {item.name}"
    return instruction_line(item)


def instruction_line(instruction: Instruction) -> str:
    """One instruction with its comments."""
    code = f"\t{instruction.text}"
    if not (instruction.tokens or instruction.reason or instruction.comment):
        return code
    comments = [*map(str, instruction.tokens), *(text for text in (instruction.reason, instruction.comment) if text)]
    return f"{code.ljust(_COMMENT_COLUMN)} ; {'; '.join(comments)}"
