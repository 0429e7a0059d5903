"""The command line: `asmgen COMMAND`. Each command loads only what it needs.

Exit status: 0 good; 1 the check failed; 2 the request was wrong, with one sentence on stderr; 130 after Ctrl-C.
"""

from __future__ import annotations

from asmgen.interrupts import STATUS as INTERRUPTED
from asmgen.interrupts import watch

if __name__ == "__main__":
    watch()  # before the rest is loaded

import errno
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from asmgen import __version__
from asmgen.garbage import collect_seldom
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import printable, shorten, shown
from asmgen.tools.entry import internal_error

if TYPE_CHECKING:
    from asmgen.checks.lint.finding import LintFinding
    from asmgen.tools.banks_run import RunBanks
    from asmgen.tools.build import Built
    from asmgen.tools.tile_layout import TileTable

GOOD, FAILED, WRONG = 0, 1, 2
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # all other files that are written name themselves
_LONGEST = 500  # characters of a sentence about the command line


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="asmgen")
def commands() -> None:
    """AMD gfx942 and gfx950 assembly kernels: build, run, inspect."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line, the process's own where no `arguments` are given. Never returns: exits with the status."""
    if arguments is None:
        watch()
    collect_seldom()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files and symbols need not be text in the terminal's encoding
    try:
        status = commands.main(args=list(arguments) if arguments is not None else None, prog_name="asmgen", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else GOOD)
    except AsmgenError as error:
        _refuse(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(WRONG)
    except click.Abort:  # where `watch` does not watch
        _say("interrupted")
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        _refuse(shorten(" ".join(error.format_message().split()), _LONGEST))
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; python would complain about it at exit
        sys.exit(FAILED)
    except OSError as error:
        name = shown(error.filename) if error.filename else "the standard output" if error.errno in _NO_ROOM else ""
        _refuse(f"{name}: cannot be read or written: {error.strerror}" if name else str(error))
    except MemoryError as error:
        _refuse(f"there is not enough memory{f': {shorten(str(error))}' if str(error) else ''}")
    except Exception as error:
        if os.environ.get("ASMGEN_TRACEBACK"):
            raise
        _refuse(f"{internal_error(error)}; with ASMGEN_TRACEBACK=1 asmgen shows the whole trace")


def _refuse(sentence: str) -> None:
    click.echo(f"asmgen: {printable(sentence)}", err=True)
    sys.exit(WRONG)


def _say(sentence: str) -> None:
    click.echo(f"asmgen: {sentence}", err=True)


def _document(value: Any) -> None:
    click.echo(json.dumps(value, indent=1))


parameters_option = click.option("-p", "parameters", multiple=True, metavar="NAME=VALUE", help="A kernel parameter; may be repeated.")
verify_option = click.option("--no-verify", "verify", is_flag=True, flag_value=False, default=True,
                             help="Take a kernel in which lint finds errors, too.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
memory_option = click.option("--memory-limit", default=2 << 30, show_default=True, type=click.IntRange(0), metavar="BYTES",
                             help="What the buffers of the launch may have together.")
allow_option = click.option("--allow", multiple=True, type=click.Choice(["races"]),
                            help="Races between different values are warnings, not errors.")


@commands.command("list")
@click.option("--isa", is_flag=True, help="The instruction coverage table instead of the kernels.")
@click.option("--arch", help="Only this architecture.")
@json_option
def list_command(isa: bool, arch: str | None, as_json: bool) -> int:
    """Kernels with their parameters, architectures and legal shapes."""
    from asmgen.tools import list_command

    if isa:
        rows = list_command.instruction_rows(arch)
        _document(rows) if as_json else click.echo(list_command.instruction_table(rows), nl=False)
        return GOOD
    kernels = list_command.kernel_rows(arch)
    _document(kernels) if as_json else click.echo(list_command.kernel_text(kernels), nl=False)
    return GOOD


@commands.command()
@json_option
def doctor(as_json: bool) -> int:
    """Tools found with versions, hip-python, GPU or none, and the command that installs what is missing."""
    from asmgen.tools.doctor import doctor as examine
    from asmgen.tools.list_command import doctor_table

    found = examine()
    if as_json:
        _document([{"name": row.name, "path": row.path, "version": row.version, "install": row.install} for row in found])
    else:
        click.echo(doctor_table(found), nl=False)
    return GOOD if any(row.name.startswith("clang") and row.found for row in found) else FAILED


@commands.command()
@click.argument("kernel")
@click.option("--arch", help="Default: the kernel's first architecture.")
@parameters_option
@click.option("-o", "folder", default="build", show_default=True, type=click.Path(path_type=Path), help="Where the files go.")
@verify_option
@json_option
def build(kernel: str, arch: str | None, parameters: tuple[str, ...], folder: Path, verify: bool, as_json: bool) -> int:
    """Write FAMILY_ARCH_TILE_SCHEDULE.s, .co and .json (the contract). KERNEL is a family of the library or FILE.py:NAME."""
    from asmgen.kernels.registry import family as find_family
    from asmgen.tools.build import build_kernel, write_built

    family = find_family(kernel)
    chosen = family.check_arch(arch or "")
    built = build_kernel(family, chosen, family.parse(chosen, parameters), verify=False)
    if verify and _errors_in(built):
        if as_json:
            _document([])
        return FAILED
    paths = [str(path) for path in write_built(built, folder)]
    _document(paths) if as_json else click.echo("\n".join(paths))
    return GOOD


@commands.command()
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
    from asmgen.tools.build import build_kernel

    family = find_family(kernel)
    chosen = family.check_arch(arch or "")
    values = family.parse(chosen, parameters)
    contract = family.contract(chosen, values)
    resolved = contract.resolve_run(values)
    built_from = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
    built = build_kernel(family, chosen, built_from, verify=False)
    if verify and (errors := _errors_in(built)):
        if as_json:
            _document({"kernel": family.name, "arch": chosen, "device": None, "passed": False, "max_abs_error": None, "max_rel_error": None,
                       "wave_instructions": None, "seconds": 0.0, "findings": [error.as_json() for error in errors]})
        return FAILED

    from asmgen.emulator.scheduling.run import Options
    from asmgen.tools.list_command import run_text
    from asmgen.tools.runner import run_kernel

    options = Options(checks, order, count_banks=True, allow=allow)
    report = run_kernel(family, built, resolved, device, seed, options, _say, spec_folder=spec_folder, memory_limit=memory_limit)
    _document(report.as_json()) if as_json else click.echo(run_text(report), nl=False)
    return GOOD if report.passed else FAILED


@commands.command()
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
    from asmgen.tools.launch_command import run_launch_spec

    report = run_launch_spec(spec, device, Options(instruction_budget=budget, allow=allow), say=_say, memory_limit=memory_limit)
    _document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD if report.passed else FAILED


@commands.command()
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
    from asmgen.tools.build import build_kernel
    from asmgen.tools.profile_command import choose_timing, report_kernel

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
    report = replace(report, predicted=1e3 * report_kernel(family, built, resolved, timing, "grid", 1).estimate.seconds)
    _document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD


@commands.command()
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
    _document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD


@commands.command("hip-emulator", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
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
        _say(warning())
    become(command, environment(archs or ("gfx950",), checks, order, allow=allow))
    return FAILED


@commands.command()
@click.argument("subject", metavar="KERNEL|SPEC.json")
@click.option("--arch", help="Default: the kernel's first architecture; of a specification the file's.")
@parameters_option
@click.option("--gpu", help="MI300X, MI325X, MI350X or MI355X; default MI300X for gfx942, MI355X for gfx950.")
@click.option("--data", default="grid", show_default=True, type=click.Choice(["l2", "hbm", "grid"]), help="Where loads find their data.")
@click.option("--workgroups", default=1, show_default=True, type=click.IntRange(1, 32), help="Together on the compute unit.")
@click.option("--parameters", "overrides", type=click.Path(path_type=Path), metavar="FILE", help="JSON {parameter: value} over the table.")
@click.option("--trace", type=click.Path(path_type=Path), metavar="OUT", help="Write a Chrome trace; Perfetto opens it.")
@json_option
def profile(subject: str, arch: str | None, parameters: tuple[str, ...], gpu: str | None, data: str, workgroups: int,
            overrides: Path | None, trace: Path | None, as_json: bool) -> int:
    """Predict the cycles of a kernel: loops, bounds, stalls of each instruction, time of the whole launch."""
    from asmgen.tools.profile_command import choose_timing, report_kernel, report_spec, write_trace

    if subject.endswith(".json"):
        report = report_spec(Path(subject), gpu, overrides, data, workgroups, trace is not None)
    else:
        from asmgen.kernels.registry import family as find_family
        from asmgen.tools.build import build_kernel

        library = find_family(subject)
        chosen = library.check_arch(arch or "")
        timing = choose_timing(chosen, gpu, overrides)
        values = library.parse(chosen, parameters)
        contract = library.contract(chosen, values)
        resolved = contract.resolve_run(values)
        built_from = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
        report = report_kernel(library, build_kernel(library, chosen, built_from), resolved, timing, data, workgroups, trace is not None)
    if trace is not None:
        write_trace(report, trace)
    _document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD


@commands.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--arch", help="Where the file does not say it.")
@click.option("--run", "spec", type=click.Path(path_type=Path), metavar="SPEC.json", help="Run this on the emulator and count executions.")
@click.option("--html", type=click.Path(path_type=Path), metavar="OUT", help="Write one page, with timeline and listing of the main loop.")
@json_option
def inspect(file: Path, arch: str | None, spec: Path | None, html: Path | None, as_json: bool) -> int:
    """Resources, maps of registers and LDS, instruction mix, loops and waits of any .s or .co."""
    from asmgen.tools.inspection import inspect_file

    counts = None
    if spec is not None:
        from asmgen.tools.inspection_run import executions

        counts = executions(file, arch, spec)
    report = inspect_file(file, arch, counts)
    if html is not None:
        from asmgen.tools.inspection_html import write_html

        write_html(report, html, spec)
    if as_json:
        _document(report.as_json())
    elif html is None:
        from asmgen.tools.inspection_text import inspection_text

        click.echo(inspection_text(report), nl=False)
    return GOOD


@commands.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--arch", help="Where the files do not say it.")
@json_option
def diff(a: Path, b: Path, arch: str | None, as_json: bool) -> int:
    """Two kernels side by side: registers, LDS, occupancy, mix, loops matched with their predicted clk, waits, nops."""
    from asmgen.tools.diff_command import diff_files

    found = diff_files(a, b, arch)
    _document(found.as_json()) if as_json else click.echo(found.text(), nl=False)
    return GOOD


@commands.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--arch", help="Where the file does not say it.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@json_option
def lint(file: Path, arch: str | None, strict: bool, as_json: bool) -> int:
    """Waits, wait states, registers and encoding traps of any .s or .co."""
    from asmgen.checks.lint.linting import lint_file
    from asmgen.tools.lint_command import lint_rows, lint_status, lint_text

    report = lint_file(file, arch)
    _document(lint_rows(report)) if as_json else click.echo(lint_text(report), nl=False)
    return lint_status(report, strict)


@commands.command()
@click.argument("subject", metavar="FILE:LINE|FILE:0xADDRESS|RULE")
@click.option("--arch", help="Where the file does not say it.")
@json_option
def explain(subject: str, arch: str | None, as_json: bool) -> int:
    """A rule of lint; or one instruction: its operands, what is in flight, why a wait or nop stands there, what is live."""
    from asmgen.tools.explain_command import explain_place, explain_rule, explanations_json, is_place, place_text, rule_json, rule_text

    if not is_place(subject):
        found = explain_rule(subject)
        _document(rule_json(found)) if as_json else click.echo(rule_text(found), nl=False)
        return GOOD
    places = explain_place(subject, arch)
    _document(explanations_json(places)) if as_json else click.echo(place_text(places), nl=False)
    return GOOD


@commands.command()
@click.argument("instruction", metavar="INSTRUCTION|KERNEL:TILE")
@click.option("--arch", help="Default: the newest that has the instruction; the kernel's first.")
@parameters_option
@click.option("--operand", help="a, b, c, d, scale_a, scale_b or index; default: all that there are.")
@click.option("--formats", metavar="A,B", help="Formats of f8f6f4: fp8, bf8, fp6, bf6, fp4. Default: fp8,fp8.")
@click.option("--lane", type=click.IntRange(0, 63), help="Only what this lane holds.")
@click.option("--register", type=click.IntRange(0), help="Only what this register of the operand holds.")
@click.option("--svg", type=click.Path(path_type=Path), metavar="OUT", help="Write a picture.")
@json_option
def layout(instruction: str, arch: str | None, parameters: tuple[str, ...], operand: str | None, formats: str | None, lane: int | None,
           register: int | None, svg: Path | None, as_json: bool) -> int:
    """Which lane and register holds which element of a matrix instruction's operands, or of a tile of a kernel (in LDS: which bytes)."""
    from asmgen.files import write_plain
    from asmgen.tools.layout_command import operand_tables, tables_svg, tables_text

    if ":" in instruction:
        table = _tile_table(instruction, arch, parameters, lane, register)
        if svg is not None and (lane, register) != (None, None):
            raise AsmgenError("a picture shows whole tiles; leave out --lane and --register")
        if svg is not None:
            write_plain(svg, table.svg().encode())
        if as_json or svg is None:
            _document(table.as_json()) if as_json else click.echo(table.text(lane is not None or register is not None), nl=False)
        return GOOD
    tables = operand_tables(instruction, arch, operand, formats, lane, register)
    if svg is not None:
        write_plain(svg, tables_svg(tables).encode())
    if as_json:
        _document(tables[0].as_json() if operand else {"instruction": tables[0].instruction, "arch": tables[0].arch,
                                                       "operands": [table.as_json() for table in tables]})
    elif svg is None:
        click.echo(tables_text(tables, lane is not None or register is not None), nl=False)
    return GOOD


@commands.command()
@click.argument("subject", metavar="[KERNEL|SPEC.json]", required=False)
@click.option("--tile", metavar="ROWSxCOLS", help="No run, but a tile of so many elements.")
@click.option("--dtype", help="Of the tile: f32, i32, bf16, f16, fp8, bf8, i8, fp6, bf6 or fp4.")
@click.option("--arch", help="gfx942 or gfx950; of a kernel by default its first.")
@click.option("--swizzle", metavar="S", help="Of the tile: a published one by name, SHIFT:MASK[,...], pad:EVERY+ADD, lines:EVERY+ADD "
              "or auto. Default: plain rows.")
@parameters_option
@json_option
def banks(subject: str | None, tile: str | None, dtype: str | None, arch: str | None, swizzle: str | None, parameters: tuple[str, ...],
          as_json: bool) -> int:
    """LDS bank conflicts of each access of a run, or of what matrix instructions read from and write to a tile."""
    from asmgen.tools.banks import bank_report, banks_text

    if subject is not None:
        if tile or dtype or swizzle:
            raise AsmgenError("banks takes a kernel or specification to run, or --tile with --dtype and --arch, not both")
        found = _banks_of_run(subject, arch, parameters)
        _document(found.as_json()) if as_json else click.echo(found.text(), nl=False)
        return GOOD
    if tile is None or dtype is None or arch is None:
        raise AsmgenError("banks wants a kernel, a launch specification, or --tile, --dtype and --arch")
    report = bank_report(tile, dtype, arch, swizzle)
    _document(report.as_json()) if as_json else click.echo(banks_text(report), nl=False)
    return GOOD


@commands.command()
@click.option("--arch", help="gfx942 or gfx950, the default.")
@parameters_option
@click.option("--gpu", help="MI300X, MI325X, MI350X or MI355X; default MI300X for gfx942, MI355X for gfx950.")
@click.option("--search", is_flag=True, help="Find window and chunk.")
@click.option("--svg", type=click.Path(path_type=Path), metavar="OUT", help="Write a picture.")
@json_option
def grid(arch: str | None, parameters: tuple[str, ...], gpu: str | None, search: bool, svg: Path | None, as_json: bool) -> int:
    """The order of a matrix product's tiles over the XCDs (-p m, n, k, tile, window, chunk, rotated, dtype) and predicted cache hits."""
    from asmgen.files import write_plain
    from asmgen.tools.grid_command import grid_report

    report = grid_report(arch, gpu, parameters, search)
    if svg is not None:
        write_plain(svg, report.svg().encode())
    if as_json or svg is None:
        _document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD


def _errors_in(built: Built) -> list[LintFinding]:
    """What lint calls an error in a kernel, told on stderr."""
    from asmgen.tools.build import lint_errors

    errors = lint_errors(built)
    for error in errors:
        click.echo(printable(error.sentence()), err=True)
    if errors:
        _say(f"{built.kernel.name} has {len(errors)} error{'s' * (len(errors) > 1)}, so it is not taken; --no-verify takes it as it is")
    return errors


def _tile_table(subject: str, arch: str | None, parameters: tuple[str, ...], lane: int | None, register: int | None) -> TileTable:
    from asmgen.kernels.registry import family as find_family
    from asmgen.tools.tile_layout import tile_table

    kernel, _, tile = subject.rpartition(":")
    family = find_family(kernel)
    chosen = family.check_arch(arch or "")
    values = family.parse(chosen, parameters)
    contract = family.contract(chosen, values)
    built = family.build(chosen, {name: value for name, value in values.items() if contract.parameter(name).kind == "build"})
    return tile_table(built, tile, lane, register)


def _banks_of_run(subject: str, arch: str | None, parameters: tuple[str, ...]) -> RunBanks:
    from asmgen.kernels.registry import family as find_family
    from asmgen.tools.banks_run import banks_of_kernel, banks_of_spec
    from asmgen.tools.build import build_kernel

    if subject.endswith(".json"):
        return banks_of_spec(Path(subject))
    family = find_family(subject)
    chosen = family.check_arch(arch or "")
    values = dict(family.example) | family.parse(chosen, parameters)
    contract = family.contract(chosen, values)
    resolved = contract.resolve_run(values)
    return banks_of_kernel(family, build_kernel(family, chosen, {name: resolved[name] for name in resolved
                                                                 if contract.parameter(name).kind == "build"}), resolved)


if __name__ == "__main__":
    main()
