/* Sums of products in tiles: y(m, n) = sum over k of a(m, k) b(k, n). A block computes ROWS x COLUMNS results, a thread
   TALL x BROAD of them, DEPTH products of each at a time. Tiles lie in shared memory twice: while one is used, the next
   is on its way.

   KIND says what is a matrix, and what an image from which windows are gathered:
       FORWARD  y = weight x:   m is an output map, n a window, k a channel and tap
       DATA     gx = weight gy: m is a channel, n an element, k an output map and tap. Elements are computed by phases,
                which are those that lie alike between the strides and so meet the same taps
       WEIGHT   gw = gy x:      m is an output map, n a channel and tap, k a window
       MATRIX   y = a b
   Element (k, n) of b lies where k and n say in sum, in memory and along each axis; outside of the image it is 0.
   Sizes in capitals are words, defined by tiles.py. */
#define FORWARD 0
#define DATA 1
#define WEIGHT 2
#define MATRIX 3

#define THREADS ((ROWS / TALL) * (COLUMNS / BROAD))
#define OUTSIDE (-(1 << 30)) /* along the last axis: stays outside whatever is added */

/* What one k, or one n, says: where in a, or in y; where in b, in memory and along the axes. */
struct Entry {
    index_t own, b;
    int at[3];
};

/* What a phase is along an axis: its first element and how many there are; their first tap, how many there are, and the
   window that meets it at the first element. */
struct Phase {
    index_t element, elements, tap, taps, window;
};

#if KIND == DATA
static __device__ __forceinline__ Phase phase_of(index_t element, index_t size, index_t kernel, index_t pad,
                                                 index_t stride, index_t dilation, index_t tap_step) {
    index_t tap = 0, offset = element + pad;
    while (tap < tap_step && (offset - tap * dilation) % stride != 0) tap++;
    Phase phase;
    phase.element = element;
    phase.elements = element < size ? (size - 1 - element) / stride + 1 : 0;
    phase.tap = tap;
    phase.taps = tap < tap_step && tap < kernel ? (kernel - 1 - tap) / tap_step + 1 : 0;
    phase.window = (offset - tap * dilation) / stride;
    return phase;
}
#endif

#if KIND != MATRIX
static __device__ __forceinline__ index_t placed(const Words &words, Entry &entry, index_t at0, index_t at1,
                                                 index_t at2) {
    entry.at[0] = (int)at0, entry.at[1] = (int)at1, entry.at[2] = (int)at2;
    return at0 * PLACE_0 + at1 * PLACE_1 + at2 * PLACE_2;
}
#endif

#if KIND == FORWARD || KIND == WEIGHT
/* Of a channel and tap: its element of the weight is i. */
static __device__ Entry tap_entry(const Words &words, index_t i) {
    Entry entry;
    index_t outer = CHANNEL_LAST ? OVER(i, CHANNELS) : OVER(i, TAPS);
    index_t tap = CHANNEL_LAST ? outer : REMAINDER(i, outer, TAPS);
    index_t channel = CHANNEL_LAST ? REMAINDER(i, outer, CHANNELS) : outer;
    SPLIT(tap, KERNEL, at)
    entry.own = i;
    entry.b = channel * CHANNEL_STEP + placed(words, entry, at[0] * DILATION_0, at[1] * DILATION_1, at[2] * DILATION_2);
    return entry;
}

static __device__ Entry window_entry(const Words &words, index_t i) {
    Entry entry;
    index_t image = OVER(i, WINDOW_COUNT), window = REMAINDER(i, image, WINDOW_COUNT);
    SPLIT(window, WINDOWS, at)
    entry.own = image * OWN_IMAGE_STEP + window * OWN_PLACE_STEP;
    entry.b = image * IMAGE_STEP
        + placed(words, entry, at[0] * STRIDE_0 - PAD_0, at[1] * STRIDE_1 - PAD_1, at[2] * STRIDE_2 - PAD_2);
    return entry;
}
#endif

#if KIND == DATA
static __device__ Entry map_entry(const Words &words, const Phase *phase, index_t i) {
    Entry entry;
#if IS_ONE_PHASE
    index_t outer = CHANNEL_LAST ? OVER(i, CHANNELS) : OVER(i, TAPS);
    index_t number = CHANNEL_LAST ? outer : REMAINDER(i, outer, TAPS);
    index_t map = CHANNEL_LAST ? REMAINDER(i, outer, CHANNELS) : outer;
    SPLIT(number, KERNEL, at)
#else
    index_t taps = phase[0].taps * phase[1].taps * phase[2].taps;
    index_t map = CHANNEL_LAST ? i % CHANNELS : i / taps, number = CHANNEL_LAST ? i / CHANNELS : i % taps;
    index_t outer = number / phase[2].taps;
    index_t at[3] = {outer / phase[1].taps, outer % phase[1].taps, number % phase[2].taps};
#endif
    index_t tap0 = phase[0].tap + at[0] * TAP_STEP_0, tap1 = phase[1].tap + at[1] * TAP_STEP_1;
    index_t tap = (tap0 * KERNEL_1 + tap1) * KERNEL_2 + phase[2].tap + at[2] * TAP_STEP_2;
    entry.own = map * A_MAP_STEP + tap * A_TAP_STEP;
    entry.b = map * CHANNEL_STEP + placed(words, entry, -at[0] * BACK_0, -at[1] * BACK_1, -at[2] * BACK_2);
    return entry;
}

static __device__ Entry element_entry(const Words &words, const Phase *phase, index_t i) {
    Entry entry;
    index_t count1 = phase[1].elements, count2 = phase[2].elements, count = phase[0].elements * count1 * count2;
    index_t image = i / count, number = i % count;
    index_t at[3] = {number / count2 / count1, number / count2 % count1, number % count2};
    index_t element0 = phase[0].element + at[0] * STRIDE_0, element1 = phase[1].element + at[1] * STRIDE_1;
    index_t element = (element0 * WINDOWS_1 + element1) * WINDOWS_2 + phase[2].element + at[2] * STRIDE_2;
    entry.own = image * OWN_IMAGE_STEP + element * OWN_PLACE_STEP;
    entry.b = image * IMAGE_STEP
        + placed(words, entry, at[0] + phase[0].window, at[1] + phase[1].window, at[2] + phase[2].window);
    return entry;
}
#endif

static __device__ __forceinline__ Entry depth_entry(const Words &words, const Phase *phase, index_t k) {
#if KIND == FORWARD
    return tap_entry(words, k);
#elif KIND == DATA
    return map_entry(words, phase, k);
#elif KIND == WEIGHT
    return window_entry(words, k);
#else
    Entry entry;
    entry.own = k * A_DEPTH_STEP, entry.b = k * B_DEPTH_STEP;
    entry.at[0] = entry.at[1] = entry.at[2] = 0;
    return entry;
#endif
}

static __device__ __forceinline__ Entry column_entry(const Words &words, const Phase *phase, index_t n) {
#if KIND == FORWARD
    return window_entry(words, n);
#elif KIND == DATA
    return element_entry(words, phase, n);
#elif KIND == WEIGHT
    return tap_entry(words, n);
#else
    Entry entry;
    entry.own = n, entry.b = n * B_COLUMN_STEP;
    entry.at[0] = entry.at[1] = entry.at[2] = 0;
    return entry;
#endif
}

static __device__ __forceinline__ bool is_inside(const Words &words, const Entry &one, const Entry &other) {
#if KIND == MATRIX
    return one.at[2] + other.at[2] >= 0;
#else
    bool is = (unsigned)(one.at[2] + other.at[2]) < (unsigned)SIZE_2;
#if AXES > 1
    is = is && (unsigned)(one.at[1] + other.at[1]) < (unsigned)SIZE_1;
#endif
#if AXES > 2
    is = is && (unsigned)(one.at[0] + other.at[0]) < (unsigned)SIZE_0;
#endif
    return is;
#endif
}

/* Neighbours that are read together, at 16 bytes. */
#define RUN_OF(count) ((count) < 4 ? (count) : 4)
template <int COUNT> struct __align__(COUNT * sizeof(A) < 16 ? COUNT * sizeof(A) : 16) Run {
    A values[COUNT];
};

/* Of a thread's TALL or BROAD results, how far number i is from the thread's first: runs, far apart from each other, so
   that threads side by side read shared memory side by side. */
#define APART(i, count, size) ((i) / RUN_OF(count) * ((size) / ((count) / RUN_OF(count))) + (i) % RUN_OF(count))

/* How tiles are filled: by neighbours in k where memory has these side by side, else by neighbours in m or n. */
#define A_PLACE(i, m, k) \
    int m = A_BY_DEPTH ? (thread + i * THREADS) / DEPTH : (thread + i * THREADS) % ROWS; \
    int k = A_BY_DEPTH ? (thread + i * THREADS) % DEPTH : (thread + i * THREADS) / ROWS
#define B_PLACE(i, n, k) \
    int n = B_BY_DEPTH ? (thread + i * THREADS) / DEPTH : (thread + i * THREADS) % COLUMNS; \
    int k = B_BY_DEPTH ? (thread + i * THREADS) % DEPTH : (thread + i * THREADS) / COLUMNS

#if IS_PART /* stores sums of a part of the products, which `finish` adds up */
#define RESULT A
#define STORE(y, at, value) (y)[at] = (value)
#else
#define RESULT T
#define STORE STORE_0
#endif

extern "C" __global__ void __launch_bounds__(THREADS, THREADS > 128 ? 2 : 3) tiles(
    const T *a, const T *b, const T *bias, RESULT *y OPERANDS, const Floats floats, const Words words) {
    __shared__ __align__(16) A a_tiles[2][DEPTH][ROWS + 4], b_tiles[2][DEPTH][COLUMNS + 4]; /* + 4: other banks */
    __shared__ Entry depths[2][DEPTH], columns[COLUMNS];
    __shared__ Phase phase[3];
    int thread = threadIdx.x;

    index_t block = blockIdx.x;
    index_t row = block % ROW_TILES * ROWS;
    block /= ROW_TILES;
    index_t column = block % COLUMN_TILES * COLUMNS;
    block /= COLUMN_TILES;
    index_t part = block % PARTS;
    block /= PARTS;
    index_t group = block % GROUPS;
    index_t column_count = COLUMN_COUNT, depth_count = DEPTH_COUNT;
#if KIND == DATA
    block /= GROUPS;
    if (thread == 0) {
        phase[2] = phase_of(block % STRIDE_2, WINDOWS_2, KERNEL_2, PAD_2, STRIDE_2, DILATION_2, TAP_STEP_2);
        block /= STRIDE_2;
        phase[1] = phase_of(block % STRIDE_1, WINDOWS_1, KERNEL_1, PAD_1, STRIDE_1, DILATION_1, TAP_STEP_1);
        block /= STRIDE_1;
        phase[0] = phase_of(block, WINDOWS_0, KERNEL_0, PAD_0, STRIDE_0, DILATION_0, TAP_STEP_0);
    }
    __syncthreads();
    column_count = IMAGES * phase[0].elements * phase[1].elements * phase[2].elements;
    depth_count = CHANNELS * phase[0].taps * phase[1].taps * phase[2].taps;
    if (column >= column_count) return; /* all threads of the block */
#endif
    a += group * A_GROUP_STEP + row * A_ROW_STEP;
    b += group * B_GROUP_STEP;
    index_t first = part * PART_DEPTH;
    index_t last = min(depth_count, first + PART_DEPTH); /* may be below first: a part of nothing */

    for (int n = thread; n < COLUMNS; n += THREADS) {
        Entry entry;
        if (column + n < column_count) entry = column_entry(words, phase, column + n);
        else entry.own = entry.b = 0, entry.at[0] = entry.at[1] = 0, entry.at[2] = OUTSIDE;
        columns[n] = entry;
    }
    auto look_up = [&](int stage, index_t start) {
        if (thread < DEPTH) {
            Entry entry;
            if (start + thread < last) entry = depth_entry(words, phase, start + thread);
            else entry.own = entry.b = 0, entry.at[0] = entry.at[1] = 0, entry.at[2] = OUTSIDE;
            depths[stage][thread] = entry;
        }
    };

    constexpr int A_EACH = ROWS * DEPTH / THREADS, B_EACH = COLUMNS * DEPTH / THREADS;
    A a_next[A_EACH], b_next[B_EACH];
    auto fetch = [&](int stage) {
#pragma unroll
        for (int i = 0; i < A_EACH; i++) {
            A_PLACE(i, m, k);
            const Entry &entry = depths[stage][k];
            bool is = row + m < ROW_COUNT && entry.at[2] != OUTSIDE;
            a_next[i] = is ? load(a[m * A_ROW_STEP + entry.own]) : (A)0;
        }
#pragma unroll
        for (int i = 0; i < B_EACH; i++) {
            B_PLACE(i, n, k);
            const Entry &entry = depths[stage][k];
            const Entry &other = columns[n];
            b_next[i] = is_inside(words, entry, other) ? load(b[entry.b + other.b]) : (A)0;
        }
    };
    auto keep = [&](int stage) {
#pragma unroll
        for (int i = 0; i < A_EACH; i++) {
            A_PLACE(i, m, k);
            a_tiles[stage][k][m] = a_next[i];
        }
#pragma unroll
        for (int i = 0; i < B_EACH; i++) {
            B_PLACE(i, n, k);
            b_tiles[stage][k][n] = b_next[i];
        }
    };

    int top = thread / (COLUMNS / BROAD) * RUN_OF(TALL), left = thread % (COLUMNS / BROAD) * RUN_OF(BROAD);
    A sums[TALL][BROAD];
#pragma unroll
    for (int i = 0; i < TALL; i++) {
        index_t m = row + top + APART(i, TALL, ROWS);
        A start = 0;
#if !IS_PART && KIND != WEIGHT
        if (bias && BIAS_BY_ROW && m < ROW_COUNT) start = load(bias[group * ROW_COUNT + m]);
#endif
#pragma unroll
        for (int j = 0; j < BROAD; j++) sums[i][j] = start;
    }

    look_up(0, first);
    look_up(1, first + DEPTH);
    __syncthreads();
    fetch(0);
    keep(0);
    __syncthreads();
    int stage = 0;
    for (index_t start = first; start < last; start += DEPTH, stage ^= 1) {
        bool is_more = start + DEPTH < last;
        look_up(stage, start + 2 * DEPTH); /* those of this stage were used before the last barrier */
        if (is_more) fetch(stage ^ 1);
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            A down[TALL], across[BROAD];
#pragma unroll
            for (int i = 0; i < TALL; i += RUN_OF(TALL)) {
                const A *from = &a_tiles[stage][k][top + APART(i, TALL, ROWS)];
                Run<RUN_OF(TALL)> run = *(const Run<RUN_OF(TALL)> *)from;
#pragma unroll
                for (int r = 0; r < RUN_OF(TALL); r++) down[i + r] = run.values[r];
            }
#pragma unroll
            for (int j = 0; j < BROAD; j += RUN_OF(BROAD)) {
                const A *from = &b_tiles[stage][k][left + APART(j, BROAD, COLUMNS)];
                Run<RUN_OF(BROAD)> run = *(const Run<RUN_OF(BROAD)> *)from;
#pragma unroll
                for (int r = 0; r < RUN_OF(BROAD); r++) across[j + r] = run.values[r];
            }
#pragma unroll
            for (int i = 0; i < TALL; i++)
#pragma unroll
                for (int j = 0; j < BROAD; j++) sums[i][j] += down[i] * across[j];
        }
        if (is_more) keep(stage ^ 1);
        __syncthreads();
    }

    index_t base = group * Y_GROUP_STEP;
#if IS_PART
    base += part * PART_SIZE;
#endif
#pragma unroll
    for (int j = 0; j < BROAD; j++) {
        int n = left + APART(j, BROAD, COLUMNS);
        if (column + n >= column_count) continue;
        index_t own = base + columns[n].own;
        A start = 0;
#if !IS_PART && KIND == MATRIX
        if (bias && !BIAS_BY_ROW) start = load(bias[column + n]);
#endif
#pragma unroll
        for (int i = 0; i < TALL; i++) {
            index_t m = row + top + APART(i, TALL, ROWS);
            if (m < ROW_COUNT) STORE(y, own + m * Y_ROW_STEP, sums[i][j] + start);
        }
    }
}
