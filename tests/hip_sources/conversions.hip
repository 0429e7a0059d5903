// Small float formats (FNUZ on gfx942, OCP on gfx950): o[i] holds the four bytes made of x[4 i .. 4 i + 3], and back[4 i ..] what those read as.
#include "common.h"

KERNEL(64) fp8_round_trip(u32* o, float* back, const float4* x) {
    int i = global_id(64);
    float4 v = x[i];
    int word = __builtin_amdgcn_cvt_pk_fp8_f32(v.x, v.y, 0, false);
    word = __builtin_amdgcn_cvt_pk_fp8_f32(v.z, v.w, word, true);
    o[i] = word;
    float2 low = __builtin_amdgcn_cvt_pk_f32_fp8(word, false), high = __builtin_amdgcn_cvt_pk_f32_fp8(word, true);
    back[4 * i] = low.x;
    back[4 * i + 1] = low.y;
    back[4 * i + 2] = high.x;
    back[4 * i + 3] = __builtin_amdgcn_cvt_f32_fp8(word, 3) + 0.0f * high.y;
}

KERNEL(64) bf8_round_trip(u32* o, float* back, const float4* x) {
    int i = global_id(64);
    float4 v = x[i];
    int word = __builtin_amdgcn_cvt_pk_bf8_f32(v.x, v.y, 0, false);
    word = __builtin_amdgcn_cvt_pk_bf8_f32(v.z, v.w, word, true);
    o[i] = word;
    for (int k = 0; k < 2; ++k) {
        float2 pair = k ? __builtin_amdgcn_cvt_pk_f32_bf8(word, true) : __builtin_amdgcn_cvt_pk_f32_bf8(word, false);
        back[4 * i + 2 * k] = pair.x;
        back[4 * i + 2 * k + 1] = pair.y;
    }
}

// o[i]: byte 1 holds x[i] in fp8, byte 2 in bf8, rounded up or down by the random bits r[i].
KERNEL(64) stochastic(u32* o, const float* x, const u32* r) {
    int i = global_id(64);
    int word = __builtin_amdgcn_cvt_sr_fp8_f32(x[i], r[i], 0, 1);
    o[i] = __builtin_amdgcn_cvt_sr_bf8_f32(x[i], r[i], word, 2);
}

// h[i] = x[i] in f16 and b[i] in bf16, to nearest even; p[i] = the pair (x[i], -x[i]) in f16, towards zero.
KERNEL(64) halves(half* h, bf16* b, u32* p, const float* x) {
    int i = global_id(64);
    h[i] = (half)x[i];
    b[i] = (bf16)x[i];
    p[i] = __builtin_bit_cast(u32, __builtin_amdgcn_cvt_pkrtz(x[i], -x[i]));
}

#if __gfx950__
// o[i]: four fp4 values of x[i] * 2^-e in the lower half; back[4 i ..] those times 2^e. scale = 2^e as a float.
KERNEL(64) fp4_round_trip(u32* o, float2* back, const float4* x, float scale) {
    int i = global_id(64);
    float4 v = x[i];
    u32 word = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(0u, v.x, v.y, scale, 0);
    word = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(word, v.z, v.w, scale, 1);
    o[i] = word;
    back[2 * i] = __builtin_amdgcn_cvt_scalef32_pk_f32_fp4(word, scale, 0);
    back[2 * i + 1] = __builtin_amdgcn_cvt_scalef32_pk_f32_fp4(word, scale, 1);
}
#endif
