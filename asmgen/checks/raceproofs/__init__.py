"""Proofs from the text alone that waves of a workgroup do not race in LDS."""
