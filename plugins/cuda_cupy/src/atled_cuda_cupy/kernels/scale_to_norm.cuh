/* Elements of each result of a reduction times one number of it. After walk.cuh. */
struct Scaling {
    const T *x;
    T *y;
    bool aligned;
    double factor[VEC]; /* of each of the thread's results; in double, since norms reach from the least to the largest */

    __device__ __forceinline__ index_t ahead(index_t at) const { return ahead_of(x + at); }

    template <int W>
    __device__ __forceinline__ Pack<T, W> fetch(index_t at) const {
        return load_pack<W>(x + at, aligned);
    }

    template <int W>
    __device__ __forceinline__ void use(const Pack<T, W> &loaded, index_t at, index_t) const {
        Pack<T, W> made;
#pragma unroll
        for (int j = 0; j < W; j++) made.v[j] = store<T>(load(loaded.v[j]) * factor[COLUMNS ? j : 0]);
        store_pack<W>(y + at, made, aligned);
    }
};

/* y = number 0 x / sqrt(squares + least), the root being norm. */
extern "C" __global__ void __launch_bounds__(BLOCK)
    scale_to_norm(const T *x, const double *squares, T *y, T *norm, const Floats floats, const Words words) {
    if (!is_inside(words)) return;
    Scaling f{x, y, is_aligned(x, y)};
#pragma unroll
    for (int j = 0; j < (COLUMNS ? VEC : 1); j++) {
        const index_t k = result_of(words) + j;
        const double length = sqrt(squares[k] + LEAST);
        f.factor[j] = number(floats, 0) / length;
        if (norm && blockIdx.y == 0 && STORES) norm[k] = store<T>(length);
    }
    visit(f, words);
}
