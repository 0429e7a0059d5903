"""Ctrl-C: one line on stderr and status 130, whatever the process was doing.

Python's own KeyboardInterrupt does not give that: click and others catch it, what it hits in a callback or at exit is printed with its
trace, and a bare `except` in a library swallows it. So it is raised as another exception, what nobody catches ends in the line, and a
process that goes on for all that is ended soon after. Nothing that takes long is imported: until `watch` is called there may be a trace.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # typing's own takes some milliseconds
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, NoReturn

STATUS = 130
"""Of a process that Ctrl-C ended: 128 + SIGINT, as shells have it."""
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_PATIENCE = 2.0
"""Seconds for what is open to be closed: files in the making are removed."""


class Interrupted(BaseException):
    """Ctrl-C, raised once where the main thread stands."""


def watch() -> None:
    """From now on Ctrl-C ends the process so. Nothing changes where it is ignored (nohup), or is somebody else's already."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    try:
        signal.signal(signal.SIGINT, _interrupt)
    except ValueError:  # not the main thread: Ctrl-C is another's affair
        return
    atexit.register(_over)  # registered first, so called last
    sys.excepthook = _uncaught
    sys.unraisablehook = _swallowed


def unwatched(owner: int) -> None:
    """For a process that works for process `owner`: Ctrl-C ends it without a word, and it ends when its owner does (on Linux)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != owner:  # it ended before this was asked for
            os._exit(STATUS)


def leave() -> NoReturn:
    """Say the line and end the process at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        os.write(2, b"asmgen: interrupted\n")
    finally:
        os._exit(STATUS)


def follows_interrupt(error: BaseException) -> bool:
    """Whether it was raised while Ctrl-C unwound: a pool whose thread had not started yet cannot be closed, for one."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, Interrupted):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _again)
    signal.signal(signal.SIGALRM, _again)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
    raise Interrupted


def _again(number: int, frame: FrameType | None) -> None:
    leave()


def _over() -> None:
    """All is done and written, and Python takes itself apart: too late for Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, Interrupted | KeyboardInterrupt):
        leave()
    sys.__excepthook__(kind, error, trace)


def _swallowed(what: Any) -> None:
    """It was raised where Python cannot pass it on: in a callback from C, a __del__, at exit."""
    if what.exc_type is not None and issubclass(what.exc_type, Interrupted | KeyboardInterrupt):
        leave()
    sys.__unraisablehook__(what)
