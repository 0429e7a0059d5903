// One matrix instruction each on registers as they lie in memory: lane l holds a[l], b[l] and c[l]; d[l] = the instruction's result.
#include "common.h"

#define ONE(name, ab, cd, op)                                                         \
    KERNEL(64) name(cd* d, const ab* a, const ab* b, const cd* c) {                    \
        int l = thread_id();                                                           \
        d[l] = __builtin_amdgcn_mfma_##op(a[l], b[l], c[l], 0, 0, 0);                  \
    }

ONE(mfma_f16_32x32x8, half4, float16, f32_32x32x8f16)
ONE(mfma_f16_16x16x16, half4, float4, f32_16x16x16f16)
ONE(mfma_f16_32x32x4_2b, half4, float32, f32_32x32x4f16)
ONE(mfma_f16_16x16x4_4b, half4, float16, f32_16x16x4f16)
ONE(mfma_f16_4x4x4_16b, half4, float4, f32_4x4x4f16)
ONE(mfma_bf16_32x32x8, short4, float16, f32_32x32x8bf16_1k)
ONE(mfma_bf16_16x16x16, short4, float4, f32_16x16x16bf16_1k)
ONE(mfma_bf16_32x32x4_2b, short4, float32, f32_32x32x4bf16_1k)
ONE(mfma_bf16_16x16x4_4b, short4, float16, f32_16x16x4bf16_1k)
ONE(mfma_bf16_4x4x4_16b, short4, float4, f32_4x4x4bf16_1k)
#if __gfx950__
ONE(mfma_f16_32x32x16, half8, float16, f32_32x32x16_f16)
ONE(mfma_f16_16x16x32, half8, float4, f32_16x16x32_f16)
ONE(mfma_bf16_32x32x16, bf16x8, float16, f32_32x32x16_bf16)
ONE(mfma_bf16_16x16x32, bf16x8, float4, f32_16x16x32_bf16)
#endif
