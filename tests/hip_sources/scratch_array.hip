// o[i] = the sum of table[j] over j in picks[8 i .. 8 i + 7], where table is built by each thread: table[j] = a[i] * j. picks are 0 to 31.
#include "common.h"

FUNCTION void fill(int* table, int x) {
    for (int j = 0; j < 32; ++j) table[j] = x * j;
}

KERNEL(64) scratch_array(int* o, const int* a, const int* picks) {
    int i = global_id(64);
    int table[32];
    fill(table, a[i]);
    int sum = 0;
    for (int j = 0; j < 8; ++j) sum += table[picks[8 * i + j] & 31];
    o[i] = sum;
}
