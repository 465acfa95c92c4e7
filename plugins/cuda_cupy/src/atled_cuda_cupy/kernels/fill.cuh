/* y[i] = the bits given; PATTERN: an unsigned type as wide as the elements. */
extern "C" __global__ void fill(PATTERN *y, long long bits, const Floats floats, const Words words) {
    EACH(i, words.w[0]) y[i] = (PATTERN)bits;
}
