"""rope with all its variants. The first variant of an architecture is its default."""

from asmgen.kernels.rope.family import ROPE
from asmgen.kernels.rope.headwise import headwise  # isort: split

__all__ = ["ROPE", "headwise"]
