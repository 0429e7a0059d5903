// o[r][c] = exp(a[r][c]) / sum of exp(a[r][.]), with the row's maximum taken out; one workgroup of 256 a row, any number of columns.
#include "common.h"

#define LOG2E 1.44269504f

KERNEL(256) softmax(float* o, const float* a, int columns) {
    SHARED float part[4];
    int t = thread_id(), wave = t / 64;
    const float* row = a + (i64)group_id() * columns;
    float most = -__builtin_inff();
    for (int c = t; c < columns; c += 256) most = __builtin_fmaxf(most, row[c]);
    for (int step = 32; step > 0; step >>= 1) most = __builtin_fmaxf(most, __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(4 * (lane_id() ^ step), __builtin_bit_cast(int, most))));
    if (lane_id() == 0) part[wave] = most;
    sync();
    most = __builtin_fmaxf(__builtin_fmaxf(part[0], part[1]), __builtin_fmaxf(part[2], part[3]));
    sync();
    float sum = 0;
    for (int c = t; c < columns; c += 256) sum += __builtin_amdgcn_exp2f((row[c] - most) * LOG2E);
    for (int step = 32; step > 0; step >>= 1) sum += __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(4 * (lane_id() ^ step), __builtin_bit_cast(int, sum)));
    if (lane_id() == 0) part[wave] = sum;
    sync();
    float scale = 1.0f / (part[0] + part[1] + part[2] + part[3]);
    for (int c = t; c < columns; c += 256) o[(i64)group_id() * columns + c] = __builtin_amdgcn_exp2f((row[c] - most) * LOG2E) * scale;
}
