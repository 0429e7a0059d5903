// Block-scaled products on gfx950: lane l holds 32 values of a[l] and b[l] (formats 0 fp8, 1 bf8, 2 fp6, 3 bf6, 4 fp4 of cbsz and blgp) and
// the scales' exponent bytes sa[l] and sb[l]. On gfx942, which has none, the product of the first 8 bytes each, unscaled.
#include "common.h"

#if __gfx950__
#define ONE(name, cd, op, fa, fb, ba, bb)                                                                 \
    KERNEL(64) name(cd* d, const int8* a, const int8* b, const cd* c, const int* sa, const int* sb) {      \
        int l = thread_id();                                                                               \
        d[l] = __builtin_amdgcn_mfma_scale_##op(a[l], b[l], c[l], fa, fb, ba, sa[l], bb, sb[l]);           \
    }
ONE(scaled_16x16_fp8, float4, f32_16x16x128_f8f6f4, 0, 0, 0, 0)
ONE(scaled_16x16_fp4, float4, f32_16x16x128_f8f6f4, 4, 4, 1, 2)
ONE(scaled_16x16_mixed, float4, f32_16x16x128_f8f6f4, 0, 4, 3, 0)
ONE(scaled_32x32_bf8, float16, f32_32x32x64_f8f6f4, 1, 1, 0, 1)
ONE(scaled_32x32_fp6, float16, f32_32x32x64_f8f6f4, 2, 3, 0, 3)
#else
#define ONE(name, cd, op)                                                                                 \
    KERNEL(64) name(cd* d, const int8* a, const int8* b, const cd* c, const int* sa, const int* sb) {      \
        int l = thread_id();                                                                               \
        d[l] = __builtin_amdgcn_mfma_##op(((const i64*)(a + l))[0], ((const i64*)(b + l))[0], c[l], 0, 0, 0); \
    }
ONE(scaled_16x16_fp8, float4, f32_16x16x32_fp8_fp8)
ONE(scaled_32x32_bf8, float16, f32_32x32x16_bf8_bf8)
#endif
