"""Contracts: parameters from text and from Python, defaults, ranges, rules, and the JSON that build writes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.author.contract.contract import Alias, ContractArgument, ContractError, Formula, KernelContract, Parameter, Rule, did_you_mean
from asmgen.codeobject.arguments import ArgumentError
from asmgen.kernels.registry import family
from asmgen.tools.list_command import kernel_rows, kernel_text


def tiles(p: Any) -> tuple[int, int, int]:
    return (-(-p["m"] // p["tile_m"]), -(-p["n"] // 32), 1)


CONTRACT = KernelContract(
    name="toy-gemm",
    title="a small contract with one parameter of every sort",
    archs=("gfx950", "gfx942"),
    parameters=(
        Parameter("tile_m", "build", int, "rows of a tile", default=64, minimum=32, maximum=256, multiple_of=32),
        Parameter("order", "build", str, "which operand is loaded first", default="ab", choices=("ab", "ba")),
        Parameter("preload", "build", bool, "arguments arrive in registers", default=False),
        Parameter("m", "run", int, "rows of A", minimum=1, maximum=1 << 20),
        Parameter("n", "run", int, "rows of B", minimum=1),
        Parameter("k", "run", int, "columns of A and B", minimum=64, multiple_of=64),
        Parameter("lda", "run", int, "row stride of A", minimum=1, default_from="k"),
        Parameter("seed", "run", int, "of the random data", default=7),
    ),
    arguments=(
        ContractArgument("a", "pointer", "A"),
        ContractArgument("m", "i32", "rows of A"),
        ContractArgument("alpha", "f16", "factor"),
        ContractArgument("d", "pointer", "D"),
    ),
    workgroup=(256, 1, 1),
    grid=Formula("ceil(m / tile_m) x ceil(n / 32) x 1", tiles),
    lds_bytes=Formula("2 x tile_m x 128", lambda p: 2 * p["tile_m"] * 128),
    rules=(
        Rule("lda must be at least k", ("lda", "k"), lambda p: p["lda"] >= p["k"]),
        Rule("tile_m must be at most 128 where preload is on", ("tile_m", "preload"), lambda p: not p["preload"] or p["tile_m"] <= 128),
    ),
    example={"m": 100, "n": 40, "k": 128},
)
SHAPE = {"m": 100, "n": 40, "k": 128}


def sentence(call: Any, *args: Any) -> str:
    with pytest.raises(ContractError) as caught:
        call(*args)
    assert "\n" not in caught.value.sentence
    return caught.value.sentence


def test_parse_gives_typed_values() -> None:
    values = CONTRACT.parse(["m=257", "k=0x80", "order=ba", "preload=YES", " n = 5 "])
    assert values == {"m": 257, "k": 128, "order": "ba", "preload": True, "n": 5}
    assert values["preload"] is True


def test_parse_leading_zero_is_decimal() -> None:
    assert CONTRACT.parse(["m=010"]) == {"m": 10}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k=65", "k must be a multiple of 64, got 65; 64 and 128 would work"),
        ("k=0", "k must be at least 64, got 0; 64 would work"),
        ("k=1", "k must be at least 64 and a multiple of 64, got 1; 64 would work"),
        ("m=1048577", "m must be at most 1048576, got 1048577; 1048576 would work"),
        ("m=-3", "m must be at least 1, got -3; 1 would work"),
        ("tile_m=250", "tile_m must be a multiple of 32, got 250; 224 and 256 would work"),
        ("tile_m=300", "tile_m must be at most 256 and a multiple of 32, got 300; 256 would work"),
        ("m=many", "m must be a whole number, got 'many'"),
        ("m=1.5", "m must be a whole number, got '1.5'"),
        ("m=", "m must be a whole number, got ''"),
        ("preload=maybe", "preload must be true or false, got 'maybe'"),
        ("order=aa", "order must be ab or ba, got 'aa'"),
        ("m", "a parameter is written NAME=VALUE, got 'm'"),
        ("=5", "a parameter is written NAME=VALUE, got '=5'"),
    ],
)
def test_parse_refuses(text: str, expected: str) -> None:
    assert sentence(CONTRACT.parse, [text]) == expected


def test_parse_refuses_a_name_given_twice() -> None:
    assert sentence(CONTRACT.parse, ["k=64", "k=128"]) == "k is given twice, as 64 and as '128'; give it once"


def test_unknown_parameter_names_the_nearest() -> None:
    assert "has no parameter 'M'; did you mean 'm'?" in sentence(CONTRACT.parse, ["M=5"])
    assert "did you mean 'tile_m'?" in sentence(CONTRACT.parse, ["tilem=64"])
    far = sentence(CONTRACT.parse, ["zzzzzz=1"])
    assert "did you mean" not in far and "known are tile_m, order" in far


def test_did_you_mean_with_nothing_known() -> None:
    assert did_you_mean("x", []) == "it has none"


def test_long_values_are_cut_in_the_sentence() -> None:
    assert len(sentence(CONTRACT.parse, ["m=" + "9x" * 3000])) < 120


def test_build_fills_defaults_and_leaves_run_parameters_out() -> None:
    assert CONTRACT.resolve_build({"tile_m": 96}) == {"tile_m": 96, "order": "ab", "preload": False}


def test_build_refuses_a_run_parameter() -> None:
    text = sentence(CONTRACT.resolve_build, {"m": 5})
    assert text.startswith("m is a run parameter of toy-gemm") and "asmgen run" in text


def test_build_checks_rules_of_build_parameters_only() -> None:
    assert sentence(CONTRACT.resolve_build, {"tile_m": 160, "preload": True}) == (
        "tile_m must be at most 128 where preload is on, got tile_m=160, preload=True; tile_m=64 or preload=false would work"
    )
    assert CONTRACT.resolve_build({"tile_m": 128, "preload": True})["preload"] is True
    assert CONTRACT.resolve_build({"tile_m": 160})["tile_m"] == 160


def test_run_fills_defaults_from_another_parameter() -> None:
    resolved = CONTRACT.resolve_run(SHAPE)
    assert resolved["lda"] == 128 and resolved["seed"] == 7 and resolved["tile_m"] == 64
    assert CONTRACT.resolve_run({**SHAPE, "lda": 136})["lda"] == 136


def test_a_broken_rule_names_the_fewest_changes_that_keep_all_rules() -> None:
    """Two rules that one parameter breaks, one that no change of one parameter keeps, and one that no value keeps."""
    rules = (
        Rule("preload needs order=ba", ("preload", "order"), lambda p: not p["preload"] or p["order"] == "ba"),
        Rule("order=ba needs few rows", ("order", "tile_m"), lambda p: p["order"] == "ab" or p["tile_m"] < 96),
    )
    contract = contract_with(parameters=CONTRACT.parameters, rules=rules)
    assert sentence(contract.resolve_build, {"preload": True}) == "preload needs order=ba, got preload=True, order=ab; " \
        "preload=false or order=ba would work"
    assert sentence(contract.resolve_build, {"preload": True, "tile_m": 128}).endswith("order=ab; preload=false would work")
    on = Rule("preload must be on", ("preload",), lambda p: p["preload"])
    alone = contract_with(parameters=CONTRACT.parameters, rules=(*rules, on))
    assert sentence(alone.resolve_build, {}) == "preload must be on, got preload=False; order=ba preload=true would work"
    both = contract_with(parameters=CONTRACT.parameters, rules=(*rules, replace(on, reads=("preload", "order"))))
    assert sentence(both.resolve_build, {}).endswith("; order=ba preload=true would work")
    far = contract_with(parameters=CONTRACT.parameters, rules=(on, Rule("order=preload", ("preload", "order"),
                                                                        lambda p: p["preload"] == (p["order"] == "ba"))))
    assert sentence(far.resolve_build, {}) == "preload must be on, got preload=False; order=ba preload=true would work"
    never = contract_with(parameters=CONTRACT.parameters, rules=(Rule("no order works", ("order",), lambda p: False),))
    assert sentence(never.resolve_build, {}) == "no order works, got order=ab"


def test_a_change_is_named_only_if_the_launch_keeps_its_rules_too() -> None:
    rules = (Rule("preload must be on", ("preload",), lambda p: p["preload"]),
             Rule("preload needs 64 rows", ("preload", "m"), lambda p: not p["preload"] or p["m"] >= 64))
    contract = contract_with(parameters=CONTRACT.parameters, rules=rules)
    assert sentence(contract.resolve_run, SHAPE).endswith("; preload=true would work")
    assert sentence(contract.resolve_run, SHAPE | {"m": 40}) == "preload must be on, got preload=False"


def test_run_checks_rules() -> None:
    assert sentence(CONTRACT.resolve_run, {**SHAPE, "lda": 127}) == "lda must be at least k, got lda=127, k=128"


def test_run_names_all_missing_parameters() -> None:
    text = sentence(CONTRACT.resolve_run, {"m": 3})
    assert text == "toy-gemm needs n (rows of B), k (columns of A and B); give -p n=VALUE -p k=VALUE"


def test_run_refuses_values_of_the_wrong_python_type() -> None:
    assert sentence(CONTRACT.resolve_run, {**SHAPE, "m": True}) == "m must be a whole number, got True"
    assert sentence(CONTRACT.resolve_run, {**SHAPE, "m": 3.0}) == "m must be a whole number, got 3.0"
    assert sentence(CONTRACT.resolve_run, {**SHAPE, "preload": 1}) == "preload must be true or false, got 1"
    assert sentence(CONTRACT.resolve_run, {**SHAPE, "order": 5}) == "order must be a name, got 5"


def test_numpy_integers_become_python_ones() -> None:
    assert type(CONTRACT.resolve_run({**SHAPE, "m": numpy.int64(9)})["m"]) is int


@settings(max_examples=200, derandomize=True, deadline=None)
@given(value=st.integers(-300, 900), low=st.integers(-100, 300), span=st.integers(0, 400), step=st.integers(1, 70))
def test_every_value_that_the_sentence_offers_works(value: int, low: int, span: int, step: int) -> None:
    parameter = Parameter("x", "run", int, "any", minimum=low, maximum=low + span, multiple_of=step)
    legal = [number for number in range(low, low + span + 1) if number % step == 0]
    if value in legal:
        assert parameter.check(value) == value
        return
    text = sentence(parameter.check, value)
    if not legal:
        assert "would work" not in text
        return
    offered = [int(word) for word in text.split("; ")[1].removesuffix(" would work").split(" and ")]
    nearest = min(abs(number - value) for number in legal)
    assert set(offered) <= set(legal) and min(abs(number - value) for number in offered) == nearest


def test_floats() -> None:
    """alpha and softmax_scale: any finite number, from text or from Python, and sentences that offer the nearest bound."""
    alpha = Parameter("alpha", "run", float, "factor of the product", default=1, minimum=-2.5, maximum=2.5)
    assert [alpha.parse(text) for text in ("0.125", " 2 ", "-1e-3")] == [0.125, 2.0, -0.001]
    assert all(type(alpha.check(value)) is float for value in (1, 0.5, numpy.float32(0.5), numpy.int64(2)))
    assert sentence(alpha.parse, "3") == "alpha must be at most 2.5, got 3.0; 2.5 would work"
    assert sentence(alpha.check, -3) == "alpha must be at least -2.5, got -3.0; -2.5 would work"
    for wrong in ("nan", "inf", "0x10", "one", ""):
        assert sentence(alpha.parse, wrong) == f"alpha must be a finite number, got {wrong!r}"
    for value in (True, "1", float("nan"), 1j, None):
        assert "must be a finite number" in sentence(alpha.check, value)
    assert sentence(Parameter("m", "run", int, "rows").check, 1.0) == "m must be a whole number, got 1.0"
    scale = Parameter("scale", "run", float, "chosen", choices=(0.5, 0.25))
    assert scale.parse(".25") == 0.25 and "must be 0.5 or 0.25" in sentence(scale.check, 0.3)
    described = contract_with(parameters=(alpha,)).describe()
    assert described["parameters"]["alpha"] == {
        "kind": "run", "type": "float", "doc": "factor of the product", "default": 1, "minimum": -2.5, "maximum": 2.5}
    assert described["example"] == {"alpha": 1.0}


def test_lds_bytes_before_the_build() -> None:
    contract = contract_with(lds_bytes=None, parameters=())
    assert "lds_bytes" not in contract.describe()
    assert "once it is built" in sentence(contract.lds_bytes_of, {})


def test_architecture() -> None:
    assert CONTRACT.check_arch("gfx942") == "gfx942"
    assert sentence(CONTRACT.check_arch, "gfx90a") == "toy-gemm has no code for 'gfx90a'; gfx950 and gfx942 would work"


def test_grid_and_sizes() -> None:
    resolved = CONTRACT.resolve_run({**SHAPE, "m": 257, "n": 129})
    assert CONTRACT.grid_of(resolved) == (5, 5, 1)
    assert CONTRACT.lds_bytes_of(resolved) == 16384 and CONTRACT.workspace_bytes_of(resolved) == {}
    assert "its grid is 0 x 5 x 1" in sentence(CONTRACT.grid_of, {**resolved, "m": 0})


def test_json_of_a_build() -> None:
    text = CONTRACT.to_json("gfx942", {"tile_m": 32})
    document = json.loads(text)
    assert text == CONTRACT.to_json("gfx942", {"tile_m": 32}) and text.endswith("}\n")
    assert (document["schema"], document["version"], document["kernel"]) == ("asmgen-contract", 2, "toy-gemm")
    assert document["arch"] == "gfx942" and document["archs"] == ["gfx942", "gfx950"]
    assert document["build"] == {"tile_m": 32, "order": "ab", "preload": False}
    assert document["grid"] == {"sentence": "ceil(m / tile_m) x ceil(n / 32) x 1", "example": [4, 2, 1]}
    assert document["lds_bytes"] == {"sentence": "2 x tile_m x 128", "example": 8192}
    assert document["workspaces"] == []
    (launch,) = document["launches"]
    assert launch == {name: document[name] for name in ("title", "arguments", "workgroup", "grid", "lds_bytes")}
    placed = [(row["name"], row["offset"], row["size"]) for row in document["arguments"]]
    assert placed == [("a", 0, 8), ("m", 8, 4), ("alpha", 12, 2), ("d", 16, 8)]
    assert document["parameters"]["k"] == {"kind": "run", "type": "int", "doc": "columns of A and B", "minimum": 64, "multiple_of": 64}
    assert document["parameters"]["preload"]["default"] is False
    assert document["rules"][0] == {"sentence": "lda must be at least k", "reads": ["lda", "k"]}
    assert "m" not in document["build"] and document["example"]["m"] == 100


def test_arguments_that_may_be_one_array() -> None:
    """In the .json of the products, and in what list prints; pointers only."""
    for name in ("gemm-bf16", "gemm-fp8"):
        document = family(name).contract("gfx950").describe()
        assert document["aliases"] == [{"arguments": ["c", "d"], "where": "ldc is ldd"}]
        (row,) = (row for row in kernel_rows("gfx950") if row["kernel"] == name)
        assert "c and d may be one array where ldc is ldd; nothing else that is written may overlap" in kernel_text([row])
    assert CONTRACT.describe()["aliases"] == [] and "one array" not in kernel_text(
        [row for row in kernel_rows("gfx950") if row["kernel"] == "attention-forward"])
    assert "k may share memory with, but that is no pointer" in sentence(lambda: contract_with(aliases=(Alias(("k",), "ever"),)))


def test_json_keys_are_sorted_at_every_level() -> None:
    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert [key for key, _ in pairs] == sorted(key for key, _ in pairs)
        return dict(pairs)

    json.loads(CONTRACT.to_json(), object_pairs_hook=check)


def test_json_without_architecture_names_none() -> None:
    assert "arch" not in json.loads(CONTRACT.to_json())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Parameter("x", "build", int, "no default"),
        lambda: Parameter("x", "sometimes", int, "no such kind"),
        lambda: Parameter("x", "run", complex, "no such type"),  # type: ignore[arg-type]
        lambda: Parameter("x", "run", str, "a range of names", minimum=1),
        lambda: Parameter("x", "run", float, "a multiple of a fraction", multiple_of=2),
        lambda: Parameter("x", "run", float, "a whole default beyond the range", default=5, maximum=4.5),
        lambda: Parameter("x", "run", int, "no such multiple", multiple_of=0),
        lambda: Parameter("x", "build", int, "illegal default", default=5, multiple_of=2),
        lambda: Parameter("x", "run", int, "two defaults", default=5, default_from="y"),
        lambda: Parameter("x", "run", int, "illegal choice", choices=(4, 6), maximum=5),
    ],
)
def test_parameters_that_contradict_themselves(make: Any) -> None:
    sentence(make)


def contract_with(**changes: Any) -> KernelContract:
    fields: dict[str, Any] = {
        "name": "t",
        "title": "t",
        "archs": ("gfx950",),
        "parameters": (Parameter("k", "run", int, "k"),),
        "arguments": (),
        "workgroup": (64, 1, 1),
        "grid": Formula("1", lambda p: (1, 1, 1)),
    }
    return KernelContract(**{**fields, **changes})


def test_contracts_that_contradict_themselves() -> None:
    k = Parameter("k", "run", int, "k")
    assert contract_with().parameter("k") is not None
    assert "twice" in sentence(lambda: contract_with(parameters=(k, k)))
    lda = Parameter("lda", "run", int, "lda", default_from="k")
    assert contract_with(parameters=(k, lda)).resolve_run({"k": 5}) == {"k": 5, "lda": 5}
    assert "no parameter declared before" in sentence(lambda: contract_with(parameters=(lda, k)))
    ldb = Parameter("ldb", "run", int, "ldb", multiple_of=8, default_from=Formula("2 k", lambda p: 2 * p["k"]))
    padded = contract_with(parameters=(k, ldb))
    assert padded.resolve_run({"k": 4})["ldb"] == 8 and padded.resolve_run({"k": 4, "ldb": 16})["ldb"] == 16
    assert "multiple of 8, got 10" in sentence(padded.resolve_run, {"k": 5})
    assert sentence(padded.resolve_run, {}).count("needs k") == 1
    assert ldb.describe()["default_from"] == "2 k"
    assert "reads q" in sentence(lambda: contract_with(rules=(Rule("q must be", ("q",), lambda p: True),)))
    x = ContractArgument("x", "i32", "x")
    assert "twice" in sentence(lambda: contract_with(arguments=(x, x)))
    with pytest.raises(ArgumentError, match="unknown argument type 'int'"):
        ContractArgument("x", "int", "x")


def test_import_is_cheap() -> None:
    program = "import sys, asmgen.author.contract.contract; print(sorted({'numpy', 'ml_dtypes', 'difflib', 'hip'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"
