/* Batch normalization, first walk. After walk.cuh and channel_state.cuh. */
/* Sums of x and of its squares, both less the first element that the thread sees: so that little cancels. */
struct Moments {
    const T *x;
    bool aligned;
    A n, shift[COLUMNS ? VEC : 1], sum[VEC], squares[VEC];

    __device__ __forceinline__ index_t ahead(index_t at) const { return ahead_of(x + at); }

    template <int W>
    __device__ __forceinline__ Pack<T, W> fetch(index_t at) const {
        return load_pack<W>(x + at, aligned);
    }

    template <int W>
    __device__ __forceinline__ void use(const Pack<T, W> &pack, index_t, index_t) {
        if (n == 0)
            for (int j = 0; j < (COLUMNS ? VEC : 1); j++) shift[j] = load(pack.v[j]);
        _Pragma("unroll") for (int j = 0; j < W; j++) {
            const A apart = load(pack.v[j]) - shift[COLUMNS ? j : 0];
            sum[j] += apart;
            squares[j] += apart * apart;
        }
        n += COLUMNS ? 1 : W;
    }

    __device__ __forceinline__ State state(int j) const {
        const A share = n > 0 ? sum[j] / n : 0;
        return {n, shift[COLUMNS ? j : 0] + share, squares[j] - sum[j] * share};
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    moments(const T *x, A *parts, const Floats floats, const Words words) {
    Moments f{x, PEEL || is_aligned(x), 0};
#pragma unroll
    for (int j = 0; j < VEC; j++) f.shift[COLUMNS ? j : 0] = f.sum[j] = f.squares[j] = 0;
    const bool inside = is_inside(words);
    if (inside) visit(f, words);
    State state[VEC];
#if !COLUMNS
#pragma unroll
    for (int j = 1; j < VEC; j++) {
        f.sum[0] += f.sum[j];
        f.squares[0] += f.squares[j];
        state[j] = {0, 0, 0};
    }
    state[0] = f.state(0);
#else
#pragma unroll
    for (int j = 0; j < VEC; j++) state[j] = f.state(j);
#endif
    across(state);
    if (!inside || !STORES) return;
#pragma unroll
    for (int j = 0; j < (COLUMNS ? VEC : 1); j++)
        reinterpret_cast<State *>(parts)[(size_t)(result_of(words) + j) * gridDim.y + blockIdx.y] = state[j];
}
