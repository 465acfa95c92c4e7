/* Which elements of an array in C order the threads of a block visit for one result of a reduction, or for several.

   Axes are merged, so that kept and reduced ones alternate. Where the last one is reduced (rows), TX threads walk along
   it and TY along what else is reduced. Where it is kept (COLUMNS), TX threads take VEC neighbouring results each, and TY
   walk along what is reduced. BLOCK_Y numbers the parts into which long reductions are cut.
   A functor loads UNROLL places before it uses them: `fetch<W>(at)` and `use<W>(loaded, at, r)` of W neighbours, at being
   the place in the array and r that among the elements of the result. */
#define GROUP (TX * TY)
#define GROUPS (BLOCK / GROUP)
#define TX_OF (int(threadIdx.x) % TX)
#define TY_OF (int(threadIdx.x) / TX % TY)
#define GROUP_OF (int(threadIdx.x) / GROUP)
#define RESULTS words.w[0]
#ifdef BACKWARDS /* the last blocks first */
#define BLOCK_X (index_t(gridDim.x) - 1 - index_t(blockIdx.x))
#define BLOCK_Y (index_t(gridDim.y) - 1 - index_t(blockIdx.y))
#else
#define BLOCK_X index_t(blockIdx.x)
#define BLOCK_Y index_t(blockIdx.y)
#endif

/* w[0] results; rows: 1 size of the last axis, 2 of the others together, 3 and 4 what a part has of them, 5 parts of the
   last axis; columns: 1 size of the last axis, 2 elements of a result, 3 what a part has of them, 4 blocks along the last
   axis, 5 size of the other kept axes. From 6 on size and stride of axes, last ones first: KEPT, then REDUCED. */
template <int FIRST, int AXES>
static __device__ __forceinline__ index_t offset_of(const Words &words, index_t i) {
    index_t at = 0;
#pragma unroll
    for (int axis = 0; axis < AXES; axis++) {
        const index_t size = words.w[FIRST + 2 * axis], stride = words.w[FIRST + 2 * axis + 1];
        at += (axis < AXES - 1 ? i % size : i) * stride;
        i /= size;
    }
    return at;
}
#define KEPT_OFFSET(i) offset_of<6, KEPT>(words, i)
#define REDUCED_OFFSET(i) offset_of<6 + 2 * KEPT, REDUCED>(words, i)

static __device__ __forceinline__ index_t least(index_t a, index_t b) { return a < b ? a : b; }

template <class E, int W>
struct __align__(sizeof(E) * W) Pack {
    E v[W];
};

/* W neighbours by one load or store, where the address allows it. */
template <int W, class E>
static __device__ __forceinline__ Pack<E, W> load_pack(const E *x, bool aligned) {
    if (W == 1 || aligned) return *reinterpret_cast<const Pack<E, W> *>(x);
    Pack<E, W> pack;
#pragma unroll
    for (int j = 0; j < W; j++) pack.v[j] = x[j];
    return pack;
}

template <int W, class E>
static __device__ __forceinline__ void store_pack(E *y, const Pack<E, W> &pack, bool aligned) {
    if (W == 1 || aligned) {
        *reinterpret_cast<Pack<E, W> *>(y) = pack;
        return;
    }
#pragma unroll
    for (int j = 0; j < W; j++) y[j] = pack.v[j];
}

/* W elements of an array, or (HAS_FORMULA) of what a formula in front of it makes: `element(at)` computes one. */
template <int W>
struct Read {
#if HAS_FORMULA
    A v[W];
    __device__ __forceinline__ A at(int j) const { return v[j]; }
#else
    Pack<T, W> pack;
    __device__ __forceinline__ auto at(int j) const { return load(pack.v[j]); }
#endif
};

template <int W, class Element>
static __device__ __forceinline__ Read<W> read_elements(const T *x, index_t at, bool aligned, const Element &element) {
    Read<W> found;
#if HAS_FORMULA
    _Pragma("unroll") for (int j = 0; j < W; j++) found.v[j] = element(at + j);
#else
    found.pack = load_pack<W>(x + at, aligned);
#endif
    return found;
}

/* Whether packs of all these arrays, which begin at a multiple of 16 bytes if the arrays do, may be moved at once. */
static __device__ __forceinline__ bool is_aligned(const void *x, const void *y = 0, const void *z = 0) {
    return (((size_t)x | (size_t)y | (size_t)z) & 15) == 0;
}

/* How many elements are before the next multiple of 16 bytes. */
template <class E>
static __device__ __forceinline__ index_t ahead_of(const E *x) {
    return (VEC - (size_t)x / sizeof(E) % VEC) % VEC;
}

/* UNROLL places from i to end, `step` apart; AT and R: place in the array and in the result, of n. */
#define VISIT(W, i, end, step, AT, R)                                                        \
    for (index_t n0 = (i); n0 < (end); n0 += UNROLL * (step)) {                              \
        decltype(f.template fetch<W>(index_t())) loaded[UNROLL];                              \
        _Pragma("unroll") for (int u = 0; u < UNROLL; u++) {                                 \
            const index_t n = n0 + u * (step);                                               \
            if (n < (end)) loaded[u] = f.template fetch<W>(AT);                               \
        }                                                                                    \
        _Pragma("unroll") for (int u = 0; u < UNROLL; u++) {                                 \
            const index_t n = n0 + u * (step);                                               \
            if (n < (end)) f.template use<W>(loaded[u], AT, R);                              \
        }                                                                                    \
    }

/* What all threads of a result have found, in those that store it (STORES); `merged` and `swapped` are those of Found. */
#if COLUMNS
#define STORES (TY_OF == 0)
template <class Found>
static __device__ __forceinline__ void across(Found (&state)[VEC]) {
#if TY > 1
    __shared__ Found all[VEC][BLOCK];
#pragma unroll
    for (int j = 0; j < VEC; j++) all[j][threadIdx.x] = state[j];
    for (int rows = TY / 2; rows; rows /= 2) {
        __syncthreads();
        if (TY_OF < rows) {
#pragma unroll
            for (int j = 0; j < VEC; j++)
                all[j][threadIdx.x] = state[j] = merged(state[j], all[j][threadIdx.x + rows * TX]);
        }
    }
#endif
}
#else
#define STORES (int(threadIdx.x) % GROUP == 0)
template <class Found>
static __device__ __forceinline__ void across(Found (&state)[VEC]) {
#pragma unroll
    for (int j = 1; j < VEC; j++) state[0] = merged(state[0], state[j]);
#pragma unroll
    for (int lanes = (GROUP < 32 ? GROUP : 32) / 2; lanes; lanes /= 2) state[0] = merged(state[0], swapped(state[0], lanes));
#if TX * TY > 32
    __shared__ Found warps[BLOCK / 32];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = state[0];
    __syncthreads();
    const int first = GROUP_OF * (GROUP / 32);
    state[0] = warps[first];
#pragma unroll
    for (int warp = 1; warp < GROUP / 32; warp++) state[0] = merged(state[0], warps[first + warp]);
#endif
}
#endif

#if COLUMNS
/* The first of the thread's results. */
static __device__ __forceinline__ index_t column_of(const Words &words) {
    return (BLOCK_X % words.w[4] * TX + TX_OF) * VEC;
}

static __device__ __forceinline__ index_t outer_of(const Words &words) {
    return BLOCK_X / words.w[4] * GROUPS + GROUP_OF;
}

static __device__ __forceinline__ bool is_inside(const Words &words) {
    return column_of(words) < words.w[1] && outer_of(words) < words.w[5];
}

static __device__ __forceinline__ index_t result_of(const Words &words) {
    return outer_of(words) * words.w[1] + column_of(words);
}

template <class F>
static __device__ __forceinline__ void visit(F &f, const Words &words) {
    const index_t base = KEPT_OFFSET(outer_of(words)) + column_of(words);
    const index_t first = BLOCK_Y * words.w[3], end = least(words.w[2], first + words.w[3]);
    VISIT(VEC, first + TY_OF, end, TY, base + REDUCED_OFFSET(n), n)
}
#else
static __device__ __forceinline__ index_t result_of(const Words &words) {
    return BLOCK_X * GROUPS + GROUP_OF;
}

static __device__ __forceinline__ bool is_inside(const Words &words) { return result_of(words) < RESULTS; }

template <class F>
static __device__ __forceinline__ void visit(F &f, const Words &words) {
    const index_t base = KEPT_OFFSET(result_of(words)), size = words.w[1], part = BLOCK_Y;
    const index_t first = part % words.w[5] * words.w[3], end = least(size, first + words.w[3]);
    const index_t outer = part / words.w[5] * words.w[4], outer_end = least(words.w[2], outer + words.w[4]);
#if ALONG_OUTER /* the threads cover the last axis: each has one place there, or none */
    const index_t i = TX_OF * VEC;
    if (i < size) VISIT(VEC, outer + TY_OF, outer_end, TY, base + i + REDUCED_OFFSET(n), n * size + i)
#else
    for (index_t o = outer + TY_OF; o < outer_end; o += TY) {
        const index_t at = base + REDUCED_OFFSET(o);
        index_t start = first;
#if PEEL /* what is before the first and behind the last boundary of 16 bytes, one by one */
        const index_t head = least(end - first, f.ahead(at + first)), rest = (end - first - head) % VEC;
        start += head;
        for (index_t n = TX_OF; n < head + rest; n += TX) {
            const index_t i = n < head ? first + n : end - rest + n - head;
            f.template use<1>(f.template fetch<1>(at + i), at + i, o * size + i);
        }
#endif
        VISIT(VEC, start + TX_OF * VEC, end - (VEC - 1), TX * VEC, at + n, o * size + n)
    }
#endif
}
#endif
