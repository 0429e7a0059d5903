"""`python -m asmgen.tools.edgeproofs [KERNEL ...]`: faults at edges and at 4 GiB, and what `asmgen prove` says of them and of their right
twins.

- edge: a comparison takes equality in or leaves it out, or a constant beside a size is one off: last tiles, odd steps, edges of masks.
- 4 GiB: the contract allows a stride any 32-bit number, though offsets in the code have 32 bits.

The twin is the kernel as it is. All have the index claim of `asmgen prove`; strides share the twin's launches. An edge is equivalent where
its outputs are the twin's bit for bit on launches of `asmgen.tools.mutate --index`, and on some that met both sides of where each
comparison turns that it feeds; without such it is "not told". Strides for which no wrap is found are listed: the code multiplies them in 64
bits, or does not read them, or a wrap was missed, which only a reader can tell apart; so are edges that a few launches call equivalent. The
status is 1 where an edge that is not equivalent is proven, or a twin refuted.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import click

from asmgen.author.family.family import Family
from asmgen.checks.mutants.mutants import Mutant
from asmgen.kernels.registry import family as find_family
from asmgen.program.program import Instruction, Program
from asmgen.reader.assembly import read_text
from asmgen.tools.indexruns import IndexJudge
from asmgen.tools.metedges import MetEdges
from asmgen.tools.mutantruns import Runs
from asmgen.tools.proofs.disjointwrites import is_stride
from asmgen.tools.proofs.proof import PROVEN, REFUTED, UNKNOWN, Claim
from asmgen.tools.proofs.runclaims import index_claim, index_claims
from asmgen.tools.proofsweep import default_builds
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.terminal.entry import status_of

KERNELS = ("02-row-sum", "norm", "softmax", "quantize", "gemm-bf16", "gemm-fp8")
_EQUALITY = {"_lt_": "_le_", "_le_": "_lt_", "_gt_": "_ge_", "_ge_": "_gt_"}
_BESIDE = ("s_add_i32", "s_add_u32", "s_sub_u32", "s_sub_i32", "v_add_u32", "v_sub_u32", "s_min_u32", "s_min_i32")
_ANY_STRIDE = (1 << 32) - 64
_NO_WRAP = "no wrap"


def edge_faults(program: Program) -> Iterator[Mutant]:
    """Each comparison with the other kind of inequality, each small constant of a sum or minimum one larger."""
    for old in program.instructions:
        new = _changed(old, program.arch)
        if new is not None:
            items = [new if item is old else item for item in program.items]
            yield Mutant("edge", f"{old.text} becomes {new.text}", old, program.with_items(items))


def _changed(old: Instruction, arch: str) -> Instruction | None:
    if old.name.startswith(("s_cmp_", "v_cmp_")):
        name = next((old.name.replace(part, other) for part, other in _EQUALITY.items() if part in old.name), None)
        if name is None:
            return None
        (other,) = read_text(f"{old.text.replace(old.name, name, 1)}\ns_endpgm\n", arch)
        return replace(old, opcode=other.instructions[0].opcode, form=other.instructions[0].form)
    if old.name in _BESIDE:
        for place, operand in enumerate(old.operands):
            if place and isinstance(operand, int) and operand in (1, -1):
                return replace(old, operands=(*old.operands[:place], operand + 1, *old.operands[place + 1:]))
    return None


def wide_strides(built: Built) -> Iterator[tuple[str, Built]]:
    """The kernel under contracts that leave out what bounds one stride. One that may have 32 bits anyway is none."""
    contract = built.kernel.contract
    taken = {argument.name for argument in contract.arguments}
    for parameter in contract.parameters:
        if parameter.name in taken and is_stride(parameter) and parameter.maximum is not None and parameter.maximum < _ANY_STRIDE:
            parameters = tuple(replace(one, maximum=_ANY_STRIDE) if one is parameter else one for one in contract.parameters)
            rules = tuple(rule for rule in contract.rules if parameter.name not in rule.reads)
            wide = replace(contract, parameters=parameters, rules=rules)
            yield parameter.name, replace(built, kernel=replace(built.kernel, contract=wide))


def strides(wide: Sequence[tuple[str, Built]], claims: Sequence[Claim]) -> Iterator[tuple[str, str, str]]:
    """(kind, fault, status) of strides that contracts do not bound, after their claims."""
    for (name, _), claim in zip(wide, claims, strict=True):
        yield "4 GiB", _with_why(name, claim), _NO_WRAP if claim.status == PROVEN else claim.status


def edges(family: Family, built: Built, count: int, seed: int, seconds: float) -> Iterator[tuple[str, str, str]]:
    """(kind, fault, status) of `count` drawn edges."""
    judge, met = IndexJudge(Runs(family, built, built.kernel), launches=6), MetEdges(family, built)
    drawn = list(edge_faults(built.kernel.program))
    random.Random(seed).shuffle(drawn)
    for mutant in drawn[:count]:
        claim = index_claim(family, built, seconds, mutant.program)
        same = claim.status != REFUTED and judge.survives(mutant) == ""
        if same:
            status, why = met.status(mutant)
            yield "edge", f"{mutant}{f' ({why})' if why else ''}", status
        else:
            yield "edge", _with_why(str(mutant), claim), claim.status


def _with_why(fault: str, claim: Claim) -> str:
    at = f" at `{claim.at}`" if claim.at is not None else ""
    return f"{fault} ({claim.reason}{at})" if claim.status == UNKNOWN else fault


@click.command()
@click.argument("kernels", nargs=-1)
@click.option("--arch", default="gfx950", show_default=True)
@click.option("--count", default=8, show_default=True, help="Edges of each kernel.")
@click.option("--seed", default=0, show_default=True)
@click.option("--seconds", default=20.0, show_default=True, help="Of the processor, for each index claim.")
def commands(kernels: tuple[str, ...], arch: str, count: int, seed: int, seconds: float) -> int:
    """Judge faults of the first variant of each kernel, and the variant itself."""
    table: Counter[tuple[str, str]] = Counter()
    wrong = 0
    for name in kernels or KERNELS:
        family = find_family(name)
        built = build_kernel(family, arch, next(default_builds(family, arch)), verify=False)
        wide = [*wide_strides(built)]
        twin, *claims = index_claims(family, built, seconds, [one for _, one in wide])
        table["twin", twin.status] += 1
        wrong += twin.status == REFUTED
        click.echo(f"{name}: {twin.status}: {_with_why('twin', twin)}")
        for kind, fault, status in chain(strides(wide, claims), edges(family, built, count, seed, seconds)):
            table[kind, status] += 1
            wrong += status == PROVEN
            click.echo(f"{name}: {status}: {kind} {fault}")
    for (kind, status), number in sorted(table.items()):
        click.echo(f"{kind:6} {status:10} {number}")
    return int(wrong > 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "edgeproofs", arguments))


if __name__ == "__main__":
    main()
