"""Programs one after the other in one process, each with the arguments it would get alone: PROGRAM ARGUMENT... -- PROGRAM ARGUMENT...

The first line says which hip-python they run on.
"""

from __future__ import annotations

import runpy
import sys
from itertools import groupby

from asmgen.launch import hipbinding

commands = [list(words) for ends, words in groupby(sys.argv[1:], lambda word: word == "--") if not ends]
print("hip-python", hipbinding.version())
for command in commands:
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")
