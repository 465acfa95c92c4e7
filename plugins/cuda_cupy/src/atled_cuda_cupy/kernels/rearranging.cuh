/* RandomCrop, RandomFlip, RandomShift: each element of y from a place in x that is drawn per sample and axis.
   RULE: what becomes of place i and the number drawn.  AXES: of a sample. */
#define ADD 0
#define REVERSE 1
#define NEAREST 2
#define REFLECT 3

static __device__ __forceinline__ index_t place_of(index_t i, index_t size, index_t number, index_t offset) {
#if RULE == ADD
    return i + number;
#elif RULE == REVERSE
    return number ? size - 1 - i : i;
#else
    index_t wanted = i + offset - number;
#if RULE == NEAREST
    return max((index_t)0, min(wanted, size - 1));
#else
    wanted %= 2 * size;
    if (wanted < 0) wanted += 2 * size;
    return wanted < size ? wanted : 2 * size - 1 - wanted;
#endif
#endif
}

/* words: elements of y; of a sample of y, with its divisor; numbers drawn for a sample; elements of a sample of x;
   then of each axis, innermost first: size in y, its divisor; size in x, stride there; bound of the number drawn, or 0
   where none is; what is subtracted from it; which of the sample's numbers it is. */
extern "C" __global__ void rearrange(const T *x, T *y, long long *index, const Floats floats, const Words words) {
    const Stream stream = stream_of(floats, 0);
    EACH(at, words.w[0]) {
        const index_t sample = quotient(at, words.w[2], words.w[3]);
        index_t rest = at - sample * words.w[1], source = sample * words.w[5];
#pragma unroll
        for (int axis = 0; axis < AXES; axis++) {
            const index_t *w = words.w + 6 + 8 * axis;
            const index_t next = quotient(rest, w[1], w[2]);
            index_t number = 0;
            if (w[5]) {
                const unsigned word = drawn_word(stream, (unsigned long long)sample * words.w[4] + w[7]);
                number = (index_t)((unsigned long long)word * (unsigned long long)w[5] >> 32);
            }
            source += place_of(rest - next * w[0], w[3], number, w[6]) * w[4];
            rest = next;
        }
        if (y) y[at] = x[source];
        if (index) index[at] = source;
    }
}
