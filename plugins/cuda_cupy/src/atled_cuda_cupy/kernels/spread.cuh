/* Gradient of batch normalization, second walk. After walk.cuh. */
template <int W>
struct Pair {
    Read<W> gy;
#if BATCH_STAT
    Pack<T, W> x;
#endif
};

template <class Element, class Storing>
struct Spreading {
    const T *gy, *x;
    T *gx;
    bool aligned;
    Element element;
    Storing storing;
    A slope[COLUMNS ? VEC : 1], mean[COLUMNS ? VEC : 1], less[COLUMNS ? VEC : 1], by_x[COLUMNS ? VEC : 1];

    __device__ __forceinline__ index_t ahead(index_t at) const { return ahead_of(gx + at); }

    template <int W>
    __device__ __forceinline__ Pair<W> fetch(index_t at) const {
        Pair<W> pair;
        pair.gy = read_elements<W>(gy, at, aligned, element);
#if BATCH_STAT
        pair.x = load_pack<W>(x + at, aligned);
#endif
        return pair;
    }

    template <int W>
    __device__ __forceinline__ void use(const Pair<W> &pair, index_t at, index_t) const {
        Pack<T, W> made;
        _Pragma("unroll") for (int j = 0; j < W; j++) {
            const int c = COLUMNS ? j : 0;
            A g = pair.gy.at(j);
#if BATCH_STAT
            g -= less[c] + (load(pair.x.v[j]) - mean[c]) * by_x[c];
#endif
            if (STORES_FORMULA) storing(at + j, slope[c] * g);
            else made.v[j] = store<T>(slope[c] * g);
        }
        if (!STORES_FORMULA) store_pack<W>(gx + at, made, aligned);
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    spread(const T *gy, const T *x, const A *coefficients, const S *mean, T *gx OPERANDS, const Floats floats,
           const Words words) {
    if (!is_inside(words)) return;
    NUMBERS
    auto element = [&](index_t at) -> A { return READ_0(gy, at); };
    auto storing = [&](index_t at, A value) { STORE_0(gx, at, value); };
    const bool aligned = is_aligned(HAS_FORMULA ? 0 : gy, BATCH_STAT ? x : 0, STORES_FORMULA ? 0 : gx);
    Spreading<decltype(element), decltype(storing)> f{gy, x, gx, aligned, element, storing};
#pragma unroll
    for (int j = 0; j < (COLUMNS ? VEC : 1); j++) {
        const index_t k = result_of(words) + j;
        f.slope[j] = coefficients[k];
        f.less[j] = coefficients[RESULTS + k];
        f.by_x[j] = coefficients[2 * RESULTS + k];
        f.mean[j] = mean[k];
    }
    visit(f, words);
}
