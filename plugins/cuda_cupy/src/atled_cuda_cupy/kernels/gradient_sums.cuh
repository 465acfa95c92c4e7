/* Gradient of batch normalization, first walk; READ_0 reads gy, S is the type of statistics. After walk.cuh. */
struct State {
    A gy, product;
};

static __device__ __forceinline__ State merged(State a, State b) { return {a.gy + b.gy, a.product + b.product}; }

static __device__ __forceinline__ State swapped(State s, int lanes) {
    return {__shfl_xor_sync(0xffffffffu, s.gy, lanes), __shfl_xor_sync(0xffffffffu, s.product, lanes)};
}

template <int W>
struct Pair {
    Read<W> gy;
    Pack<T, W> x;
};

/* Sums of gy and of gy (x - mean). */
template <class Element>
struct Products {
    const T *gy, *x;
    bool aligned;
    Element element;
    A mean[COLUMNS ? VEC : 1];
    State state[VEC];

    __device__ __forceinline__ index_t ahead(index_t at) const { return ahead_of(x + at); }

    template <int W>
    __device__ __forceinline__ Pair<W> fetch(index_t at) const {
        Pair<W> pair;
        pair.gy = read_elements<W>(gy, at, aligned, element);
        pair.x = load_pack<W>(x + at, aligned);
        return pair;
    }

    template <int W>
    __device__ __forceinline__ void use(const Pair<W> &pair, index_t, index_t) {
        _Pragma("unroll") for (int j = 0; j < W; j++) {
            const A g = pair.gy.at(j);
            state[j].gy += g;
            state[j].product += g * (load(pair.x.v[j]) - mean[COLUMNS ? j : 0]);
        }
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    gradient_sums(const T *gy, const T *x, const S *mean, A *parts OPERANDS, const Floats floats, const Words words) {
    NUMBERS
    auto element = [&](index_t at) -> A { return READ_0(gy, at); };
    Products<decltype(element)> f{gy, x, is_aligned(HAS_FORMULA ? x : gy, x), element};
    const bool inside = is_inside(words);
#pragma unroll
    for (int j = 0; j < VEC; j++) f.state[j] = {0, 0};
    if (inside) {
#pragma unroll
        for (int j = 0; j < (COLUMNS ? VEC : 1); j++) f.mean[j] = mean[result_of(words) + j];
        visit(f, words);
    }
    State(&state)[VEC] = f.state;
    across(state);
    if (!inside || !STORES) return;
#pragma unroll
    for (int j = 0; j < (COLUMNS ? VEC : 1); j++)
        reinterpret_cast<State *>(parts)[(size_t)(result_of(words) + j) * gridDim.y + blockIdx.y] = state[j];
}
