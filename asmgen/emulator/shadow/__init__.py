"""Undefined bits beside the values, through registers, LDS and memory."""
