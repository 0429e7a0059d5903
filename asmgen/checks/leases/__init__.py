"""Registers read after their lease has ended."""
