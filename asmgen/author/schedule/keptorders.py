"""Orders that a long search found, kept as data beside a kernel's file.

`asmgen tune --schedule` writes them: FILE.orders.json for FILE.py, one entry for each step that was searched. The key of an entry is a hash
of the step (what each unit of each phase is, reads, writes and accesses, and in which iteration) and of the timing table. A step whose
hash is not there is searched as any other, and the assembly text says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from asmgen.author.schedule.schedules import Arrangement, Placed, Sync
from asmgen.author.schedule.stepfacts import StepFacts
from asmgen.isa.errors import AsmgenError

SUFFIX = ".orders.json"
Chooser = Callable[[StepFacts], Arrangement | None]
"""Says the order of a step, or None to leave it to the schedule."""
_CHOOSER: ContextVar[Chooser | None] = ContextVar("chooser", default=None)


@contextmanager
def chosen_by(chooser: Chooser) -> Iterator[None]:
    """Within it, builds ask the chooser first: this is how a long search looks at whole kernels."""
    token = _CHOOSER.set(chooser)
    try:
        yield
    finally:
        _CHOOSER.reset(token)


def imposed(step: StepFacts) -> Arrangement | None:
    """What the chooser says, if there is one."""
    chooser = _CHOOSER.get()
    return chooser(step) if chooser is not None else None


def orders_file(kernel_file: str) -> Path:
    """Where the orders of a kernel's file are."""
    return Path(kernel_file).with_suffix(SUFFIX)


def read_orders(path: Path) -> dict[str, Arrangement]:
    """The orders by hash; none where there is no file. Raises AsmgenError for a file that holds something else."""
    if not path.exists():
        return {}
    try:
        return {digest: _arrangement(entry["order"]) for digest, entry in json.loads(path.read_text()).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AsmgenError(f"{path} holds no orders of `asmgen tune --schedule` ({error!r}); delete it or search anew") from None


def with_order(path: Path, digest: str, arrangement: Arrangement, note: str) -> str:
    """The text of the file with one more order; `note` says what it was found for."""
    entries = json.loads(path.read_text()) if path.exists() else {}
    entries[digest] = {"for": note, "order": _text(arrangement)}
    return json.dumps(dict(sorted(entries.items(), key=lambda item: (item[1]["for"], item[0]))), indent=1) + "\n"


_SYNC = {"w": Sync("wait"), "b": Sync("barrier")}


def _text(arrangement: Arrangement) -> str:
    """Ordinals, `w` for a wait and `b` for a barrier; what leads has a `<`."""
    names = {sync: letter for letter, sync in _SYNC.items()}
    return " ".join(names[entry] if isinstance(entry, Sync) else f"{entry}{'<' if entry in arrangement.lead else ''}"
                    for entry in arrangement.order)


def _arrangement(text: str) -> Arrangement:
    order: list[Placed] = []
    lead = set()
    for word in text.split():
        if word in _SYNC:
            order.append(_SYNC[word])
            continue
        order.append(int(word.rstrip("<")))
        lead |= {int(word[:-1])} if word.endswith("<") else set()
    return Arrangement(tuple(order), frozenset(lead))
