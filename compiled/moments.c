/* Moments of one number or of two by numbered groups, for executor/aggregation/accumulators_statistics.py.
 *
 *     number of each row's group, x [, y] ──► count, mean of each, sums of products of the distances from the means
 *
 * Two passes, as in NumPy: the means first, as distances from the group's first value, then the products. No result is a
 * difference of two large sums. The state of a group lies together, in one cache line:
 *
 *     one number     count, mean x, xx
 *     two            count, mean x, mean y, xx, yy, xy
 */
#include "arguments.h"

#define ONE 3 /* doubles of a group's state */
#define TWO 6

/* The first value of a group is kept where its product will be, until the means are known. */
#define MOMENT_ROWS(NAME, NUMBER, WIDTH)                                                                               \
    static void NAME(const void *groups, const double *x, const double *y, const uint8_t *present, int64_t n,          \
                     int64_t size, double *states)                                                                     \
    {                                                                                                                  \
        const NUMBER *numbers = groups;                                                                                \
        for (int64_t row = 0; row < n; row++) {                                                                        \
            if (present != NULL && !present[row])                                                                      \
                continue;                                                                                              \
            double *state = states + WIDTH * (int64_t)numbers[row];                                                    \
            if (state[0]++ == 0) {                                                                                     \
                state[WIDTH == TWO ? 3 : 2] = x[row];                                                                  \
                if (WIDTH == TWO)                                                                                      \
                    state[4] = y[row];                                                                                 \
            }                                                                                                          \
            state[1] += x[row] - state[WIDTH == TWO ? 3 : 2];                                                          \
            if (WIDTH == TWO)                                                                                          \
                state[2] += y[row] - state[4];                                                                         \
        }                                                                                                              \
        for (double *state = states; state < states + WIDTH * size; state += WIDTH) {                                  \
            if (state[0] == 0)                                                                                         \
                continue;                                                                                              \
            state[1] = state[WIDTH == TWO ? 3 : 2] + state[1] / state[0];                                              \
            if (WIDTH == TWO)                                                                                          \
                state[2] = state[4] + state[2] / state[0];                                                             \
            for (int at = WIDTH == TWO ? 3 : 2; at < WIDTH; at++)                                                      \
                state[at] = 0;                                                                                         \
        }                                                                                                              \
        for (int64_t row = 0; row < n; row++) {                                                                        \
            if (present != NULL && !present[row])                                                                      \
                continue;                                                                                              \
            double *state = states + WIDTH * (int64_t)numbers[row];                                                    \
            double dx = x[row] - state[1];                                                                             \
            if (WIDTH == TWO) {                                                                                        \
                double dy = y[row] - state[2];                                                                         \
                state[3] += dx * dx;                                                                                   \
                state[4] += dy * dy;                                                                                   \
                state[5] += dx * dy;                                                                                   \
            } else                                                                                                     \
                state[2] += dx * dx;                                                                                   \
        }                                                                                                              \
    }

MOMENT_ROWS(one_8, uint8_t, ONE)
MOMENT_ROWS(one_16, uint16_t, ONE)
MOMENT_ROWS(one_32, uint32_t, ONE)
MOMENT_ROWS(two_8, uint8_t, TWO)
MOMENT_ROWS(two_16, uint16_t, TWO)
MOMENT_ROWS(two_32, uint32_t, TWO)

typedef void (*Kernel)(const void *, const double *, const double *, const uint8_t *, int64_t, int64_t, double *);

static const Kernel KERNELS[2][3] = {{one_8, one_16, one_32}, {two_8, two_16, two_32}};

static PyObject *
moment_rows(PyObject *self, PyObject *args)
{
    PyObject *objects[5], *result = NULL;
    Py_buffer numbers, x, y = {0}, present = {0}, states;
    if (!PyArg_ParseTuple(args, "OOOOO", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4]))
        return NULL;
    if (PyObject_GetBuffer(objects[0], &numbers, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    int number = numbers.itemsize == 1 ? 0 : numbers.itemsize == 2 ? 1 : numbers.itemsize == 4 ? 2 : -1;
    if (number < 0) {
        PyErr_Format(PyExc_ValueError, "numbers: 1, 2 or 4 bytes are possible, got %zd", numbers.itemsize);
        goto numbers;
    }
    Py_ssize_t n = numbers.len / numbers.itemsize;
    int is_pair = objects[2] != Py_None;
    if (open_buffer(objects[1], &x, 0, 8, n, "x") < 0)
        goto numbers;
    if (is_pair && open_buffer(objects[2], &y, 0, 8, n, "y") < 0)
        goto x;
    if (objects[3] != Py_None && open_buffer(objects[3], &present, 0, 1, n, "present") < 0)
        goto y;
    if (open_buffer(objects[4], &states, PyBUF_WRITABLE, 8, 0, "states") < 0)
        goto present;
    Py_ssize_t size = states.len / 8 / (is_pair ? TWO : ONE);
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = is_beyond(&numbers, n, size);
    if (!failed) {
        memset(states.buf, 0, (size_t)states.len);
        KERNELS[is_pair][number](numbers.buf, x.buf, is_pair ? y.buf : NULL, present.buf, n, size, states.buf);
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&states);
    if (failed)
        PyErr_Format(PyExc_ValueError, "numbers: all must be below %zd", size);
    else {
        Py_INCREF(Py_None);
        result = Py_None;
    }
present:
    if (present.obj != NULL)
        PyBuffer_Release(&present);
y:
    if (y.obj != NULL)
        PyBuffer_Release(&y);
x:
    PyBuffer_Release(&x);
numbers:
    PyBuffer_Release(&numbers);
    return result;
}

PyMethodDef moments_methods[] = {
    {"moment_rows", moment_rows, METH_VARARGS,
     "moment_rows(numbers, x, y, present, states)\n\n"
     "Write the moments of each group to states (float64): count, mean and product of x for y = None, else count, both\n"
     "means and the products xx, yy, xy. numbers (uint8, uint16 or uint32) has the group of each row, x and y (float64)\n"
     "its values; rows that are not present (bool; None: all are) do not count."},
    {NULL, NULL, 0, NULL},
};
