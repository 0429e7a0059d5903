"""The commands that examine and predict: profile, tune, inspect, diff, lint, audit, explain, layout, banks, grid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from asmgen.isa.errors import AsmgenError
from asmgen.tools.commandline import GOOD, document, json_option, memory_option, parameters_option

if TYPE_CHECKING:
    from asmgen.tools.banks_run import RunBanks
    from asmgen.tools.tile_layout import TileTable


@click.command()
@click.argument("subject", metavar="KERNEL|SPEC.json")
@click.option("--arch", help="Default: the kernel's first architecture; of a specification the file's.")
@parameters_option
@click.option("--gpu", help="MI300X, MI325X, MI350X or MI355X; default MI300X for gfx942, MI355X for gfx950.")
@click.option("--data", default="grid", show_default=True, type=click.Choice(["l2", "hbm", "grid"]), help="Where loads find their data.")
@click.option("--workgroups", default=1, show_default=True, type=click.IntRange(1, 32), help="Together on the compute unit.")
@click.option("--parameters", "overrides", type=click.Path(path_type=Path), metavar="FILE", help="JSON {parameter: value} over the table.")
@click.option("--trace", type=click.Path(path_type=Path), metavar="OUT", help="Write a Chrome trace; Perfetto opens it.")
@memory_option
@json_option
def profile(subject: str, arch: str | None, parameters: tuple[str, ...], gpu: str | None, data: str, workgroups: int,
            overrides: Path | None, trace: Path | None, memory_limit: int, as_json: bool) -> int:
    """Predict the cycles of a kernel: loops, bounds, stalls of each instruction, time of the whole launch."""
    from asmgen.tools.profile_command import choose_timing, write_trace
    from asmgen.tools.profile_launches import report_kernel, report_spec

    if subject.endswith(".json"):
        if parameters or arch is not None:
            raise AsmgenError(f"{subject} is a launch specification: it has its own arguments and architecture, and takes no "
                              f"{'-p ' + parameters[0] if parameters else '--arch'}; -p is for kernels of the library")
        report = report_spec(Path(subject), gpu, overrides, data, workgroups, trace is not None, memory_limit)
    else:
        from asmgen.kernels.registry import family as find_family
        from asmgen.tools.running.build import build_kernel

        library = find_family(subject)
        chosen = library.check_arch(arch or "")
        timing = choose_timing(chosen, gpu, overrides)
        values = library.parse(chosen, parameters)
        contract = library.contract(chosen, values)
        resolved = contract.resolve_run(values)
        built_from = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
        built = build_kernel(library, chosen, built_from)
        report = report_kernel(library, built, resolved, timing, data, workgroups, trace is not None, memory_limit)
    if trace is not None:
        write_trace(report.profile, trace)
    document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD


@click.command()
@click.argument("kernel")
@click.option("--arch", help="Default: the GPU's, or the kernel's first architecture.")
@parameters_option
@click.option("--gpu", help="MI300X, MI325X, MI350X or MI355X; default MI300X for gfx942, MI355X for gfx950.")
@click.option("--top", default=100, type=click.IntRange(1), metavar="N", help="Only the N fastest.")
@click.option("--schedule", is_flag=True, help="Search long for the order of the loop instead, and keep it beside the kernel's file.")
@click.option("--why", is_flag=True, help="Say what tensor functions take, from which figures, and what limits it and the others.")
@json_option
def tune(kernel: str, arch: str | None, parameters: tuple[str, ...], gpu: str | None, top: int, schedule: bool, why: bool,
         as_json: bool) -> int:
    """Rank the variants of a kernel that serve a problem by predicted time, with what limits each. What was ranked once is kept."""
    if why and schedule:
        raise click.UsageError("--why and --schedule are two requests; one of them would do")
    if why:
        from asmgen.isa.timing import GPUS, gpu_of
        from asmgen.kernels.registry import family as find_family
        from asmgen.kernels.whychosen import why as reasons

        library = find_family(kernel)
        chosen = library.check_arch(arch or GPUS.get(gpu or "", ""))
        found_why = reasons(kernel, chosen, gpu_of(chosen, gpu), library.parse(chosen, parameters))
        document(found_why.as_json(top)) if as_json else click.echo(found_why.text(top), nl=False)
        return GOOD
    if schedule:
        from asmgen.isa.timing import GPUS
        from asmgen.kernels.registry import family as find_family
        from asmgen.tools.schedulesearch import search_order

        library = find_family(kernel)
        chosen = library.check_arch(arch or GPUS.get(gpu or "", ""))
        searched = search_order(library, chosen, library.parse(chosen, parameters))
        document(searched.as_json()) if as_json else click.echo(searched.text(), nl=False)
        return GOOD
    from asmgen.kernels.tuned import tune_request
    from asmgen.tools.tune_command import ReadyLine, ranking_json, ranking_text

    found = tune_request(kernel, arch, gpu, parameters, ReadyLine())
    document(ranking_json(found, top)) if as_json else click.echo(ranking_text(found, top), nl=False)
    return GOOD


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--arch", help="Where the file does not say it.")
@click.option("--run", "spec", type=click.Path(path_type=Path), metavar="SPEC.json", help="Run this on the emulator and count executions.")
@click.option("--html", type=click.Path(path_type=Path), metavar="OUT", help="Write one page, with timeline and listing of the main loop.")
@json_option
def inspect(file: Path, arch: str | None, spec: Path | None, html: Path | None, as_json: bool) -> int:
    """Resources, maps of registers and LDS, instruction mix, loops and waits of any .s or .co."""
    from asmgen.tools.inspection.inspection import inspect_file

    counts = None
    if spec is not None:
        from asmgen.tools.inspection.executedcode import executions

        counts = executions(file, arch, spec)
    report = inspect_file(file, arch, counts)
    if html is not None:
        from asmgen.tools.inspection.htmlreport import write_html

        write_html(report, html, spec)
    if as_json:
        document(report.as_json())
    elif html is None:
        from asmgen.tools.inspection.inspectiontext import inspection_text

        click.echo(inspection_text(report), nl=False)
    return GOOD


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--arch", help="Where the files do not say it.")
@json_option
def diff(a: Path, b: Path, arch: str | None, as_json: bool) -> int:
    """Two kernels side by side: registers, LDS, occupancy, mix, loops matched with their predicted clk, waits, nops."""
    from asmgen.tools.diff_command import diff_files

    found = diff_files(a, b, arch)
    document(found.as_json()) if as_json else click.echo(found.text(), nl=False)
    return GOOD


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--arch", help="Where the file does not say it.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@json_option
def lint(file: Path, arch: str | None, strict: bool, as_json: bool) -> int:
    """Waits, wait states, registers and encoding traps of any .s or .co."""
    from asmgen.checks.lint.linting import lint_file
    from asmgen.tools.lint_command import lint_rows, lint_status, lint_text

    report = lint_file(file, arch)
    document(lint_rows(report)) if as_json else click.echo(lint_text(report), nl=False)
    return lint_status(report, strict)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes at once.")
@click.option("--baseline", type=click.Path(path_type=Path), metavar="FILE", help="Known findings: only others count for the exit status.")
@click.option("--write-baseline", type=click.Path(path_type=Path), metavar="OUT", help="Write what is found as a baseline.")
@click.option("--sarif", type=click.Path(path_type=Path), metavar="OUT", help="Write SARIF 2.1.0.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="OUT", help="Write a page of Markdown.")
@click.option("--limit", type=click.FloatRange(0), default=600.0, show_default=True, metavar="SECONDS",
              help="For each code object; 0: none.")
@click.option("--specs", type=click.Path(path_type=Path), metavar="DIR", help="Write a launch specification of each kernel there.")
@click.option("--notes", is_flag=True, help="List notes too.")
@click.option("--strict", is_flag=True, help="Exit with 1 for new warnings too.")
@json_option
def audit(paths: tuple[Path, ...], jobs: int, baseline: Path | None, write_baseline: Path | None, sarif: Path | None,
          markdown: Path | None, limit: float, specs: Path | None, notes: bool, strict: bool, as_json: bool) -> int:
    """Lint, static races and errata of every code object in files, folders, libraries and wheels, grouped by cause."""
    from asmgen.tools.audit.auditreport import audit_json, audit_text
    from asmgen.tools.audit_command import AuditOutputs, audit_paths

    found = audit_paths(paths, jobs, limit, baseline, AuditOutputs(write_baseline, sarif, markdown), notes)
    document(audit_json(found, notes)) if as_json else click.echo(audit_text(found, notes), nl=False)
    if specs is not None:
        from asmgen.tools.audit.auditspecs import write_specs

        click.echo(write_specs(list(paths), specs).text(specs), nl=False, err=True)
    return found.status(strict)


@click.command()
@click.argument("subject", metavar="FILE:LINE|FILE:0xADDRESS|RULE")
@click.option("--arch", help="Where the file does not say it.")
@json_option
def explain(subject: str, arch: str | None, as_json: bool) -> int:
    """A rule of lint; or one instruction: its operands, what is in flight, why a wait or nop stands there, what is live."""
    from asmgen.tools.explain_command import (
        explain_instruction,
        explain_rule,
        explanation_text,
        explanations_json,
        is_instruction,
        rule_json,
        rule_text,
    )

    if not is_instruction(subject):
        found = explain_rule(subject)
        document(rule_json(found)) if as_json else click.echo(rule_text(found), nl=False)
        return GOOD
    locations = explain_instruction(subject, arch)
    document(explanations_json(locations)) if as_json else click.echo(explanation_text(locations), nl=False)
    return GOOD


@click.command()
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
            document(table.as_json()) if as_json else click.echo(table.text(lane is not None or register is not None), nl=False)
        return GOOD
    tables = operand_tables(instruction, arch, operand, formats, lane, register)
    if svg is not None:
        write_plain(svg, tables_svg(tables).encode())
    if as_json:
        document(tables[0].as_json() if operand else {"instruction": tables[0].instruction, "arch": tables[0].arch,
                                                       "operands": [table.as_json() for table in tables]})
    elif svg is None:
        click.echo(tables_text(tables, lane is not None or register is not None), nl=False)
    return GOOD


@click.command()
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
        document(found.as_json()) if as_json else click.echo(found.text(), nl=False)
        return GOOD
    if tile is None or dtype is None or arch is None:
        raise AsmgenError("banks wants a kernel, a launch specification, or --tile, --dtype and --arch")
    report = bank_report(tile, dtype, arch, swizzle)
    document(report.as_json()) if as_json else click.echo(banks_text(report), nl=False)
    return GOOD


@click.command()
@click.option("--arch", help="gfx942 or gfx950, the default.")
@parameters_option
@click.option("--gpu", help="MI300X, MI325X, MI350X or MI355X; default MI300X for gfx942, MI355X for gfx950.")
@click.option("--parameters", "overrides", type=click.Path(path_type=Path), metavar="FILE", help="JSON {parameter: value} over the table.")
@click.option("--search", is_flag=True, help="Find window and chunk.")
@click.option("--svg", type=click.Path(path_type=Path), metavar="OUT", help="Write a picture.")
@json_option
def grid(arch: str | None, parameters: tuple[str, ...], gpu: str | None, overrides: Path | None, search: bool, svg: Path | None,
         as_json: bool) -> int:
    """The order of a matrix product's tiles over the XCDs (-p m, n, k, tile, window, chunk, rotated, dtype) and predicted cache hits."""
    from asmgen.files import write_plain
    from asmgen.tools.grid_command import grid_report

    report = grid_report(arch, gpu, parameters, search, overrides)
    if svg is not None:
        write_plain(svg, report.svg().encode())
    if as_json or svg is None:
        document(report.as_json()) if as_json else click.echo(report.text(), nl=False)
    return GOOD


def _tile_table(subject: str, arch: str | None, parameters: tuple[str, ...], lane: int | None, register: int | None) -> TileTable:
    from asmgen.kernels.registry import family as find_family
    from asmgen.tools.tile_layout import tile_table

    kernel, _, tile = subject.rpartition(":")
    family = find_family(kernel)
    chosen = family.check_arch(arch or "")
    values = family.parse(chosen, parameters)
    contract = family.contract(chosen, values)
    built = family.build(chosen, {name: value for name, value in values.items() if contract.parameter(name).kind == "build"})
    holding = next((one for one in built.launches if tile.partition("[")[0] in one.tiles), built)
    return tile_table(holding, tile, lane, register)


def _banks_of_run(subject: str, arch: str | None, parameters: tuple[str, ...]) -> RunBanks:
    from asmgen.kernels.registry import family as find_family
    from asmgen.tools.banks_run import banks_of_kernel, banks_of_spec
    from asmgen.tools.running.build import build_kernel

    if subject.endswith(".json"):
        return banks_of_spec(Path(subject))
    family = find_family(subject)
    chosen = family.check_arch(arch or "")
    given = family.parse(chosen, parameters)
    contract = family.contract(chosen, given)
    resolved = contract.resolve_run({**contract.example, **given})
    return banks_of_kernel(family, build_kernel(family, chosen, {name: resolved[name] for name in resolved
                                                                 if contract.parameter(name).kind == "build"}), resolved)


COMMANDS = (profile, tune, inspect, diff, lint, audit, explain, layout, banks, grid)
