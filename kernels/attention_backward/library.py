"""attention-backward with all its variants and the kernels beside them. The first variant of an architecture is its default."""

from asmgen.kernels.attention_backward.byqueries import by_queries
from asmgen.kernels.attention_backward.cdna3 import cdna3
from asmgen.kernels.attention_backward.family import BACKWARD
from asmgen.kernels.attention_backward.pinned import pinned  # isort: split

# 4 waves take less time than 8, so they are declared before them.

from asmgen.kernels.attention_backward.pingpong import ping_pong  # isort: split

from asmgen.kernels.attention_backward.sides import convert, delta
from asmgen.kernels.attention_backward.sinks import add_parts

__all__ = ["BACKWARD", "add_parts", "by_queries", "cdna3", "convert", "delta", "ping_pong", "pinned"]
