"""Calls: instructions that leave for other code and come back."""

from __future__ import annotations

CALLS = frozenset({"s_swappc_b64", "s_call_b64"})
