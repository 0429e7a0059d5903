"""What is in flight after a program that is still being written."""
