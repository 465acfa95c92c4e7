/* Ends what others have computed: adds up the sums of parts, in their order, adds the bias, and stores by the formula.
   x and y may be one array. S is the type of x. Sizes in capitals are words: elements, parts; the bias of element i is
   that of i / BIAS_STEP % BIASES. */
extern "C" __global__ void finish(const S *x, const T *bias, T *y OPERANDS, const Floats floats, const Words words) {
    EACH(i, COUNT) {
        A sum = load(x[i]);
        for (index_t part = 1; part < PARTS; part++) sum += load(x[part * COUNT + i]);
        if (bias) sum += load(bias[i / BIAS_STEP % BIASES]);
        STORE_0(y, i, sum);
    }
}
