// As mfma_half.hip, for the other element types, and sparse ones: index[l] says which of four values a lane's pairs are.
#include "common.h"

typedef int int32 __attribute__((ext_vector_type(32)));

#define ONE(name, a_type, b_type, cd, op)                                              \
    KERNEL(64) name(cd* d, const a_type* a, const b_type* b, const cd* c) {             \
        int l = thread_id();                                                            \
        d[l] = __builtin_amdgcn_mfma_##op(a[l], b[l], c[l], 0, 0, 0);                   \
    }
#define SPARSE(name, a_type, b_type, cd, op)                                           \
    KERNEL(64) name(cd* d, const a_type* a, const b_type* b, const cd* c, const int* index) { \
        int l = thread_id();                                                            \
        d[l] = __builtin_amdgcn_smfmac_##op(a[l], b[l], c[l], index[l], 0, 0);          \
    }

ONE(mfma_f32_32x32x2, float, float, float16, f32_32x32x2f32)
ONE(mfma_f32_16x16x4, float, float, float4, f32_16x16x4f32)
ONE(mfma_f32_32x32x1_2b, float, float, float32, f32_32x32x1f32)
ONE(mfma_f32_16x16x1_4b, float, float, float16, f32_16x16x1f32)
ONE(mfma_f32_4x4x1_16b, float, float, float4, f32_4x4x1f32)
ONE(mfma_f64_16x16x4, double, double, double4, f64_16x16x4f64)
ONE(mfma_f64_4x4x4_4b, double, double, double, f64_4x4x4f64)
ONE(mfma_i8_32x32x16, i64, i64, int16, i32_32x32x16_i8)
ONE(mfma_i8_16x16x32, i64, i64, int4, i32_16x16x32_i8)
ONE(mfma_i8_32x32x4_2b, int, int, int32, i32_32x32x4i8)
ONE(mfma_fp8_fp8_16x16x32, i64, i64, float4, f32_16x16x32_fp8_fp8)
ONE(mfma_bf8_fp8_16x16x32, i64, i64, float4, f32_16x16x32_bf8_fp8)
ONE(mfma_fp8_bf8_32x32x16, i64, i64, float16, f32_32x32x16_fp8_bf8)
ONE(mfma_bf8_bf8_32x32x16, i64, i64, float16, f32_32x32x16_bf8_bf8)
SPARSE(smfmac_f16_16x16x32, half4, half8, float4, f32_16x16x32_f16)
SPARSE(smfmac_bf16_32x32x16, short4, short8, float16, f32_32x32x16_bf16)
SPARSE(smfmac_i8_16x16x64, int2, int4, int4, i32_16x16x64_i8)
SPARSE(smfmac_fp8_bf8_32x32x32, int2, int4, float16, f32_32x32x32_fp8_bf8)
#if __gfx950__
ONE(mfma_i8_16x16x64, int4, int4, int4, i32_16x16x64_i8)
ONE(mfma_i8_32x32x32, int4, int4, int16, i32_32x32x32_i8)
#else
ONE(mfma_xf32_16x16x8, float2, float2, float4, f32_16x16x8_xf32)
ONE(mfma_xf32_32x32x4, float2, float2, float16, f32_32x32x4_xf32)
#endif
