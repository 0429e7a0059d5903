"""Softmax and log-softmax of rows, with causal and length masks, and their gradients."""
