"""The commands that prove: prove, verify-certificate."""

from __future__ import annotations

from pathlib import Path

import click

from asmgen.isa.errors import AsmgenError
from asmgen.tools.commandline import FAILED, GOOD, document, json_option, parameters_option, say


@click.command()
@click.argument("subject", metavar="KERNEL|SPEC.json|FILE")
@click.option("--arch", help="Default: the kernel's first architecture, or the file's.")
@parameters_option
@click.option("--seconds", default=40.0, show_default=True, type=click.FloatRange(1.0), help="Of the processor, for the index claim.")
@click.option("--strict", is_flag=True, help="Exit with 1 for what is unknown, too.")
@json_option
def prove(subject: str, arch: str | None, parameters: tuple[str, ...], seconds: float, strict: bool, as_json: bool) -> int:
    """Prove that a kernel computes its reference, has no LDS races, is repeatable, and breaks no rule of the hardware; or refute it.

    Of a FILE of code (.s, .co), LDS races and the rules of the hardware alone.
    """
    from asmgen.kernels.registry import CODE_SUFFIXES
    from asmgen.tools.proofs.textclaims import prove_file
    from asmgen.tools.prove_command import prove_kernel, prove_spec

    if subject.endswith(".json"):
        if parameters or arch is not None:
            raise AsmgenError(f"{subject} is a launch specification: it has its own arguments and architecture, and takes no "
                              f"{'-p ' + parameters[0] if parameters else '--arch'}; -p is for kernels of the library")
        proof = prove_spec(Path(subject))
    elif subject.endswith(CODE_SUFFIXES):
        if parameters:
            raise AsmgenError(f"{subject} is a file of code, which takes no -p {parameters[0]}; -p is for kernels of the library")
        proof = prove_file(Path(subject), arch)
    else:
        from asmgen.kernels.registry import family as find_family
        from asmgen.tools.running.build import build_kernel

        family = find_family(subject)
        chosen = family.check_arch(arch or "")
        proof = prove_kernel(family, build_kernel(family, chosen, family.parse(chosen, parameters), verify=False), seconds, say)
    document(proof.as_json()) if as_json else click.echo(proof.text(), nl=False)
    return proof.status(strict)


@click.command("verify-certificate")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def verify_certificate(file: Path, as_json: bool) -> int:
    """Compare a proof's certificate with the code object beside it; judge again what follows from its code."""
    from asmgen.tools.proofs.certificate import verify_certificate as verify

    verified = verify(file)
    document(verified.as_json()) if as_json else click.echo(verified.text(), nl=False)
    return FAILED if verified.wrong else GOOD


COMMANDS = (prove, verify_certificate)
