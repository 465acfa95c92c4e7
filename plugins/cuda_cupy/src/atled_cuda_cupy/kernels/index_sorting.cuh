// A stable sort of indices, by digits of 8 bits; with them go the places that they come from.
//     FIRST: 1 in the first pass, which reads the index of the call; the others read what the pass before has written.
#define DIGITS 256 /* as many as threads: each has one */
#define WARPS (THREADS / 32)
#define ROUNDS 8
#define TILE (THREADS * ROUNDS) /* indices of a block; a warp has 256 in a row */

#if FIRST
#define KEYS const long long *__restrict__ keys
// One behind all rows stands for what is out of range.
__device__ __forceinline__ unsigned key_at(const long long *keys, int at, int rows) {
    return keys[at] < 0 || keys[at] >= rows ? (unsigned)rows : (unsigned)keys[at];
}
#else
#define KEYS const int *__restrict__ keys
__device__ __forceinline__ unsigned key_at(const int *keys, int at, int rows) { return (unsigned)keys[at]; }
#endif

// The sum of the values of the threads before this one; total: that of all. parts: shared memory for a value per warp.
__device__ __forceinline__ int sum_before(int value, int *parts, int &total) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = value;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, distance);
        if (lane >= distance) sum += other;
    }
    __syncthreads();
    if (lane == 31) parts[warp] = sum;
    __syncthreads();
    int before = 0;
    total = 0;
    for (int i = 0; i < WARPS; i++) {
        if (i < warp) before += parts[i];
        total += parts[i];
    }
    return before + sum - value;
}

// How often each digit is in each tile: counts (digits, tiles). words: indices, rows, tiles, shift.
extern "C" __global__ void __launch_bounds__(THREADS)
count_digits(KEYS, int *__restrict__ counts, long long *flag, long long failure, const Floats floats, const Words words) {
    __shared__ int own[DIGITS];
    const int size = (int)words.w[0], rows = (int)words.w[1];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = 0; i < ROUNDS; i++) {
        const long long at = (long long)blockIdx.x * TILE + i * THREADS + threadIdx.x;
        if (at < size) {
            const unsigned key = key_at(keys, (int)at, rows);
            if (FIRST && key == (unsigned)rows) fail(flag, failure);
            atomicAdd(&own[key >> (int)words.w[3] & (DIGITS - 1)], 1);
        }
    }
    __syncthreads();
    counts[(long long)threadIdx.x * words.w[2] + blockIdx.x] = own[threadIdx.x];
}

// For each digit, a block, the sums over the tiles before each; totals: (digits). words: tiles.
extern "C" __global__ void __launch_bounds__(THREADS)
scan_tiles(int *__restrict__ counts, int *__restrict__ totals, const Floats floats, const Words words) {
    __shared__ int parts[WARPS];
    const int size = (int)words.w[0];
    int *mine = counts + (long long)blockIdx.x * size;
    int before = 0;
    for (int first = 0; first < size; first += THREADS) {
        const int at = first + threadIdx.x;
        int total;
        const int sum = sum_before(at < size ? mine[at] : 0, parts, total);
        if (at < size) mine[at] = before + sum;
        before += total;
    }
    if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

// Indices and places to where the digit says; equal ones stay in order. words: indices, rows, tiles, shift.
extern "C" __global__ void __launch_bounds__(THREADS, 4) /* else spills for the sake of more blocks */
order(KEYS, const int *__restrict__ places, const int *__restrict__ counts, const int *__restrict__ totals,
        int *__restrict__ keys_to, int *__restrict__ places_to, const Floats floats, const Words words) {
    __shared__ int before[WARPS][DIGITS], parts[WARPS];
    const int size = (int)words.w[0], shift = (int)words.w[3];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long start = (long long)blockIdx.x * TILE + warp * (32 * ROUNDS) + lane;
    unsigned found[ROUNDS];
    int ranks[ROUNDS];
    for (int i = 0; i < WARPS; i++) before[i][threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        const bool is_there = start + i * 32 < size;
        found[i] = is_there ? key_at(keys, (int)start + i * 32, (int)words.w[1]) : 0;
        const unsigned digit = found[i] >> shift & (DIGITS - 1);
        unsigned equal = __ballot_sync(0xffffffffu, is_there);
#pragma unroll
        for (int bit = 0; bit < 8; bit++) {
            const unsigned with = __ballot_sync(0xffffffffu, digit >> bit & 1);
            equal &= digit >> bit & 1 ? with : ~with;
        }
        const unsigned lower = equal & ((1u << lane) - 1);
        ranks[i] = before[warp][digit] + __popc(lower);
        __syncwarp();
        if (is_there && !lower) before[warp][digit] += __popc(equal);
        __syncwarp();
    }
    int total;
    int sum = sum_before(totals[threadIdx.x], parts, total); /* waits for all warps */
    sum += counts[(long long)threadIdx.x * words.w[2] + blockIdx.x];
    for (int i = 0; i < WARPS; i++) {
        const int count = before[i][threadIdx.x];
        before[i][threadIdx.x] = sum;
        sum += count;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROUNDS; i++)
        if (start + i * 32 < size) {
            const int to = before[warp][found[i] >> shift & (DIGITS - 1)] + ranks[i];
            keys_to[to] = (int)found[i];
            places_to[to] = FIRST ? (int)start + i * 32 : places[start + i * 32];
        }
}
