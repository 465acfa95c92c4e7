/* What is known of elements of a channel: A is what is computed in. */
/* How many they are, their mean, the sum of the squares of what they differ by from it. */
struct State {
    A n, mean, squares;
};

static __device__ __forceinline__ State merged(State a, State b) {
    const A n = a.n + b.n, share = n > 0 ? b.n / n : 0, apart = b.mean - a.mean;
    return {n, a.mean + apart * share, a.squares + b.squares + apart * apart * a.n * share};
}

static __device__ __forceinline__ State swapped(State s, int lanes) {
    return {__shfl_xor_sync(0xffffffffu, s.n, lanes), __shfl_xor_sync(0xffffffffu, s.mean, lanes),
            __shfl_xor_sync(0xffffffffu, s.squares, lanes)};
}
