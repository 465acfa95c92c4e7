/* MRG31k3p, as the module `mrg31k3p` of the core says: a thread for each stream.  T: of y. */
struct Stream {
    unsigned x1[3], x2[3]; /* newest value first */
};

/* x mod m of an x below 2 m. */
static __device__ __forceinline__ unsigned reduced(unsigned x, unsigned m) { return x < m ? x : x - m; }

/* The next value, from 1 to 2^31 - 1. */
static __device__ __forceinline__ int next_value(Stream *s) {
    const unsigned m1 = 2147483647u, m2 = 2147462579u, rest = 21069u;
    const unsigned a = ((s->x1[1] & 511u) << 22) + (s->x1[1] >> 9), b = ((s->x1[2] & 16777215u) << 7) + (s->x1[2] >> 24);
    const unsigned first = reduced(reduced(a + b, m1) + s->x1[2], m1);
    const unsigned c = reduced(((s->x2[0] & 65535u) << 15) + rest * (s->x2[0] >> 16), m2);
    const unsigned d = reduced(((s->x2[2] & 65535u) << 15) + rest * (s->x2[2] >> 16), m2);
    const unsigned second = reduced(reduced(d + s->x2[2], m2) + c, m2);
    s->x1[2] = s->x1[1], s->x1[1] = s->x1[0], s->x1[0] = first;
    s->x2[2] = s->x2[1], s->x2[1] = s->x2[0], s->x2[0] = second;
    return (int)(first > second ? first - second : first - second + m1);
}

static __device__ __forceinline__ void unit(int z, float *u) { *u = __fmul_rn((float)z, 4.6566126e-10f); }
static __device__ __forceinline__ void unit(int z, double *u) { *u = z * 0x1p-31; }
static __device__ __forceinline__ float beside(float x, float other) { return nextafterf(x, other); }
static __device__ __forceinline__ double beside(double x, double other) { return nextafter(x, other); }

extern "C" __global__ void draw_streams(const int *rows, T *y, int *new_rows, const Floats floats, const Words words) {
    const index_t streams = words.w[0], count = words.w[1];
    const T low = (T)number(floats, 0), high = (T)number(floats, 1);
    const double span = (double)(T)(high - low);
    const T inside = beside(low, high), other = beside(high, low);
    const T least = inside < other ? inside : other, most = inside < other ? other : inside;
    EACH(n, streams) {
        Stream s;
        for (int k = 0; k < 3; k++) s.x1[k] = (unsigned)rows[6 * n + k], s.x2[k] = (unsigned)rows[6 * n + 3 + k];
        for (index_t at = n; at < count; at += streams) {
            T u;
            unit(next_value(&s), &u);
            const T value = (T)__dadd_rn(__dmul_rn((double)u, span), (double)low);
            y[at] = value < least ? least : value > most ? most : value;
        }
        for (int k = 0; k < 3; k++) new_rows[6 * n + k] = (int)s.x1[k], new_rows[6 * n + 3 + k] = (int)s.x2[k];
    }
}
