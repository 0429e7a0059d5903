"""Mutants of a finished program, and which of them are found."""
