/* Averages of rows of SIZE elements, a block each. COUNT and SIZE are words. */
extern "C" __global__ void averages(const T *x, T *y OPERANDS, const Floats floats, const Words words) {
    __shared__ A parts[32];
    for (index_t row = blockIdx.x; row < COUNT; row += gridDim.x) {
        A sum = 0;
        for (index_t i = threadIdx.x; i < SIZE; i += blockDim.x) sum += load(x[row * SIZE + i]);
        sum = block_sum(sum, parts);
        if (threadIdx.x == 0) STORE_0(y, row, sum / (A)SIZE);
    }
}
