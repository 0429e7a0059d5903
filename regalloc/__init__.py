"""Register plans: pinned ranges, pools, lifetimes, pressure, and the errors when they do not fit."""
