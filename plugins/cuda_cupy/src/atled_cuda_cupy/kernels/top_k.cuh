/* The k largest of each row of x(rows, size), a block for a row: the key of the last one is found digit by digit, from
   counts of those that agree so far; what is chosen is collected in the order of places, then sorted in shared memory.
   KEY: unsigned, as wide as A, in the order of values, NaN before all others. SORTED: 2^n places for those chosen; 0 if
   nobody asks for their order. */
#define ROWS words.w[0]
#define SIZE words.w[1]
#define K words.w[2]
#define DIGITS 256
#define WARPS (BLOCK / 32)

static __device__ __forceinline__ KEY key_of(T element) {
    const A value = BY_SIZE ? fabs(load(element)) : load(element);
    if (value != value) return 0;
#if WIDE_KEY
    const KEY bits = (KEY)__double_as_longlong(value + 0.0), top = 1ULL << 63; /* + 0: -0 equals 0 */
#else
    const KEY bits = __float_as_uint(value + 0.0f), top = 1U << 31;
#endif
    return bits & top ? ~bits : bits | top;
}

/* Of n threads with `is_one` before this one, in the order of threads; total: of all. Four barriers apart from the next. */
static __device__ __forceinline__ int count_before(bool is_one, int *warps, int *total) {
    const unsigned votes = __ballot_sync(0xffffffffu, is_one);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads();
    if (lane == 0) warps[warp] = __popc(votes);
    __syncthreads();
    int before = __popc(votes & ((1U << lane) - 1)), all = 0;
    for (int other = 0; other < WARPS; other++) {
        if (other < warp) before += warps[other];
        all += warps[other];
    }
    *total = all;
    return before;
}

/* The key of the k-th largest; `equal`: how many of those with this key are among the k. */
static __device__ __forceinline__ KEY last_key(const T *x, const Words &words, int *counts, int *found, index_t *equal) {
    KEY key = 0, mask = 0;
    index_t wanted = K;
    for (int shift = 8 * sizeof(KEY) - 8; shift >= 0; shift -= 8) {
        for (int digit = threadIdx.x; digit < DIGITS; digit += BLOCK) counts[digit] = 0;
        __syncthreads();
        for (index_t i = threadIdx.x; i < SIZE; i += BLOCK) {
            const KEY other = key_of(x[i]);
            if ((other & mask) == key) atomicAdd(counts + (int)(other >> shift & (DIGITS - 1)), 1);
        }
        __syncthreads();
        /* From the highest digit down: how many have this one or a higher one. */
        for (int step = 1; step < DIGITS; step *= 2) {
            int more[(DIGITS + BLOCK - 1) / BLOCK];
#pragma unroll
            for (int n = 0; n < (DIGITS + BLOCK - 1) / BLOCK; n++) {
                const int digit = threadIdx.x + n * BLOCK;
                more[n] = digit + step < DIGITS ? counts[digit + step] : 0;
            }
            __syncthreads();
#pragma unroll
            for (int n = 0; n < (DIGITS + BLOCK - 1) / BLOCK; n++)
                if (threadIdx.x + n * BLOCK < DIGITS) counts[threadIdx.x + n * BLOCK] += more[n];
            __syncthreads();
        }
        for (int digit = threadIdx.x; digit < DIGITS; digit += BLOCK)
            if (counts[digit] >= wanted && (digit == DIGITS - 1 || counts[digit + 1] < wanted)) *found = digit;
        __syncthreads();
        const int digit = *found;
        wanted -= digit < DIGITS - 1 ? counts[digit + 1] : 0;
        key |= (KEY)digit << shift;
        mask |= (KEY)(DIGITS - 1) << shift;
        __syncthreads();
    }
    *equal = wanted;
    return key;
}

/* reduces: y(rows, k) are those chosen, largest first, else x with all others 0.  places: where they are in x, or null. */
extern "C" __global__ void __launch_bounds__(BLOCK)
    top_k(const T *x, T *y, long long *places, const Floats floats, const Words words) {
    extern __shared__ long long memory[];
    __shared__ int counts[DIGITS], warps[WARPS], found;
    KEY *keys = (KEY *)memory;
    index_t *indices = (index_t *)(keys + SORTED);
    const index_t row = blockIdx.x;
    const T *begin = x + row * SIZE;
    index_t equal;
    const KEY last = last_key(begin, words, counts, &found, &equal);
    index_t larger_before = 0, equal_before = 0;
#if SORTED
    for (index_t n = K + threadIdx.x; n < SORTED; n += BLOCK) {
        keys[n] = 0;
        indices[n] = SIZE; /* behind all others */
    }
#endif
    for (index_t first = 0; first < SIZE; first += BLOCK) {
        const index_t i = first + threadIdx.x;
        const KEY key = i < SIZE ? key_of(begin[i]) : 0;
        int larger, same;
        const index_t n = larger_before + count_before(i < SIZE && key > last, warps, &larger);
        const index_t m = equal_before + count_before(i < SIZE && key == last, warps, &same);
        const bool is_chosen = i < SIZE && (key > last || (key == last && m < equal));
#if SORTED
        if (is_chosen) {
            const index_t slot = key > last ? n : K - equal + m;
            keys[slot] = key;
            indices[slot] = i;
        }
#endif
        if (!REDUCES && i < SIZE) y[row * SIZE + i] = is_chosen ? begin[i] : store<T>(0.0f);
        larger_before += larger;
        equal_before += same;
    }
#if SORTED
    for (int size = 2; size <= SORTED; size *= 2)
        for (int step = size / 2; step; step /= 2) {
            __syncthreads();
            for (int n = threadIdx.x; n < SORTED / 2; n += BLOCK) {
                const int a = 2 * n - n % step, b = a + step;
                const bool is_first = keys[a] > keys[b] || (keys[a] == keys[b] && indices[a] < indices[b]);
                if (is_first != ((a & size) == 0)) {
                    const KEY key = keys[a];
                    const index_t index = indices[a];
                    keys[a] = keys[b];
                    indices[a] = indices[b];
                    keys[b] = key;
                    indices[b] = index;
                }
            }
        }
    __syncthreads();
    for (index_t n = threadIdx.x; n < K; n += BLOCK) {
        if (REDUCES) y[row * K + n] = begin[indices[n]];
        if (places) places[row * K + n] = (long long)row * SIZE + indices[n];
    }
#endif
}
