/* Philox 4x32-10 (Salmon and others, SC 2011), as the module `philox` of the core says. */
struct Block {
    unsigned word[4];
};
struct Stream {
    unsigned long long key, call;
};
static __device__ __forceinline__ Stream stream_of(const Floats &floats, int first) {
    return Stream{(unsigned long long)word(floats, first), (unsigned long long)word(floats, first + 1)};
}
/* Words 4 n to 4 n + 3 of a call. */
static __device__ __forceinline__ Block draw(Stream stream, unsigned long long n) {
    unsigned a = (unsigned)n, b = (unsigned)(n >> 32), c = (unsigned)stream.call, d = (unsigned)(stream.call >> 32);
    unsigned key0 = (unsigned)stream.key, key1 = (unsigned)(stream.key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned long long first = (unsigned long long)a * 0xD2511F53u, second = (unsigned long long)c * 0xCD9E8D57u;
        a = (unsigned)(second >> 32) ^ b ^ key0;
        b = (unsigned)second;
        c = (unsigned)(first >> 32) ^ d ^ key1;
        d = (unsigned)first;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return Block{{a, b, c, d}};
}

/* y[at] to y[at + 3], as far as they are there. */
template <class E> static __device__ __forceinline__ void write_four(E *y, index_t at, index_t size, const Pack<E, 4> &values) {
    if (at + 4 <= size && is_aligned<E, 4>(y)) {
        write_pack(y + at, values);
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (at + k < size) y[at + k] = values.at[k];
}

/* In [0, 1), by the upper 24 bits of a word. */
static __device__ __forceinline__ double uniform(unsigned word) { return (word >> 8) * 0x1p-24; }

/* Sine and cosine of 2 pi x. */
static __device__ __forceinline__ void circle(double x, double *sine, double *cosine) {
#ifdef CUDA_EMULATOR
    sincos(6.283185307179586 * x, sine, cosine);
#else
    sincospi(2.0 * x, sine, cosine); /* no reduction of large arguments, which takes local memory */
#endif
}

/* Word n of a call. */
static __device__ __forceinline__ unsigned drawn_word(Stream stream, unsigned long long n) {
    const Block block = draw(stream, n / 4);
    const unsigned lane = (unsigned)(n % 4);
    return lane == 0 ? block.word[0] : lane == 1 ? block.word[1] : lane == 2 ? block.word[2] : block.word[3];
}
