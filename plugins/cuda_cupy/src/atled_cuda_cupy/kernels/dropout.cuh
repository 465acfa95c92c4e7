/* Dropout.  T: of the arrays.  A: what is computed in. */
/* y = x mask; the mask is kept where there is an array for it. */
extern "C" __global__ void dropout(const T *x, T *y, T *mask, const Floats floats, const Words words) {
    const index_t size = words.w[0];
    const Stream stream = stream_of(floats, 1);
    const double p = number(floats, 0);
    const unsigned least = (unsigned)ceil(p * 16777216.0); /* of the 24 bits of an element that is kept */
    const A scale = (A)(1.0 / (1.0 - p));
    const bool aligned = is_aligned<T, 4>(x);
    EACH(n, (size + 3) / 4) {
        const index_t at = n * 4;
        const Block block = draw(stream, n);
        Pack<T, 4> values, factors;
        if (at + 4 <= size && aligned) values = read_pack<T, 4>(x + at);
        else {
#pragma unroll
            for (int k = 0; k < 4; k++) values.at[k] = x[at + k < size ? at + k : size - 1];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const A factor = block.word[k] >> 8 >= least ? scale : (A)0;
            values.at[k] = Element<T>::of((A)load(values.at[k]) * factor);
            factors.at[k] = Element<T>::of(factor);
        }
        write_four(y, at, size, values);
        if (mask) write_four(mask, at, size, factors);
    }
}
