"""Which waves go on: segments, orders, progress, the checkers of a launch, the whole run."""
