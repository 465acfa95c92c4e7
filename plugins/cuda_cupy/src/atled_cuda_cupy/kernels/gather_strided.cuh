/* y = x, whose RANK sizes and strides are given; PATTERN: an unsigned type as wide as the elements. */
extern "C" __global__ void gather_strided(const PATTERN *x, PATTERN *y, const Floats floats, const Words words) {
    EACH(i, words.w[0]) {
        index_t rest = i, at = 0;
        for (int axis = RANK; axis > 0; axis--) {
            at += rest % words.w[axis] * words.w[RANK + axis];
            rest /= words.w[axis];
        }
        y[i] = x[at];
    }
}
