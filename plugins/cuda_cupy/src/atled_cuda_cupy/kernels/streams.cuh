/* MRG31k3p, as the module `mrg31k3p` of the core says: a thread for each stream.  T: of y.
   The core's text with `mrg_next` is put before it. */
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
        unsigned row[6];
        for (int k = 0; k < 6; k++) row[k] = (unsigned)rows[6 * n + k];
        for (index_t at = n; at < count; at += streams) {
            T u;
            unit(mrg_next(row), &u);
            const T value = (T)__dadd_rn(__dmul_rn((double)u, span), (double)low);
            y[at] = value < least ? least : value > most ? most : value;
        }
        for (int k = 0; k < 6; k++) new_rows[6 * n + k] = (int)row[k];
    }
}
