"""Numbered examples, one idea each, smallest first: `asmgen run 01-vector-add`."""
