/* Sums, least and greatest values of numbered groups, for executor/kernels/groups/numbered_groups.py.
 *
 *     number of each row's group, values ──► one total per group
 *
 * The rows stay where they are: no group is gathered. Numbers are of 8, 16 or 32 bits. Integers of any width are added
 * to totals of 64 bits, which the caller has proven to fit; doubles to doubles. Extremes have the type of the values.
 */
#include "arguments.h"

#define FEW 256 /* groups whose totals are kept four times: additions to one total wait for each other */

enum { ADD, LEAST, GREATEST };

#define ADD_ROWS(NAME, NUMBER, VALUE, TOTAL)                                                                           \
    static void NAME(const void *groups, const void *items, int64_t n, int64_t size, void *totals, int kind)           \
    {                                                                                                                  \
        const NUMBER *numbers = groups;                                                                                \
        const VALUE *values = items;                                                                                   \
        TOTAL *sums = totals, parts[4][FEW];                                                                           \
        int64_t row = 0;                                                                                               \
        (void)kind;                                                                                                    \
        if (size <= FEW && n >= 8 * FEW) {                                                                             \
            memset(parts, 0, sizeof parts);                                                                            \
            for (; row + 4 <= n; row += 4)                                                                             \
                for (int part = 0; part < 4; part++)                                                                   \
                    parts[part][numbers[row + part]] += (TOTAL)values[row + part];                                     \
            for (int64_t group = 0; group < size; group++)                                                             \
                sums[group] += (parts[0][group] + parts[1][group]) + (parts[2][group] + parts[3][group]);              \
        }                                                                                                              \
        for (; row < n; row++)                                                                                         \
            sums[numbers[row]] += (TOTAL)values[row];                                                                  \
    }

/* `kind` decides once for all rows. A total that is NaN, as all are at first, is less than no value: `least` of doubles
 * passes over NaN, and `greatest` keeps it. */
#define EXTREME_ROWS(NAME, NUMBER, VALUE)                                                                              \
    static void NAME(const void *groups, const void *items, int64_t n, int64_t size, void *totals, int kind)           \
    {                                                                                                                  \
        const NUMBER *numbers = groups;                                                                                \
        const VALUE *values = items;                                                                                   \
        VALUE *found = totals;                                                                                         \
        (void)size;                                                                                                    \
        if (kind == LEAST) {                                                                                           \
            for (int64_t row = 0; row < n; row++) {                                                                    \
                VALUE value = values[row], *least = &found[numbers[row]];                                              \
                if (value < *least || *least != *least)                                                                \
                    *least = value;                                                                                    \
            }                                                                                                          \
        } else                                                                                                         \
            for (int64_t row = 0; row < n; row++) {                                                                    \
                VALUE value = values[row], *greatest = &found[numbers[row]];                                           \
                if (value > *greatest || value != value)                                                               \
                    *greatest = value;                                                                                 \
            }                                                                                                          \
    }

#define ALL_NUMBERS(KIND, SUFFIX, ...)                                                                                 \
    KIND(KIND##_8_##SUFFIX, uint8_t, __VA_ARGS__)                                                                      \
    KIND(KIND##_16_##SUFFIX, uint16_t, __VA_ARGS__)                                                                    \
    KIND(KIND##_32_##SUFFIX, uint32_t, __VA_ARGS__)

#define ALL_KINDS(SUFFIX, VALUE, TOTAL)                                                                                \
    ALL_NUMBERS(ADD_ROWS, SUFFIX, VALUE, TOTAL)                                                                        \
    ALL_NUMBERS(EXTREME_ROWS, SUFFIX, VALUE)

ALL_KINDS(u8, uint8_t, int64_t)
ALL_KINDS(i8, int8_t, int64_t)
ALL_KINDS(u16, uint16_t, int64_t)
ALL_KINDS(i16, int16_t, int64_t)
ALL_KINDS(u32, uint32_t, int64_t)
ALL_KINDS(i32, int32_t, int64_t)
ALL_KINDS(u64, uint64_t, int64_t)
ALL_KINDS(i64, int64_t, int64_t)
ALL_KINDS(f64, double, double)

typedef void (*Kernel)(const void *, const void *, int64_t, int64_t, void *, int);

#define NUMBERED(KIND, SUFFIX) {KIND##_8_##SUFFIX, KIND##_16_##SUFFIX, KIND##_32_##SUFFIX}
#define OF_TYPE(CODE, SIZE, SUFFIX) {CODE, SIZE, {NUMBERED(ADD_ROWS, SUFFIX), NUMBERED(EXTREME_ROWS, SUFFIX)}}

/* By the kind of NumPy's types: b, u, i or f, and their size. */
static const struct {
    char code;
    int size;
    Kernel kernels[2][3];
} TYPES[] = {
    OF_TYPE('b', 1, u8),  OF_TYPE('u', 1, u8),  OF_TYPE('u', 2, u16), OF_TYPE('u', 4, u32), OF_TYPE('u', 8, u64),
    OF_TYPE('i', 1, i8),  OF_TYPE('i', 2, i16), OF_TYPE('i', 4, i32), OF_TYPE('i', 8, i64), OF_TYPE('f', 8, f64),
};

/* Find the kernel for numbers and values of these sizes; NULL if there is none. */
static Kernel
kernel_of(int code, Py_ssize_t size, Py_ssize_t number_size, int is_extreme)
{
    int width = number_size == 1 ? 0 : number_size == 2 ? 1 : number_size == 4 ? 2 : -1;
    for (size_t at = 0; at < sizeof TYPES / sizeof *TYPES && width >= 0; at++)
        if (TYPES[at].code == code && TYPES[at].size == size)
            return TYPES[at].kernels[is_extreme][width];
    return NULL;
}

static PyObject *
total(PyObject *args, int is_extreme)
{
    PyObject *objects[3];
    Py_buffer numbers, values, totals;
    int code, kind = ADD;
    if (is_extreme ? !PyArg_ParseTuple(args, "OOCOi", &objects[0], &objects[1], &code, &objects[2], &kind)
                   : !PyArg_ParseTuple(args, "OOCO", &objects[0], &objects[1], &code, &objects[2]))
        return NULL;
    if (PyObject_GetBuffer(objects[0], &numbers, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    Py_ssize_t n = numbers.len / numbers.itemsize;
    if (PyObject_GetBuffer(objects[1], &values, PyBUF_C_CONTIGUOUS) < 0)
        goto numbers;
    Kernel kernel = kernel_of(code, values.itemsize, numbers.itemsize, is_extreme);
    if (kernel == NULL || values.len / values.itemsize < n) {
        PyErr_Format(PyExc_ValueError, "values: %zd of a type with a kernel are needed, got %zd of %zd bytes", n,
                     values.len / values.itemsize, values.itemsize);
        goto values;
    }
    if (open_buffer(objects[2], &totals, PyBUF_WRITABLE, is_extreme ? values.itemsize : 8, 0, "totals") < 0)
        goto values;
    Py_ssize_t size = totals.len / totals.itemsize;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = is_beyond(&numbers, n, size);
    if (!failed)
        kernel(numbers.buf, values.buf, n, size, totals.buf, kind);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&totals);
    PyBuffer_Release(&values);
    PyBuffer_Release(&numbers);
    if (failed) {
        PyErr_Format(PyExc_ValueError, "numbers: all must be below %zd", size);
        return NULL;
    }
    Py_INCREF(Py_None);
    return Py_None;
values:
    PyBuffer_Release(&values);
numbers:
    PyBuffer_Release(&numbers);
    return NULL;
}

static PyObject *
add_rows(PyObject *self, PyObject *args)
{
    return total(args, 0);
}

static PyObject *
extreme_rows(PyObject *self, PyObject *args)
{
    return total(args, 1);
}

#define COUNT_ROWS(NAME, NUMBER)                                                                                       \
    static void NAME(const void *groups, int64_t n, int64_t *counts, int64_t *firsts)                                  \
    {                                                                                                                  \
        const NUMBER *numbers = groups;                                                                                \
        for (int64_t row = 0; row < n; row++)                                                                          \
            if (counts[numbers[row]]++ == 0)                                                                           \
                firsts[numbers[row]] = row;                                                                            \
    }

COUNT_ROWS(count_8, uint8_t)
COUNT_ROWS(count_16, uint16_t)
COUNT_ROWS(count_32, uint32_t)

static PyObject *
count_rows(PyObject *self, PyObject *args)
{
    PyObject *objects[3], *result = NULL;
    Py_buffer numbers, counts, firsts;
    if (!PyArg_ParseTuple(args, "OOO", &objects[0], &objects[1], &objects[2]))
        return NULL;
    if (PyObject_GetBuffer(objects[0], &numbers, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    if (numbers.itemsize != 1 && numbers.itemsize != 2 && numbers.itemsize != 4) {
        PyErr_Format(PyExc_ValueError, "numbers: 1, 2 or 4 bytes are possible, got %zd", numbers.itemsize);
        goto numbers;
    }
    Py_ssize_t n = numbers.len / numbers.itemsize;
    if (open_buffer(objects[1], &counts, PyBUF_WRITABLE, 8, 0, "counts") < 0)
        goto numbers;
    Py_ssize_t size = counts.len / 8;
    if (open_buffer(objects[2], &firsts, PyBUF_WRITABLE, 8, size, "firsts") < 0)
        goto counts;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    memset(counts.buf, 0, (size_t)counts.len);
    failed = is_beyond(&numbers, n, size);
    if (!failed)
        (numbers.itemsize == 1 ? count_8 : numbers.itemsize == 2 ? count_16 : count_32)(numbers.buf, n, counts.buf,
                                                                                        firsts.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&firsts);
    if (failed)
        PyErr_Format(PyExc_ValueError, "numbers: all must be below %zd", size);
    else {
        Py_INCREF(Py_None);
        result = Py_None;
    }
counts:
    PyBuffer_Release(&counts);
numbers:
    PyBuffer_Release(&numbers);
    return result;
}

PyMethodDef sums_methods[] = {
    {"count_rows", count_rows, METH_VARARGS,
     "count_rows(numbers, counts, firsts)\n\n"
     "Write the number of rows of each group to counts and the first of them to firsts (int64, as many as there are\n"
     "groups; firsts of empty groups keep their value). numbers (uint8, uint16 or uint32) has the group of each row."},
    {"add_rows", add_rows, METH_VARARGS,
     "add_rows(numbers, values, kind, totals)\n\n"
     "Add each row's value to the total of its group: int64 for integers and booleans, float64 for float64. kind is the\n"
     "kind of the values' type in NumPy."},
    {"extreme_rows", extreme_rows, METH_VARARGS,
     "extreme_rows(numbers, values, kind, extremes, which)\n\n"
     "Replace each group's extreme, of the values' type, by its rows' least (which = 1) or greatest (2) value. NaN is\n"
     "above all; as an extreme that was given, it is the least of no values."},
    {NULL, NULL, 0, NULL},
};
