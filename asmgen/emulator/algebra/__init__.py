"""Exact residues in place of floats."""
