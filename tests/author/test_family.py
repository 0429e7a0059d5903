"""Families and variants: which variant a request gets, what follows from it, and that no build overwrites another."""

from __future__ import annotations

import gc
import json
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asmgen as ag
from asmgen.kernels.registry import family as library_family
from asmgen.tools.running.build import build_kernel, write_built
from asmgen.tools.running.runner import run_kernel


def problem(p: ag.Values, seed: int) -> ag.Problem:
    x = np.random.default_rng(seed).integers(-99, 99, p["n"]).astype(np.float32)
    arguments = {"x": x, "d": np.zeros(p["n"], np.float32), "alpha": p["alpha"]}
    return ag.Problem(arguments, (ag.Output("d", x.astype(float) * p["alpha"] + p["plus"]),))


def family(**changes: Any) -> ag.Family:
    """d = alpha x + plus, a workgroup for each `tile` elements; `plus` is a constant of the code."""
    fields: dict[str, Any] = {
        "name": "scale-up", "title": "d = alpha x + plus", "problem": problem, "example": {"n": 256},
        "arguments": (ag.ContractArgument("x", "pointer", "x"), ag.ContractArgument("d", "pointer", "d"),
                      ag.ContractArgument("alpha", "f32", "factor")),
        "parameters": lambda variant: (
            ag.Parameter("plus", "build", int, "added", default=0, minimum=0, maximum=64),
            ag.Parameter("n", "run", int, "elements", minimum=1, multiple_of=variant.tile[0]),
            ag.Parameter("alpha", "run", float, "factor", default=0.5)),
        "grid": ag.GridRule("one workgroup for {v.tile[0]} elements", lambda p, variant: (p["n"] // variant.tile[0], 1, 1)),
    }
    made = ag.Family(**{**fields, **changes})

    @made.variant("gfx950", tile=(128,), waves=(1, 2), schedule="plain")
    @made.variant("gfx950", tile=(256,), waves=4, schedule="plain")
    @made.variant("gfx942", tile=(64,), schedule="plain")
    def plain(k: ag.TileBuilder) -> None:
        write(k)

    @made.variant("gfx950", tile=(256,), waves=4, schedule="padded", nops=2, occupancy=4)
    def padded(k: ag.TileBuilder) -> None:
        for _ in range(k.variant.nops):
            k.s_nop(0)
        write(k)

    return made


def write(k: ag.TileBuilder) -> None:
    at, x = k.registers.vgprs(1, "at"), k.registers.vgprs(1, "x")
    base = k.registers.sgprs(1, "base")
    k.s_mul_i32(base, k.ids["x"], 4 * k.variant.tile[0])
    k.v_lshlrev_b32(at, 2, k.work_item)
    k.v_add_u32(at, base, at)
    k.global_load_dword(x, at, k.argument("x"))
    k.v_mul_f32(x, k.argument("alpha"), x)
    if k.p.plus:
        k.v_add_f32(x, float(k.p.plus), x)
    k.global_store_dword(at, x, k.argument("d"))


def sentence(call: Any, *given: Any) -> str:
    with pytest.raises(ag.ContractError) as caught:
        call(*given)
    assert "\n" not in caught.value.sentence
    return caught.value.sentence


def test_the_first_declared_variant_is_the_default_and_values_choose_others() -> None:
    made = family()
    assert made.archs == ("gfx950", "gfx942")
    for values, tile, schedule in (({}, (128,), "plain"), ({"tile": "256"}, (256,), "plain"), ({"schedule": "padded"}, (256,), "padded"),
                                   ({"tile": "256", "schedule": "padded"}, (256,), "padded")):
        chosen = made.select("gfx950", values)
        assert (chosen.arch, chosen.tile, chosen.schedule) == ("gfx950", tile, schedule)
    assert made.select("gfx942").tile == (64,) and made.select().arch == "gfx950"


def test_an_unknown_combination_is_refused_with_those_that_exist() -> None:
    known = "there are, the nearest first: tile=128 schedule=plain; tile=256 schedule=padded nops=2; tile=256 schedule=plain"
    assert sentence(family().select, "gfx950", {"tile": "128", "schedule": "padded"}) == (
        f"scale-up has no variant tile=128 schedule=padded for gfx950; {known}")
    assert "tile=100 for gfx950" in sentence(family().build, "gfx950", {"tile": "100"})
    assert "gfx950 and gfx942 would work" in sentence(family().select, "gfx90a")
    assert "has no variants" in sentence(ag.Family("e", "e", (), (), ag.GridRule("", lambda p, variant: (1, 1, 1)), problem).check_arch)


def test_workgroup_grid_and_limits_follow_from_the_variant() -> None:
    made = family()
    for values, workgroup, grid in (({}, 128, 6), ({"tile": "256"}, 256, 3)):
        contract = made.contract("gfx950", values)
        assert contract.workgroup == (workgroup, 1, 1)
        assert contract.grid_of(contract.resolve_run({**values, "n": 768})) == (grid, 1, 1)
        assert contract.grid.sentence == f"one workgroup for {workgroup} elements"
    assert made.contract("gfx950").resolve_run({"n": 384})["tile"] == "128"
    assert "multiple of 256" in sentence(made.contract("gfx950", {"tile": "256"}).resolve_run, {"n": 384})
    assert "tile must be 256, got '128'" in sentence(made.contract("gfx950", {"tile": "256"}).resolve_run, {"n": 256, "tile": "128"})


def test_values_are_read_by_type_before_the_variant_is_known() -> None:
    made = family()
    assert made.parse("gfx950", ["tile=256", "n=256", "alpha=2"]) == {"tile": "256", "n": 256, "alpha": 2.0}
    assert made.parse("gfx950", ["n=100"]) == {"n": 100}
    assert "whole number" in sentence(made.parse, "gfx950", ["n=1.5"])
    assert "did you mean 'schedule'" in sentence(made.parse, "gfx950", ["shedule=plain"])
    assert "twice" in sentence(made.parse, "gfx950", ["tile=256", "tile=128"])


def test_parameters_of_some_variants_choose_among_them() -> None:
    """-p takes a parameter that any variant has, of another architecture too, and a request for it gets a variant that has it."""
    def parameters(variant: ag.Variant) -> list[ag.Parameter]:
        own = [ag.Parameter("n", "run", int, "elements", minimum=1)]
        return [*own, ag.Parameter("fast", "build", bool, "fast", default=False)] if variant.tile[0] == 256 else own

    made = family(parameters=parameters)
    given = made.parse("gfx950", ["fast=yes", "n=256"])
    assert given == {"fast": True, "n": 256} and made.parse("gfx942", ["fast=no"]) == {"fast": False}
    assert (made.select("gfx950", given).tile, made.select("gfx950", {"n": 256}).tile) == ((256,), (128,))
    assert sentence(made.select, "gfx942", given) == (
        "scale-up has no variant fast=true for gfx942; gfx950 has tile=256 schedule=plain; there are, the nearest first: "
        "tile=64 schedule=plain")
    assert "no variant tile=128 fast=true for gfx950; there are, the nearest first: tile=256" in sentence(
        made.select, "gfx950", {"tile": "128", **given})
    listed = [made.describe(arch)["parameters"].get("fast") for arch in ("gfx950", "gfx942")]
    assert listed == [{"kind": "build", "type": "bool", "doc": "fast (some variants alone)", "default": False}, None]


def test_a_choice_that_another_architecture_takes_names_it() -> None:
    def parameters(variant: ag.Variant) -> list[ag.Parameter]:
        return [ag.Parameter("n", "run", int, "elements", minimum=1), ag.Parameter(
            "cut", "build", str, "how", default="near", choices=("near", "down") if variant.arch == "gfx942" else ("near",))]

    made = family(parameters=parameters)
    assert made.select("gfx950", {"cut": "near"}) == made.select("gfx950") and made.select("gfx942", {"cut": "down"}).tile == (64,)
    assert sentence(made.select, "gfx950", {"cut": "down"}) == (
        "scale-up for gfx950: cut must be near, got 'down'; gfx942 has tile=64 schedule=plain")
    assert sentence(made.contract, "gfx950", {"cut": "up"}) == "cut must be near, got 'up'"


def test_a_switch_that_is_off_asks_nothing_of_variants_without_it() -> None:
    """The other value, and a parameter that is no switch, choose a variant that has them."""
    def parameters(variant: ag.Variant) -> list[ag.Parameter]:
        own = [ag.Parameter("n", "run", int, "elements", minimum=1)]
        return [*own, ag.Parameter("fast", "build", bool, "fast", default=False), ag.Parameter("safe", "build", bool, "safe", default=True),
                ag.Parameter("deep", "build", int, "deep", default=0)] if variant.tile[0] == 256 else own

    made = family(parameters=parameters)
    for request in ({"fast": False}, {"fast": False, "tile": "128"}):
        variant = made.select("gfx950", request)
        assert variant.tile == (128,)
        contract = made.contract_of(variant, request)
        assert contract.resolve_build(request)["fast"] is False and contract.stem == made.contract_of(variant).stem
        assert "must be False" in sentence(contract.resolve_build, {**request, "fast": True})
    assert "no parameter 'fast'" in sentence(made.contract("gfx950").resolve_build, {"fast": False})
    for request in ({"fast": True}, {"safe": False}, {"safe": True}, {"deep": 0}):
        assert made.select("gfx950", request).tile == (256,)
        assert "has no variant" in sentence(made.select, "gfx950", {"tile": "128", **request})
    assert made._partial() is made._partial(), "asked for each variant of each request, so found once"


def test_names_tell_builds_apart() -> None:
    made = family()
    requests: list[dict[str, Any]] = [{}, {"tile": "256"}, {"schedule": "padded"}, {"plus": 0}, {"plus": 1}, {"plus": 2}]
    stems = [made.build("gfx950", values).name for values in requests]
    assert stems[:4] == ["scale-up_gfx950_128_plain", "scale-up_gfx950_256_plain", "scale-up_gfx950_256_padded", stems[0]]
    assert len(set(stems)) == 5 and all(stem.startswith(f"{stems[0]}_") and len(stem) == len(stems[0]) + 9 for stem in stems[4:])
    assert made.build("gfx942").resources.name == "scale_up_gfx942_64_plain"
    bare = family(name="bare", parameters=(), grid=ag.GridRule("one", lambda p, variant: (1, 1, 1)), example={})
    bare.variant("gfx942")(lambda k: k.s_nop(0) and None)
    assert next(bare.contract_of(variant).stem for variant in bare.variants("gfx942") if not variant.tile) == "bare_gfx942"


def test_builds_into_one_folder_keep_each_other(tmp_path: Path) -> None:
    made = family()
    requests = [("gfx950", {}), ("gfx950", {"tile": "256"}), ("gfx942", {}), ("gfx950", {"plus": 3})]
    written = [path for arch, values in requests for path in write_built(build_kernel(made, arch, values), tmp_path)]
    assert len(set(written)) == 3 * len(requests) and all(path.exists() for path in written)
    described = json.loads(written[5].read_text())
    assert described["symbol"] == "scale_up_gfx950_256_plain" and described["workgroup"] == [256, 1, 1] and described["lds_bytes"] == 0
    assert described["build"] == {"tile": "256", "schedule": "plain", "plus": 0}


@pytest.mark.needs_objdump
@pytest.mark.parametrize(("arch", "values"), [("gfx950", {"alpha": -1.5}), ("gfx950", {"schedule": "padded", "plus": 7}), ("gfx942", {})])
def test_variants_run(arch: str, values: dict[str, Any]) -> None:
    made = family()
    contract = made.contract(arch, values)
    resolved = contract.resolve_run({**values, "n": 512})
    built = build_kernel(made, arch, {name: value for name, value in resolved.items() if contract.parameter(name).kind == "build"})
    report = run_kernel(made, built, resolved, "emulator")
    assert report.passed and report.kernel == "scale-up" and report.findings == ()


def test_the_contract_of_a_build_has_the_lds_that_the_map_holds() -> None:
    made = ag.Family("lds", "l", (), (), ag.GridRule("one", lambda p, variant: (1, 1, 1)), problem)

    @made.variant("gfx950", tile=(96, 1))
    @made.variant("gfx950", tile=(32, 4))
    def writer(k: ag.TileBuilder) -> None:
        k.lds.take("A", 4 * k.variant.tile[0] * k.variant.tile[1])

    for tile, size in (("96x1", 384), ("32x4", 512)):
        kernel = made.build("gfx950", {"tile": tile})
        assert kernel.contract.lds_bytes == kernel.resources.lds_bytes == kernel.contract.describe()["lds_bytes"] == size
    assert "lds_bytes" not in made.contract().describe()


def test_describing_a_family_writes_no_kernel() -> None:
    made = ag.Family("slow", "s", (), (), ag.GridRule("one", lambda p, variant: (1, 1, 1)), problem)

    @made.variant("gfx950", tile=(96, 1))
    def writer(k: ag.TileBuilder) -> None:
        raise AssertionError("built")

    assert made.describe()["parameters"]["tile"]["choices"] == ["96x1"]


def test_a_further_parameter_fixes_a_build_parameter_of_its_name() -> None:
    deepness = ag.Parameter("deep", "build", bool, "deep", default=False)
    made = ag.Family("f", "f", (), (deepness,), ag.GridRule("one", lambda p, variant: (1, 1, 1)), problem)

    @made.variant("gfx950", tile=(64,), deep=False)
    @made.variant("gfx950", tile=(64,), deep=True)
    def writer(k: ag.TileBuilder) -> None:
        k.s_nop(int(k.p.deep))

    shallow, deep = made.build("gfx950"), made.build("gfx950", {"deep": True})
    assert [kernel.program.instructions[0].text for kernel in (shallow, deep)] == ["s_nop 0", "s_nop 1"]
    assert shallow.name == "f_gfx950_64" and deep.name.startswith("f_gfx950_64_") and deep.parameters["deep"] is True


def test_a_selection_by_shape() -> None:
    """What the request does not say may depend on what it says."""
    made = family(selection=lambda candidates, values: candidates[-1 if values.get("n", 0) >= 4096 else 0])
    assert made.select("gfx950", {"n": 256}).tile == (128,)
    assert made.select("gfx950", {"n": 8192}).schedule == "padded"
    assert made.select("gfx950", {"n": 8192, "schedule": "plain"}).tile == (256,)


def test_a_variant_is_frozen_and_says_what_it_lacks() -> None:
    variant = family().select("gfx950", {"schedule": "padded"})
    assert (variant.nops, variant.wave_count, variant.occupancy, variant.tile_text) == (2, 4, 4, "256")
    with pytest.raises(AttributeError):
        variant.tile = (1,)  # type: ignore[misc]
    with pytest.raises(AttributeError, match="no parameter 'nop'; did you mean 'nops'"):
        _ = variant.nop
    with pytest.raises(ag.AsmgenError, match="belongs to no family"):
        _ = ag.KernelBuilder(family().contract(), "gfx950", {}).variant


def test_declarations_that_contradict_themselves() -> None:
    made = family()
    assert "gfx942 or gfx950" in sentence(made.variant, "gfx90a")
    assert "has a variant for gfx950 already" in sentence(lambda: made.variant("gfx950", tile=(128,), schedule="plain", nops=3))
    assert "frozen values" in sentence(lambda: made.variant("gfx950", tile=(512,), depth=[1]))
    assert "by a function" in sentence(lambda: made.variant("gfx950", tile=(512,))("writer"))  # type: ignore[type-var]


def test_what_the_writer_gets_wrong_is_said_at_its_line() -> None:
    made = ag.Family("w", "w", (), (), ag.GridRule("one", lambda p, variant: (1, 1, 1)), problem)

    @made.variant("gfx950", tile=(1,))
    def raises(k: ag.TileBuilder) -> None:
        _ = {}["missing"]

    @made.variant("gfx950", tile=(2,))
    def returns(k: ag.TileBuilder) -> Any:
        return 5

    with pytest.raises(ag.AsmgenError, match=r"test_family.py:\d+: raises raised KeyError: 'missing'"):
        made.build("gfx950", {"tile": "1"})
    assert "finished kernel or nothing, not 5" in sentence(made.build, "gfx950", {"tile": "2"})


def test_places_are_the_authors_whoever_asks_for_the_build() -> None:
    """What the builder pins and ends by itself belongs to the declaration, from this file or from a file that knows nothing of it."""
    made = family()
    own = made.build("gfx950").text()
    elsewhere: dict[str, Any] = {"made": made, "__name__": "elsewhere"}
    exec(compile("text = made.build('gfx950').text()", "elsewhere.py", "exec"), elsewhere)
    assert elsewhere["text"] == own and "elsewhere" not in own
    kernel = made.build("gfx950")
    end = kernel.program.instructions[-1]
    assert end.name == "s_endpgm" and end.source is not None and end.source.file.endswith("test_family.py")


def test_arguments_inside_of_a_block() -> None:
    """A block's name and the argument registers are two things of the builder."""
    made = family()

    @made.variant("gfx950", tile=(512,), waves=8, schedule="blocked")
    def blocked(k: ag.TileBuilder) -> None:
        with k.block("rare"):
            k.s_mov_b32(k.registers.sgprs(1, "copy"), k.argument("alpha"))

    assert "s_mov_b32" in [item.name for item in made.build("gfx950", {"tile": "512"}).program.instructions]


def test_what_a_kernel_was_made_from_is_free_as_soon_as_the_kernel_is() -> None:
    """Nothing waits for a search for cycles: a process that builds many kernels would hold gigabytes until there is one."""
    made = library_family("gemm-bf16")
    kernel = made.build("gfx950", {})  # with a pipeline and an epilogue, whose functions know the builder
    gc.collect()
    gc.disable()
    try:
        program = weakref.ref(kernel.program)
        del kernel
        assert program() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_kernel_is_written_again_where_only_the_order_of_sgprs_lacks(arch: str) -> None:
    made = ag.Family("full", "f", (), (), ag.GridRule("one", lambda p, variant: (1, 1, 1)), problem)
    written: list[str] = []

    @made.variant(arch)
    def full(k: ag.TileBuilder) -> None:
        written.append("begun")
        while k.registers.left("s") > 6:
            k.registers.sgprs(1, f"held_{k.registers.left('s')}")
        lasting = []
        for number in range(2):
            brief = k.registers.sgprs(1, "brief")
            lasting.append(k.registers.sgprs(1, f"lasting_{number}"))
            k.registers.release(brief)
        four = k.registers.sgprs(4, "four")
        for value, register in enumerate((*lasting, *four)):
            k.s_mov_b32(register, value)
        written.append(str(four))

    text = made.build(arch).text()
    moved = re.findall(r"s_mov_b32 (s\d+), \d", text)
    assert written[:-1] == ["begun", "begun"] and len(set(moved)) == 6


def test_a_kernel_that_needs_more_sgprs_than_there_are_is_refused_at_its_line() -> None:
    made = ag.Family("over", "o", (), (), ag.GridRule("one", lambda p, variant: (1, 1, 1)), problem)
    begun: list[int] = []

    @made.variant("gfx950")
    def over(k: ag.TileBuilder) -> None:
        begun.append(1)
        while True:
            k.registers.sgprs(4, f"four_{k.registers.left('s')}")

    with pytest.raises(ag.AsmgenError, match=r"test_family.py:\d+: 'four_\d+' needs 4 SGPRs"):
        made.build("gfx950")
    assert len(begun) == 2  # the second gets no further
