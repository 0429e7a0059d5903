"""What all tests share: skips with a reason in one line, no skips at all where ASMGEN_NO_SKIP is set, reproducible hypothesis."""

from __future__ import annotations

import gc
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from asmgen.toolchain import ToolError, find_toolchain, require_objdump

# One thread for products of matrices, before numpy is loaded: workers fill the cores, and threads that wait take their time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same examples on every run and every machine; no deadline, since a busy machine is no fault of the code.
settings.register_profile("asmgen", derandomize=True, deadline=None, database=None)
settings.load_profile("asmgen")

# Launches are held in circles. They are looked for after each test, among what it has made, which is warm then, and within a test among a
# million objects at a time. What Python finds by itself it finds late: workers held gigabytes, and looking there took a tenth of the suite.
gc.set_threshold(1_000_000, 1_000, 1_000)
MADE = 2_000
"""How many objects a test leaves behind at least before they are looked at."""


def missing_objdump() -> str:
    """Why tests that read code objects cannot run, or ""."""
    try:
        require_objdump()
        find_toolchain()
    except ToolError as error:
        return error.sentence
    return ""


@pytest.fixture(scope="session")
def objdump() -> tuple[str, ...]:
    """The llvm-objdump command; the test is skipped where there is none."""
    reason = missing_objdump()
    if reason:
        pytest.skip(reason)
    return require_objdump()


@pytest.fixture(scope="session", autouse=True)
def shared_code_objects(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What one worker of pytest-xdist has compiled serves the others."""
    from tests import clang_objects

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "code_objects"
    folder.mkdir(exist_ok=True)
    clang_objects.share(folder)


@pytest.fixture(params=["numpy", "compiled"])
def both_paths(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which lanes gather and scatter."""
    from asmgen.emulator.machine.compiled import Work

    chosen: str = request.param
    monkeypatch.setattr(Work, "pays", lambda self, more: chosen == "compiled")
    return chosen


RECORD = "ASMGEN_RECORD_TESTED"
"""Names a folder: every process writes there which mnemonics the emulator has executed (tests/record_tested.py asks for it)."""
_executed: set[str] = set()


def pytest_configure(config: pytest.Config) -> None:
    if not os.environ.get(RECORD):
        return
    from asmgen.emulator.binding.decode import Decoder

    plain = Decoder.step

    def step(self: Decoder, position: int, mode: int, index: int) -> object:
        _executed.add(self.program.instructions[position].name)
        return plain(self, position, mode, index)

    Decoder.step = step  # type: ignore[assignment, method-assign]


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = os.environ.get(RECORD)
    if folder:
        (Path(folder) / f"{os.getpid()}.txt").write_text("\n".join(sorted(_executed)))


# Files that `make quick` leaves out: each takes several seconds of one core.
SLOW_FILES = frozenset({
    "test_attention_forward.py", "test_attention_interleaved.py", "test_attention_loop.py", "test_attention_scores.py",
    "test_auto_against_llvm.py",
    "test_relaunch_of_bound_code.py", "test_buffer_loads_stores.py", "test_typed_buffers.py", "test_hip_kernels.py",
    "test_hip_kernels_float.py", "test_hip_kernels_matrix.py", "test_lds_instructions.py", "test_lds_atomics.py",
    "test_lds_dma.py", "test_matrix_instructions.py", "test_modifiers_change_results.py", "test_wait_states_judged_independently.py",
    "test_endless_loops.py", "test_wave_scheduling.py", "test_wave_state.py", "test_valu_compare.py", "test_valu_convert.py",
    "test_valu_float.py", "test_valu_math.py", "test_valu_packed.py", "test_valu_small_formats.py",
    "test_vector_memory.py", "test_memory_atomics.py",
    "test_far_keys.py", "test_far_strides.py", "test_formats.py", "test_frontier.py", "test_gemm_bf16.py",
    "test_gemm_fp8.py", "test_gemm_mx.py", "test_gemm_tiled.py",
    "test_quick_global_races.py", "test_hip_emulator.py", "test_hip_versions.py",
    "test_hostile_files.py", "test_interrupts.py", "test_launch_examples.py", "test_lds_bounds.py", "test_compiled_race_detector.py",
    "test_early_exit.py", "test_mfma_layout.py",
    "test_mfma_states_agree.py", "test_mfma_tables.py", "test_model_foreign.py", "test_model_profile.py", "test_profile_command.py",
    "test_mutants.py",
    "test_oddsweep.py",
    "test_opcodes.py", "test_planted_faults.py", "test_reader_fuzz.py", "test_reader_isa.py", "test_replace_semantics.py",
    "test_round_trip.py", "test_fused_tiles.py", "test_tile_math.py", "test_tile_memory.py", "test_undefined_oracle.py",
    "test_waits_verify_random.py", "test_workgroup_races.py",
})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write tests/golden anew, to be reviewed as a text diff")
    parser.addoption("--shuffle", metavar="SEED", default=None, help="run the tests in the random order that a seed gives")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--shuffle") is not None:
        # Sorted before, so that every worker of pytest-xdist has the same order.
        items.sort(key=lambda item: item.nodeid)
        random.Random(config.getoption("--shuffle")).shuffle(items)
    begun: set[str] = set()
    for item in items:
        name = item.nodeid.partition("[")[0]
        if item.path.name in SLOW_FILES or item.get_closest_marker("slow_after_first") and name in begun:
            item.add_marker(pytest.mark.slow)
        begun.add(name)
    marked = [item for item in items if item.get_closest_marker("needs_objdump")]
    reason = missing_objdump() if marked else ""
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # modules and tests, which stay to the end


def forget_what_is_kept(item: pytest.Item) -> None:
    """Drop the builds that a file of tests keeps in caches of its own: workers held gigabytes of them to the end."""
    assert isinstance(item, pytest.Function)
    for value in vars(item.module).values():
        if getattr(value, "__module__", None) == item.module.__name__ and hasattr(value, "cache_clear"):
            value.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    if nextitem is None or nextitem.path != item.path:
        forget_what_is_kept(item)
        gc.collect()
        gc.freeze()  # what modules of asmgen keep
    elif gc.get_count()[0] > MADE:
        gc.collect(1)


def skip_reasons(terminalreporter: pytest.TerminalReporter) -> Counter[str]:
    """How many tests and files were skipped, by reason."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[text.removeprefix("Skipped: ")] += 1
    return reasons


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason, count in skip_reasons(terminalreporter).items():
        terminalreporter.write_line(f"SKIPPED [{count}] {reason}")


# First of the hooks: the terminal's own hook around this one prints the summary.
@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("ASMGEN_NO_SKIP") and reporter is not None and skip_reasons(reporter) and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line("")
        reporter.write_line("tests were skipped, and ASMGEN_NO_SKIP is set: this run has failed")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
