"""Symbolic terms of integers, for addresses."""
