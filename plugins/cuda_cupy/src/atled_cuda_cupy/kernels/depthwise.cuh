/* Convolution of each channel by itself, with MAPS output maps for each. Sizes in capitals are words, defined by
   convolution.py; small kernels are known when this is compiled, so that loops over taps unroll. */

/* Of number i of an array in its order of memory: its image, its channel among X, and its place among the Y. */
#define TAKEN_APART(i, X, Y)                                                                                           \
    index_t outer = CHANNEL_LAST ? OVER(i, X##_COUNT) : OVER(i, Y##_COUNT);                                            \
    index_t place = CHANNEL_LAST ? outer : REMAINDER(i, outer, Y##_COUNT);                                             \
    index_t image = CHANNEL_LAST ? OVER(outer, Y##_COUNT) : OVER(outer, X##_COUNT);                                    \
    index_t channel = CHANNEL_LAST ? REMAINDER(i, outer, X##_COUNT) : REMAINDER(outer, image, X##_COUNT);              \
    if (CHANNEL_LAST) place -= image * Y##_COUNT;

/* Where a window that begins at `start` has a tap, or -1 if that is outside. */
static __device__ __forceinline__ index_t seen(const Words &words, const index_t *start, index_t tap0, index_t tap1,
                                               index_t tap2) {
    index_t at0 = start[0] + tap0 * DILATION_0, at1 = start[1] + tap1 * DILATION_1, at2 = start[2] + tap2 * DILATION_2;
    bool is_inside = at0 >= 0 && at0 < SIZE_0 && at1 >= 0 && at1 < SIZE_1 && at2 >= 0 && at2 < SIZE_2;
    return is_inside ? (at0 * SIZE_1 + at1) * SIZE_2 + at2 : -1;
}

/* y(n, f, t): weight(f) x(n, f / MAPS), windows t. */
extern "C" __global__ void depthwise(const T *x, const T *weight, const T *bias, T *y OPERANDS, const Floats floats,
                                     const Words words) {
    index_t step = CHANNEL_LAST ? CHANNEL_COUNT : 1, size = SIZE_COUNT;
    index_t taps = KERNEL_0 * KERNEL_1 * KERNEL_2;
    EACH(i, COUNT) {
        TAKEN_APART(i, FILTER, WINDOWS)
        SPLIT(place, WINDOWS, at)
        at[0] = at[0] * STRIDE_0 - PAD_0, at[1] = at[1] * STRIDE_1 - PAD_1, at[2] = at[2] * STRIDE_2 - PAD_2;
        const T *from = x + image * size * CHANNEL_COUNT + channel / MAPS * (CHANNEL_LAST ? 1 : size);
        const T *factor = weight + channel * taps;
        A sum = bias ? load(bias[channel]) : (A)0;
        for (index_t tap0 = 0; tap0 < KERNEL_0; tap0++)
#pragma unroll
            for (index_t tap1 = 0; tap1 < KERNEL_1; tap1++)
#pragma unroll
                for (index_t tap2 = 0; tap2 < KERNEL_2; tap2++, factor++) {
                    index_t element = seen(words, at, tap0, tap1, tap2);
                    if (element >= 0) sum += load(*factor) * load(from[element * step]);
                }
        STORE_0(y, i, sum);
    }
}

/* The window that meets an element at a tap along one axis, or -1. */
static __device__ __forceinline__ index_t meeting(index_t place, index_t tap, index_t dilation, index_t stride,
                                                  index_t windows) {
    index_t offset = place - tap * dilation;
    if (offset < 0) return -1;
    index_t window = stride == 1 ? offset : offset / stride;
    return window < windows && window * stride == offset ? window : -1;
}

/* gx(n, c, s): sums over maps f of channel c of weight(f) gy(n, f), elements s. */
extern "C" __global__ void depthwise_back(const T *gy, const T *weight, const T *bias, T *gx OPERANDS,
                                          const Floats floats, const Words words) {
    index_t windows = WINDOWS_COUNT, step = CHANNEL_LAST ? CHANNEL_COUNT * MAPS : 1;
    index_t map_step = CHANNEL_LAST ? 1 : windows, taps = KERNEL_0 * KERNEL_1 * KERNEL_2;
    EACH(i, COUNT) {
        TAKEN_APART(i, CHANNEL, SIZE)
        SPLIT(place, SIZE, at)
        const T *from = gy + image * windows * CHANNEL_COUNT * MAPS + channel * MAPS * map_step;
        const T *factor = weight + channel * MAPS * taps;
        A sum = bias ? load(bias[channel]) : (A)0;
        for (index_t tap0 = 0; tap0 < KERNEL_0; tap0++)
#pragma unroll
            for (index_t tap1 = 0; tap1 < KERNEL_1; tap1++)
#pragma unroll
                for (index_t tap2 = 0; tap2 < KERNEL_2; tap2++, factor++) {
                    index_t window0 = meeting(at[0] + PAD_0, tap0, DILATION_0, STRIDE_0, WINDOWS_0);
                    index_t window1 = meeting(at[1] + PAD_1, tap1, DILATION_1, STRIDE_1, WINDOWS_1);
                    index_t window2 = meeting(at[2] + PAD_2, tap2, DILATION_2, STRIDE_2, WINDOWS_2);
                    if (window0 < 0 || window1 < 0 || window2 < 0) continue;
                    const T *met = from + ((window0 * WINDOWS_1 + window1) * WINDOWS_2 + window2) * step;
                    for (index_t map = 0; map < MAPS; map++)
                        sum += load(factor[map * taps]) * load(met[map * map_step]);
                }
        STORE_0(gx, i, sum);
    }
}

/* gw(f): sums over images and windows of gy(f) x(f / MAPS), AT_ONCE taps in one reading. A block sums one part of them
   for one map, and stores it where `finish` finds it. */
extern "C" __global__ void depthwise_weight(const T *x, const T *gy, A *gw, const Floats floats, const Words words) {
    __shared__ A shared[32];
    index_t windows = WINDOWS_COUNT, size = SIZE_COUNT;
    index_t taps = KERNEL_0 * KERNEL_1 * KERNEL_2, maps = FILTER_COUNT;
    index_t map = blockIdx.x % maps, part = blockIdx.x / maps, channel = map / MAPS;
    index_t step = CHANNEL_LAST ? CHANNEL_COUNT : 1, map_step = CHANNEL_LAST ? maps : 1;
    x += CHANNEL_LAST ? channel : channel * size;
    gy += CHANNEL_LAST ? map : map * windows;
    index_t last = min((index_t)(IMAGES * windows), (part + 1) * PART_DEPTH);
    for (index_t first_tap = 0; first_tap < taps; first_tap += AT_ONCE) {
        A sums[AT_ONCE];
        index_t tap_at[AT_ONCE][3];
#pragma unroll
        for (int tap = 0; tap < AT_ONCE; tap++) {
            sums[tap] = 0;
            index_t number = first_tap + tap;
            tap_at[tap][2] = number % KERNEL_2;
            tap_at[tap][1] = number / KERNEL_2 % KERNEL_1;
            tap_at[tap][0] = number / KERNEL_2 / KERNEL_1;
        }
        for (index_t i = part * PART_DEPTH + threadIdx.x; i < last; i += blockDim.x) {
            index_t image = OVER(i, WINDOWS_COUNT), window = REMAINDER(i, image, windows);
            SPLIT(window, WINDOWS, at)
            at[0] = at[0] * STRIDE_0 - PAD_0, at[1] = at[1] * STRIDE_1 - PAD_1, at[2] = at[2] * STRIDE_2 - PAD_2;
            A factor = load(gy[image * windows * maps + window * map_step]);
            const T *from = x + image * size * CHANNEL_COUNT;
#pragma unroll
            for (int tap = 0; tap < AT_ONCE; tap++) {
                index_t element = seen(words, at, tap_at[tap][0], tap_at[tap][1], tap_at[tap][2]);
                if (element >= 0 && first_tap + tap < taps) sums[tap] += factor * load(from[element * step]);
            }
        }
#pragma unroll
        for (int tap = 0; tap < AT_ONCE; tap++) {
            A sum = block_sum(sums[tap], shared);
            if (threadIdx.x == 0 && first_tap + tap < taps) gw[(part * maps + map) * taps + first_tap + tap] = sum;
        }
    }
}
