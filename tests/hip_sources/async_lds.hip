// Loads straight into LDS. o[256 g + t] = a[256 g + (t ^ 85)] for 256 threads.
#include "common.h"

KERNEL(256) async_global(int* o, const int* a) {
    SHARED int buffer[256];
    int t = thread_id(), wave = __builtin_amdgcn_readfirstlane(t / 64);
    __builtin_amdgcn_global_load_lds((GLOBAL void*)(a + global_id(256)), (LDS void*)(buffer + 64 * wave), 4, 0, 0);
    __builtin_amdgcn_s_waitcnt(0x0F70);  // vmcnt(0)
    sync();
    o[global_id(256)] = buffer[t ^ 85];
}

KERNEL(256) async_buffer(int* o, const int* a, int bytes) {
    SHARED int buffer[256];
    int t = thread_id(), wave = __builtin_amdgcn_readfirstlane(t / 64);
    auto in = __builtin_amdgcn_make_buffer_rsrc((void*)a, 0, bytes, 0x00027000);
    __builtin_amdgcn_raw_ptr_buffer_load_lds(in, (LDS void*)(buffer + 64 * wave), 4, 4 * t, 1024 * group_id(), 0, 0);
    __builtin_amdgcn_s_waitcnt(0x0F70);
    sync();
    o[global_id(256)] = buffer[t ^ 85];
}

#if __gfx950__
// The same with 16 bytes a lane: o[256 g + t] = a[256 g + (t ^ 85)] for vectors of four words.
KERNEL(256) async_wide(int4* o, const int4* a) {
    SHARED __attribute__((aligned(16))) int4 buffer[256];
    int t = thread_id(), wave = __builtin_amdgcn_readfirstlane(t / 64);
    __builtin_amdgcn_global_load_lds((GLOBAL void*)(a + global_id(256)), (LDS void*)(buffer + 64 * wave), 16, 0, 0);
    __builtin_amdgcn_s_waitcnt(0x0F70);
    sync();
    o[global_id(256)] = buffer[t ^ 85];
}
#endif
