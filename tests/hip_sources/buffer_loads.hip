// Buffer instructions with bounds: `bytes` is the buffer's size. Reads outside give 0, writes outside do nothing.
#include "common.h"

#define RESOURCE(p, bytes) __builtin_amdgcn_make_buffer_rsrc((void*)(p), 0, bytes, 0x00027000)

// o[i] = a[i] + (byte i of a) + (16-bit value i of a) for every i whose o[i] is inside; i runs beyond the ends.
KERNEL(64) buffer_loads(u32* o, const u32* a, int bytes_o, int bytes_a) {
    auto in = RESOURCE(a, bytes_a);
    auto out = RESOURCE(o, bytes_o);
    int i = global_id(64);
    u32 word = __builtin_amdgcn_raw_buffer_load_b32(in, 4 * i, 0, 0);
    u32 byte = __builtin_amdgcn_raw_buffer_load_b8(in, i, 0, 0);
    u32 pair = __builtin_amdgcn_raw_buffer_load_b16(in, 2 * i, 0, 0);
    __builtin_amdgcn_raw_buffer_store_b32(word + byte + pair, out, 4 * i, 0, 0);
}

// o[i] = a[i] ^ mask, vectors of 2 and 4 words, with an offset in a scalar register and one in the instruction.
KERNEL(64) buffer_wide(uint4* o, const uint4* a, int bytes, int start, u32 mask) {
    auto in = RESOURCE(a, bytes);
    auto out = RESOURCE(o, bytes);
    int i = global_id(64);
    uint4 v = __builtin_amdgcn_raw_buffer_load_b128(in, 16 * i + 32, start, 0);
    uint2 w = __builtin_amdgcn_raw_buffer_load_b64(in, 16 * i + 48, start, 2);
    v ^= mask;
    v.xy += w;
    __builtin_amdgcn_raw_buffer_store_b128(v, out, 16 * i + 32, start, 0);
}
