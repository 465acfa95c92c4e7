/* Sums (PRODUCTS: products) of all elements up to each one of its row; EXCLUSIVE: without that one; REVERSE: from the
   end. Words: count of rows, elements of a row, and how far its elements lie apart, as many as there are rows side by
   side. T, Y: of the arrays.  ACC: of the sums: double, so that long rows lose no digits of a float, or integers.
   BLOCK: threads. */
static __device__ __forceinline__ ACC combined(ACC a, ACC b) { return PRODUCTS ? a * b : a + b; }

#define START ((ACC)(PRODUCTS))
#define PLACE(i) (begin + (REVERSE ? count - 1 - (i) : (i)) * inner)

/* A thread for each of many rows. */
extern "C" __global__ void __launch_bounds__(BLOCK) scan_columns(const T *x, Y *y, const Floats, const Words words) {
    const index_t rows = words.w[0], count = words.w[1], inner = words.w[2];
    EACH(row, rows) {
        const index_t begin = row / inner * inner * count + row % inner;
        ACC total = START;
        for (index_t i = 0; i < count; i++) {
            const ACC before = total;
            total = combined(total, load(x[PLACE(i)]));
            y[PLACE(i)] = store<Y>(EXCLUSIVE ? before : total);
        }
    }
}

/* A block for each row: scans of warps, then of what the warps of a stretch made. */
extern "C" __global__ void __launch_bounds__(BLOCK) scan_rows(const T *x, Y *y, const Floats, const Words words) {
    __shared__ ACC sums[BLOCK / 32];
    const index_t count = words.w[1], inner = words.w[2], row = blockIdx.x;
    const index_t begin = row / inner * inner * count + row % inner;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    ACC total = START;
    for (index_t first = 0; first < count; first += BLOCK) {
        const index_t i = first + threadIdx.x;
        ACC value = i < count ? (ACC)load(x[PLACE(i)]) : START;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const ACC other = __shfl_up_sync(0xffffffffu, value, distance);
            if (lane >= distance) value = combined(other, value);
        }
        if (lane == 31) sums[warp] = value;
        const ACC left = __shfl_up_sync(0xffffffffu, value, 1);
        __syncthreads();
        ACC before = total;
        for (int other = 0; other < BLOCK / 32; other++) {
            if (other < warp) before = combined(before, sums[other]);
            total = combined(total, sums[other]);
        }
        __syncthreads(); /* the next stretch writes there */
        if (EXCLUSIVE) value = lane ? left : START;
        if (i < count) y[PLACE(i)] = store<Y>(combined(before, value));
    }
}
