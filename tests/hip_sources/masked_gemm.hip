// c[i][j] = sum over k of a[i][k] * b[k][j]; row-major, any m, n, k. Tiles of 16 x 16 in LDS, 256 threads; grid (n / 16, m / 16) rounded up.
#include "common.h"

KERNEL(256) masked_gemm(float* c, const float* a, const float* b, int m, int n, int k) {
    SHARED float ta[16][17], tb[16][17];
    int x = thread_id() % 16, y = thread_id() / 16;
    int i = 16 * __builtin_amdgcn_workgroup_id_y() + y, j = 16 * __builtin_amdgcn_workgroup_id_x() + x;
    float sum = 0;
    for (int start = 0; start < k; start += 16) {
        ta[y][x] = i < m && start + x < k ? a[i * k + start + x] : 0.0f;
        tb[y][x] = j < n && start + y < k ? b[(start + y) * n + j] : 0.0f;
        sync();
#pragma unroll
        for (int s = 0; s < 16; ++s) sum = __builtin_fmaf(ta[y][s], tb[s][x], sum);
        sync();
    }
    if (i < m && j < n) c[i * n + j] = sum;
}
