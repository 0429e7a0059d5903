"""Where a launch saves its buffers: over no file that it reads, and all of them or none."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from asmgen.isa.quote import shown
from asmgen.launch.spec import LaunchSpec, SpecError
from asmgen.scratch import scratch_folder

Identity = tuple[int | str, ...]


@dataclass(frozen=True)
class Save:
    """One file to write: where, and who writes its contents."""

    target: Path
    write: Callable[[BinaryIO], None]


class _Identities:
    """What tells files apart, whatever their spelling: device and inode, or those of the folder and the name where there is no file."""

    def __init__(self) -> None:
        self._folders: dict[Path, str] = {}

    def real(self, path: Path) -> str:
        """The path without links. Raises OSError where one of its folders cannot be searched."""
        folder = self._folders.get(path.parent)
        if folder is None:
            folder = self._folders[path.parent] = os.path.realpath(path.parent)
        full = os.path.join(folder, path.name)
        return os.path.realpath(full) if path.name == ".." or os.path.islink(full) else full

    def of(self, path: Path) -> Identity:
        """The same for two paths exactly where they name one file."""
        full = self.real(path)
        try:
            found = os.stat(full)
            return found.st_dev, found.st_ino
        except OSError:
            return (full,)


def check_saves(spec: LaunchSpec, file: Path) -> None:
    """Raises SpecError where a save would overwrite the specification (`file`), the code object, another argument's file or another
    save, through links and other spellings too, and where it is clear before the launch that it cannot be written.
    """
    identities = _Identities()
    taken: dict[Identity, str] = {identities.of(file): "the specification itself", identities.of(spec.code_object): "the code object"}
    readers: dict[Identity, list[str]] = {}
    buffers = [(f"argument {number}{spec.launches[launch].of}", argument) for launch, number, argument in spec.buffers]
    for name, argument in buffers:
        if argument.source is not None:
            readers.setdefault(identities.of(argument.source), []).append(name)
    for name, argument in buffers:
        if argument.save is None:
            continue
        where = identities.of(argument.save)
        what = taken.get(where)
        others = [reader for reader in readers.get(where, ())[:2] if reader != name]
        if what is None and others:
            what = f"the file that {others[0]} is read from"
        if what is not None:
            raise SpecError(f"{spec.origin}: {name} would be saved over {what}, {shown(argument.save)}; save it elsewhere")
        taken[where] = f"what {name} is saved to"
        fault = _fault(argument.save)
        if fault:
            raise SpecError(f"{spec.origin}: {shown(argument.save)} cannot be written: {fault}")


def _fault(target: Path) -> str:
    """Why a file cannot be written, "" where nothing speaks against it."""
    try:
        found = os.stat(target)
    except FileNotFoundError:
        folder = os.path.dirname(os.path.realpath(target))
        return "" if os.path.isdir(folder) else f"there is no folder {shown(folder)}"
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISREG(found.st_mode):
        return "it is there and is no plain file"
    return "" if os.access(target, os.W_OK) else "it is there and write-protected"


def write_all(saves: Iterable[Save], origin: str) -> list[str]:
    """Write all files, or leave everything as it was; their names. Raises SpecError where one cannot be written."""
    names, staged = [], []
    target = Path()
    identities = _Identities()
    try:
        with ExitStack() as stack:
            folders: dict[Path, Path] = {}
            for number, save in enumerate(saves):
                target = save.target
                real = Path(identities.real(target))
                if real.parent not in folders:
                    folders[real.parent] = stack.enter_context(scratch_folder(real.parent))
                new = folders[real.parent] / str(number)
                with new.open("xb") as file:
                    save.write(file)
                staged.append((new, real))
                names.append(str(target))
            _rename(staged)
    except OSError as error:
        raise SpecError(f"{origin}: {shown(error.filename2 or target)} cannot be written, so nothing was saved: "
                        f"{error.strerror or error}") from None
    return names


def _rename(staged: list[tuple[Path, Path]]) -> None:
    """Put new files in the places of old ones. Raises OSError where one cannot be; then all old ones are back."""
    begun: list[tuple[Path, Path | None]] = []
    try:
        for new, target in staged:
            old: Path | None = new.with_name(f"{new.name}.old")
            assert old is not None
            try:
                shutil.copymode(target, new)
                os.link(target, old)
            except FileNotFoundError:
                old = None
            except OSError:
                if not target.is_file():
                    raise
                os.rename(target, old)  # the file system knows no second names
            begun.append((target, old))
            os.replace(new, target)
    except BaseException:
        for target, old in reversed(begun):
            if old is None:
                target.unlink(missing_ok=True)
            else:
                os.replace(old, target)
        raise
