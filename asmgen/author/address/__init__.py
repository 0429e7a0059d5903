"""Addresses and places as code: the shortest instructions for an affine or XOR map, tile and head orders, division."""
