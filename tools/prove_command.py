"""`asmgen prove`: what is proven of a kernel of a family, or of a code object that a launch specification runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from asmgen.author.family.family import Family
from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.scheduling.run import Options
from asmgen.files import read_plain
from asmgen.launch.spec import LaunchSpec, read_spec
from asmgen.launch.specrun import trace_launch_spec
from asmgen.tools.proofs.orderclaim import ORDERS, early_launch, is_early, order_claim, race_launch
from asmgen.tools.proofs.proof import INDEX, ORDER, UNKNOWN, Claim, Proof, settled
from asmgen.tools.proofs.runclaims import index_claim
from asmgen.tools.proofs.textclaims import code_of, text_claims
from asmgen.tools.proofs.writeclaim import with_writes
from asmgen.tools.running.build import Built
from asmgen.tools.running.keptdevices import keeping


def prove_kernel(family: Family, built: Built, seconds: float = 40.0, say: Callable[[str], None] = lambda sentence: None) -> Proof:
    """All claims about a built kernel, and about those that are launched with it. `seconds` of the processor go to the index claim."""
    began = time.process_time()
    names = [kernel.resources.name for kernel in built.kernel.launches]
    kernels = code_of(built.code_object, names)
    blocks = {kernel.resources.name: kernel.contract.workgroup for kernel in built.kernel.launches}
    races, errata = text_claims(kernels, [blocks[program.name] for program, _ in kernels])
    say(f"races {races.status}, errata {errata.status}")
    with keeping(built):
        races = with_writes(settled(races, lambda: race_launch(family, built)), family, built)
        errata = settled(errata, lambda: early_launch(family, built, errata)) if errata.suspected else errata
        index = index_claim(family, built, seconds)
        say(f"index {index.status}")
        order = order_claim(family, built)
    return Proof(built.kernel.name, built.kernel.resources.arch, (index, races, order, errata), time.process_time() - began)


def prove_spec(path: Path) -> Proof:
    """The claims about what a launch specification runs; without a reference nothing is known of what it should compute."""
    began = time.process_time()
    spec = read_spec(path)
    names = [launch.kernel for launch in spec.launches if launch.kernel]
    kernels = code_of(read_plain(spec.code_object), names)
    chosen = {launch.kernel: launch.block for launch in spec.launches}
    races, errata = text_claims(kernels, [chosen.get(program.name, spec.launches[0].block) for program, _ in kernels])
    races = settled(races, lambda: _shown(path, spec, lambda finding: finding.check == "lds-race"))
    errata = settled(errata, lambda: _shown(path, spec, lambda finding: is_early(finding, errata))) if errata.suspected else errata
    index = Claim(INDEX, UNKNOWN, "nothing", (), "a launch specification does not say what should be computed")
    order = Claim(ORDER, UNKNOWN, "nothing", (), "a launch specification does not say which elements its buffers have")
    return Proof(path.name, kernels[0][0].arch, (index, races, order, errata), time.process_time() - began)


def _shown(path: Path, spec: LaunchSpec, shows: Callable[[Finding], bool]) -> dict[str, str] | None:
    """The specification with the order of waves in which the emulator finds what shows a claim to be wrong, None where it does not."""
    for order in dict.fromkeys((spec.order, *ORDERS)):
        for launch in trace_launch_spec(path, Options(order=order)):
            if any(map(shows, launch.result.findings)):
                return {"spec": str(path), "order": order, "kernel": launch.kernel}
    return None
