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

#define PARTITION_ROWS ((int64_t)1 << 13) /* its tables stay in the second-level cache */
#define MOST_PARTITIONS 4096
#define PREFETCHED 8 /* rows ahead */
#define MOST_BITS 12 /* of the number of a partition */

static inline uint64_t
mixed(uint64_t code)
{
    /* The finaliser of MurmurHash3, a bijection: arithmetic progressions must not pile up. */
    code ^= code >> 33;
    code *= 0xff51afd7ed558ccdULL;
    code ^= code >> 33;
    code *= 0xc4ceb9fe1a85ec53ULL;
    return code ^ (code >> 33);
}

/* Rows of keys: `count` columns of codes, or texts. `same` compares two rows with equal hashes; NULL: equal hashes mean
 * equal rows. */
typedef struct Keys Keys;
struct Keys {
    int (*same)(const Keys *keys, uint32_t one, uint32_t other);
    int count;
    const uint64_t **columns;
    const int32_t *offsets;
    const char *data;
};

static int
same_codes(const Keys *keys, uint32_t one, uint32_t other)
{
    for (int i = 0; i < keys->count; i++)
        if (keys->columns[i][one] != keys->columns[i][other])
            return 0;
    return 1;
}

static int
same_texts(const Keys *keys, uint32_t one, uint32_t other)
{
    int32_t begin = keys->offsets[one], length = keys->offsets[one + 1] - begin, second = keys->offsets[other];
    return length == keys->offsets[other + 1] - second &&
           memcmp(keys->data + begin, keys->data + second, (size_t)length) == 0;
}

static void
hash_codes(const Keys *keys, int64_t n, uint64_t *hashes)
{
    const uint64_t *codes = keys->columns[0];
    for (int64_t row = 0; row < n; row++)
        hashes[row] = mixed(codes[row]);
    for (int i = 1; i < keys->count; i++) {
        codes = keys->columns[i];
        for (int64_t row = 0; row < n; row++)
            hashes[row] = mixed(hashes[row] * 0x9e3779b97f4a7c15ULL + codes[row]);
    }
}

static inline uint64_t
hash_text(const char *text, size_t length)
{
    uint64_t hash = (uint64_t)length * 0x9e3779b97f4a7c15ULL, word;
    for (; length >= 8; text += 8, length -= 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, text, length);
    return mixed(hash ^ word);
}

/* Number rows with equal keys alike, by first occurrence. `hashes` and `rows` are of the n rows; `rows` NULL: their
 * numbers are 0 to n - 1. `firsts` receives one row of each group, `found` its hash. Returns the number of groups, or -1
 * without memory. n is below 2**32. */
static int64_t
number(const Keys *keys, const uint64_t *hashes, const uint32_t *rows, int64_t n, uint32_t *numbers, uint32_t *firsts,
       uint64_t *found)
{
    uint64_t size = 64;
    while (size < (uint64_t)n * 2)
        size *= 2;
    uint32_t *table = calloc(size, sizeof(uint32_t));
    if (table == NULL)
        return -1;
    uint64_t mask = size - 1;
    int64_t groups = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i + PREFETCHED < n)
            __builtin_prefetch(&table[hashes[i + PREFETCHED] & mask]);
        uint64_t hash = hashes[i], place = hash & mask;
        uint32_t row = rows == NULL ? (uint32_t)i : rows[i];
        for (;; place = (place + 1) & mask) {
            uint32_t entry = table[place];
            if (entry == 0) {
                firsts[groups] = row;
                found[groups] = hash;
                numbers[i] = (uint32_t)groups;
                table[place] = (uint32_t)++groups;
                break;
            }
            if (found[entry - 1] == hash && (keys->same == NULL || keys->same(keys, firsts[entry - 1], row))) {
                numbers[i] = entry - 1;
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
group(const Keys *keys, int64_t n, int64_t *order, int64_t *starts)
{
    int bits = 0;
    while ((PARTITION_ROWS << bits) < n && (1 << bits) < MOST_PARTITIONS)
        bits++;
    int64_t groups = -1, partitions = (int64_t)1 << bits, most = n;
    uint64_t *hashes = malloc((size_t)n * sizeof(uint64_t)), *sorted = hashes, *found = NULL;
    uint32_t *rows = NULL, *numbers = NULL, *firsts = NULL;
    int64_t *next = NULL, *ends = calloc((size_t)partitions + 1, sizeof(int64_t));
    if (hashes == NULL || ends == NULL)
        goto done;
    hash_codes(keys, n, hashes);
    if (bits == 0)
        ends[0] = n;
    else {
        sorted = malloc((size_t)n * sizeof(uint64_t));
        rows = malloc((size_t)n * sizeof(uint32_t));
        if (sorted == NULL || rows == NULL)
            goto done;
        for (int64_t row = 0; row < n; row++)
            ends[(hashes[row] >> (64 - bits)) + 1]++;
        most = 0;
        for (int64_t part = 0; part < partitions; part++) {
            most = ends[part + 1] > most ? ends[part + 1] : most;
            ends[part + 1] += ends[part];
        }
        for (int64_t row = 0; row < n; row++) {
            int64_t place = ends[hashes[row] >> (64 - bits)]++;
            sorted[place] = hashes[row];
            rows[place] = (uint32_t)row;
        }
        /* Now ends[part] is where the partition ends. */
    }
    numbers = malloc((size_t)most * sizeof(uint32_t));
    firsts = malloc((size_t)most * sizeof(uint32_t));
    found = malloc((size_t)most * sizeof(uint64_t));
    next = malloc((size_t)most * sizeof(int64_t));
    if (numbers == NULL || firsts == NULL || found == NULL || next == NULL)
        goto done;
    groups = 0;
    for (int64_t part = 0, begin = 0; part < partitions; begin = ends[part++]) {
        int64_t count = ends[part] - begin;
        if (count == 0)
            continue;
        const uint32_t *own = rows == NULL ? NULL : rows + begin;
        int64_t more = number(keys, sorted + begin, own, count, numbers, firsts, found);
        if (more < 0) {
            groups = -1;
            break;
        }
        arrange(numbers, own, count, more, begin, order, starts + groups, next);
        groups += more;
    }
done:
    free(next);
    free(found);
    free(firsts);
    free(numbers);
    free(ends);
    free(rows);
    if (sorted != hashes)
        free(sorted);
    free(hashes);
    return groups;
}

/* Write the rows partition by partition, each in their own order, and where each of the 2**bits partitions ends. The
 * bits of the hash are neither those of `group`'s partitions nor of a table's places. Returns -1 without memory. */
static int
partition(const Keys *keys, int64_t n, int bits, int64_t *order, int64_t *ends)
{
    uint64_t *hashes = malloc((size_t)(n + 1) * sizeof(uint64_t)), mask = ((uint64_t)1 << bits) - 1;
    int64_t places[(1 << MOST_BITS) + 1] = {0};
    if (hashes == NULL)
        return -1;
    hash_codes(keys, n, hashes);
    for (int64_t row = 0; row < n; row++)
        places[((hashes[row] >> 32) & mask) + 1]++;
    for (uint64_t part = 0; part <= mask; part++)
        ends[part] = places[part + 1] += places[part];
    for (int64_t row = 0; row < n; row++)
        order[places[(hashes[row] >> 32) & mask]++] = row;
    free(hashes);
    return 0;
}

/* Number all rows by first occurrence, see `number`. */
static int64_t
number_all(const Keys *keys, int64_t n, uint32_t *numbers)
{
    int64_t groups = -1;
    uint64_t *hashes = malloc((size_t)(n + 1) * sizeof(uint64_t)), *found = malloc((size_t)(n + 1) * sizeof(uint64_t));
    uint32_t *firsts = malloc((size_t)(n + 1) * sizeof(uint32_t));
    if (hashes != NULL && found != NULL && firsts != NULL) {
        if (keys->offsets == NULL)
            hash_codes(keys, n, hashes);
        else
            for (int64_t row = 0; row < n; row++)
                hashes[row] = hash_text(keys->data + keys->offsets[row],
                                        (size_t)(keys->offsets[row + 1] - keys->offsets[row]));
        groups = number(keys, hashes, NULL, n, numbers, firsts, found);
    }
    free(firsts);
    free(found);
    free(hashes);
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

#define MOST_COLUMNS 64

/* The open arguments of a function that puts rows in order: columns of codes, the rows' new order, and where its groups
 * or partitions are. */
typedef struct {
    Keys keys;
    const uint64_t *columns[MOST_COLUMNS];
    Py_buffer views[MOST_COLUMNS], order, places;
} Rows;

static void
close_columns(Rows *rows)
{
    while (rows->keys.count > 0)
        PyBuffer_Release(&rows->views[--rows->keys.count]);
}

static void
close_rows(Rows *rows)
{
    PyBuffer_Release(&rows->places);
    PyBuffer_Release(&rows->order);
    close_columns(rows);
}

/* Open a tuple of columns of codes. Returns the number of rows, or -1 with an error set and none open. */
static Py_ssize_t
open_columns(Rows *rows, PyObject *tuple)
{
    Py_ssize_t n = -1, width = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : 0;
    rows->keys = (Keys){.columns = rows->columns};
    if (width < 1 || width > MOST_COLUMNS) {
        PyErr_Format(PyExc_ValueError, "codes: a tuple of 1 to %d columns is needed", MOST_COLUMNS);
        return -1;
    }
    for (; rows->keys.count < width; rows->keys.count++) {
        int at = rows->keys.count;
        Py_buffer *view = &rows->views[at];
        if (open_buffer(PyTuple_GetItem(tuple, at), view, 0, 8, n < 0 ? 0 : n, "codes") < 0)
            goto failed;
        rows->columns[at] = view->buf;
        if (n < 0)
            n = view->len / 8;
    }
    rows->keys.same = width == 1 ? NULL : same_codes;
    if (n < (Py_ssize_t)UINT32_MAX)
        return n;
    PyErr_Format(PyExc_ValueError, "codes: fewer than 2**32 rows are needed, got %zd", n);
failed:
    close_columns(rows);
    return -1;
}

/* Open all of `rows`; `least`, or the number of rows if that is 0, is the room that `places` must have. Returns the
 * number of rows, or -1 with an error set and nothing open. */
static Py_ssize_t
open_rows(Rows *rows, PyObject *codes, PyObject *order, PyObject *places, Py_ssize_t least, const char *name)
{
    Py_ssize_t n = open_columns(rows, codes);
    if (n < 0)
        return -1;
    if (open_buffer(order, &rows->order, PyBUF_WRITABLE, 8, n, "order") < 0)
        goto columns;
    if (open_buffer(places, &rows->places, PyBUF_WRITABLE, 8, least > 0 ? least : n, name) == 0)
        return n;
    PyBuffer_Release(&rows->order);
columns:
    close_columns(rows);
    return -1;
}

static PyObject *
number_or_error(int64_t groups)
{
    return groups < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(groups);
}

static PyObject *
group_rows(PyObject *self, PyObject *args)
{
    PyObject *codes, *order, *starts;
    Rows rows;
    if (!PyArg_ParseTuple(args, "OOO", &codes, &order, &starts))
        return NULL;
    Py_ssize_t n = open_rows(&rows, codes, order, starts, 0, "starts");
    if (n < 0)
        return NULL;
    int64_t groups;
    Py_BEGIN_ALLOW_THREADS
    groups = group(&rows.keys, n, rows.order.buf, rows.places.buf);
    Py_END_ALLOW_THREADS
    close_rows(&rows);
    return number_or_error(groups);
}

static PyObject *
partition_rows(PyObject *self, PyObject *args)
{
    PyObject *codes, *order, *ends;
    Rows rows;
    int bits, failed;
    if (!PyArg_ParseTuple(args, "OiOO", &codes, &bits, &order, &ends))
        return NULL;
    if (bits < 1 || bits > MOST_BITS) {
        PyErr_Format(PyExc_ValueError, "bits: 1 to %d are possible, got %d", MOST_BITS, bits);
        return NULL;
    }
    Py_ssize_t n = open_rows(&rows, codes, order, ends, (Py_ssize_t)1 << bits, "ends");
    if (n < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    failed = partition(&rows.keys, n, bits, rows.order.buf, rows.places.buf);
    Py_END_ALLOW_THREADS
    close_rows(&rows);
    if (failed)
        return PyErr_NoMemory();
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *
number_rows(PyObject *self, PyObject *args)
{
    PyObject *object, *target, *result = NULL;
    Py_buffer codes, numbers;
    const uint64_t *column;
    if (!PyArg_ParseTuple(args, "OO", &object, &target))
        return NULL;
    if (open_buffer(object, &codes, 0, 8, 0, "codes") < 0)
        return NULL;
    column = codes.buf;
    Keys keys = {.count = 1, .columns = &column};
    Py_ssize_t n = codes.len / 8;
    if (n >= (Py_ssize_t)UINT32_MAX)
        PyErr_Format(PyExc_ValueError, "codes: fewer than 2**32 rows are needed, got %zd", n);
    else if (open_buffer(target, &numbers, PyBUF_WRITABLE, 4, n, "numbers") == 0) {
        int64_t groups;
        Py_BEGIN_ALLOW_THREADS
        groups = number_all(&keys, n, numbers.buf);
        Py_END_ALLOW_THREADS
        result = number_or_error(groups);
        PyBuffer_Release(&numbers);
    }
    PyBuffer_Release(&codes);
    return result;
}

static PyObject *
number_texts(PyObject *self, PyObject *args)
{
    PyObject *objects[3], *result = NULL;
    Py_buffer offsets, data, numbers;
    if (!PyArg_ParseTuple(args, "OOO", &objects[0], &objects[1], &objects[2]))
        return NULL;
    if (open_buffer(objects[0], &offsets, 0, 4, 1, "offsets") < 0)
        return NULL;
    Py_ssize_t n = offsets.len / 4 - 1;
    const int32_t *places = offsets.buf;
    if (open_buffer(objects[1], &data, 0, 1, places[n], "data") < 0)
        goto offsets;
    int is_ascending = places[0] >= 0;
    for (Py_ssize_t row = 0; row < n; row++)
        is_ascending &= places[row] <= places[row + 1];
    if (!is_ascending) {
        PyErr_SetString(PyExc_ValueError, "offsets: they must ascend from 0 or more");
        goto data;
    }
    if (open_buffer(objects[2], &numbers, PyBUF_WRITABLE, 4, n, "numbers") < 0)
        goto data;
    Keys keys = {.same = same_texts, .offsets = places, .data = data.buf};
    int64_t groups;
    Py_BEGIN_ALLOW_THREADS
    groups = number_all(&keys, n, numbers.buf);
    Py_END_ALLOW_THREADS
    result = number_or_error(groups);
    PyBuffer_Release(&numbers);
data:
    PyBuffer_Release(&data);
offsets:
    PyBuffer_Release(&offsets);
    return result;
}

static PyMethodDef methods[] = {
    {"group_rows", group_rows, METH_VARARGS,
     "group_rows(codes, order, starts) -> int\n\n"
     "Write the rows, group by group, to order (int64) and the place where each group begins to starts (int64); both\n"
     "have room for all rows. codes is a tuple of columns (uint64); rows of a group are equal in all of them. Return the\n"
     "number of groups."},
    {"partition_rows", partition_rows, METH_VARARGS,
     "partition_rows(codes, bits, order, ends)\n\n"
     "Write the rows to order (int64), partition by partition by the hash of a tuple of columns (uint64), and the place\n"
     "where each of the 2**bits partitions ends to ends (int64)."},
    {"number_rows", number_rows, METH_VARARGS,
     "number_rows(codes, numbers) -> int\n\n"
     "Write the number of each row's group (uint32), by first occurrence. Return the number of groups."},
    {"number_texts", number_texts, METH_VARARGS,
     "number_texts(offsets, data, numbers) -> int\n\n"
     "Number equal texts alike: text i is data[offsets[i]:offsets[i + 1]] (int32), its number is written to numbers\n"
     "(uint32), by first occurrence. Return how many differ."},
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
