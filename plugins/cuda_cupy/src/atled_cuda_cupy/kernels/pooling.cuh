/* Poolings over three spatial axes, both ways: a thread per result, gradients as sums over the windows that see the
   element. Sizes in capitals are words, defined by pooling.py; small kernels are known when this is compiled.

   Images lie as (OUTER, SPATIAL, INNER): INNER is 1, or with the channel axis behind the channels. Places are always
   (OUTER INNER, windows). */

/* A result: which image and channel, and its place along the axes. */
struct Spot {
    index_t outer, inner, at[3];
};

/* Number i of all of X, which is WINDOWS, SIZE or CELLS. */
#define SPOT(s, i, X)                                                                                                  \
    Spot s;                                                                                                            \
    {                                                                                                                  \
        index_t rest = LAST ? OVER(i, INNER) : i, over = OVER(rest, X##_2);                                            \
        s.inner = LAST ? REMAINDER(i, rest, INNER) : 0;                                                                \
        s.at[2] = REMAINDER(rest, over, X##_2), rest = over;                                                           \
        over = AXES > 1 ? OVER(rest, X##_1) : rest;                                                                    \
        s.at[1] = AXES > 1 ? REMAINDER(rest, over, X##_1) : 0, rest = over;                                            \
        over = AXES > 2 ? OVER(rest, X##_0) : rest;                                                                    \
        s.at[0] = AXES > 2 ? REMAINDER(rest, over, X##_0) : 0, s.outer = over;                                         \
    }

/* Where the values of a spot's image and channel begin, each array having `size` of them. */
static __device__ __forceinline__ index_t begin(const Words &words, const Spot &s, index_t size) {
    return s.outer * size * INNER + s.inner;
}

static __device__ __forceinline__ index_t first_place(const Words &words, const Spot &s) {
    return (s.outer * INNER + s.inner) * (WINDOWS_0 * WINDOWS_1 * WINDOWS_2);
}

#define ELEMENTS (SIZE_0 * SIZE_1 * SIZE_2)
#define WINDOWS (WINDOWS_0 * WINDOWS_1 * WINDOWS_2)
#define KERNEL (KERNEL_0 * KERNEL_1 * KERNEL_2)
#define STEP (LAST ? INNER : 1)

/* The taps of a window that are elements of x, in C order: TAP is its number, ELEMENT where it is in x. */
#define EACH_TAP(s) EACH_UP_TO(s, KERNEL)
#define EACH_UP_TO(s, X)                                                                                               \
    for (index_t tap0 = 0; tap0 < X##_0; tap0++)                                                                       \
        UNROLL for (index_t tap1 = 0; tap1 < X##_1; tap1++)                                                            \
            UNROLL for (index_t tap2 = 0; tap2 < X##_2; tap2++)                                                        \
                if (index_t at0 = s.at[0] * STRIDE_0 - PAD_0 + tap0, at1 = s.at[1] * STRIDE_1 - PAD_1 + tap1,          \
                    at2 = s.at[2] * STRIDE_2 - PAD_2 + tap2;                                                           \
                    at0 >= 0 && at0 < SIZE_0 && at1 >= 0 && at1 < SIZE_1 && at2 >= 0 && at2 < SIZE_2)
#define UNROLL _Pragma("unroll")
#define TAP ((tap0 * KERNEL_1 + tap1) * KERNEL_2 + tap2)
#define ELEMENT (((at0 * SIZE_1 + at1) * SIZE_2 + at2) * STEP)

/* The elements of a window, and those behind it, before the next one. */
#define EACH_OF_CELL(s) EACH_UP_TO(s, STRIDE)
#define IS_TAP (tap0 < KERNEL_0 && tap1 < KERNEL_1 && tap2 < KERNEL_2)

/* The windows that see an element: each with the number of the tap that sees it. */
static __device__ __forceinline__ index_t first_window(index_t at, index_t kernel, index_t stride) {
    return at < kernel ? 0 : (at - kernel) / stride + 1; /* the least with window * stride + kernel > at */
}
#define EACH_WINDOW(s)                                                                                                 \
    index_t end0 = min((s.at[0] + PAD_0) / STRIDE_0 + 1, WINDOWS_0);                                                   \
    index_t end1 = min((s.at[1] + PAD_1) / STRIDE_1 + 1, WINDOWS_1);                                                   \
    index_t end2 = min((s.at[2] + PAD_2) / STRIDE_2 + 1, WINDOWS_2);                                                   \
    for (index_t window0 = first_window(s.at[0] + PAD_0, KERNEL_0, STRIDE_0); window0 < end0; window0++)               \
        for (index_t window1 = first_window(s.at[1] + PAD_1, KERNEL_1, STRIDE_1); window1 < end1; window1++)           \
            for (index_t window2 = first_window(s.at[2] + PAD_2, KERNEL_2, STRIDE_2); window2 < end2; window2++)
#define WINDOW ((window0 * WINDOWS_1 + window1) * WINDOWS_2 + window2)
#define SEEING                                                                                                         \
    (((s.at[0] + PAD_0 - window0 * STRIDE_0) * KERNEL_1 + s.at[1] + PAD_1 - window1 * STRIDE_1) * KERNEL_2             \
     + s.at[2] + PAD_2 - window2 * STRIDE_2)

/* Of equal maxima the first counts, and the first NaN of all. y or place may be null. */
extern "C" __global__ void maximum_of(const T *x, T *y, P *place OPERANDS, const Floats floats, const Words words) {
    EACH(i, COUNT) {
        SPOT(s, i, WINDOWS)
        const T *from = x + begin(words, s, ELEMENTS);
        A best = 0;
        index_t found = -1;
        EACH_TAP(s) {
            A value = load(from[ELEMENT]);
            if (found < 0 || value > best || (value != value && best == best)) best = value, found = TAP;
        }
#if HAS_VALUES
        STORE_0(y, i, best);
#endif
        index_t window = LAST ? first_place(words, s) + (s.at[0] * WINDOWS_1 + s.at[1]) * WINDOWS_2 + s.at[2] : i;
        if (place) place[window] = (P)found;
    }
}

/* Each gradient goes to the element at the place of its window's maximum. */
extern "C" __global__ void maximum_back(const T *gy, const P *place, T *gx OPERANDS, long long *flag, long long failure,
                                        const Floats floats, const Words words) {
    EACH(i, PLACES) if ((long long)place[i] < 0 || (long long)place[i] >= KERNEL) fail(flag, failure);
    EACH(i, COUNT) {
        SPOT(s, i, SIZE)
        const T *from = gy + begin(words, s, WINDOWS);
        const P *found = place + first_place(words, s);
        A sum = 0;
        EACH_WINDOW(s) if ((index_t)found[WINDOW] == SEEING) sum += load(from[WINDOW * STEP]);
        STORE_0(gx, i, sum);
    }
}

/* The same where windows do not overlap: by cells, which are a window and what lies before the next one. */
extern "C" __global__ void maximum_back_apart(const T *gy, const P *place, T *gx OPERANDS, long long *flag,
                                              long long failure, const Floats floats, const Words words) {
    EACH(i, PLACES) if ((long long)place[i] < 0 || (long long)place[i] >= KERNEL) fail(flag, failure);
    EACH(i, COUNT) {
        SPOT(s, i, CELLS)
        bool is_window = s.at[0] < WINDOWS_0 && s.at[1] < WINDOWS_1 && s.at[2] < WINDOWS_2;
        index_t window = (s.at[0] * WINDOWS_1 + s.at[1]) * WINDOWS_2 + s.at[2];
        index_t found = is_window ? (index_t)place[first_place(words, s) + window] : -1;
        A value = is_window ? load(gy[begin(words, s, WINDOWS) + window * STEP]) : (A)0;
        index_t base = begin(words, s, ELEMENTS);
        EACH_OF_CELL(s) STORE_0(gx, base + ELEMENT, IS_TAP && found == TAP ? value : (A)0);
    }
}

/* The elements of x at places; 0 where a place is outside of x. */
extern "C" __global__ void gather(const T *x, const P *place, T *y OPERANDS, long long *flag, long long failure,
                                  const Floats floats, const Words words) {
    EACH(i, COUNT) {
        SPOT(s, i, WINDOWS)
        index_t window = (s.at[0] * WINDOWS_1 + s.at[1]) * WINDOWS_2 + s.at[2];
        index_t tap = (index_t)place[first_place(words, s) + window];
        if (tap < 0 || tap >= KERNEL) fail(flag, failure);
        index_t at0 = s.at[0] * STRIDE_0 - PAD_0 + tap / (KERNEL_1 * KERNEL_2);
        index_t at1 = s.at[1] * STRIDE_1 - PAD_1 + tap / KERNEL_2 % KERNEL_1;
        index_t at2 = s.at[2] * STRIDE_2 - PAD_2 + tap % KERNEL_2;
        bool is = at0 >= 0 && at0 < SIZE_0 && at1 >= 0 && at1 < SIZE_1 && at2 >= 0 && at2 < SIZE_2;
        STORE_0(y, i, is ? load(x[begin(words, s, ELEMENTS) + ELEMENT]) : (A)0);
    }
}

/* By what the sum of a window is divided along one axis: the places that it covers, those of the padding included if
   they count. */
static __device__ __forceinline__ index_t covered(index_t window, index_t size, index_t kernel, index_t pad,
                                                  index_t stride) {
    index_t first = window * stride - pad, margin = COUNTS_PAD ? pad : 0;
    return max(min(first + kernel, size + margin) - max(first, -margin), (index_t)0);
}
#define DIVISOR(window0, window1, window2)                                                                             \
    (IS_AVERAGE ? (A)max(covered(window0, SIZE_0, KERNEL_0, PAD_0, STRIDE_0)                                           \
                             * covered(window1, SIZE_1, KERNEL_1, PAD_1, STRIDE_1)                                     \
                             * covered(window2, SIZE_2, KERNEL_2, PAD_2, STRIDE_2),                                    \
                         (index_t)1)                                                                                   \
                : (A)1)

extern "C" __global__ void sums(const T *x, T *y OPERANDS, const Floats floats, const Words words) {
    EACH(i, COUNT) {
        SPOT(s, i, WINDOWS)
        const T *from = x + begin(words, s, ELEMENTS);
        A sum = 0;
        EACH_TAP(s) sum += load(from[ELEMENT]);
        STORE_0(y, i, sum / DIVISOR(s.at[0], s.at[1], s.at[2]));
    }
}

extern "C" __global__ void sums_back(const T *gy, T *gx OPERANDS, const Floats floats, const Words words) {
    EACH(i, COUNT) {
        SPOT(s, i, SIZE)
        const T *from = gy + begin(words, s, WINDOWS);
        A sum = 0;
        EACH_WINDOW(s) sum += load(from[WINDOW * STEP]) / DIVISOR(window0, window1, window2);
        STORE_0(gx, i, sum);
    }
}

extern "C" __global__ void sums_back_apart(const T *gy, T *gx OPERANDS, const Floats floats, const Words words) {
    EACH(i, COUNT) {
        SPOT(s, i, CELLS)
        bool is_window = s.at[0] < WINDOWS_0 && s.at[1] < WINDOWS_1 && s.at[2] < WINDOWS_2;
        index_t window = (s.at[0] * WINDOWS_1 + s.at[1]) * WINDOWS_2 + s.at[2];
        A value = is_window ? load(gy[begin(words, s, WINDOWS) + window * STEP]) : (A)0;
        value /= DIVISOR(s.at[0], s.at[1], s.at[2]); /* at least 1 */
        index_t base = begin(words, s, ELEMENTS);
        EACH_OF_CELL(s) STORE_0(gx, base + ELEMENT, IS_TAP ? value : (A)0);
    }
}

/* Each element over a window: here windows are elements of y, and KERNEL says how often one is repeated. */
extern "C" __global__ void repeated(const T *x, T *y OPERANDS, const Floats floats, const Words words) {
    EACH(i, COUNT) {
        SPOT(s, i, WINDOWS)
        index_t element = ((s.at[0] / KERNEL_0) * SIZE_1 + s.at[1] / KERNEL_1) * SIZE_2 + s.at[2] / KERNEL_2;
        STORE_0(y, i, load(x[begin(words, s, ELEMENTS) + element * STEP]));
    }
}
