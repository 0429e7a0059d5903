"""LDS races over barriers, found from the text alone."""
