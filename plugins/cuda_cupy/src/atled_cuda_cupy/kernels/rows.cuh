/* Rows along an axis of x(outer, CLASSES, inner). GROUP threads share a row, which is
   what has one place in outer and one in inner; VEC neighbours are loaded at once. They hold ITEMS packs each; 0: the row
   is too long for that, and is read twice. STRIDED: inner is not 1; neighbouring threads then have neighbouring rows. */
#define ROWS words.w[0]
#define CLASSES words.w[1]
#define INNER words.w[2]
#define LANES (BLOCK / GROUP)
#define INFINITE __int_as_float(0x7f800000)

#if STRIDED
#define GROUP_LANE (int(threadIdx.x) / LANES)
#define ROW (index_t(blockIdx.x) * LANES + index_t(threadIdx.x) % LANES)
#define BEGIN(row) ((row) / INNER * CLASSES * INNER + (row) % INNER)
#define PLACE(begin, c) ((begin) + (c) * INNER)
#else
#define GROUP_LANE (int(threadIdx.x) % GROUP)
#define ROW (index_t(blockIdx.x) * LANES + int(threadIdx.x) / GROUP)
#define BEGIN(row) ((row) * CLASSES)
#define PLACE(begin, c) ((begin) + (c))
#endif

static __device__ __forceinline__ float exp_of(float x) { return expf(x); }
static __device__ __forceinline__ double exp_of(double x) { return exp(x); }
static __device__ __forceinline__ float log_of(float x) { return logf(x); }
static __device__ __forceinline__ double log_of(double x) { return log(x); }

/* A sum or maximum over the threads of a row, in all of them. */
template <class Op>
static __device__ __forceinline__ A group_all(A value) {
#if STRIDED && GROUP > 1
    __shared__ A all[BLOCK];
    __syncthreads();
    all[threadIdx.x] = value;
    __syncthreads();
    value = all[threadIdx.x % LANES];
#pragma unroll
    for (int lane = 1; lane < GROUP; lane++) value = Op::of(value, all[lane * LANES + threadIdx.x % LANES]);
#elif GROUP > 32
    __shared__ A parts[32];
    value = block_all<Op>(value, parts);
#else
#pragma unroll
    for (int lanes = GROUP / 2; lanes; lanes /= 2) value = Op::of(value, (A)__shfl_xor_sync(0xffffffffu, value, lanes));
#endif
    return value;
}

struct Pack {
    A v[VEC];
};

static __device__ __forceinline__ Pack load_pack(const T *x, bool aligned) {
    Pack pack;
    if (VEC > 1 && aligned) {
        const Vector<T> vector = *(const Vector<T> *)x;
#pragma unroll
        for (int j = 0; j < VEC; j++) pack.v[j] = load(vector.at[j]);
    } else {
#pragma unroll
        for (int j = 0; j < VEC; j++) pack.v[j] = load(x[j]);
    }
    return pack;
}

static __device__ __forceinline__ void store_pack(T *y, const Pack &pack, bool aligned) {
    if (VEC > 1 && aligned) {
        Vector<T> vector;
#pragma unroll
        for (int j = 0; j < VEC; j++) vector.at[j] = store<T>(pack.v[j]);
        *(Vector<T> *)y = vector;
    } else {
#pragma unroll
        for (int j = 0; j < VEC; j++) y[j] = store<T>(pack.v[j]);
    }
}

/* The label of a row; -1, and the flag is set, where it is none of the classes. */
static __device__ __forceinline__ index_t label_of(const long long *target, index_t row, const Words &words,
                                                   long long *flag, long long failure) {
    const long long label = target[row];
    if (label >= 0 && label < CLASSES) return (index_t)label;
    fail(flag, failure);
    return -1;
}
