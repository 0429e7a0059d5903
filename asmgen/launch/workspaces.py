"""Workspaces of launches on a GPU: memory for each stream that grows with the largest launch and stays, as BLAS libraries keep theirs.

A launch that follows on the same stream begins when those before it have ended, so that one workspace serves all of them. To make one for
each launch would wait for the GPU twice: hipFree does. hipMalloc is not allowed while a stream is captured into a graph: a launch of the
same size before that makes the memory. A graph may be replayed as long as the device is open, so no workspace is freed before; each new one
is twice as large as the one before at least, so that all together are no more than twice the last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from asmgen.launch.device import Buffer
from asmgen.launch.hipstreams import stream_handle


class StreamWorkspaces:
    """The workspaces of one GPU by stream and name; the device frees what `allocate` gives when it is closed."""

    def __init__(self, allocate: Callable[[int], Buffer]) -> None:
        self._allocate = allocate
        self._lock = threading.RLock()
        self._held: dict[tuple[int, str], Buffer] = {}

    @contextmanager
    def lend(self, name: str, nbytes: int, stream: Any) -> Iterator[Buffer]:
        """Memory for the launches that this thread puts on the stream within; other threads' launches that need some stand after them."""
        handle = stream_handle(stream)
        key = (handle if isinstance(handle, int) else id(handle) if handle is not None else 0), name
        with self._lock:
            held = self._held.get(key)
            if held is None or held.nbytes < nbytes:
                held = self._held[key] = self._allocate(nbytes if held is None else max(nbytes, 2 * held.nbytes))
            yield held
