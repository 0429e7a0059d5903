"""What attention-forward and attention-backward share: variable lengths, sinks and dropout, their contracts, code and references."""
