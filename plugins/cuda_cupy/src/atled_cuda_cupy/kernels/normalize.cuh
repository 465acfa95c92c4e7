/* Batch normalization, second walk: each element by the numbers of its channel. After walk.cuh. */
template <class Storing>
struct Normalizing {
    const T *x;
    T *y;
    bool aligned;
    Storing storing;
    A mean[COLUMNS ? VEC : 1], slope[COLUMNS ? VEC : 1], beta[COLUMNS ? VEC : 1];

    __device__ __forceinline__ index_t ahead(index_t at) const { return ahead_of(x + at); }

    template <int W>
    __device__ __forceinline__ Pack<T, W> fetch(index_t at) const {
        return load_pack<W>(x + at, aligned);
    }

    template <int W>
    __device__ __forceinline__ void use(const Pack<T, W> &pack, index_t at, index_t) const {
        Pack<T, W> made;
        _Pragma("unroll") for (int j = 0; j < W; j++) {
            const int c = COLUMNS ? j : 0;
            const A value = (load(pack.v[j]) - mean[c]) * slope[c] + beta[c];
            if (HAS_FORMULA) storing(at + j, value);
            else made.v[j] = store<T>(value);
        }
        if (!HAS_FORMULA) store_pack<W>(y + at, made, aligned);
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    normalize(const T *x, const A *coefficients, const T *beta, T *y OPERANDS, const Floats floats, const Words words) {
    if (!is_inside(words)) return;
    NUMBERS
    auto storing = [&](index_t at, A value) { STORE_0(y, at, value); };
    Normalizing<decltype(storing)> f{x, y, is_aligned(x, HAS_FORMULA ? x : y), storing};
#pragma unroll
    for (int j = 0; j < (COLUMNS ? VEC : 1); j++) {
        const index_t k = result_of(words) + j;
        f.mean[j] = coefficients[k];
        f.slope[j] = coefficients[RESULTS + k];
        f.beta[j] = load(beta[k]);
    }
    visit(f, words);
}
