// One step of a recurrent layer behind or in front of its product, forward and backward; each thread has some units of
// some sequences. Pointers are those of the step; what is absent is null.
//     pre: what the products gave, in A; it may lie where the step's gates or y go, so it is read before they are written.
//     words: units of all sequences, those of one, numbers of `pre` from sequence to sequence.
#define SIZE words.w[1]
#define PITCH words.w[2]

__device__ __forceinline__ A sigmoid(A x) { return 1 / (1 + exp(-x)); }
__device__ __forceinline__ A at_or_zero(const T *x, index_t i) { return x ? load(x[i]) : (A)0; }

extern "C" __global__ void __launch_bounds__(256)
lstm(const A *pre, const T *bias, const T *c_before, T *gates, T *cells, T *y, T *h_n, T *c_n, const Floats floats,
     const Words words) {
    EACH(at, words.w[0]) {
        const index_t sequence = at / SIZE, unit = at - sequence * SIZE, gate = sequence * 4 * SIZE + unit;
        A sums[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            sums[k] = pre[sequence * PITCH + k * SIZE + unit] + at_or_zero(bias, k * SIZE + unit);
        const A i = sigmoid(sums[0]), f = sigmoid(sums[1]), g = tanh(sums[2]), o = sigmoid(sums[3]);
        const A c = f * load(c_before[at]) + i * g;
        const T h = store<T>(o * tanh(c));
        gates[gate] = store<T>(i);
        gates[gate + SIZE] = store<T>(f);
        gates[gate + 2 * SIZE] = store<T>(g);
        gates[gate + 3 * SIZE] = store<T>(o);
        cells[at] = store<T>(c);
        y[at] = h;
        if (h_n) h_n[at] = h;
        if (c_n) c_n[at] = store<T>(c);
    }
}

// gh, gc: what the step behind handed on; behind the last one gh_n and gc_n. gc_to, or at the end gc_first, gets what this
// one hands on.
extern "C" __global__ void __launch_bounds__(256)
lstm_back(const T *gates, const T *cells, const T *c_before, const T *gy, const A *gh, const A *gc, const T *gh_n,
          const T *gc_n, const T *ggates, const T *gcells, T *maps, A *gc_to, T *gc_first, const Floats floats,
          const Words words) {
    EACH(at, words.w[0]) {
        const index_t sequence = at / SIZE, gate = sequence * 4 * SIZE + at - sequence * SIZE;
        const A i = load(gates[gate]), f = load(gates[gate + SIZE]);
        const A g = load(gates[gate + 2 * SIZE]), o = load(gates[gate + 3 * SIZE]);
        const A tanh_c = tanh(load(cells[at]));
        const A of_h = (gh ? gh[at] : at_or_zero(gh_n, at)) + at_or_zero(gy, at);
        A of_c = (gc ? gc[at] : at_or_zero(gc_n, at)) + at_or_zero(gcells, at);
        of_c += of_h * o * (1 - tanh_c * tanh_c);
        const A of_i = of_c * g + at_or_zero(ggates, gate);
        const A of_f = of_c * load(c_before[at]) + at_or_zero(ggates, gate + SIZE);
        const A of_g = of_c * i + at_or_zero(ggates, gate + 2 * SIZE);
        const A of_o = of_h * tanh_c + at_or_zero(ggates, gate + 3 * SIZE);
        maps[gate] = store<T>(of_i * i * (1 - i));
        maps[gate + SIZE] = store<T>(of_f * f * (1 - f));
        maps[gate + 2 * SIZE] = store<T>(of_g * (1 - g * g));
        maps[gate + 3 * SIZE] = store<T>(of_o * o * (1 - o));
        if (gc_to) gc_to[at] = of_c * f;
        if (gc_first) gc_first[at] = store<T>(of_c * f);
    }
}

// of_h: U h of the three gates.
extern "C" __global__ void __launch_bounds__(256)
gru(const A *pre, const A *of_h, const T *bias, const T *h_before, T *gates, T *y, T *h_n, const Floats floats,
    const Words words) {
    EACH(at, words.w[0]) {
        const index_t sequence = at / SIZE, unit = at - sequence * SIZE, gate = sequence * 4 * SIZE + unit;
        A of_x[3];
#pragma unroll
        for (int k = 0; k < 3; k++)
            of_x[k] = pre[sequence * PITCH + k * SIZE + unit] + at_or_zero(bias, k * SIZE + unit);
        const A *mine = of_h + sequence * 3 * SIZE + unit;
        const A r = sigmoid(of_x[0] + mine[0]), z = sigmoid(of_x[1] + mine[SIZE]);
        const A added = mine[2 * SIZE] + at_or_zero(bias, 3 * SIZE + unit);
        const A n = tanh(of_x[2] + r * added);
        const T h = store<T>((1 - z) * n + z * load(h_before[at]));
        gates[gate] = store<T>(r);
        gates[gate + SIZE] = store<T>(z);
        gates[gate + 2 * SIZE] = store<T>(n);
        gates[gate + 3 * SIZE] = store<T>(added);
        y[at] = h;
        if (h_n) h_n[at] = h;
    }
}

// gh_to, or at the end gh_first, gets what this step hands on; a product is added to it afterwards.
extern "C" __global__ void __launch_bounds__(256)
gru_back(const T *gates, const T *h_before, const T *gy, const A *gh, const T *gh_n, const T *ggates, T *of_x, T *of_h,
         A *gh_to, T *gh_first, const Floats floats, const Words words) {
    EACH(at, words.w[0]) {
        const index_t sequence = at / SIZE, unit = at - sequence * SIZE;
        const index_t gate = sequence * 4 * SIZE + unit, map = sequence * 3 * SIZE + unit;
        const A r = load(gates[gate]), z = load(gates[gate + SIZE]);
        const A n = load(gates[gate + 2 * SIZE]), added = load(gates[gate + 3 * SIZE]);
        const A back = (gh ? gh[at] : at_or_zero(gh_n, at)) + at_or_zero(gy, at);
        const A gn = (at_or_zero(ggates, gate + 2 * SIZE) + back * (1 - z)) * (1 - n * n);
        const A gz = (at_or_zero(ggates, gate + SIZE) + back * (load(h_before[at]) - n)) * z * (1 - z);
        const A gr = (at_or_zero(ggates, gate) + gn * added) * r * (1 - r);
        of_x[map] = of_h[map] = store<T>(gr);
        of_x[map + SIZE] = of_h[map + SIZE] = store<T>(gz);
        of_x[map + 2 * SIZE] = store<T>(gn);
        of_h[map + 2 * SIZE] = store<T>(at_or_zero(ggates, gate + 3 * SIZE) + gn * r);
        if (gh_to) gh_to[at] = back * z;
        if (gh_first) gh_first[at] = store<T>(back * z);
    }
}

extern "C" __global__ void __launch_bounds__(256)
rnn(const A *pre, const T *bias, T *y, T *h_n, const Floats floats, const Words words) {
    EACH(at, words.w[0]) {
        const A sum = pre[at] + at_or_zero(bias, at % SIZE);
#if TANH
        const T h = store<T>(tanh(sum));
#else
        const T h = store<T>(maximum((A)0, sum));
#endif
        y[at] = h;
        if (h_n) h_n[at] = h;
    }
}

extern "C" __global__ void __launch_bounds__(256)
rnn_back(const T *y, const T *gy, const A *gh, const T *gh_n, T *maps, const Floats floats, const Words words) {
    EACH(at, words.w[0]) {
        const A back = (gh ? gh[at] : at_or_zero(gh_n, at)) + at_or_zero(gy, at), h = load(y[at]);
#if TANH
        maps[at] = store<T>(back * (1 - h * h));
#else
        maps[at] = store<T>(h > 0 ? back : 0 * back);
#endif
    }
}
