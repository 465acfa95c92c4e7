/* Kernels of backend opencl: one work item per result, or per block of four. Each reads its sizes from w, whose
   first entry bounds dimension 0 of the grid. ACC is the type of long sums: double where the device has it. */
#define SIZES __constant int *w
#define IN __global const float *
#define OUT __global float *

#define ROWS 8
/* y(M,N) = a(M,K) b(K,N) + bias(N), matrices by strides, one product per index of dimension 2; ROWS results each. */
__kernel void gemm(IN a, IN b, IN bias, OUT y, SIZES) {
    int j = get_global_id(0), i = get_global_id(1) * ROWS, N = w[0], M = w[1], K = w[2];
    if (j >= N) return;
    a += (long)get_global_id(2) * w[7];
    b += (long)get_global_id(2) * w[8] + (long)j * w[6];
    y += (long)get_global_id(2) * M * N + j;
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
    for (int r = 0; r < ROWS; r++)
        if (i + r < M) y[(long)(i + r) * N] = sum[r];
}

/* Windows over three spatial axes: elements S, windows T, taps K; see `_windows` in operations.py. */
#define DEPTH w[1]
#define MAPS w[2]
#define GROUPS w[3]
#define S(axis) w[4 + axis]
#define T(axis) w[7 + axis]
#define K(axis) w[10 + axis]
#define PAD(axis) w[13 + axis]
#define STRIDE(axis) w[16 + axis]
#define DILATION(axis) w[19 + axis]
#define COUNTS_PAD w[22]
#define VOLUME(X) (X(0) * X(1) * X(2))
#define MAPS_EACH 4

/* The element that window t sees at tap k, or -1. */
static int element_of(SIZES, int t, int k) {
    int place = 0, scale = 1, inside = 1;
    for (int axis = 2; axis >= 0; axis--) {
        int e = t % T(axis) * STRIDE(axis) - PAD(axis) + k % K(axis) * DILATION(axis);
        inside &= e >= 0 && e < S(axis);
        place += e * scale;
        scale *= S(axis), t /= T(axis), k /= K(axis);
    }
    return inside ? place : -1;
}

/* The window that sees element s at tap k, or -1. */
static int window_of(SIZES, int s, int k) {
    int place = 0, scale = 1, inside = 1;
    for (int axis = 2; axis >= 0; axis--) {
        int e = s % S(axis) + PAD(axis) - k % K(axis) * DILATION(axis), t = e / STRIDE(axis);
        inside &= e >= 0 && t * STRIDE(axis) == e && t < T(axis);
        place += t * scale;
        scale *= T(axis), s /= S(axis), k /= K(axis);
    }
    return inside ? place : -1;
}

__kernel void convolution(IN x, IN weight, IN bias, OUT y, SIZES) {
    int t = get_global_id(0), blocks = (MAPS + MAPS_EACH - 1) / MAPS_EACH, g = get_global_id(1) / blocks;
    int o = get_global_id(1) % blocks * MAPS_EACH, taps = VOLUME(K), size = VOLUME(S);
    if (t >= w[0]) return;
    float sum[MAPS_EACH];
    for (int m = 0; m < MAPS_EACH; m++) sum[m] = bias ? bias[g * MAPS + min(o + m, MAPS - 1)] : 0;
    x += ((long)get_global_id(2) * GROUPS + g) * DEPTH * size;
    weight += g * MAPS * DEPTH * taps;
    for (int k = 0; k < taps; k++) {
        int e = element_of(w, t, k);
        if (e >= 0)
            for (int c = 0; c < DEPTH; c++)
                for (int m = 0; m < MAPS_EACH; m++)
                    sum[m] += x[c * size + e] * weight[(min(o + m, MAPS - 1) * DEPTH + c) * taps + k];
    }
    for (int m = 0; m < MAPS_EACH && o + m < MAPS; m++)
        y[(((long)get_global_id(2) * GROUPS + g) * MAPS + o + m) * w[0] + t] = sum[m];
}

__kernel void convolution_data_grad(IN gy, IN weight, OUT gx, SIZES) {
    int s = get_global_id(0), blocks = (DEPTH + MAPS_EACH - 1) / MAPS_EACH, g = get_global_id(1) / blocks;
    int c = get_global_id(1) % blocks * MAPS_EACH, taps = VOLUME(K), size = VOLUME(T);
    if (s >= w[0]) return;
    float sum[MAPS_EACH] = {0};
    gy += ((long)get_global_id(2) * GROUPS + g) * MAPS * size;
    weight += g * MAPS * DEPTH * taps;
    for (int k = 0; k < taps; k++) {
        int t = window_of(w, s, k);
        if (t >= 0)
            for (int o = 0; o < MAPS; o++)
                for (int m = 0; m < MAPS_EACH; m++)
                    sum[m] += gy[o * size + t] * weight[(o * DEPTH + min(c + m, DEPTH - 1)) * taps + k];
    }
    for (int m = 0; m < MAPS_EACH && c + m < DEPTH; m++)
        gx[(((long)get_global_id(2) * GROUPS + g) * DEPTH + c + m) * w[0] + s] = sum[m];
}

/* Dimension 0: channel and tap; 1: maps; 2: group. */
__kernel void convolution_weight_grad(IN x, IN gy, OUT gw, SIZES) {
    int batch = w[22], taps = VOLUME(K), c = get_global_id(0) / taps, k = get_global_id(0) % taps, g = get_global_id(2);
    int o = get_global_id(1) * MAPS_EACH, size = VOLUME(S), windows = VOLUME(T);
    if (get_global_id(0) >= w[0]) return;
    float sum[MAPS_EACH] = {0};
    for (int n = 0; n < batch; n++) {
        float part[MAPS_EACH] = {0}; /* summed per image first, which rounds less */
        IN images = x + ((long)(n * GROUPS + g) * DEPTH + c) * size;
        IN grads = gy + (long)(n * GROUPS + g) * MAPS * windows;
        for (int t = 0; t < windows; t++) {
            int e = element_of(w, t, k);
            float v = e < 0 ? 0 : images[e];
            for (int m = 0; m < MAPS_EACH; m++) part[m] += v * grads[min(o + m, MAPS - 1) * windows + t];
        }
        for (int m = 0; m < MAPS_EACH; m++) sum[m] += part[m];
    }
    for (int m = 0; m < MAPS_EACH && o + m < MAPS; m++)
        gw[(long)(g * MAPS + o + m) * w[0] + get_global_id(0)] = sum[m];
}

/* Poolings: dimension 0 windows (elements for the gradient), dimension 1 planes. */
__kernel void max_pooling(IN x, OUT y, __global long *index, SIZES) {
    int t = get_global_id(0), best = -1;
    if (t >= w[0]) return;
    x += (long)get_global_id(1) * VOLUME(S);
    for (int k = 0; k < VOLUME(K); k++) {
        int e = element_of(w, t, k);
        if (e >= 0 && (best < 0 || x[e] > x[best] || (isnan(x[e]) && !isnan(x[best])))) best = e;
    }
    y[(long)get_global_id(1) * w[0] + t] = x[best];
    index[(long)get_global_id(1) * w[0] + t] = best;
}

/* Dimension 0: planes, since any window may name any element. */
__kernel void max_pooling_grad(IN gy, __global const long *index, OUT gx, __global int *bad, SIZES) {
    int windows = w[1], size = w[2];
    if (get_global_id(0) >= w[0]) return;
    gx += (long)get_global_id(0) * size;
    for (int s = 0; s < size; s++) gx[s] = 0;
    for (int t = 0; t < windows; t++) {
        long e = index[(long)get_global_id(0) * windows + t];
        if (e < 0 || e >= size) *bad = w[3];
        else gx[e] += gy[(long)get_global_id(0) * windows + t];
    }
}

/* By what the sum of window t is divided: the places that it covers. */
static float places(SIZES, int t) {
    int count = 1;
    for (int axis = 2; axis >= 0; axis--) {
        int first = t % T(axis) * STRIDE(axis) - PAD(axis), margin = COUNTS_PAD ? PAD(axis) : 0;
        count *= max(min(first + K(axis), S(axis) + margin) - max(first, -margin), 0);
        t /= T(axis);
    }
    return max(count, 1);
}

__kernel void average_pooling(IN x, OUT y, SIZES) {
    int t = get_global_id(0);
    if (t >= w[0]) return;
    float sum = 0;
    for (int k = 0; k < VOLUME(K); k++) {
        int e = element_of(w, t, k);
        sum += e < 0 ? 0 : x[(long)get_global_id(1) * VOLUME(S) + e];
    }
    y[(long)get_global_id(1) * w[0] + t] = sum / places(w, t);
}

__kernel void average_pooling_grad(IN gy, OUT gx, SIZES) {
    int s = get_global_id(0);
    if (s >= w[0]) return;
    float sum = 0;
    for (int k = 0; k < VOLUME(K); k++) {
        int t = window_of(w, s, k);
        sum += t < 0 ? 0 : gy[(long)get_global_id(1) * VOLUME(T) + t] / places(w, t);
    }
    gx[(long)get_global_id(1) * w[0] + s] = sum;
}

/* Sums over R0 and R1 of x(K0, R0, K1, R1); dimension 1 numbers the parts into which a sum is cut. */
__kernel void reduce(IN x, OUT y, SIZES) {
    int at = get_global_id(0), part = get_global_id(1), R0 = w[1], K1 = w[2], R1 = w[3], step0 = w[4], step1 = w[5];
    if (at >= w[0]) return;
    ACC sum = 0;
    for (int r0 = step0 > 1 ? part : 0; r0 < R0; r0 += step0)
        for (int r1 = step1 > 1 ? part : 0; r1 < R1; r1 += step1)
            sum += x[(((long)(at / K1) * R0 + r0) * K1 + at % K1) * R1 + r1];
    y[(long)at * get_global_size(1) + part] = w[6] ? sum / w[7] : sum;
}

/* Probabilities of n scores; gives the maximum and the logarithm of the sum. */
static float2 softmax_of(IN x, OUT p, int n, int stride) {
    float top = -INFINITY;
    ACC sum = 0;
    for (int i = 0; i < n; i++) top = fmax(top, x[(long)i * stride]);
    for (int i = 0; i < n; i++) sum += p[(long)i * stride] = exp(x[(long)i * stride] - top);
    for (int i = 0; i < n; i++) p[(long)i * stride] /= (float)sum;
    return (float2)(top, log((float)sum));
}

#define CLASSES w[1]
#define INNER w[2]
#define ROW ((long)(get_global_id(0) / INNER) * CLASSES * INNER + get_global_id(0) % INNER)

__kernel void softmax(IN x, OUT y, SIZES) {
    if (get_global_id(0) < w[0]) softmax_of(x + ROW, y + ROW, CLASSES, INNER);
}

__kernel void softmax_cross_entropy(IN x, __global const long *target, OUT y, OUT p, __global int *bad, SIZES) {
    if (get_global_id(0) >= w[0]) return;
    float2 scale = softmax_of(x + ROW, p + ROW, CLASSES, INNER);
    long label = target[get_global_id(0)];
    if (label < 0 || label >= CLASSES) {
        *bad = w[3];
        return;
    }
    float log_p = x[ROW + label * INNER] - scale.x - scale.y, least = -87.33654475f; /* log of the smallest float */
    y[get_global_id(0)] = -(log_p < least ? least : log_p);
}

__kernel void softmax_cross_entropy_grad(IN gy, IN p, __global const long *target, OUT gx, __global int *bad, SIZES) {
    if (get_global_id(0) >= w[0]) return;
    long label = target[get_global_id(0)];
    if (label < 0 || label >= CLASSES) *bad = w[3];
    for (int i = 0; i < CLASSES; i++)
        gx[ROW + (long)i * INNER] = gy[get_global_id(0)] * (p[ROW + (long)i * INNER] - (i == label));
}

/* Batch normalization of x(OUTER, C, INNER): sums in parts, statistics per channel, then the elements. */
#define CHANNELS w[1]
#define OUTER w[3]
#define PARTS w[4]
#define BATCH_STAT w[5]
#define COUNT ((float)OUTER * INNER)
#define CHANNEL (get_global_id(0) / INNER % CHANNELS)

/* Dimension 0: channel, 1: part. Sums of x and of its square, both less the channel's first element. */
__kernel void moments(IN x, OUT parts, SIZES) {
    int c = get_global_id(0);
    if (c >= w[0]) return;
    ACC sum = 0, squares = 0;
    for (int n = get_global_id(1); n < OUTER; n += PARTS)
        for (int i = 0; i < INNER; i++) {
            float v = x[((long)n * CHANNELS + c) * INNER + i] - x[(long)c * INNER];
            sum += v, squares += v * v;
        }
    parts[(c * PARTS + get_global_id(1)) * 2] = sum;
    parts[(c * PARTS + get_global_id(1)) * 2 + 1] = squares;
}

static float2 total(IN parts, int c, SIZES) {
    ACC first = 0, second = 0;
    for (int i = 0; i < PARTS; i++) first += parts[(c * PARTS + i) * 2], second += parts[(c * PARTS + i) * 2 + 1];
    return (float2)(first, second);
}

__kernel void statistics(IN x, IN parts, OUT mean, OUT variance, OUT m, OUT v, float decay, SIZES) {
    int c = get_global_id(0);
    if (c >= w[0]) return;
    m[c] = mean[c], v[c] = variance[c];
    if (!BATCH_STAT) return;
    float2 sums = total(parts, c, w) / COUNT;
    m[c] = x[(long)c * INNER] + sums.x;
    v[c] = fmax(sums.y - sums.x * sums.x, 0.0f);
    mean[c] = decay * mean[c] + (1 - decay) * m[c];
    variance[c] = decay * variance[c] + (1 - decay) * v[c] * (COUNT > 1 ? COUNT / (COUNT - 1) : 1);
}

__kernel void normalize_batch(IN x, IN beta, IN gamma, IN m, IN v, OUT y, float eps, SIZES) {
    int i = get_global_id(0), c = CHANNEL;
    if (i < w[0]) y[i] = gamma[c] * (x[i] - m[c]) / sqrt(v[c] + eps) + beta[c];
}

__kernel void gradient_sums(IN gy, IN x, IN m, IN v, OUT parts, float eps, SIZES) {
    int c = get_global_id(0);
    if (c >= w[0]) return;
    ACC first = 0, second = 0;
    for (int n = get_global_id(1); n < OUTER; n += PARTS)
        for (int i = 0; i < INNER; i++) {
            long at = ((long)n * CHANNELS + c) * INNER + i;
            first += gy[at], second += gy[at] * (x[at] - m[c]);
        }
    parts[(c * PARTS + get_global_id(1)) * 2] = first;
    parts[(c * PARTS + get_global_id(1)) * 2 + 1] = second / sqrt(v[c] + eps);
}

__kernel void gradient_totals(IN parts, OUT gbeta, OUT ggamma, SIZES) {
    int c = get_global_id(0);
    if (c >= w[0]) return;
    gbeta[c] = total(parts, c, w).x, ggamma[c] = total(parts, c, w).y;
}

__kernel void normalize_batch_grad(
    IN gy, IN x, IN gamma, IN m, IN v, OUT gx, IN gbeta, IN ggamma, float eps, SIZES) {
    int i = get_global_id(0), c = CHANNEL;
    if (i >= w[0]) return;
    float scale = 1 / sqrt(v[c] + eps), g = gy[i];
    if (BATCH_STAT) g -= gbeta[c] / COUNT + (x[i] - m[c]) * scale * ggamma[c] / COUNT;
    gx[i] = gamma[c] * scale * g;
}
