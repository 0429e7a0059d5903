"""The commands that build, run and time kernels: list, doctor, build, run, launch, bench, probe, selftest, hip-emulator."""

from __future__ import annotations

from pathlib import Path

import click

from asmgen.isa.errors import AsmgenError
from asmgen.tools.commandline import (
    FAILED,
    GOOD,
    allow_option,
    document,
    errors_in,
    json_option,
    memory_option,
    parameters_option,
    say,
    verify_option,
)  # fmt: skip


@click.command("list")
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option("--isa", is_flag=True, help="The instruction coverage table instead of the kernels.")
@click.option("--arch", help="Only this architecture.")
@json_option
def list_command(kernels: tuple[str, ...], isa: bool, arch: str | None, as_json: bool) -> int:
    """Kernels with their parameters, architectures and legal shapes: those named, or all of the library."""
    from asmgen.tools import list_command

    if isa:
        if kernels:
            raise AsmgenError(f"--isa lists instructions, so it takes no kernel; `asmgen list {' '.join(kernels)}` lists kernels")
        rows = list_command.instruction_rows(arch)
        document(rows) if as_json else click.echo(list_command.instruction_table(rows), nl=False)
        return GOOD
    found = list_command.kernel_rows(arch, kernels)
    document(found) if as_json else click.echo(list_command.kernel_text(found), nl=False)
    return GOOD


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Tools found with versions, hip-python, GPU or none, and the command that installs what is missing."""
    from asmgen.tools.doctor import doctor as examine
    from asmgen.tools.list_command import doctor_table

    found = examine()
    if as_json:
        document([{"name": row.name, "path": row.path, "version": row.version, "install": row.install} for row in found])
    else:
        click.echo(doctor_table(found), nl=False)
    return GOOD if any(row.name.startswith("clang") and row.found for row in found) else FAILED


@click.command()
@click.argument("kernel")
@click.option("--arch", help="Default: the kernel's first architecture.")
@parameters_option
@click.option("-o", "folder", default="build", show_default=True, type=click.Path(path_type=Path), help="Where the files go.")
@click.option("--prove", is_flag=True, help="Write what is proven of it too: .proof.json.")
@verify_option
@json_option
def build(kernel: str, arch: str | None, parameters: tuple[str, ...], folder: Path, prove: bool, verify: bool, as_json: bool) -> int:
    """Write FAMILY_ARCH_TILE_SCHEDULE.s, .co and .json (the contract). KERNEL is a family of the library or FILE.py:NAME."""
    from asmgen.kernels.registry import family as find_family
    from asmgen.tools.running.build import build_kernel, write_built

    family = find_family(kernel)
    chosen = family.check_arch(arch or "")
    built = build_kernel(family, chosen, family.parse(chosen, parameters), verify=False)
    if verify and errors_in(built):
        if as_json:
            document([])
        return FAILED
    more = {}
    if prove:
        from asmgen.tools.proofs.certificate import SUFFIX, certificate_text
        from asmgen.tools.prove_command import prove_kernel

        more = {SUFFIX: certificate_text(built, prove_kernel(family, built, say=say))}
    paths = [str(path) for path in write_built(built, folder, more)]
    document(paths) if as_json else click.echo("\n".join(paths))
    return GOOD


@click.command()
@click.argument("kernel")
@click.option("--arch", help="Default: the kernel's first architecture.")
@parameters_option
@click.option("--step", is_flag=True, help="The operations of each pipeline's step.")
@json_option
def show(kernel: str, arch: str | None, parameters: tuple[str, ...], step: bool, as_json: bool) -> int:
    """Show what the author of a KERNEL wrote: with --step the operations of its loop, else registers and LDS; of each kernel launched."""
    from asmgen.author.loop.steptable import step_text
    from asmgen.kernels.registry import family as find_family

    family = find_family(kernel)
    chosen = family.check_arch(arch or "")
    built = family.build(chosen, family.parse(chosen, parameters))
    if as_json:
        launches = [{"kernel": one.name, "steps": [[row.as_json() for row in table] for table in one.steps]} for one in built.launches]
        document({**launches[len(built.before)], "launches": launches})
        return GOOD
    for one in built.launches:
        if len(built.launches) > 1:
            click.echo(f"{one.name}: {one.contract.title}")
        if step:
            click.echo(step_text(one.steps) if one.steps else f"{one.name} has no pipeline\n", nl=False)
        else:
            click.echo(one.register_map() + "\n" + "\n".join(one.lds.table()))
    return GOOD


@click.command()
@click.argument("kernel")
@click.option("--arch", help="Default: the kernel's first architecture.")
@parameters_option
@click.option("--device", default="auto", show_default=True, help="auto, hip or emulator.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the random data.")
@click.option("--order", default="lockstep", show_default=True, help="Order of waves on the emulator: lockstep, serial or random:SEED.")
@click.option("--checks/--no-checks", default=True, show_default=True, help="The emulator's arrival checks.")
@click.option("--save-spec", "spec_folder", type=click.Path(path_type=Path), metavar="DIR",
              help="Write the launch specification with its code object and data: DIR/spec.json.")
@memory_option
@allow_option
@verify_option
@json_option
def run(kernel: str, arch: str | None, parameters: tuple[str, ...], device: str, seed: int, order: str, checks: bool,
        spec_folder: Path | None, memory_limit: int, allow: tuple[str, ...], verify: bool, as_json: bool) -> int:
    """Build a kernel, run it on real data, compare with the float64 reference. KERNEL is a family of the library or FILE.py:NAME."""
    from asmgen.kernels.registry import family as find_family
    from asmgen.tools.running.build import build_kernel

    family = find_family(kernel)
    chosen = family.check_arch(arch or "")
    values = family.parse(chosen, parameters)
    contract = family.contract(chosen, values)
    resolved = contract.resolve_run(values)
    built_from = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
    built = build_kernel(family, chosen, built_from, verify=False)
    if verify and (errors := errors_in(built)):
        if as_json:
            document({"kernel": family.name, "arch": chosen, "device": None, "passed": False, "max_abs_error": None, "max_rel_error": None,
                       "wave_instructions": None, "seconds": 0.0, "findings": [error.as_json() for error in errors]})
        return FAILED

    from asmgen.emulator.scheduling.run import Options
    from asmgen.tools.list_command import run_text
    from asmgen.tools.running.runner import run_kernel

    options = Options(checks, order, count_banks=True, allow=allow)
    report = run_kernel(family, built, resolved, device, seed, options, say, spec_folder=spec_folder, memory_limit=memory_limit)
    document(report.as_json()) if as_json else click.echo(run_text(report), nl=False)
    return GOOD if report.passed else FAILED


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--device", default="auto", show_default=True, help="auto, hip or emulator.")
@click.option("--budget", default=1_000_000_000, show_default=True, type=click.IntRange(1),
              help="Wave instructions after which the emulator calls it a runaway; an access to memory or LDS counts as 128 at least.")
@memory_option
@allow_option
@json_option
def launch(spec: Path, device: str, budget: int, memory_limit: int, allow: tuple[str, ...], as_json: bool) -> int:
    """Run any code object as a launch specification says (README: launch specification)."""
    from asmgen.emulator.scheduling.run import Options
    from asmgen.launch.specrun import run_launch_spec
    from asmgen.tools.launch_command import LaunchReport

    options = Options(instruction_budget=budget, allow=allow)
    report = LaunchReport.of(run_launch_spec(spec, device, options, say=say, memory_limit=memory_limit))
    document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD if report.passed else FAILED


@click.command()
@click.argument("kernel")
@click.option("--arch", help="Default: the first GPU's.")
@parameters_option
@click.option("--device", default="hip", show_default=True, help="hip: there is no timing on the emulator.")
@click.option("--warm-ups", default=500, show_default=True, type=click.IntRange(0), help="Launches before the timed ones.")
@click.option("--runs", default=100, show_default=True, type=click.IntRange(1), help="Timed launches.")
@click.option("--against", type=click.Choice(["torch"]), help="Time PyTorch's own product too, where PyTorch with ROCm is.")
@click.option("--gpu", help="Whose table predicts: MI300X, MI325X, MI350X or MI355X.")
@json_option
def bench(kernel: str, arch: str | None, parameters: tuple[str, ...], device: str, warm_ups: int, runs: int, against: str | None,
          gpu: str | None, as_json: bool) -> int:
    """Time a kernel on a GPU, by events and on buffers that take turns; the cycle model's prediction stands beside it."""
    from dataclasses import replace

    from asmgen.kernels.registry import family as find_family
    from asmgen.tools.bench import bench_device, bench_kernel
    from asmgen.tools.bench_torch import torch_times
    from asmgen.tools.profile_command import choose_timing
    from asmgen.tools.profile_launches import report_kernel
    from asmgen.tools.running.build import build_kernel

    family = find_family(kernel)
    with bench_device(device, arch) as opened:
        chosen = family.check_arch(opened.arch)
        values = family.parse(chosen, parameters)
        contract = family.contract(chosen, values)
        resolved = contract.resolve_run(values)
        built = build_kernel(family, chosen, {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"})
        timing = choose_timing(chosen, gpu, None)
        report = bench_kernel(family, built, resolved, opened, warm_ups, runs)
        if against is not None:
            report = replace(report, rivals={against: torch_times(family.name, resolved, report.buffer_sets, warm_ups, runs)})
    report = report.beside(1e3 * report_kernel(family, built, resolved, timing, "grid", 1).host_seconds)
    document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--arch", help="Default: the first GPU's; gfx950 on the model.")
@click.option("--gpu", help="Whose table to compare with: MI300X, MI325X, MI350X or MI355X.")
@click.option("--device", default="hip", show_default=True, help="hip, or model: the cycle model gives back its own parameters.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the parameters for `profile --parameters`.")
@json_option
def probe(names: tuple[str, ...], arch: str | None, gpu: str | None, device: str, output: Path | None, as_json: bool) -> int:
    """Measure what the cycle model assumes on a GPU, and say what differs from its table."""
    from asmgen.tools.probe_command import probe_device, write_parameters
    from asmgen.tools.profile_command import choose_timing

    report = probe_device(device, names, arch, lambda chosen: choose_timing(chosen, gpu, None))
    if output is not None:
        write_parameters(report, output)
    document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD


@click.command()
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option("--arch", help="Only this architecture; on a GPU: the first GPU of it.")
@click.option("--device", default="hip", show_default=True, help="hip, or emulator: without probes and timings.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as JSON.")
@json_option
def selftest(kernels: tuple[str, ...], arch: str | None, device: str, output: Path | None, as_json: bool) -> int:
    """Test the library against its references; on a GPU also measure the model's table and time each family. One report."""
    import json

    from asmgen.files import write_plain
    from asmgen.tools.selftest import selftest as test
    from asmgen.tools.terminal.statusline import StatusLine

    with StatusLine() as line:
        report = test(device, kernels, arch, line.show)
    if output is not None:
        write_plain(output, (json.dumps(report.as_json(), indent=1) + "\n").encode())
    document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD if report.passed else FAILED


@click.command("hip-emulator", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--arch", "archs", multiple=True, help="gfx950 (the default) or gfx942; given n times there are n GPUs.")
@click.option("--checks/--no-checks", default=True, show_default=True, help="The emulator's arrival checks.")
@click.option("--order", default="lockstep", show_default=True, help="Order of waves: lockstep, serial or random:SEED.")
@allow_option
@click.option("--calls", is_flag=True, help="List the HIP calls that there are.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def hip_emulator(archs: tuple[str, ...], checks: bool, order: str, allow: tuple[str, ...], calls: bool, command: tuple[str, ...]) -> int:
    """Run a program that uses hip-python on the emulator: what it computes, not how fast."""
    from asmgen.launch.hipemulator.hipcalls import listing

    if calls:
        click.echo(listing(), nl=False)
        return GOOD
    if not command:
        raise AsmgenError("hip-emulator needs a command, such as `asmgen hip-emulator python script.py`; --calls lists the HIP calls")
    from asmgen.launch.hipemulator.command import become, environment, warning

    if warning():
        say(warning())
    become(command, environment(archs or ("gfx950",), checks, order, allow=allow))
    return FAILED


COMMANDS = (list_command, doctor, build, show, run, launch, bench, probe, selftest, hip_emulator)
