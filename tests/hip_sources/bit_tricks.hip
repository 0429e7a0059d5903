// o[16 i ..] from x = a[i], y = b[i]: population, leading and trailing zeros (32 for 0), bits reversed, bytes reversed, bits 5 to 12 of x, those
// of x signed, x:y >> 7, permuted bytes, sum of absolute differences of bytes, median of x, y, i, mean of bytes rounded up, x & y | ~x & i,
// x * y (24 bits), high half of x * y, lanes below this one where x is odd.
#include "common.h"

KERNEL(64) bit_tricks(u32* o, const u32* a, const u32* b) {
    int i = global_id(64);
    u32 x = a[i], y = b[i];
    o += 16 * i;
    o[0] = __builtin_popcount(x);
    o[1] = x ? __builtin_clz(x) : 32;
    o[2] = x ? __builtin_ctz(x) : 32;
    o[3] = __builtin_bitreverse32(x);
    o[4] = __builtin_bswap32(x);
    o[5] = __builtin_amdgcn_ubfe(x, 5, 8);
    o[6] = __builtin_amdgcn_sbfe(x, 5, 8);
    o[7] = __builtin_amdgcn_alignbit(x, y, 7);
    o[8] = __builtin_amdgcn_perm(x, y, 0x01040703);
    o[9] = __builtin_amdgcn_sad_u8(x, y, 0);
    u32 low = x < y ? x : y, high = x < y ? y : x, third = i;
    o[10] = third < low ? low : third > high ? high : third;
    o[11] = __builtin_amdgcn_lerp(x, y, 0x01010101);
    o[12] = (x & y) | (~x & i);
    o[13] = (x & 0xFFFFFF) * (y & 0xFFFFFF);
    o[14] = (u64)x * y >> 32;
    u64 odd = __builtin_amdgcn_ballot_w64(x & 1);
    o[15] = __builtin_amdgcn_mbcnt_hi(odd >> 32, __builtin_amdgcn_mbcnt_lo((u32)odd, 0));
}
