/* Kernels of backend opencl: one work item per result, or per few of them. Each reads its sizes from w, whose first
   entry bounds dimension 0 of the grid. ACC is the type of long sums: double where the device has it. STORE_0 and
   OPERANDS are of the formula that is attached to the call. */
#define SIZES __constant int *w
#define IN __global const float *
#define OUT __global float *
#define INDICES __global const long *
#define FLAG __global long *flag
#define ITEM(i) \
    int i = get_global_id(0); \
    if (i >= w[0]) return

#define ROWS 8
/* y(M,N) = a(M,K) b(K,N) + bias(N), matrices by strides, one product per index of dimension 2; ROWS results each. */
__kernel void gemm(IN a, IN b, IN bias, OUT y OPERANDS, SIZES) {
    ITEM(j);
    int i = get_global_id(1) * ROWS, N = w[0], M = w[1], K = w[2];
    a += (long)get_global_id(2) * w[7];
    b += (long)get_global_id(2) * w[8] + (long)j * w[6];
    float sum[ROWS];
    __global const float *row[ROWS];
    for (int r = 0; r < ROWS; r++) {
        sum[r] = bias ? bias[j] : 0;
        row[r] = a + (long)min(i + r, M - 1) * w[3]; /* rows beyond the last repeat it, and are not stored */
    }
    for (int k = 0; k < K; k++) {
        float v = b[(long)k * w[5]];
        for (int r = 0; r < ROWS; r++) sum[r] += row[r][(long)k * w[4]] * v;
    }
    for (int r = 0; r < ROWS && i + r < M; r++)
        STORE_0(y, ((long)get_global_id(2) * M + i + r) * N + j, sum[r]);
}

/* Windows over three spatial axes: elements S, windows T, taps K; see `_windows` in operations.py. */
#define DEPTH w[1]
#define MAPS w[2]
#define S(axis) w[4 + axis]
#define T(axis) w[7 + axis]
#define K(axis) w[10 + axis]
#define PAD(axis) w[13 + axis]
#define STRIDE(axis) w[16 + axis]
#define DILATION(axis) w[19 + axis]
#define VOLUME(X) (X(0) * X(1) * X(2))
#define MAPS_EACH 8

#define HERE(axis) (back ? S(axis) : T(axis))
#define SPLIT(at, i, X) int at[3] = {(i) / (X(1) * X(2)), (i) / X(2) % X(1), (i) % X(2)}

/* The element that window `at` sees at tap k; back: the window that sees element `at` there. -1 for none. */
static int partner(SIZES, const int *at, int k, int back) {
    int place = 0, scale = 1, inside = 1;
    for (int axis = 2; axis >= 0; axis--) {
        int there = back ? T(axis) : S(axis), shift = k % K(axis) * DILATION(axis) - PAD(axis);
        int e = back ? at[axis] - shift : at[axis] * STRIDE(axis) + shift;
        if (back && STRIDE(axis) > 1) inside &= e % STRIDE(axis) == 0, e /= STRIDE(axis); /* divisions take long */
        inside &= e >= 0 && e < there;
        place += e * scale, scale *= there, k /= K(axis);
    }
    return inside ? place : -1;
}

/* Convolution and, back, its gradient by data: MAPS_EACH results each. Dimension 1: output maps, 2: image and group. */
__kernel void convolution(IN x, IN weight, IN bias, OUT y OPERANDS, SIZES) {
    ITEM(t);
    int groups = w[3], back = w[22], map_step = w[23], depth_step = w[24];
    int first = get_global_id(1) * MAPS_EACH, g = get_global_id(2) % groups, size = back ? VOLUME(T) : VOLUME(S);
    float sum[MAPS_EACH];
    for (int m = 0; m < MAPS_EACH; m++) sum[m] = bias ? bias[g * MAPS + min(first + m, MAPS - 1)] : 0;
    x += (long)get_global_id(2) * DEPTH * size;
    weight += g * MAPS * DEPTH * VOLUME(K);
    SPLIT(at, t, HERE);
    for (int k = 0; k < VOLUME(K); k++) {
        int e = partner(w, at, k, back);
        if (e >= 0)
            for (int c = 0; c < DEPTH; c++)
                for (int m = 0; m < MAPS_EACH; m++)
                    sum[m] += x[c * size + e] * weight[min(first + m, MAPS - 1) * map_step + c * depth_step + k];
    }
    for (int m = 0; m < MAPS_EACH && first + m < MAPS; m++)
        STORE_0(y, ((long)get_global_id(2) * MAPS + first + m) * w[0] + t, sum[m]);
}

/* Dimension 0: channel and tap; 1: maps, MAPS_EACH each; 2: group. */
__kernel void ConvolutionWeightGrad(IN x, IN gy, OUT gw, SIZES) {
    ITEM(i);
    int c = i / VOLUME(K), first = get_global_id(1) * MAPS_EACH, g = get_global_id(2), groups = w[3], batch = w[22];
    float sum[MAPS_EACH] = {0};
    for (int t = 0; t < VOLUME(T); t++) {
        SPLIT(at, t, T);
        int e = partner(w, at, i % VOLUME(K), 0);
        float part[MAPS_EACH] = {0}; /* summed per window first, which rounds less */
        for (int n = g; e >= 0 && n < batch * groups; n += groups)
            for (int m = 0; m < MAPS_EACH; m++)
                part[m] += x[((long)n * DEPTH + c) * VOLUME(S) + e]
                    * gy[((long)n * MAPS + min(first + m, MAPS - 1)) * VOLUME(T) + t];
        for (int m = 0; m < MAPS_EACH; m++) sum[m] += part[m];
    }
    for (int m = 0; m < MAPS_EACH && first + m < MAPS; m++) gw[(long)(g * MAPS + first + m) * w[0] + i] = sum[m];
}

/* Poolings: dimension 0 windows (elements for the gradient), dimension 1 planes. */
__kernel void MaxPooling(IN x, OUT y, __global uchar *place, SIZES) {
    ITEM(t);
    int best = -1, found = 0;
    SPLIT(at, t, T);
    x += (long)get_global_id(1) * VOLUME(S);
    for (int k = 0; k < VOLUME(K); k++) {
        int e = partner(w, at, k, 0);
        if (e >= 0 && (best < 0 || x[e] > x[best] || (isnan(x[e]) && !isnan(x[best])))) best = e, found = k;
    }
    y[(long)get_global_id(1) * w[0] + t] = x[best];
    place[(long)get_global_id(1) * w[0] + t] = found;
}

/* Dimension 0: planes, since any window may name any element. */
__kernel void MaxPoolingGrad(IN gy, __global const uchar *place, OUT gx, FLAG, long number, SIZES) {
    ITEM(row);
    gy += (long)row * VOLUME(T);
    gx += (long)row * VOLUME(S);
    for (int s = 0; s < VOLUME(S); s++) gx[s] = 0;
    for (int t = 0; t < VOLUME(T); t++) {
        SPLIT(at, t, T);
        int k = place[(long)row * VOLUME(T) + t], e = partner(w, at, k, 0);
        if (k >= VOLUME(K)) *flag = number;
        else if (e >= 0) gx[e] += gy[t];
    }
}

/* By what the sum of window t is divided: the places that it covers. */
static float places(SIZES, int t) {
    int count = 1, counts_pad = w[23];
    for (int axis = 2; axis >= 0; axis--) {
        int first = t % T(axis) * STRIDE(axis) - PAD(axis), margin = counts_pad ? PAD(axis) : 0;
        count *= max(min(first + K(axis), S(axis) + margin) - max(first, -margin), 0);
        t /= T(axis);
    }
    return max(count, 1);
}

/* The average and, back, its gradient. */
__kernel void average(IN x, OUT y, SIZES) {
    ITEM(at);
    int back = w[22], size = back ? VOLUME(T) : VOLUME(S);
    float sum = 0;
    SPLIT(place, at, HERE);
    for (int k = 0; k < VOLUME(K); k++) {
        int e = partner(w, place, k, back);
        if (e >= 0) sum += x[(long)get_global_id(1) * size + e] / (back ? places(w, e) : 1);
    }
    y[(long)get_global_id(1) * w[0] + at] = sum / (back ? 1 : places(w, at));
}

/* Sums over R0 and R1 of x(K0, R0, K1, R1); dimension 1 numbers the parts into which a sum is cut. */
__kernel void reduce(IN x, OUT y OPERANDS, SIZES) {
    ITEM(at);
    int part = get_global_id(1), R0 = w[1], K1 = w[2], R1 = w[3], step0 = w[4], step1 = w[5], divisor = w[6];
    ACC sum = 0;
    for (int r0 = step0 > 1 ? part : 0; r0 < R0; r0 += step0)
        for (int r1 = step1 > 1 ? part : 0; r1 < R1; r1 += step1)
            sum += x[(((long)(at / K1) * R0 + r0) * K1 + at % K1) * R1 + r1];
    STORE_0(y, (long)at * get_global_size(1) + part, divisor == 1 ? sum : sum / divisor);
}

#define CLASSES w[1]
#define INNER w[2]
#define ROW ((long)(get_global_id(0) / INNER) * CLASSES * INNER + get_global_id(0) % INNER)

/* Probabilities of the scores of one row; gives the maximum and the logarithm of the sum. */
static float2 softmax_of(IN x, OUT p, SIZES) {
    float top = -INFINITY;
    ACC sum = 0;
    for (long i = ROW; i < ROW + CLASSES * INNER; i += INNER) top = fmax(top, x[i]);
    for (long i = ROW; i < ROW + CLASSES * INNER; i += INNER) sum += p[i] = exp(x[i] - top);
    for (long i = ROW; i < ROW + CLASSES * INNER; i += INNER) p[i] /= (float)sum;
    return (float2)(top, log((float)sum));
}

__kernel void Softmax(IN x, OUT y, SIZES) {
    ITEM(i);
    softmax_of(x, y, w);
}

/* A label out of range marks the flag of the device, which the host reads when it waits. */
__kernel void SoftmaxCrossEntropy(IN x, INDICES target, OUT y, OUT p, FLAG, long number, SIZES) {
    ITEM(i);
    float2 scale = softmax_of(x, p, w);
    long label = clamp(target[i], 0L, CLASSES - 1L);
    if (label != target[i]) *flag = number;
    float log_p = x[ROW + label * INNER] - scale.x - scale.y, least = -87.33654475f; /* log of the smallest float */
    y[i] = -(log_p < least ? least : log_p);
}

__kernel void SoftmaxCrossEntropyGrad(IN gy, IN p, INDICES target, OUT gx, FLAG, long number, SIZES) {
    ITEM(i);
    if (target[i] < 0 || target[i] >= CLASSES) *flag = number;
    for (int c = 0; c < CLASSES; c++) gx[ROW + (long)c * INNER] = gy[i] * (p[ROW + (long)c * INNER] - (c == target[i]));
}

/* Batch normalization of x(OUTER, C, INNER): sums in parts, then numbers per channel. */
#define CHANNELS w[1]
#define OUTER w[3]
#define PARTS w[4]
#define COUNT ((float)OUTER * INNER)

/* Dimension 0: channel, 1: part. Without m, sums of x and x x, both less the channel's first element; with it, of g and
   g (x - m). */
__kernel void moments(IN g, IN x, IN m, OUT parts, SIZES) {
    ITEM(c);
    float shift = m ? m[c] : x[(long)c * INNER];
    ACC first = 0, second = 0;
    for (int n = get_global_id(1); n < OUTER; n += PARTS)
        for (long i = ((long)n * CHANNELS + c) * INNER, end = i + INNER; i < end; i++) {
            float v = m ? g[i] : x[i] - shift;
            first += v, second += v * (x[i] - shift);
        }
    parts[(c * PARTS + get_global_id(1)) * 2] = first;
    parts[(c * PARTS + get_global_id(1)) * 2 + 1] = second;
}

static float2 total(IN parts, int c, SIZES) {
    ACC first = 0, second = 0;
    for (int i = 0; i < PARTS; i++) first += parts[(c * PARTS + i) * 2], second += parts[(c * PARTS + i) * 2 + 1];
    return (float2)(first, second);
}

__kernel void statistics(IN x, IN parts, OUT mean, OUT variance, OUT m, OUT v, FLAG, __global const ACC *numbers, int word, SIZES) {
    ITEM(c);
    m[c] = mean[c], v[c] = variance[c];
    if (!w[5] || *flag) return; /* the running statistics as they are */
    float2 sums = total(parts, c, w) / COUNT;
    m[c] = x[(long)c * INNER] + sums.x;
    v[c] = fmax(sums.y - sums.x * sums.x, 0.0f);
    mean[c] = mix(m[c], mean[c], (float)numbers[word]);
    variance[c] = mix(v[c] * (COUNT > 1 ? COUNT / (COUNT - 1) : 1), variance[c], (float)numbers[word]);
}

__kernel void gradient_totals(IN parts, IN v, OUT gbeta, OUT ggamma, __global const ACC *numbers, int word, SIZES) {
    ITEM(c);
    gbeta[c] = total(parts, c, w).x, ggamma[c] = total(parts, c, w).y / sqrt(v[c] + (float)numbers[word]);
}

/* MRG31k3p: one work item per stream, whose steps are those of the core's `mrg_next`. */
__kernel void MRGUniform(__global const int *rows, OUT y, __global int *new_rows, __global const ACC *numbers, int word, SIZES) {
    ITEM(n);
    float low = numbers[word], high = numbers[word + 1], inside = nextafter(low, high), other = nextafter(high, low);
    uint x[6];
    for (int k = 0; k < 6; k++) x[k] = rows[6l * n + k];
    for (long at = n; at < w[1]; at += w[0]) {
        float u = convert_float_rte(mrg_next(x)) * 4.6566126e-10f;
        y[at] = clamp(fma(u, high - low, low), min(inside, other), max(inside, other));
    }
    for (int k = 0; k < 6; k++) new_rows[6l * n + k] = x[k];
}
