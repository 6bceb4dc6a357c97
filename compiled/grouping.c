/* Grouping of rows by hash, for executor/aggregation/hash_groups.py, whose NumPy code computes the same.
 *
 *     codes ── hash table ──► number of each row's group ── counting sort ──► order, starts
 *
 * Many rows are first distributed over partitions by their hash, so that each partition's table fits in the cache.
 * All functions release the interpreter lock. Only the stable ABI is used (PEP 384, Python 3.11).
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PARTITION_ROWS ((int64_t)1 << 17) /* a table of 1 MB at most, and the codes of a row group */
#define MOST_PARTITIONS 4096

static inline uint64_t
mixed(uint64_t code)
{
    /* The finaliser of MurmurHash3: arithmetic progressions must not pile up. */
    code ^= code >> 33;
    code *= 0xff51afd7ed558ccdULL;
    code ^= code >> 33;
    code *= 0xc4ceb9fe1a85ec53ULL;
    return code ^ (code >> 33);
}

/* Number equal codes alike, by first occurrence. `first` receives one row of each group. Returns the number of groups,
 * or -1 without memory. n is below 2**32. */
static int64_t
number(const uint64_t *codes, int64_t n, uint32_t *numbers, uint32_t *first)
{
    uint64_t size = 64;
    while (size < (uint64_t)n * 2)
        size *= 2;
    uint32_t *table = calloc(size, sizeof(uint32_t));
    if (table == NULL)
        return -1;
    uint64_t mask = size - 1;
    int64_t groups = 0;
    for (int64_t row = 0; row < n; row++) {
        uint64_t code = codes[row], place = mixed(code) & mask;
        for (;; place = (place + 1) & mask) {
            uint32_t entry = table[place];
            if (entry == 0) {
                first[groups] = (uint32_t)row;
                numbers[row] = (uint32_t)groups;
                table[place] = (uint32_t)++groups;
                break;
            }
            if (codes[first[entry - 1]] == code) {
                numbers[row] = entry - 1;
                break;
            }
        }
    }
    free(table);
    return groups;
}

/* Put the rows in the order of their groups behind `done` rows that are in place. `next` has room for a count per
 * group. `rows` are the rows' own numbers, or NULL. */
static void
arrange(const uint32_t *numbers, const uint32_t *rows, int64_t n, int64_t groups, int64_t done, int64_t *order,
        int64_t *starts, int64_t *next)
{
    memset(next, 0, (size_t)groups * sizeof(int64_t));
    for (int64_t row = 0; row < n; row++)
        next[numbers[row]]++;
    int64_t place = done;
    for (int64_t group = 0; group < groups; group++) {
        int64_t count = next[group];
        starts[group] = next[group] = place;
        place += count;
    }
    for (int64_t row = 0; row < n; row++)
        order[next[numbers[row]]++] = rows == NULL ? row : (int64_t)rows[row];
}

static int64_t
group(const uint64_t *codes, int64_t n, int64_t *order, int64_t *starts)
{
    int bits = 0;
    while ((PARTITION_ROWS << bits) < n && (1 << bits) < MOST_PARTITIONS)
        bits++;
    int64_t groups = -1, partitions = (int64_t)1 << bits;
    uint32_t *numbers = malloc((size_t)n * sizeof(uint32_t));
    uint32_t *first = malloc((size_t)n * sizeof(uint32_t));
    int64_t *next = malloc((size_t)n * sizeof(int64_t));
    uint64_t *sorted = NULL;
    uint32_t *rows = NULL;
    int64_t *ends = NULL;
    if (numbers == NULL || first == NULL || next == NULL)
        goto done;
    if (bits == 0) {
        groups = number(codes, n, numbers, first);
        if (groups >= 0)
            arrange(numbers, NULL, n, groups, 0, order, starts, next);
        goto done;
    }
    sorted = malloc((size_t)n * sizeof(uint64_t));
    rows = malloc((size_t)n * sizeof(uint32_t));
    ends = calloc((size_t)partitions + 1, sizeof(int64_t));
    if (sorted == NULL || rows == NULL || ends == NULL)
        goto done;
    for (int64_t row = 0; row < n; row++)
        ends[(mixed(codes[row]) >> (64 - bits)) + 1]++;
    for (int64_t part = 0; part < partitions; part++)
        ends[part + 1] += ends[part];
    for (int64_t row = 0; row < n; row++) {
        int64_t place = ends[mixed(codes[row]) >> (64 - bits)]++;
        sorted[place] = codes[row];
        rows[place] = (uint32_t)row;
    }
    /* Now ends[part] is where the partition ends. */
    groups = 0;
    for (int64_t part = 0, begin = 0; part < partitions; begin = ends[part++]) {
        int64_t count = ends[part] - begin;
        if (count == 0)
            continue;
        int64_t found = number(sorted + begin, count, numbers, first);
        if (found < 0) {
            groups = -1;
            break;
        }
        arrange(numbers, rows + begin, count, found, begin, order, starts + groups, next);
        groups += found;
    }
done:
    free(ends);
    free(rows);
    free(sorted);
    free(next);
    free(first);
    free(numbers);
    return groups;
}

/* A contiguous buffer of items of `size` bytes, at least `least` of them. */
static int
open_buffer(PyObject *object, Py_buffer *view, int flags, Py_ssize_t size, Py_ssize_t least, const char *name)
{
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | flags) < 0)
        return -1;
    if (view->itemsize != size || view->len / size < least) {
        PyErr_Format(PyExc_ValueError, "%s: at least %zd items of %zd bytes are needed, got %zd of %zd", name, least,
                     size, view->len / view->itemsize, view->itemsize);
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

/* The buffer of codes: their number, or -1 with an error set. */
static Py_ssize_t
open_codes(PyObject *object, Py_buffer *codes)
{
    if (open_buffer(object, codes, 0, 8, 0, "codes") < 0)
        return -1;
    Py_ssize_t n = codes->len / 8;
    if (n >= (Py_ssize_t)UINT32_MAX) {
        PyBuffer_Release(codes);
        PyErr_Format(PyExc_ValueError, "codes: fewer than 2**32 rows are needed, got %zd", n);
        return -1;
    }
    return n;
}

static PyObject *
group_rows(PyObject *self, PyObject *args)
{
    PyObject *objects[3];
    Py_buffer codes, order, starts;
    if (!PyArg_ParseTuple(args, "OOO", &objects[0], &objects[1], &objects[2]))
        return NULL;
    Py_ssize_t n = open_codes(objects[0], &codes);
    if (n < 0)
        return NULL;
    if (open_buffer(objects[1], &order, PyBUF_WRITABLE, 8, n, "order") < 0) {
        PyBuffer_Release(&codes);
        return NULL;
    }
    if (open_buffer(objects[2], &starts, PyBUF_WRITABLE, 8, n, "starts") < 0) {
        PyBuffer_Release(&order);
        PyBuffer_Release(&codes);
        return NULL;
    }
    int64_t groups;
    Py_BEGIN_ALLOW_THREADS
    groups = group(codes.buf, n, order.buf, starts.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&starts);
    PyBuffer_Release(&order);
    PyBuffer_Release(&codes);
    return groups < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(groups);
}

static PyObject *
number_rows(PyObject *self, PyObject *args)
{
    PyObject *objects[2];
    Py_buffer codes, numbers;
    if (!PyArg_ParseTuple(args, "OO", &objects[0], &objects[1]))
        return NULL;
    Py_ssize_t n = open_codes(objects[0], &codes);
    if (n < 0)
        return NULL;
    if (open_buffer(objects[1], &numbers, PyBUF_WRITABLE, 4, n, "numbers") < 0) {
        PyBuffer_Release(&codes);
        return NULL;
    }
    int64_t groups = -1;
    Py_BEGIN_ALLOW_THREADS
    uint32_t *first = malloc((size_t)(n + 1) * sizeof(uint32_t));
    if (first != NULL)
        groups = number(codes.buf, n, numbers.buf, first);
    free(first);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&numbers);
    PyBuffer_Release(&codes);
    return groups < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(groups);
}

static PyMethodDef methods[] = {
    {"group_rows", group_rows, METH_VARARGS,
     "group_rows(codes, order, starts) -> int\n\n"
     "Write the rows, group by group, to order (int64) and the place where each group begins to starts (int64); both\n"
     "have room for all rows. Return the number of groups of equal codes (uint64)."},
    {"number_rows", number_rows, METH_VARARGS,
     "number_rows(codes, numbers) -> int\n\n"
     "Write the number of each row's group (uint32), by first occurrence. Return the number of groups."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "compiled",
                                    "Compiled kernels of nyala; without them, NumPy and Arrow compute the same.", 0,
                                    methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit_compiled(void)
{
    return PyModuleDef_Init(&module);
}
