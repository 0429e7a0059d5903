"""Rotary position embeddings: columns of heads, rotated in pairs by angles that go with positions."""
