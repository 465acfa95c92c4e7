/* Places by their numbers: divisions by sizes that are words, by multiplication. */
#define OVER(i, NAME) quotient(i, NAME##_FACTOR, NAME##_SHIFT)
#define REMAINDER(i, over, size) ((i) - (over) * (size))

/* at: place i among NAME_0 x NAME_1 x NAME_2, of whose axes the last AXES are there. */
#define SPLIT(i, NAME, at)                                                                                             \
    index_t at[3] = {0, 0, i};                                                                                         \
    if (AXES > 1) at[1] = OVER(i, NAME##_2), at[2] = REMAINDER(i, at[1], NAME##_2);                                    \
    if (AXES > 2) at[0] = OVER(at[1], NAME##_1), at[1] = REMAINDER(at[1], at[0], NAME##_1);

