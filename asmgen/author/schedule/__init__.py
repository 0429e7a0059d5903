"""Schedules: where the operations of a step stand, and what that order costs by the timing table."""
