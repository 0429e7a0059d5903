"""Programs that are legal and that nobody would write, by number: what readers, checkers and reports must come through.

EXEC is written in each way that the ISA has, M0 likewise, by whole registers and halves; branches go anywhere, into loops, to themselves,
to the end, to computed addresses; code is unreachable, falls off the end, has data in it. In between stand LDS, memory and matrix
instructions with addresses that constants and work-items give, and random legal ones of the whole table.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from asmgen.codeobject.directives import KernelResources, file_trailer, header, kernel_trailer
from asmgen.isa.arch import ARCHITECTURES
from asmgen.isa.table import names, opcode
from asmgen.tools.instructionsamples import legal
from asmgen.tools.oddlines import CHOICES, lines_of

_BLOCKS = ((64, 1, 1), (256, 1, 1), (8, 8, 2), (100, 1, 1), (512, 1, 1), (1024, 1, 1), (1, 1, 1), None)
_KINDS = ("exec", "exec", "m0", "lds", "lds", "lds", "memory", "matrix", "vector", "scalar", "waits")
_CONTROL = frozenset({"s_setpc_b64", "s_swappc_b64", "s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done"})
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class OddProgram:
    """The text of one kernel, as clang takes it. `data`: it holds random words, which may be no instruction and then are refused."""

    number: int
    arch: str
    text: str
    data: bool


def odd_program(number: int, seed: int = 0) -> OddProgram:
    """Program `number` of a seed: the same text always. The architectures take turns."""
    arch = tuple(ARCHITECTURES)[number % len(ARCHITECTURES)]
    writer = _Writer(random.Random(f"{seed} {number}"), arch, number)
    return OddProgram(number, arch, writer.text(), writer.random_words)


class _Writer:
    """Writes one program, part by part. Each part has a label, and its end goes to any of them."""

    def __init__(self, chance: random.Random, arch: str, number: int) -> None:
        self.chance, self.arch, self.name = chance, arch, f"odd{number}"
        self.prefix = chance.choice(("", ".L")) + self.name  # a code object keeps labels without .L
        self.lines: list[str] = []
        self.parts = chance.randrange(2, 9)
        self.made = 0  # labels besides those of parts
        self.called = False  # whether the program calls its function
        self.random_words = False

    def text(self) -> str:
        """The whole file."""
        block = self.chance.choice(_BLOCKS)
        most = block[0] * block[1] * block[2] if block is not None else 256
        registers = 256 if most <= 256 else 64
        # The wave's number in s4, LDS addresses in v1 and v2.
        self.say("v_and_b32 v1, 0x3ff, v0", "v_lshrrev_b32 v2, 6, v1", "v_readfirstlane_b32 s4, v2", "v_lshlrev_b32 v1, 2, v1",
                 "s_movk_i32 s5, 3", "s_mov_b32 s16, 0x100", "v_mov_b32 v2, 0")
        for part in range(self.parts):
            self.label(self.part(part))
            for _ in range(self.chance.randrange(1, 7)):
                self.piece()
            self.leave(part)
        self.label(self.part(self.parts))
        if self.chance.random() < 0.8:
            self.say("s_endpgm")
        code, self.lines = self.lines, []
        if self.called:
            self.function()
        resources = KernelResources(self.name, self.arch, vgprs=registers, sgprs=100, agprs=registers, max_flat_workgroup_size=most,
                                    lds_bytes=self.chance.choice((0, 512, 16384, 65536)), reqd_workgroup_size=block,
                                    workitem_id=self.chance.randrange(3))
        return "".join((header(resources), *(f"{line}\n" for line in code), kernel_trailer(resources),
                        *(f"{line}\n" for line in self.lines), file_trailer([resources])))

    def say(self, *lines: str) -> None:
        """Write lines of code; places in braces are filled."""
        self.lines += [f"\t{_FIELD.sub(lambda place: self.chance.choice(CHOICES[place[1]]), line)}" for line in lines]

    def label(self, name: str) -> None:
        """Write a label."""
        self.lines.append(f"{name}:")

    def part(self, number: int) -> str:
        """The label of a part."""
        return f"{self.prefix}_part{number}"

    def anywhere(self) -> str:
        """The label of any part, the end among them."""
        return self.part(self.chance.randrange(self.parts + 1))

    def fresh(self) -> str:
        """A label that no part has."""
        self.made += 1
        return f"{self.prefix}_inner{self.made}"

    # ---- what parts are made of ----

    def piece(self) -> None:
        """A few instructions of one kind."""
        kind = self.chance.randrange(12)
        if kind == 0:
            self.guarded()
        elif kind == 1:
            self.loop()
        elif kind < 4:
            self.any_instructions()
        elif kind < 6:
            self.from_known_values()
        else:
            self.some(*_KINDS)

    def some(self, *kinds: str) -> None:
        """A line of one of these kinds."""
        self.say(self.chance.choice(lines_of(self.chance.choice(kinds), self.arch)))

    def any_instructions(self) -> None:
        """Random ones of the whole table, but for those that go elsewhere."""
        for _ in range(self.chance.randrange(1, 4)):
            row = opcode(self.chance.choice(names(self.arch)))
            forms = [form for form in row.forms if not form.archs or self.arch in form.archs]
            labels = any("b" in place.accepts for form in forms for place in form.operands)
            if forms and not labels and row.name not in _CONTROL and "branch" not in row.classes:
                self.lines.append("\t" + legal(self.chance, row, self.chance.choice(forms), self.arch).text())

    def from_known_values(self) -> None:
        """EXEC and M0 that follow from constants and the wave's number by a step or two, and LDS under them."""
        pair = self.chance.choice(CHOICES["pair"])
        self.say("s_mov_b64 exec, -1", "v_lshlrev_b32 v1, 2, v0", f"s_mov_b64 {pair}, {{wide}}", "s_mov_b32 m0, {constant}",
                 self.chance.choice((f"s_mov_b64 exec, {pair}", f"s_{{logic}}_b64 exec, exec, {pair}", "s_mov_b64 exec, {wide}",
                                     f"s_{{saved}}_saveexec_b64 {pair}, {{wide}}", "v_cmpx_{relation}_{kind} {mask}, 2, v1")))
        for _ in range(self.chance.randrange(3)):
            self.some("exec", "m0", "scalar")
        for _ in range(self.chance.randrange(1, 4)):
            self.some("lds")

    def guarded(self) -> None:
        """Code of some lanes; EXEC is restored or not."""
        over, pair = self.fresh(), self.chance.choice(("s[6:7]", "s[8:9]", "s[100:101]"))
        self.say("v_cmp_{relation}_{kind} vcc, {small}, v1", f"s_{{saved}}_saveexec_b64 {pair}, vcc")
        if self.chance.random() < 0.7:
            self.say(f"s_cbranch_{{condition}} {over}")
        self.some("lds", "memory", "vector", "m0", "waits")
        self.label(over)
        if self.chance.random() < 0.7:
            self.say(self.chance.choice((f"s_or_b64 exec, exec, {pair}", f"s_mov_b64 exec, {pair}", f"s_xor_b64 exec, exec, {pair}")))

    def loop(self) -> None:
        """A loop that counts, one that takes lanes out of EXEC, or one whose end nobody knows."""
        head, kind = self.fresh(), self.chance.randrange(4)
        if kind == 0:
            self.say(f"s_movk_i32 s18, {self.chance.randrange(1, 9)}")
        self.label(head)
        for _ in range(self.chance.randrange(4)):
            self.some("lds", "matrix", "memory", "vector", "waits", "m0", "exec")
        if kind == 0:
            self.say("s_sub_u32 s18, s18, 1", "s_cmp_lg_u32 s18, 0", f"s_cbranch_scc1 {head}")
        elif kind == 1:
            self.say("v_readfirstlane_b32 s9, v1", "v_cmp_eq_u32 vcc, s9, v1", "s_and_saveexec_b64 s[6:7], vcc", "ds_read_b32 v3, v1",
                     "s_{logic}_b64 exec, exec, s[6:7]", f"s_cbranch_execnz {head}")
        elif kind == 2:
            self.say("s_lshl_b64 exec, exec, {small}", f"s_cbranch_{{condition}} {head}")
        else:
            self.say(f"s_cbranch_{{condition}} {self.chance.choice((head, self.anywhere()))}")

    # ---- how a part ends ----

    def leave(self, part: int) -> None:
        """To any part, or on to the next."""
        there, here, kind = self.anywhere(), self.part(part), self.chance.randrange(15)
        if kind < 4:
            self.say(f"s_cbranch_{{condition}} {there}")
        elif kind == 4:
            self.say(f"s_branch {there}")
            self.data()
        elif kind == 5:
            self.say(f"s_cbranch_{{condition}} {here}")
        elif kind == 6:
            self.say(f"s_cbranch_{{condition}} {there}", f"s_branch {self.anywhere()}")
        elif kind == 7:
            self.say(self.chance.choice(("s_endpgm", "s_endpgm_saved", f"s_branch {here}")))
            self.data()
        elif kind == 8:
            self.jump_to_address(there)
        elif kind == 9:
            self.say(self.chance.choice((f"s_call_b64 s[30:31], {there}", "s_swappc_b64 s[30:31], s[20:21]",
                                         "s_swappc_b64 {mask}, s[20:21]")))
        elif kind == 10:
            self.say(self.chance.choice((f"s_cbranch_i_fork {{mask}}, {there}", "s_cbranch_g_fork s[6:7], s[8:9]", "s_cbranch_join s5",
                                         "s_setpc_b64 s[30:31]", "s_rfe_b64 s[30:31]", f"s_cbranch_cdbguser {there}")))
        elif kind == 11:
            self.say(f"s_cbranch_{{condition}} {self.chance.randrange(4)}")

        elif kind == 12:
            self.called = True
            self.jump_to_address(f"{self.name}_function")

    def function(self) -> None:
        """A function after the kernel that may return."""
        name, back = f"{self.name}_function", self.fresh()
        self.lines += ["\t.text", f"\t.type {name},@function", f"{name}:"]
        for _ in range(self.chance.randrange(4)):
            self.piece()
        self.label(back)
        self.say(self.chance.choice(("s_setpc_b64 s[30:31]", "s_setpc_b64 s[30:31]", "s_endpgm", f"s_cbranch_{{condition}} {back}")))
        self.lines.append(f"\t.size {name}, .-{name}")

    def jump_to_address(self, target: str) -> None:
        """A jump to an address of the program's own text, by s_getpc_b64."""
        base = self.fresh()
        self.say("s_getpc_b64 s[20:21]")
        self.label(base)
        self.say(f"s_add_u32 s20, s20, {target}-{base}", "s_addc_u32 s21, s21, {few}",
                 self.chance.choice(("s_setpc_b64 s[20:21]", "s_swappc_b64 s[30:31], s[20:21]")))
        self.data()

    def data(self) -> None:
        """Words that are no code, where none runs."""
        if self.chance.random() < 0.4:
            word = f".long {self.chance.randrange(1 << 32):#x}"
            chosen = self.chance.choice((word, ".long 0xbf800000, 0", ".p2align 6", ".fill 4, 4, 0xbf800000", ".quad 0x123456789"))
            self.random_words |= chosen == word
            self.say(chosen)
