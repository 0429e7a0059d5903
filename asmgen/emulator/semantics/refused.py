"""Instructions that the emulator refuses to execute, and why: the sentence stands in the EmulatorError of a wave that reaches one."""

from __future__ import annotations

_GWS = "global wave sync waits across the workgroups of a dispatch in a unit that is not modelled; memory atomics can stand in for it"

REFUSED: dict[str, str] = {
    **{f"ds_gws_{name}": _GWS for name in ("barrier", "init", "sema_br", "sema_p", "sema_release_all", "sema_v")},
    # LLVM 22 encodes it as the first half of v_mfma_scale_*; the second half differs from the unscaled instruction in its abid field,
    # which no mnemonic can set, so that nothing can follow it that would use what it loads.
    "v_mfma_ld_scale_b32": "no matrix instruction uses scales that were loaded on their own: write v_mfma_scale_f32_16x16x128_f8f6f4 or "
                           "v_mfma_scale_f32_32x32x64_f8f6f4, which take them as operands",
    "v_screen_partition_4se_b32": "it maps screen coordinates to shader engines, and no compute device has such a map",
}
"""By mnemonic."""
