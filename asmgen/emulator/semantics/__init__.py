"""What instructions compute, on arrays of lanes."""
