"""Families and variants: from a request to a written kernel, of the library or of a user's file."""
