"""The command line, inspection, reports and pictures."""
