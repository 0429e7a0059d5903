"""attention-forward as the library offers it: the family with its variants, the first of an architecture being the default."""

from asmgen.kernels.attention_forward.family import ATTENTION
from asmgen.kernels.attention_forward.pingpong import ping_pong  # isort: split

# The architecture whose variants are declared first is the default, the first of its variants too.

from asmgen.kernels.attention_forward.interleaved import interleaved  # isort: split

from asmgen.kernels.attention_forward.copied import copied  # isort: split

__all__ = ["ATTENTION", "copied", "interleaved", "ping_pong"]
