"""Groups of a workgroup's waves that pass barriers apart from each other."""
