"""Devices that run code objects: the protocol (`device`), a GPU through hip-python (`hip`), the emulator (`emulated`)."""
