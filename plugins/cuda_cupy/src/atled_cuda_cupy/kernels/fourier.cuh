// One pass of a Fourier transform along an axis (Stockham's, in the order of Govindaraju et al., 2008): of so many
// elements that lie `step` apart each result is a sum with turns for factors.
//     S, D: of what is read and written, pairs of real and imaginary part; A: computed with.
//     words: numbers; then, each with multiplier and shift, elements inside of the axis, its size, the length of the
//     transforms that the pass makes and of those that it finds; elements that it sums; 1 for the inverse, else -1.
#define EXACT 16 /* a turn is multiplied so often before it is computed again */

__device__ __forceinline__ void turn(float share, float &sine, float &cosine) { sincospif(2 * share, &sine, &cosine); }
__device__ __forceinline__ void turn(double share, double &sine, double &cosine) { sincospi(2 * share, &sine, &cosine); }

extern "C" __global__ void __launch_bounds__(THREADS)
transform(const S *__restrict__ x, D *__restrict__ y, long long scale, const Floats floats, const Words words) {
    const index_t *w = words.w;
    const count_t inside = (count_t)w[1], size = (count_t)w[4], length = (count_t)w[7], found = (count_t)w[10];
    const count_t radix = (count_t)w[13];
    const long long step = (long long)(size / radix) * (long long)inside;
    const A factor = (A)__longlong_as_double(scale);
    for (count_t at = (count_t)blockIdx.x * THREADS + threadIdx.x; at < (count_t)w[0]; at += (count_t)gridDim.x * THREADS) {
        const count_t outside = divided(at, w[1], w[2], w[3]), line = divided(outside, w[4], w[5], w[6]);
        const count_t place = outside - line * size, block = divided(place, w[7], w[8], w[9]);
        const count_t rest = place - block * length, first = rest - divided(rest, w[10], w[11], w[12]) * found;
        long long from = ((long long)line * size + block * found + first) * inside + (at - outside * inside);
        A sine, cosine, step_sine, step_cosine, real = 0, imaginary = 0;
        turn((A)w[14] * (A)rest / (A)length, step_sine, step_cosine);
        count_t share = 0; /* turns so far, in parts of the length */
        for (count_t i = 0; i < radix; i++, from += step) {
            if (i % EXACT == 0) turn((A)w[14] * (A)share / (A)length, sine, cosine);
            const A a = load(x[2 * from]), b = load(x[2 * from + 1]);
            real += a * cosine - b * sine;
            imaginary += a * sine + b * cosine;
            const A before = cosine;
            cosine = before * step_cosine - sine * step_sine;
            sine = before * step_sine + sine * step_cosine;
            share += rest;
            if (share >= length) share -= length;
        }
        y[2 * (long long)at] = store<D>(real * factor);
        y[2 * (long long)at + 1] = store<D>(imaginary * factor);
    }
}
