"""Ctrl-C at any moment of a command: status 130 and one line, or what the command would have said had nobody come."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from asmgen.interrupts import Interrupted, follows_interrupt
from asmgen.toolchain import assemble

ROOT = Path(__file__).resolve().parents[2]
LINE = "asmgen: interrupted\n"
STARTED = "from asmgen.interrupts import watch; watch(); import os; os.write(1, b'!'); from asmgen.tools.console import main; main()"
COMMANDS = (["build", "gemm-bf16", "-o", "{}"], ["list"], ["doctor"],
            ["run", "gemm-bf16", "-p", "m=64", "-p", "n=64", "-p", "k=64", "--device", "emulator"])


def started(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process in a group of its own, which has written its first byte."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # pytest & ignores it
    assert process.stdout is not None and process.stdout.read(1) == "!"
    return process


def group(leader: int) -> list[int]:
    """The processes of a process group that have not ended; whose parent has ended too may wait for a reaper for ever."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.getpgid(int(name)) == leader \
                    and Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(name))
        except (ProcessLookupError, FileNotFoundError):  # it has ended meanwhile
            continue
    return found


def test_an_error_on_the_way_out_follows_ctrl_c() -> None:
    """Closing a pool whose thread had not started raises; that is no error of asmgen's."""
    with pytest.raises(RuntimeError) as after:
        try:
            raise Interrupted
        finally:
            threading.Thread().join()
    with pytest.raises(RuntimeError) as alone:
        threading.Thread().join()
    assert follows_interrupt(after.value) and not follows_interrupt(alone.value)


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_ctrl_c_at_seeded_moments(number: int, tmp_path: Path) -> None:
    choose = random.Random(number)
    for moment in (choose.uniform(0, 0.06), choose.uniform(0.06, 0.3), choose.uniform(0.3, 0.8)):
        process = started(STARTED, *(word.format(tmp_path) for word in COMMANDS[number]))
        time.sleep(moment)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: what the command started hears it too
        out, said = process.communicate(timeout=30)
        if process.returncode == 130:
            assert said.endswith(LINE) and said.count(LINE) == 1 and "Traceback" not in said and "Exception" not in said, (moment, said)
            assert all(line.startswith("asmgen: ") for line in said.splitlines())
        else:
            assert process.returncode == 0 and out and LINE not in said, (moment, said)
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".asmgen-")]


@pytest.mark.parametrize("body", [
    "import time; time.sleep(30)",  # caught by nobody
    "import time\ntry: time.sleep(30)\nexcept: pass\nwhile True: time.sleep(1)",  # by a library that catches everything
    "import time\nclass Slow:\n    def __del__(self): time.sleep(30)\nslow = Slow()\ndel slow",  # where it cannot be passed on
    "import atexit, time; atexit.register(time.sleep, 30)",  # at exit
    "import threading, time; threading.Thread(target=time.sleep, args=(30,)).start()",  # while Python waits for a thread
    "import ctypes, time\nctypes.CFUNCTYPE(None)(lambda: time.sleep(30))()",  # in a callback from C
    "import click, time\nclick.command()(lambda: time.sleep(30)).main(args=[], standalone_mode=False)",  # which click would report
], ids=("alone", "swallowed", "del", "atexit", "thread", "callback", "click"))
def test_ctrl_c_ends_what_does_not_listen(body: str) -> None:
    process = started(f"from asmgen.interrupts import watch; watch(); import os; os.write(1, b'!')\n{body}")
    time.sleep(0.3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, LINE) and time.monotonic() - began < 10


def test_two_signals_are_one_line() -> None:
    process = started("from asmgen.interrupts import watch; watch(); import os, time; os.write(1, b'!')\n"
                      "try: time.sleep(30)\nfinally: time.sleep(30)")
    for _ in range(2):
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[1] == LINE and process.returncode == 130


def test_where_ctrl_c_is_ignored_it_stays_ignored() -> None:
    """As under nohup, and in the background of a script."""
    process = started("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from asmgen.interrupts import watch; watch()\n"
                      "import os, time; os.write(1, b'!'); time.sleep(0.4)")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[1] == "" and process.returncode == 0


def test_ctrl_c_ends_an_audit_and_its_workers(tmp_path: Path) -> None:
    """A pipe would be passed over, so what the workers read takes long for another reason: there is much of it."""
    source = "".join(f"v_add_f32 v{number % 200}, v1, v2\n" for number in range(60000)) + "s_endpgm\n"
    code = assemble(f".amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\n.text\nlong:\n{source}.size long, .-long\n", "gfx942")
    for number in range(4):
        (tmp_path / f"{number}.co").write_bytes(code)
    process = started(STARTED, "audit", str(tmp_path), "-j", "2")
    while len(group(process.pid)) < 3 and process.poll() is None:  # its workers are at work
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)  # to the first process alone
    assert process.communicate(timeout=30)[1] == LINE and process.returncode == 130
    until = time.monotonic() + 10
    while group(process.pid) and time.monotonic() < until:  # a killed process takes a moment
        time.sleep(0.01)
    assert not group(process.pid)
