/* Poolings of windows that are cut to the array, behind the geometry of pooling.cuh. Places lie as the windows do, and
   count the elements of a window. */

static __device__ __forceinline__ index_t begin_of(index_t window, index_t pad, index_t stride) {
    return max(window * stride - pad, (index_t)0);
}
static __device__ __forceinline__ index_t extent_of(index_t window, index_t size, index_t kernel, index_t pad,
                                                    index_t stride) {
    return min(window * stride - pad + kernel, size) - begin_of(window, pad, stride);
}
#define BEGIN(axis, window) begin_of(window, PAD_##axis, STRIDE_##axis)
#define EXTENT(axis, window) extent_of(window, SIZE_##axis, KERNEL_##axis, PAD_##axis, STRIDE_##axis)

/* A place that its window does not have sets the flag. */
#define CHECK_PLACES                                                                                                   \
    EACH(j, PLACES) {                                                                                                  \
        SPOT(window, j, WINDOWS)                                                                                       \
        const long long found = (long long)place[j];                                                                   \
        if (found < 0 || found >= EXTENT(0, window.at[0]) * EXTENT(1, window.at[1]) * EXTENT(2, window.at[2]))         \
            fail(flag, failure);                                                                                       \
    }

/* Of equal maxima the first counts, and the first NaN of all. */
extern "C" __global__ void window_maximum(const T *x, T *y, P *place OPERANDS, const Floats floats, const Words words) {
    EACH(i, COUNT) {
        SPOT(s, i, WINDOWS)
        const T *from = x + begin(words, s, ELEMENTS);
        A best = 0;
        index_t found = 0, seen = 0;
        EACH_TAP(s) {
            A value = load(from[ELEMENT]);
            if (!seen || value > best || (value != value && best == best)) best = value, found = seen;
            seen++;
        }
        STORE_0(y, i, best);
        if (place) place[i] = (P)found;
    }
}

extern "C" __global__ void window_maximum_back(const T *gy, const P *place, T *gx OPERANDS, long long *flag,
                                               long long failure, const Floats floats, const Words words) {
    CHECK_PLACES
    EACH(i, COUNT) {
        SPOT(s, i, SIZE)
        const index_t base = begin(words, s, WINDOWS);
        A sum = 0;
        EACH_WINDOW(s) {
            const index_t own = ((s.at[0] - BEGIN(0, window0)) * EXTENT(1, window1) + s.at[1] - BEGIN(1, window1))
                    * EXTENT(2, window2) + s.at[2] - BEGIN(2, window2);
            const index_t at = base + WINDOW * STEP;
            if ((index_t)place[at] == own) sum += load(gy[at]);
        }
        STORE_0(gx, i, sum);
    }
}

extern "C" __global__ void window_gather(const T *x, const P *place, T *y OPERANDS, long long *flag, long long failure,
                                         const Floats floats, const Words words) {
    CHECK_PLACES
    EACH(i, COUNT) {
        SPOT(s, i, WINDOWS)
        index_t rest = (index_t)place[i], extent2 = EXTENT(2, s.at[2]), extent1 = EXTENT(1, s.at[1]);
        index_t at2 = BEGIN(2, s.at[2]) + rest % extent2;
        rest /= extent2;
        index_t at1 = BEGIN(1, s.at[1]) + rest % extent1, at0 = BEGIN(0, s.at[0]) + rest / extent1;
        const bool is = at0 >= 0 && at0 < SIZE_0 && at1 >= 0 && at2 >= 0;
        STORE_0(y, i, is ? load(x[begin(words, s, ELEMENTS) + ELEMENT]) : (A)0);
    }
}

extern "C" __global__ void window_norm(const T *x, T *y OPERANDS, const Floats floats, const Words words) {
    EACH(i, COUNT) {
        SPOT(s, i, WINDOWS)
        const T *from = x + begin(words, s, ELEMENTS);
        A sum = 0;
        EACH_TAP(s) {
            const A value = load(from[ELEMENT]);
            sum += value * value;
        }
        STORE_0(y, i, sqrt(sum));
    }
}
