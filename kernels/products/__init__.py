"""What all matrix products of the library share, whatever the types of A and B: `contract` for what callers see."""
