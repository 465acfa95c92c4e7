/* x less a number of each result. After walk.cuh. */
struct Subtracting {
    const T *x;
    T *y;
    bool aligned;
    A mean[COLUMNS ? VEC : 1];

    __device__ __forceinline__ index_t ahead(index_t at) const { return ahead_of(x + at); }

    template <int W>
    __device__ __forceinline__ Pack<T, W> fetch(index_t at) const {
        return load_pack<W>(x + at, aligned);
    }

    template <int W>
    __device__ __forceinline__ void use(const Pack<T, W> &pack, index_t at, index_t) const {
        Pack<T, W> made;
        _Pragma("unroll") for (int j = 0; j < W; j++) made.v[j] = store<T>(load(pack.v[j]) - mean[COLUMNS ? j : 0]);
        store_pack<W>(y + at, made, aligned);
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    subtract(const T *x, const S *mean, T *y, const Floats floats, const Words words) {
    if (!is_inside(words)) return;
    Subtracting f{x, y, is_aligned(x, y)};
#pragma unroll
    for (int j = 0; j < (COLUMNS ? VEC : 1); j++) f.mean[j] = mean[result_of(words) + j];
    visit(f, words);
}
