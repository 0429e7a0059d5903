"""`python -m tests.random_races [PROGRAMS] [FIRST]`: random programs of two waves over LDS; what is proven never races on the emulator.

A program draws reads, writes, atomics and loads into LDS of bytes that the waves share or not, waits, barriers, loops of known and
unknown rounds over buffers that take turns, branches that all waves take alike, that each takes by its number or by what it read, halves
a barrier apart, waves with loops of their own that count alike or not, partial EXEC, and waves that end early. It runs with several
arguments in several orders of waves.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from asmgen.checks.raceproofs.outcome import PROVEN, RaceProof
from asmgen.checks.raceproofs.raceproof import prove_races
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text
from tests.emulator_launch import launch

BLOCK = (128, 1, 1)
ORDERS = ("lockstep", "serial", "random:1")
# v3: this work-item's dword of its wave's 256 bytes; v4: the other wave's; v5: of the first wave's, in both; v7: as v3, takes turns.
# s20: the wave; s[8:9]: a buffer; s30: the argument; s24: where loads go, takes turns.
BEGIN = """s_load_dwordx2 s[8:9], s[0:1], 0
s_load_dword s30, s[0:1], 8
v_and_b32 v0, 0x3ff, v0
v_lshlrev_b32 v3, 2, v0
v_xor_b32 v4, 0x100, v3
v_and_b32 v5, 0xff, v3
v_mov_b32 v7, v3
v_mov_b32 v8, 0
v_lshrrev_b32 v6, 6, v0
v_readfirstlane_b32 s20, v6
s_lshl_b32 s21, s20, 8
s_mov_b32 s24, 0
s_waitcnt lgkmcnt(0)
"""
REGIONS = (0, 512, 1024, 1536)


@dataclass
class RaceProgram:
    """A program in the making."""

    pick: random.Random
    lines: list[str] = field(default_factory=list)
    labels: int = 0
    ordered: float = 0.8  # how often an access is followed by a wait and a barrier

    def label(self) -> str:
        """A new one."""
        self.labels += 1
        return f"l{self.labels}"

    def access(self) -> None:
        """One access to LDS."""
        pick, place = self.pick, self.pick.choice(REGIONS)
        address = pick.choice(("v3", "v3", "v4", "v5", "v7"))
        kind = pick.randrange(8)
        if kind < 3:
            self.lines.append(f"ds_read_b32 v{pick.choice((8, 10, 11))}, {address} offset:{place}")
        elif kind < 6:
            self.lines.append(f"ds_write_b32 {pick.choice(('v3', 'v7', address))}, v0 offset:{place}")
        elif kind == 6:
            self.lines.append(f"ds_add_u32 {address}, v0 offset:{place}")
        else:
            turn = pick.choice(("s24", str(place)))
            self.lines += [f"s_add_u32 m0, s21, {turn}", "s_nop 4", "global_load_lds_dword v3, s[8:9]"]

    def accesses(self) -> None:
        """Some accesses, seldom under a partial EXEC."""
        partial = self.pick.random() < 0.15
        if partial:
            self.lines.append(f"s_mov_b64 exec, {self.pick.choice(('0xffffffff', 'vcc'))}")
        for _ in range(self.pick.randint(1, 3)):
            self.access()
        if partial:
            self.lines.append("s_mov_b64 exec, -1")

    def wait(self) -> None:
        """A wait, most often for all."""
        if self.pick.random() < 0.7:
            self.lines.append("s_waitcnt vmcnt(0) lgkmcnt(0)")
        else:
            self.lines.append(f"s_waitcnt {self.pick.choice(('vmcnt', 'lgkmcnt'))}({self.pick.randint(0, 2)})")

    def statement(self, depth: int, barriers: bool) -> None:
        """Any statement; with `barriers` it may hold some."""
        kind = self.pick.randrange(15)
        if kind < 5 or depth == 0:
            self.accesses()
            if self.pick.random() < self.ordered:
                self.wait()
                if barriers:
                    self.lines.append("s_barrier")
        elif kind == 5:
            self.wait()
        elif kind == 6 and barriers:
            self.lines.append("s_barrier")
        elif kind == 7:
            self.alike(depth, barriers)
        elif kind == 8:
            self.by_wave(depth, barriers)
        elif kind == 9:
            self.by_data(depth)
        elif kind in (10, 11):
            self.loop(depth, barriers)
        elif kind == 12 and barriers:
            self.late(depth)
        elif kind == 13 and barriers:
            self.roles(depth)
        elif self.pick.random() < 0.2 and barriers:
            self.ends()

    def body(self, depth: int, barriers: bool) -> None:
        """A few statements."""
        for _ in range(self.pick.randint(1, 3)):
            self.statement(depth, barriers)

    def alike(self, depth: int, barriers: bool) -> None:
        """A branch on the argument."""
        over = self.label()
        self.lines += [f"s_bitcmp1_b32 s30, {self.pick.randint(0, 3)}", f"s_cbranch_scc0 {over}"]
        self.body(depth - 1, barriers)
        self.lines.append(f"{over}:")

    def by_wave(self, depth: int, barriers: bool) -> None:
        """A branch on the wave's number, where each way may pass one barrier."""
        over, end = self.label(), self.label()
        both = barriers and self.pick.random() < 0.4
        self.lines += [f"s_cmp_eq_u32 s20, {self.pick.randint(0, 1)}", f"s_cbranch_scc1 {over}"]
        for first in (True, False):
            self.body(depth - 1, False)
            if both:
                self.lines.append("s_barrier")
                self.body(0, False)
            self.lines += [f"s_branch {end}", f"{over}:"] if first else [f"{end}:"]

    def by_data(self, depth: int) -> None:
        """A branch on what was read."""
        over = self.label()
        self.lines += ["s_waitcnt lgkmcnt(0)", f"v_cmp_lt_u32 vcc, {self.pick.choice((3, 64))}, v8", f"s_cbranch_vccz {over}"]
        self.body(depth - 1, False)
        self.lines.append(f"{over}:")

    def loop(self, depth: int, barriers: bool) -> None:
        """A loop whose buffers may take turns; its counter is a register for each depth."""
        head, counter = self.label(), f"s{40 + depth}"
        known = self.pick.random() < 0.5
        self.lines += [f"s_mov_b32 {counter}, {self.pick.randint(1, 4)}"] if known else \
            [f"s_bfe_u32 {counter}, s30, 0x20004", f"s_add_u32 {counter}, {counter}, 1"]
        self.lines.append(f"{head}:")
        self.body(depth - 1, barriers)
        if self.pick.random() < 0.5:
            self.lines += ["v_xor_b32 v7, 0x200, v7", "s_xor_b32 s24, s24, 0x200"]
        self.lines += [f"s_sub_u32 {counter}, {counter}, 1", f"s_cmp_lg_u32 {counter}, 0", f"s_cbranch_scc1 {head}"]

    def roles(self, depth: int) -> None:
        """Each wave has a loop of its own, whose rounds follow from the argument by the same code, or, seldom, by other code."""
        over, end = self.label(), self.label()
        counter, mask = f"s{50 + depth}", self.pick.randint(0, 3)
        self.lines += [f"s_cmp_eq_u32 s20, {self.pick.randint(0, 1)}", f"s_cbranch_scc1 {over}"]
        for first in (True, False):
            head, skip, more = self.label(), self.label(), self.pick.random() < 0.1
            self.lines += [f"s_bfe_u32 {counter}, s30, 0x20004", f"s_add_u32 {counter}, {counter}, {1 + more}", f"{head}:"]
            self.body(0, False)
            self.wait()
            self.lines.append("s_barrier")
            if mask:
                self.lines += [f"s_bitcmp1_b32 {counter}, {mask - 1}", f"s_cbranch_scc0 {skip}"]
            self.body(0, False)
            self.wait()
            self.lines += ["s_barrier", f"{skip}:", f"s_sub_u32 {counter}, {counter}, 1", f"s_cmp_lg_u32 {counter}, 0",
                           f"s_cbranch_scc1 {head}"]
            self.lines += [f"s_branch {end}", f"{over}:"] if first else [f"{end}:"]

    def late(self, depth: int) -> None:
        """One wave runs a barrier late."""
        for wave in (0, 1):
            over = self.label()
            self.lines += [f"s_cmp_eq_u32 s20, {wave}", f"s_cbranch_scc1 {over}", "s_barrier", f"{over}:"]
            if not wave:
                self.body(depth - 1, True)

    def ends(self) -> None:
        """One wave ends here."""
        over = self.label()
        self.lines += [f"s_cmp_eq_u32 s20, {self.pick.randint(0, 1)}", f"s_cbranch_scc1 {over}"]
        self.lines += ["s_waitcnt vmcnt(0) lgkmcnt(0)", "s_endpgm", f"{over}:"]


def race_program(seed: int) -> Program:
    """The program of a seed."""
    made = RaceProgram(random.Random(seed))
    made.ordered = made.pick.choice((0.7, 0.95, 1.0))
    for _ in range(made.pick.randint(2, 6)):
        made.statement(2, True)
    text = "\n".join([*made.lines, "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_endpgm", ""])
    (program,) = read_text(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\nk:\n.type k,@function\n{BEGIN}{text}.size k, .-k\n', None, "k",
                           f"random_{seed}.s")
    return program


def races_seen(program: Program, arguments: tuple[int, ...] = (0, 21, 63, 0x35)) -> bool:
    """Whether the emulator finds a race in LDS with any of the arguments in any order."""
    data = np.arange(4096, dtype=np.uint32)
    return any("lds-race" in launch("gfx950", program, block=BLOCK, buffers=[data], values=[value], lds=4096, order=order).checks
               for value in arguments for order in ORDERS)


def judged(seed: int) -> tuple[RaceProof, bool]:
    """What is proven of a program, and whether it races on the emulator."""
    program = race_program(seed)
    return prove_races(program, BLOCK), races_seen(program)


def main() -> int:
    """A table of verdicts against races; status 1 where a proven program races."""
    count, first = ([int(word) for word in sys.argv[1:]] + [1000, 0][len(sys.argv) - 1:])[:2]
    table: Counter[tuple[str, bool]] = Counter()
    wrong = []
    for seed in range(first, first + count):
        proof, races = judged(seed)
        table[proof.status, races] += 1
        if proof.status == PROVEN and races:
            wrong.append(seed)
    for (status, races), number in sorted(table.items()):
        print(f"{status:8} {'races' if races else 'no race'}: {number}")
    print(f"proven and racy: {wrong}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
