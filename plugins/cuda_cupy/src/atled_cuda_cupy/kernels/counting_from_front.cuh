// Negative indices counted from the end, the others as they are; what is out of range stays so.
//     words: indices; elements of the axis.
extern "C" __global__ void __launch_bounds__(THREADS)
count_from_front(const long long *__restrict__ index, long long *__restrict__ y, const Floats floats, const Words words) {
    EACH(i, words.w[0]) y[i] = index[i] < 0 ? index[i] + words.w[1] : index[i];
}
