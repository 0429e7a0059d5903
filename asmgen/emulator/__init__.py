"""The emulator: gfx942 and gfx950 code on arrays of waves, with the arrival of data modelled (docs/ARCHITECTURE.md section 5)."""
