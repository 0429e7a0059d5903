// Data movement between the 64 lanes of a wave.
#include "common.h"

// o[10 w + 0..9][lane]: for x = a[64 w + lane], the named movements one after the other, each as a row of 64.
KERNEL(64) lane_ops(int* o, const int* a) {
    int l = thread_id(), x = a[global_id(64)];
    int* row = o + group_id() * 640 + l;
    row[0] = __builtin_amdgcn_update_dpp(-1, x, 0x1B, 0xF, 0xF, true);        // quad_perm 3,2,1,0
    row[64] = __builtin_amdgcn_update_dpp(-1, x, 0x111, 0xF, 0xF, false);      // row_shr 1, the old value where there is no source
    row[128] = __builtin_amdgcn_update_dpp(-1, x, 0x140, 0xA, 0xF, false);     // row_mirror in rows 1 and 3
    row[192] = __builtin_amdgcn_update_dpp(0, x, 0x142, 0xA, 0xF, false);      // row_bcast 15
    row[256] = __builtin_amdgcn_ds_swizzle(x, 0x041F);                         // xor 1
    row[320] = __builtin_amdgcn_ds_bpermute(4 * (63 - l), x);
    row[384] = __builtin_amdgcn_ds_permute(4 * ((l + 5) & 63), x);
    row[448] = __builtin_amdgcn_readlane(x, 17);
    row[512] = __builtin_amdgcn_readfirstlane(x);
    row[576] = __builtin_amdgcn_mov_dpp(x, 0x120 + 3, 0xF, 0xF, true);         // row_ror 3
}

// o[i] = sum of a over the lanes up to this one, by DPP shifts and broadcasts.
KERNEL(64) wave_scan(int* o, const int* a) {
    int i = global_id(64), x = a[i];
    x += __builtin_amdgcn_update_dpp(0, x, 0x111, 0xF, 0xF, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x112, 0xF, 0xF, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x114, 0xF, 0xF, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x118, 0xF, 0xF, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x142, 0xA, 0xF, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x143, 0xC, 0xF, false);
    o[i] = x;
}

#if __gfx950__
// The two results of exchanging rows of 16 and halves of 32 lanes between a and b.
KERNEL(64) lane_swap(int* o, const int* a, const int* b) {
    int i = global_id(64);
    auto r16 = __builtin_amdgcn_permlane16_swap(a[i], b[i], false, false);
    auto r32 = __builtin_amdgcn_permlane32_swap(a[i], b[i], false, false);
    o[4 * i] = r16[0];
    o[4 * i + 1] = r16[1];
    o[4 * i + 2] = r32[0];
    o[4 * i + 3] = r32[1];
}
#endif
