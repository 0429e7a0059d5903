"""What a build of rope reads and writes, by name: a source and its result in turn."""

from __future__ import annotations

import asmgen as ag

TENSORS = ("x", "y", "x2", "y2", "v", "v_cache")
CACHES = ("y2", "v_cache")
SCALES = {"y2": "k_scale", "v_cache": "v_scale"}
"""What a unit of a cache of 8-bit numbers stands for."""
OF_TOKENS = ("positions", "offsets", "slot_mapping")
"""Whole numbers of each token."""


def tensors_of(build: ag.Values) -> tuple[str, ...]:
    """The tensors of heads."""
    return TENSORS if build["cache"] else TENSORS[:4] if build["second"] else TENSORS[:2]


def pairs_of(build: ag.Values) -> tuple[tuple[str, str], ...]:
    """Each source with its result."""
    named = tensors_of(build)
    return tuple(zip(named[::2], named[1::2], strict=True))


def is_cache(build: ag.Values, name: str) -> bool:
    """Whether the rows of a tensor are those of a cache, one for each token has one."""
    return bool(build["cache"]) and name in CACHES


def type_of(build: ag.Values, name: str) -> str:
    """The type of a tensor of heads."""
    return str(build["cache_dtype"] if is_cache(build, name) and build["cache_dtype"] != "auto" else build["dtype"])


def axes_of(build: ag.Values, name: str) -> str:
    """The axes that have strides: of batches not where tokens of all sequences, or rows of a cache, have one number."""
    return "sh" if build["varlen"] or is_cache(build, name) else "bsh"


def heads_of(name: str) -> str:
    """The parameter that says how many heads a tensor has."""
    return "h" if name in ("x", "y") else "h2"


def numbers_of(build: ag.Values) -> tuple[str, ...]:
    """The whole numbers that a build reads of each token."""
    asked = build["positions"] == "given", build["offsets"], build["cache"]
    return tuple(name for name, wanted in zip(OF_TOKENS, asked, strict=True) if wanted)
