"""A hash of the expression that made each value."""
