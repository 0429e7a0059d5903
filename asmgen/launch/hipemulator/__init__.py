"""A HIP runtime library whose device is the emulator: programs that use hip-python run on it unchanged (functional only)."""
