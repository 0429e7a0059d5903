"""Waits inserted and verified."""
