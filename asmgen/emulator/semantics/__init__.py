"""What instructions do to values."""
