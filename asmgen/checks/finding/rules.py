"""Every rule of lint: id, severity, title and explanation. `asmgen explain ID` prints them.

W: wait counters (asmgen.checks.waits.verify). E: encoding traps. R: registers. L: lint's own. A: of `asmgen audit`. Wait states have
the ids of their rows (isa/waitrules.py) and errata of operands theirs (isa/errata.py), from which their text is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from asmgen.isa.errata import ERRATA, PACKED_ODD_LOW, Erratum
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted
from asmgen.isa.waitrules import CLASSES, RELATIONS, ROLES, RULES, WaitRule

SEVERITIES = ("error", "warning", "note")
NO_DOUBT = frozenset({"W004", "W005", "W006", "W007", "W008", "W009", "W010", "W013", "E006", "R002", "R003", "R004", "A004"})
"""Rules whose notes do not say that a result may be wrong. Most are about time. Data in flight at a barrier (W004) is wrong where waves
race, which `asmgen prove` says apart; LDS keeps the order of loads over loads (W009); fp8 means what the code object's own architecture
means by it (E006); what nobody reads (R002, R003) changes nothing. Others are of rules that one source asks for, or on some way."""


@dataclass(frozen=True)
class LintRule:
    """One rule; `severity` is the usual one, a finding may be milder for a reason that its message gives."""

    id: str
    severity: str
    title: str
    text: str


_TABLE = (
    LintRule("W001", "error", "register touched before its load has arrived",
         "A load, an LDS read or an atomic with return fills its registers some time after it was issued. Whoever reads or overwrites them "
         "earlier gets, or loses, whatever arrives when. A wait for the counter (vmcnt, lgkmcnt; flat: both) must stand between, for at "
         "most "
         "as many operations as were issued after the load in its own order; scalar loads come in any order and need lgkmcnt(0). A "
         "vector-memory load over an older one needs no wait. It is a warning where the path may be impossible, where EXEC was replaced in "
         "between (loads and writes of one register under disjoint masks do not meet), where only a full counter holds the load back, "
         "and in "
         "foreign code where the register is only overwritten (an unwanted last prefetch may have landed long before)."),
    LintRule("W002", "error", "other waves' data not waited for before the barrier",
         "LDS bytes that a token names are filled by one wave and read by another, or read by one and refilled by another. A wait "
         "covers the "
         "wave's own operations only, so each wave must wait for its fills (or its reads) before the barrier that lets the others go on; "
         "with a stagger of n barriers, before the barrier from which the read or refill is at most n more barriers away. Without tokens "
         "the addresses count, where they follow from constants and the work-item's number, and which waves pass barriers alone and are "
         "after from there on. It is an error where different waves surely touch the same bytes, a warning where the path may be "
         "impossible, where EXEC or the ways of waves are not known, or where all waves may write the same. A wave's own bytes are no "
         "matter, a token's neither where addresses or a workgroup of one wave say so: LDS operations of one wave keep their order. "
         "Loads into LDS do not keep it with them (W001, W011). Of loops two to four rounds are written out where buffers take turns."),
    LintRule("W003", "error", "too few barriers between a wait and who relies on it",
         "Waves of a workgroup may be one or more barriers out of phase (stagger). A fill must have been waited for by its own wave at "
         "least "
         "1 + stagger barriers before another wave reads it, and the last read likewise before the buffer is refilled. Waves of different "
         "roles are compared by the ordinals of their barriers, on every path: no role may read what another one fills meanwhile. Without "
         "tokens, known addresses count, as for W002, and a wave's own bytes are no matter."),
    LintRule("W004", "note", "LDS data in flight at a barrier",
         "An LDS write or a load into LDS is still in flight when the wave arrives at s_barrier. s_barrier does not wait for it, so it may "
         "be read by other waves after the barrier before it has landed. That is right only if nobody reads those bytes so soon. Code "
         "without tokens does not say who reads what, so this is a note there, one for each group of loads (and each round of a loop) that "
         "one wait would cover: a kernel with several buffers has the newer groups in flight on purpose. It is a warning where no wait "
         "ever ends the flight, round after round of a loop. An LDS read in flight, after whose barrier something writes LDS, is a note "
         "where one of the addresses is not known; where both are, W002 tells."),
    LintRule("W005", "note", "wait stricter than needed",
         "The first instruction that needs something of what this wait let arrive would be served by a larger count: newer operations "
         "could "
         "stay in flight meanwhile. The count in the message is the loosest that keeps every use right."),
    LintRule("W006", "note", "wait that does nothing",
         "On every path, no more operations can be outstanding than the wait allows, or nothing of what it waits for is used after it. The "
         "instruction is a wait state all the same. Where two others need it as one, the message says which: s_nop 0 must take its place. "
         "All others of which nothing is said can be deleted together."),
    LintRule("W007", "warning", "wait count that waits for nothing",
         "The field of vmcnt has 6 bits, that of lgkmcnt 4: 63 and 15 mean \"no wait\". The largest counts with an effect are 62 and 14. "
         "It is a note where all three fields are named, with their largest values: so objdump prints what a compiler found needless."),
    LintRule("W008", "note", "operation that may stall on a full counter",
         "The counter vmcnt goes to 63, lgkmcnt to 15. One more operation is not issued until an older one has completed, and the wave "
         "stands."),
    LintRule("W009", "note", "LDS load over an LDS load in flight",
         "Two LDS operations write one register without a wait between. LDS completes in order, so the newer value wins; LLVM inserts a "
         "wait."),
    LintRule("W010", "note", "loop that is not steady from its first round on",
         "What is in flight where the loop is entered differs from what its back-edge brings. The waits inside have to serve both, so the "
         "stricter of the two counts holds in every round."),
    LintRule("W011", "warning", "LDS bytes that a load into LDS in flight and another access both touch",
         "M0, the offset and the read's address follow from constants and the work-item's number, and a load into LDS that has not been "
         "waited for fills bytes that the instruction reads, for its own wave or for another one, which runs the same code, or that it "
         "writes, for its own wave. A wait for the load must stand between, for another wave a barrier too. Or it is the load that comes "
         "second, while the wave's own LDS read or write of these bytes has not been waited for: the two go to LDS on ways of their own. "
         "It is a warning, as the path may be impossible and the workgroup smaller than its limit."),
    LintRule("W012", "warning", "waves that end out of phase",
         "A program with a stagger delays half of its waves by one or more barriers through a conditional branch over s_barrier, and "
         "brings the other half level by the same branch with the opposite condition. On a path to s_endpgm one of the two is missing. "
         "A wave that has ended holds no barrier up, so nothing hangs, but the halves ran in another phase than the schedule was made "
         "for."),
    LintRule("W013", "note", "halves of a workgroup that compute at the same time",
         "With a stagger, half of the waves are where the other half was one or more barriers before. Ping-pong has one half compute "
         "while the other one reads memory; here there are MFMAs in both places. Results are right, but the matrix cores are asked for "
         "twice now and not at all at another time. At the end of a loop, where barriers are left out, that costs nothing."),
    LintRule("W014", "warning", "waves that part and do not pass the same barriers",
         "The waves of a workgroup go different ways at a branch whose condition follows from the work item's number, and one way "
         "has fewer barriers than the other before they meet again or end. A barrier lets waves go on when all have arrived at theirs, "
         "wherever it stands: those with fewer are a barrier ahead from there on, or, where no barrier follows, the others wait at their "
         "last one until these have ended. Only code with tokens or a stagger is judged; not ways with a loop over barriers, roles, "
         "which have barriers of their own, nor waves that end at once."),
    LintRule("W015", "error", "waves that race in LDS",
         "Two waves of a workgroup may touch the same bytes of LDS at once, and one of them writes: on the ways that lead there no "
         "barrier, or no wait before it, orders the two. Addresses follow from constants and the work-item's number, ways through loops "
         "and branches that all waves take alike are followed; where anything speaks against the race, nothing is said. `asmgen prove` "
         "says of a whole kernel whether there is none. One race is named of a kernel, none where W002 or W003 is an error. It is a "
         "warning where the metadata allows 1,024 work-items, as it does where nobody said how many there are."),
    LintRule("E001", "error", "buffer offset beyond 4095",
         "The offset of MUBUF and MTBUF has 12 bits. LLVM 22's assembler takes 4096 and encodes 0: another address than was written."),
    LintRule("E002", "warning", "s_nop above 15",
         "Only bits 3:0 of the operand count: s_nop 16 is one wait state, as s_nop 0. Use two s_nops."),
    LintRule("E003", "error", "more LDS than the architecture has",
         "A workgroup has 65536 bytes of LDS on gfx942 and 163840 on gfx950. The assembler accepts 163840 for both."),
    LintRule("E004", "error", "more than 16 user SGPRs",
         "The hardware fills at most 16 user SGPRs, preloaded kernel arguments included. The assembler does not check."),
    LintRule("E005", "warning", "matrix result wider than 4 registers overlaps A or B",
         "Where D has more than 4 registers, the matrix core writes parts of it while it still reads A and B. The assembler "
         "diagnoses an overlap with C only. Compilers keep D apart from A and B where C is a register; where C is a constant they have "
         "been seen to let D overlap A."),
    LintRule("E006", "note", "fp8 means another format on the other architecture",
         "Types fp8 and bf8 are FNUZ (bias 8 and 16, 0x80 is NaN, no infinity) on gfx942 and OCP e4m3fn and e5m2 on gfx950. The same "
         "data differ by a "
         "factor of two, so data and code must be for the same architecture."),
    LintRule("E007", "warning", "buffer offsets beyond the descriptor or beyond 32 bits",
         "A buffer address is the descriptor's 48-bit base plus a 32-bit offset. Scalar and immediate offset together must stay below "
         "2^32, and "
         "a scalar offset beyond num_records is unspecified. Where both are constants lint can tell; larger tensors need a moved base."),
    LintRule("E008", "warning", "kernel without an end",
         "Waves run past the last instruction of the kernel and take for code whatever comes after it. An s_endpgm, or a branch, must be "
         "the last instruction on every way. Only kernels with a descriptor are judged."),
    LintRule("R001", "error", "register beyond the kernel's allocation",
         "The descriptor allocates a number of vector registers, rounded up to 8, split at accum_offset into v# and a#. v# at or above "
         "accum_offset is legal, it names an AGPR; a register at or above the total is not there."),
    LintRule("R002", "note", "result that nobody reads",
         "The instruction's registers are overwritten, or the kernel ends, before anything reads them. Writes under a partial EXEC are not "
         "taken as overwriting, so a finding is certain, but not every such instruction is found."),
    LintRule("R003", "note", "load that nobody reads",
         "What a load brings is never read. It costs bandwidth, a place in the queue and registers; as a prefetch into the caches it "
         "may be meant."),
    LintRule("R004", "note", "a few registers short of the next occupancy step",
         "Waves per SIMD follow from the registers allocated: 512 divided by them, at most 8. This kernel misses the next step by 8 or "
         "fewer, and its LDS would not stand in the way."),
    LintRule("R005", "warning", "register read before anything wrote it",
         "When the instruction runs for the first time, nothing on any way from the beginning has written the register, and the descriptor "
         "does not fill it either. It holds what another kernel left there: an EXEC, an M0, an address or an accumulator of chance. It is "
         "a note where bits are only moved, selected or converted, masks combined, or a store's data meant, as compilers let parts "
         "that mean nothing go that way, where the upper half of a sum is meant of which the lower one alone is read, and in a text that "
         "reads many such registers, which is a piece of a kernel. Only kernels with a descriptor are judged, and none that call."),
    LintRule("A001", "error", "code that cannot be read",
         "Of `asmgen audit`: the file, an archive's member, a code object or one of its kernels cannot be opened, or has an instruction "
         "that asmgen does not know. The message says which and why. Nothing else is known of it; the audit goes on with the next."),
    LintRule("A002", "error", "asmgen failed",
         "Of `asmgen audit`: asmgen itself failed at this kernel, which no input should cause. The message names the line of asmgen."),
    LintRule("A003", "error", "not judged to the end",
         "Of `asmgen audit`: the code object took longer than --limit allows, or the process that read it was killed, as happens where "
         "memory runs out. Other code objects are judged all the same."),
    LintRule("A004", "note", "a code object without code",
         "Of `asmgen audit`: the code object has no kernel and no function, as compilers make them of files without any."),
    LintRule("L001", "warning", "a comment silences a rule that does not exist",
         "The comment `; lint: off W001` silences W001 on its line, several ids with blanks between. An unknown id silences nothing."),
)


@cache
def rules() -> dict[str, LintRule]:
    """Every rule by id, in order."""
    return {rule.id: rule for rule in (*_TABLE, _erratum_rule(PACKED_ODD_LOW), *map(_wait_state_rule, RULES))}


def rule(name: str) -> LintRule:
    """The rule of an id, in any case of letters. Raises AsmgenError with the nearest ids."""
    known = rules()
    for candidate in (name, name.upper(), name.lower()):
        if candidate in known:
            return known[candidate]
    alike = [candidate for candidate in known if _short(candidate) == _short(name)]
    near = ", ".join(dict.fromkeys([*alike, *get_close_matches(name, known, 3 - len(alike))])) or "W001"
    raise AsmgenError(f"there is no rule {quoted(name)}; the nearest are {near}. A place is written FILE:LINE, or FILE:0xADDRESS for a "
                      f"code object")


def _short(name: str) -> str:
    """An id without the zeros before its number: W1 for W01 and W001."""
    return re.sub(r"(?<=^[A-Z])0+(?=\d)", "", name.upper())


def _erratum_rule(row: Erratum) -> LintRule:
    text = f"{row.where} on {', '.join(row.archs)}: {row.what}. It happens where {row.condition}. " \
           f"Concerned are {', '.join(sorted(row.mnemonics))}. What works: {row.cure}. " \
           "An error in a program with matrix instructions, a warning in one without, as another wave of the SIMD may run some, and " \
           f"where the pair is exchanged. How sure: {row.sure}. Source: {row.source}."
    return LintRule(row.id, "error", f"erratum: {row.where.partition(' (')[0]}", text[0].upper() + text[1:])


def _wait_state_rule(row: WaitRule) -> LintRule:
    who = {"both": "the ISA text and LLVM 22 both ask for it", "isa": "the ISA text asks for it, LLVM 22 does not",
           "llvm": "LLVM 22 asks for it, the ISA text does not",
           "open": "neither the ISA text nor LLVM 22 asks for it, but a finding that is open does"}[row.asked_by]
    if row.doubt:
        who = f"LLVM 22 asks for it, and so does the ISA text when read widely, but {row.doubt}"
    figures = []
    for arch in sorted(row.archs):
        constant = row.states.gfx950 if arch == "gfx950" else row.states.gfx942
        if row.states.passes:
            states = ", ".join(f"{row.states_on(arch, passes)} after {passes} passes" for passes in (2, 4, 8, 16))
            figures.append(f"{arch}: {states}")
        else:
            figures.append(f"{arch}: {constant}")
    open_finding = "".join(f" {found.what[0].upper()}{found.what[1:]}: {found.sure}." for found in ERRATA if found.id == row.id)
    producer, consumer = row.roles
    what = f"where {ROLES[producer]} of the first meet {ROLES[consumer]} of the second" if producer != "any" else "whatever their registers"
    relation = f" ({RELATIONS[row.relation]})" if row.relation else ""
    text = f"{CLASSES[row.producer]}, then {CLASSES[row.consumer]}, {what}{relation}. Wait states that must lie between: " \
           f"{'; '.join(figures)}. " \
           f"The hardware does not check; {who}. " \
           f"Every instruction is one wait state, s_nop n is n + 1.{open_finding} Source: {_source(row.source)}."
    return LintRule(row.id, row.severity, f"wait states: {row.text}", text[0].upper() + text[1:])


def _source(citation: str) -> str:
    """A citation written out: F is the facts file."""
    return f"docs/facts/instructions.md section {citation[2:]}" if citation.startswith("F ") else citation
