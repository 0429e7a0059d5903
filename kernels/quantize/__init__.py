"""Quantisation of rows: to 8 bits by tensor, row or 128 columns, and to MX blocks of 32 columns."""
