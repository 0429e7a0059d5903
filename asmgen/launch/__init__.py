"""Launching: specifications, arguments, devices."""
