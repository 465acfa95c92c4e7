// PACK elements of type T at once; A: the type they are added up in.
struct alignas(sizeof(T) * PACK) Pack {
    T at[PACK];
};

// Arrays of users may begin at any element; then the elements of a pack move one by one.
__device__ __forceinline__ bool is_aligned(const T *x) { return PACK == 1 || is_multiple(x, sizeof(Pack)); }

__device__ __forceinline__ Pack read(const T *x, long long at, bool aligned) {
    if (aligned) return ((const Pack *)x)[at];
    Pack found;
#pragma unroll
    for (int i = 0; i < PACK; i++) found.at[i] = x[at * PACK + i];
    return found;
}

__device__ __forceinline__ void write(T *y, long long at, const Pack &pack, bool aligned) {
    if (aligned) {
        ((Pack *)y)[at] = pack;
        return;
    }
#pragma unroll
    for (int i = 0; i < PACK; i++) y[at * PACK + i] = pack.at[i];
}

__device__ __forceinline__ void add(A (&sum)[PACK], const Pack &pack) {
#pragma unroll
    for (int i = 0; i < PACK; i++) sum[i] += load(pack.at[i]);
}
