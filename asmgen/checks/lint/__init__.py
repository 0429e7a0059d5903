"""Lint: every rule that a file of anyone's is judged by."""
