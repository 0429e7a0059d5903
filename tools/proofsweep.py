"""`python -m asmgen.tools.proofsweep [KERNEL ...]`: what `asmgen prove` says of every variant of the library, as a table.

A row has the status of each claim, the seconds and, below it, why a claim is not proven. The status is 1 where a claim is refuted, 2 for a
request that cannot be met.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from asmgen.author.contract.contract import Values
from asmgen.author.family.family import Family
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.registry import names
from asmgen.tools.mutate import builds
from asmgen.tools.proofs.proof import CLAIMS, PROVEN, Proof
from asmgen.tools.prove_command import prove_kernel
from asmgen.tools.running.build import build_kernel
from asmgen.tools.terminal.entry import status_of


def default_builds(family: Family, target: str) -> Iterator[Values]:
    """Each variant with the defaults of its build parameters."""
    return (family.contract_of(variant).resolve_build({}) for variant in family.variants(target))


def row(title: str, proof: Proof) -> list[str]:
    """A line for the kernel, and one for each claim that is not proven."""
    statuses = " ".join(f"{claim.claim} {claim.status:8}" for claim in proof.claims)
    return [f"{proof.seconds:6.1f} s  {statuses}  {title}",
            *(f"          {claim.claim}: {claim.reason}{f' (at {claim.at})' if claim.at else ''}" for claim in proof.claims
              if claim.status != PROVEN)]


@click.command()
@click.argument("kernels", nargs=-1)
@click.option("--arch", help="Only this architecture.")
@click.option("--all-builds", is_flag=True, help="Each choice of each build parameter too, not only the variants with the defaults.")
@click.option("--seconds", default=40.0, show_default=True, type=click.FloatRange(1.0), help="Of the processor, for each index claim.")
def commands(kernels: tuple[str, ...], arch: str | None, all_builds: bool, seconds: float) -> int:
    """Prove each variant; exit with 1 where a claim is refuted."""
    counts: Counter[tuple[str, str]] = Counter()
    refuted, slowest, began = False, 0.0, time.process_time()
    for name in kernels or names():
        family = find_family(name)
        for target in (family.check_arch(arch),) if arch else family.archs:
            for build in builds(family, target) if all_builds else default_builds(family, target):
                proof = prove_kernel(family, build_kernel(family, target, build, verify=False), seconds)
                shown = " ".join(f"{key}={value}" for key, value in build.items())
                click.echo("\n".join(row(f"{name} {target} {shown}".rstrip(), proof)))
                counts.update((claim.claim, claim.status) for claim in proof.claims)
                refuted, slowest = refuted or bool(proof.status()), max(slowest, proof.seconds)
    for claim in CLAIMS:
        click.echo(f"{claim:7} " + ", ".join(f"{number} {status}" for (of, status), number in sorted(counts.items()) if of == claim))
    click.echo(f"{time.process_time() - began:.0f} s in all, {slowest:.1f} s at most for a variant")
    return int(refuted)


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: exits with the status."""
    sys.exit(status_of(commands, "proofsweep", arguments))


if __name__ == "__main__":
    main()
