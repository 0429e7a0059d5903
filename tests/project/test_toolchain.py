"""Finding the tools, assembling with them, what is said where they are missing; the doctor's report; the rule of skipped tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest

from asmgen.isa.errors import AsmgenError
from asmgen.toolchain import (
    AssemblyError,
    Search,
    Toolchain,
    ToolError,
    assemble,
    disassemble,
    find_tool,
    find_toolchain,
    require_objdump,
    zig_program,
)
from asmgen.tools.doctor import doctor

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """.amdgcn_target "amdgcn-amd-amdhsa--ARCH"
.text
.globl k
.p2align 8
.type k,@function
k:
  INSTRUCTION
  s_endpgm
.size k, .-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 32
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 16
.end_amdhsa_kernel
"""
MFMA = {
    "gfx942": "v_mfma_f32_16x16x16_bf16 a[0:3], v[2:3], v[4:5], a[0:3]",
    "gfx950": "v_mfma_f32_16x16x32_bf16 a[0:3], v[0:3], v[4:7], a[0:3]",
}


def kernel(arch: str, instruction: str | None = None) -> str:
    return KERNEL.replace("ARCH", arch).replace("INSTRUCTION", instruction or MFMA[arch])


def place(folder: Path, *names: str) -> str:
    """A folder of programs that do nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return str(folder)


def search(
    variables: Mapping[str, str] | None = None, prefix: Path | None = None, rocm: Path | None = None, zig: Path | None = None
) -> Search:
    """A search that sees nothing of this machine but what is given."""
    return Search(variables or {}, prefix, rocm, zig)


def everywhere(tmp_path: Path) -> dict[str, Search]:
    """A search for each place that has tools, in the order of preference, each without those before it."""
    asked = place(tmp_path / "asked", "clang", "ld.lld", "llvm-objdump") + "/clang"
    place(tmp_path / "myrocm" / "llvm" / "bin", "clang", "ld.lld", "llvm-objdump")
    place(tmp_path / "opt" / "llvm" / "bin", "clang", "ld.lld", "llvm-objdump")
    paths = {n: place(tmp_path / f"path{n}", f"clang-{n}", f"ld.lld-{n}", f"llvm-objdump-{n}") for n in (22, 21, 20, 19)}
    place(tmp_path / "prefix" / "llvm" / "bin", "clang", "ld.lld", "llvm-objdump")
    zig = Path(place(tmp_path / "ziglang", "zig"), "zig")
    env = {"ASMGEN_CLANG": asked, "ROCM_PATH": str(tmp_path / "myrocm")}
    opt, prefix = tmp_path / "opt", tmp_path / "prefix"

    def on_path(*versions: int) -> dict[str, str]:
        return {"PATH": os.pathsep.join(paths[n] for n in versions)}

    return {
        "asked": search({**env, **on_path(22)}, prefix, opt, zig),
        "myrocm": search({"ROCM_PATH": env["ROCM_PATH"], **on_path(22)}, prefix, opt, zig),
        "opt": search(on_path(22), prefix, opt, zig),
        "path22": search(on_path(19, 20, 21, 22), prefix, None, zig),
        "path21": search(on_path(19, 20, 21), prefix, None, zig),
        "path20": search(on_path(20, 19), prefix, None, zig),
        "prefix": search(on_path(19), prefix, None, zig),
        "ziglang": search(on_path(19), None, None, zig),
    }


@pytest.mark.parametrize("wanted", ["asked", "myrocm", "opt", "path22", "path21", "path20", "prefix", "ziglang"])
def test_order_of_places(tmp_path: Path, wanted: str) -> None:
    chain = find_toolchain(everywhere(tmp_path)[wanted])
    commands = [chain.clang, chain.lld] + ([chain.objdump] if chain.objdump else [])
    assert {Path(command[0]).relative_to(tmp_path).parts[0] for command in commands} == {wanted}
    assert (chain.objdump is None) == (wanted == "ziglang")


def test_place_without_linker_is_passed_over(tmp_path: Path) -> None:
    path = place(tmp_path / "a", "clang-22", "llvm-objdump-22") + os.pathsep + place(tmp_path / "b", "clang-21", "ld.lld-21")
    a, b = tmp_path / "a", tmp_path / "b"
    expected = Toolchain((f"{b}/clang-21",), (f"{b}/ld.lld-21",), (f"{a}/llvm-objdump-22",), "LLVM 21 on PATH")
    assert find_toolchain(search({"PATH": path})) == expected


def test_directory_and_plain_file_are_no_programs(tmp_path: Path) -> None:
    place(tmp_path / "a", "ld.lld-22", "ld.lld-21")
    (tmp_path / "a" / "clang-22").mkdir()
    (tmp_path / "a" / "clang-21").write_text("")
    with pytest.raises(ToolError):
        find_toolchain(search({"PATH": str(tmp_path / "a")}))


def test_asked_clang_brings_the_tools_of_its_version(tmp_path: Path) -> None:
    asked = place(tmp_path / "a", "clang-21")
    path = place(tmp_path / "b", "clang-22", "ld.lld-22", "llvm-objdump-22", "ld.lld-21", "llvm-objdump-21")
    chain = find_toolchain(search({"ASMGEN_CLANG": f"{asked}/clang-21", "PATH": path}))
    assert chain.clang == (f"{asked}/clang-21",) and chain.lld == (f"{path}/ld.lld-21",) and chain.objdump == (f"{path}/llvm-objdump-21",)


def test_asked_clang_may_be_a_link_a_name_or_zig(tmp_path: Path) -> None:
    real = place(tmp_path / "llvm", "clang", "ld.lld")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "my-clang").symlink_to(Path(real, "clang"))
    chain = find_toolchain(search({"ASMGEN_CLANG": "my-clang", "PATH": str(tmp_path / "bin")}))
    assert chain.clang == (f"{tmp_path}/bin/my-clang",) and chain.lld == (f"{real}/ld.lld",)
    zig = place(tmp_path / "z", "zig") + "/zig"
    chain = find_toolchain(search({"ASMGEN_CLANG": zig}))
    assert chain.clang == (zig, "clang") and chain.lld == (zig, "ld.lld") and chain.objdump is None


def test_asked_clang_without_a_linker_takes_another(tmp_path: Path) -> None:
    asked = place(tmp_path / "a", "clang") + "/clang"
    path = place(tmp_path / "b", "clang-22", "ld.lld-22")
    assert find_toolchain(search({"ASMGEN_CLANG": asked, "PATH": path})).lld == (f"{path}/ld.lld-22",)


@pytest.mark.parametrize("asked", ["/nowhere/clang", "clang-nowhere"])
def test_asked_clang_that_is_missing_is_not_passed_over(tmp_path: Path, asked: str) -> None:
    path = place(tmp_path, "clang-22", "ld.lld-22")
    with pytest.raises(ToolError, match=f"ASMGEN_CLANG is '{asked}', which is not a program"):
        find_toolchain(search({"ASMGEN_CLANG": asked, "PATH": path}))


def test_missing_tools_say_what_was_tried_and_one_command(tmp_path: Path) -> None:
    nothing = search({"ROCM_PATH": "/my/rocm", "PATH": str(tmp_path)}, tmp_path / "venv", tmp_path / "rocm")
    with pytest.raises(ToolError) as caught:
        find_toolchain(nothing)
    folders = ["/my/rocm/llvm/bin", f"{tmp_path}/rocm/llvm/bin", f"{tmp_path}/venv/llvm/bin"]
    for part in ["ASMGEN_CLANG (not set)", *folders, "LLVM 22 to 20 on PATH", "the pip package ziglang"]:
        assert part in str(caught.value)
    assert str(caught.value).count("`") == 2 and "`python -m pip install ziglang`" in str(caught.value)
    with pytest.raises(ToolError, match="llvm-objdump was not found .*`apt-get install clang-22 lld-22 llvm-22` installs it"):
        require_objdump(nothing)
    assert find_tool("llvm-mc", nothing) is None
    assert issubclass(ToolError, AsmgenError)


def test_program_that_does_not_start_is_one_sentence(tmp_path: Path) -> None:
    broken = Path(place(tmp_path, "clang", "ld.lld"), "clang")
    broken.write_bytes(b"\x7fELF")
    with pytest.raises(ToolError, match="clang does not start"):
        assemble(kernel("gfx950"), "gfx950", find_toolchain(search({"ASMGEN_CLANG": str(broken)})))


def toolchains() -> list[Toolchain]:
    here = Search.here()
    chains = [find_toolchain(here)]
    if here.zig is not None:
        chains.append(find_toolchain(search(zig=here.zig)))
    return chains


@pytest.mark.needs_objdump
@pytest.mark.parametrize("arch", sorted(MFMA))
def test_both_assemblers_make_the_same_code(arch: str) -> None:
    chains = toolchains()
    assert len(chains) == 2, "ziglang belongs to the dev extra"
    listings = []
    for chain in chains:
        code = assemble(kernel(arch), arch, chain)
        assert code[:4] == b"\x7fELF" and code[16] == 3  # a shared object
        assert assemble(kernel(arch), arch, chain) == code
        lines = [line for line in disassemble(code, arch).splitlines() if "//" in line]
        listings.append([line.split("//")[0].split() + line.split(":")[-1].split() for line in lines])
    assert listings[0] == listings[1]
    assert [line[0] for line in listings[0]][:2] == [MFMA[arch].split()[0], "s_endpgm"]


@pytest.mark.needs_objdump
def test_disassemble_reads_a_file_as_it_reads_bytes(tmp_path: Path) -> None:
    code = assemble(kernel("gfx950"), "gfx950")
    (tmp_path / "k.co").write_bytes(code)
    lines = [text.splitlines()[2:] for text in (disassemble(code, "gfx950"), disassemble(tmp_path / "k.co", "gfx950"))]
    assert lines[0] == lines[1] and any("v_mfma" in line for line in lines[0])
    assert "D3B58000" not in disassemble(code, "gfx950", "--no-show-raw-insn", "--no-leading-addr").split("//")[0]
    for bad in (b"no code object", tmp_path / "missing.co"):
        with pytest.raises(AsmgenError, match="llvm-objdump cannot read .*gfx950"):
            disassemble(bad, "gfx950")


@pytest.mark.parametrize("number", [0, 1])
def test_rejected_line_is_quoted_with_its_place(number: int) -> None:
    text = kernel("gfx942", "v_mov_b32 v0, v1\n  v_mfma_f32_16x16x32_bf16 a[0:3], v[0:3], v[4:7], a[0:3]\n  v_nonsense v1")
    with pytest.raises(AssemblyError) as caught:
        assemble(text, "gfx942", toolchains()[number], name="k.s")
    assert caught.value.where == "k.s:8"
    assert "gfx942 rejects `v_mfma_f32_16x16x32_bf16 a[0:3]" in str(caught.value) and "the first of 2 errors" in str(caught.value)


@pytest.mark.slow
def test_large_rejected_text_neither_hangs_nor_leaves_processes() -> None:
    text = kernel("gfx950", "\n".join(f"v_nonsense v{i}" for i in range(2000)))
    with pytest.raises(AssemblyError, match=r"<assembly>:7: .*v_nonsense v0"):
        assemble(text, "gfx950")


def test_unlinkable_text_and_unknown_processor_are_one_sentence() -> None:
    with pytest.raises(AssemblyError, match="cannot link far.s for gfx950: .*nowhere"):
        assemble(kernel("gfx950", ".hidden nowhere\n  s_getpc_b64 s[0:1]\n  s_add_u32 s0, s0, nowhere@rel32@lo"), "gfx950", name="far.s")
    with pytest.raises(AssemblyError, match="failed on <assembly> with status 1: .*gfx0") as caught:
        assemble(kernel("gfx950"), "gfx0")
    assert "\n" not in str(caught.value)


def test_extra_options_reach_clang() -> None:
    text = kernel("gfx950", ".ifdef WIDE\n  v_nonsense\n  .endif")
    assemble(text, "gfx950")
    with pytest.raises(AssemblyError, match="v_nonsense"):
        assemble(text, "gfx950", extra=["-Wa,-defsym,WIDE=1"])


def test_doctor_reports_everything_and_raises_nothing(tmp_path: Path) -> None:
    found = {status.name: status for status in doctor()}
    assert {"ld.lld", "llvm-objdump", "llvm-mc", "ziglang", "numba", "hip-python", "GPU"} <= set(found)
    for status in found.values():
        assert status.found or status.install or status.name == "GPU"
        assert not (status.found and status.install)
    assert found["numba"].found and found["ziglang"].version[0].isdigit()
    if found["hip-python"].found:
        assert found["hip-python"].version == metadata.version("hip-python")
    missing = {status.name: status for status in doctor(search())}
    assert missing["clang"].install == "python -m pip install ziglang" and "tried" in missing["clang"].version
    broken = {status.name: status for status in doctor(search({"ASMGEN_CLANG": "/nowhere/clang"}))}
    assert "ASMGEN_CLANG" in broken["clang"].version
    silent = {status.name: status for status in doctor(search({"PATH": place(tmp_path, "clang-22", "ld.lld-22")}))}
    assert not silent["ld.lld"].found and "does not tell its version" in silent["ld.lld"].version


def test_zig_program_is_the_installed_one() -> None:
    zig = zig_program()
    assert zig is not None and zig.parent.name == "ziglang" and os.access(zig, os.X_OK)


def run_pytest(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run([sys.executable, "-m", "pytest", *options], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "variable"), [("0", ""), ("2", "1")])
def test_skips_are_one_line_each_reason_and_fail_on_demand(tmp_path: Path, workers: str, variable: str) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    needs_objdump: x\n")
    marked = "@pytest.mark.needs_objdump\n@pytest.mark.parametrize('n', range(3))\ndef test_co(n): pass\n"
    (tmp_path / "test_one.py").write_text(f"import pytest\n\n{marked}\ndef test_objdump(objdump): pass\n")
    (tmp_path / "test_two.py").write_text("import pytest\npytest.skip('whole file', allow_module_level=True)\n")
    (tmp_path / "test_three.py").write_text("def test_good(): pass\n")
    done = run_pytest(tmp_path, "-n", workers, ASMGEN_CLANG="/nowhere/clang", ASMGEN_NO_SKIP=variable)
    lines = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert sorted(line.split()[1] for line in lines) == ["[1]", "[4]"], done.stdout
    assert done.returncode == (1 if variable else 0), done.stdout
    assert "1 passed, 5 skipped" in done.stdout


@pytest.mark.slow
def test_skip_check_leaves_a_run_without_skips_alone(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_one.py").write_text("def test_good(): pass\n")
    done = run_pytest(tmp_path, ASMGEN_NO_SKIP="1")
    assert done.returncode == 0, done.stdout


def install_llvm(folder: Path, path: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(ROOT / "tools" / "install_llvm.sh"), "llvm"]
    return subprocess.run(command, cwd=folder, env={"PATH": path, **variables}, capture_output=True, text=True)


def test_installing_llvm_does_nothing_where_it_is(tmp_path: Path) -> None:
    tools = [f"{name}-22" for name in ("clang", "ld.lld", "llvm-objdump", "llvm-mc", "llc")]
    done = install_llvm(tmp_path, place(tmp_path / "bin", *tools))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_installing_llvm_without_apt_is_a_notice(tmp_path: Path) -> None:
    done = install_llvm(tmp_path, place(tmp_path / "bin", "clang-22"))
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr.startswith("note: LLVM 22's tools could not be installed (no apt-get)") and done.stderr.count("\n") == 1


def test_failed_download_of_llvm_is_a_notice_and_leaves_nothing(tmp_path: Path) -> None:
    folder = place(tmp_path / "bin", "apt-cache")
    (tmp_path / "bin" / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    (tmp_path / "bin" / "apt-get").chmod(0o755)
    done = install_llvm(tmp_path, f"{folder}:/usr/bin:/bin", ASMGEN_LLVM_UNPACK="1")
    assert done.returncode == 0 and "the download failed" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
