/* Sums, products, extrema and the like (OP) over the elements that walk.cuh gives, in one launch or in two: of a long result
   each part stores what it found (IS_PART), and a second launch, whose T is ACC, reduces that (OF_PARTS).
   T, A, Y: types of the array, of its elements when computed, of the results; ACC: of the sum. */
#define SUM 0
#define PRODUCT 1
#define MAXIMUM 2
#define MINIMUM 3
#define SQUARES 4
#define ANY 5
#define ALL 6
#define LOG_SUM_EXP 7
#if HAS_FORMULA /* with formulas the compiler else takes 32 registers and spills */
#define LEAST_BLOCKS , 2
#else
#define LEAST_BLOCKS
#endif
#define HAS_PLACE (OP == MAXIMUM || OP == MINIMUM)

#if HAS_PLACE
/* The first of the best, of which NaN is one. r < 0: there was none better than WORST, with which it begins. */
struct State {
    ACC value;
    index_t r;
};

static __device__ __forceinline__ State nothing() {
    return {(ACC)(WORST), -1};
}

static __device__ __forceinline__ bool is_better(ACC a, ACC b) {
    return b == b && (OP == MAXIMUM ? !(a <= b) : !(a >= b));
}

static __device__ __forceinline__ void add(State &state, ACC value, index_t r) {
    if (is_better(value, state.value)) state = {value, r};
}

static __device__ __forceinline__ State merged(State a, State b) {
    const bool equal = a.value == b.value || (a.value != a.value && b.value != b.value);
    const bool first = b.r >= 0 && (a.r < 0 || b.r < a.r);
    return (equal ? first : is_better(b.value, a.value)) ? b : a;
}

static __device__ __forceinline__ State swapped(State state, int lanes) {
    return {__shfl_xor_sync(0xffffffffu, state.value, lanes), __shfl_xor_sync(0xffffffffu, state.r, lanes)};
}
#elif OP == LOG_SUM_EXP
/* The highest so far, and the sum of exp(value - highest). A part is the logarithm of its sum, of which the second
   launch makes the same. NaN comes through. */
struct State {
    ACC value, sum;
};

static __device__ __forceinline__ State nothing() { return {(ACC)(__int_as_float(0xff800000)), 0}; }

static __device__ __forceinline__ ACC term(ACC value, ACC highest) {
    return value == highest ? (ACC)(1) : exp(value - highest); /* infinite ones have no difference */
}

static __device__ __forceinline__ State merged(State a, State b) {
    if (b.value <= a.value) return {a.value, a.sum + b.sum * term(b.value, a.value)};
    return {b.value, b.sum + a.sum * term(a.value, b.value)};
}

static __device__ __forceinline__ void add(State &state, ACC value, index_t) {
    state = merged(state, State{value, (ACC)(1)});
}

static __device__ __forceinline__ State swapped(State state, int lanes) {
    return {__shfl_xor_sync(0xffffffffu, state.value, lanes), __shfl_xor_sync(0xffffffffu, state.sum, lanes)};
}
#else
struct State {
    ACC value;
};

static __device__ __forceinline__ State nothing() { return {(ACC)(OP == PRODUCT || OP == ALL)}; }

static __device__ __forceinline__ State merged(State a, State b) {
    if (OP == ANY) return {(ACC)(a.value != 0 || b.value != 0)};
    if (OP == ALL) return {(ACC)(a.value != 0 && b.value != 0)};
    return {OP == PRODUCT ? a.value * b.value : a.value + b.value};
}

static __device__ __forceinline__ void add(State &state, ACC value, index_t) {
    state = merged(state, State{OP == SQUARES && !OF_PARTS ? value * value : value});
}

static __device__ __forceinline__ State swapped(State state, int lanes) {
    return {__shfl_xor_sync(0xffffffffu, state.value, lanes)};
}
#endif

template <int W>
struct Loaded {
    Read<W> x;
#if HAS_PLACE && OF_PARTS
    index_t r[W];
#endif
};

template <class Element>
struct Reduction {
    const T *x;
    const long long *places;
    bool aligned;
    Element element;
    State state[VEC];

    __device__ __forceinline__ index_t ahead(index_t at) const { return ahead_of(x + at); }

    template <int W>
    __device__ __forceinline__ Loaded<W> fetch(index_t at) const {
        Loaded<W> loaded;
        loaded.x = read_elements<W>(x, at, aligned, element);
#if HAS_PLACE && OF_PARTS
        _Pragma("unroll") for (int j = 0; j < W; j++) loaded.r[j] = (index_t)places[at + j];
#endif
        return loaded;
    }

    template <int W>
    __device__ __forceinline__ void use(const Loaded<W> &loaded, index_t, index_t r) {
        _Pragma("unroll") for (int j = 0; j < W; j++) {
            const ACC value = loaded.x.at(j);
#if HAS_PLACE && OF_PARTS
            state[j] = merged(state[j], State{value, loaded.r[j]});
#else
            add(state[j], value, COLUMNS ? r : r + j);
#endif
        }
    }
};

/* count: by what a sum is divided, or 1.  place: where the extrema are; null if nobody asks. */
extern "C" __global__ void __launch_bounds__(BLOCK LEAST_BLOCKS)
    reduce(const T *x, const long long *places, Y *y, long long *place, long long count OPERANDS, const Floats floats,
           const Words words) {
    NUMBERS
    auto element = [&](index_t at) -> A { return READ_0(x, at); };
    Reduction<decltype(element)> f{x, places, PEEL || is_aligned(x), element};
#pragma unroll
    for (int j = 0; j < VEC; j++) f.state[j] = nothing();
    const bool inside = is_inside(words);
    if (inside) visit(f, words);
    across(f.state);
    if (!inside || !STORES) return;
#pragma unroll
    for (int j = 0; j < (COLUMNS ? VEC : 1); j++) {
        const index_t k = result_of(words) + j;
        const State state = f.state[j];
#if OP == LOG_SUM_EXP
        const ACC value = state.value + log(state.sum);
#else
        const ACC value = state.value;
#endif
#if IS_PART
        y[blockIdx.y * (size_t)RESULTS + k] = value;
#else
        STORE_0(y, k, count == 1 ? value : value / (ACC)(count));
#endif
#if HAS_PLACE
        if (place) place[(IS_PART ? blockIdx.y * (size_t)RESULTS : 0) + k] = IS_PART || state.r > 0 ? state.r : 0;
#endif
    }
}
