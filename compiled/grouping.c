/* Grouping of rows by hash, for executor/kernels/groups/hash_groups.py, whose NumPy code computes the same.
 *
 *     codes ── hash table ──► number of each row's group ── counting sort ──► order, starts
 *
 * Many rows are first distributed over partitions by their hash, so that each partition's table fits in the cache.
 */
#include "arguments.h"

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

/* Number all rows by first occurrence, see `number`; `firsts` has room for all rows, or is NULL. */
static int64_t
number_all(const Keys *keys, int64_t n, uint32_t *numbers, uint32_t *firsts)
{
    int64_t groups = -1;
    uint64_t *hashes = malloc((size_t)(n + 1) * sizeof(uint64_t)), *found = malloc((size_t)(n + 1) * sizeof(uint64_t));
    uint32_t *own = firsts != NULL ? firsts : malloc((size_t)(n + 1) * sizeof(uint32_t));
    if (hashes != NULL && found != NULL && own != NULL) {
        if (keys->offsets == NULL)
            hash_codes(keys, n, hashes);
        else
            for (int64_t row = 0; row < n; row++)
                hashes[row] = hash_text(keys->data + keys->offsets[row],
                                        (size_t)(keys->offsets[row + 1] - keys->offsets[row]));
        groups = number(keys, hashes, NULL, n, numbers, own, found);
    }
    if (firsts == NULL)
        free(own);
    free(found);
    free(hashes);
    return groups;
}

/* The open arguments of a function that puts rows in order: columns of codes, the rows' new order, and where its groups
 * or partitions are. */
typedef struct {
    Columns columns;
    Py_buffer order, places;
} Rows;

static Keys
keys_of(Columns *columns)
{
    return (Keys){.count = columns->count, .columns = columns->codes, .same = columns->count == 1 ? NULL : same_codes};
}

static void
close_rows(Rows *rows)
{
    PyBuffer_Release(&rows->places);
    PyBuffer_Release(&rows->order);
    close_columns(&rows->columns);
}

/* Open all of `rows`; `least`, or the number of rows if that is 0, is the room that `places` must have. Returns the
 * number of rows, or -1 with an error set and nothing open. */
static Py_ssize_t
open_rows(Rows *rows, PyObject *codes, PyObject *order, PyObject *places, Py_ssize_t least, const char *name)
{
    Py_ssize_t n = open_columns(&rows->columns, codes);
    if (n < 0)
        return -1;
    if (open_buffer(order, &rows->order, PyBUF_WRITABLE, 8, n, "order") < 0)
        goto columns;
    if (open_buffer(places, &rows->places, PyBUF_WRITABLE, 8, least > 0 ? least : n, name) == 0)
        return n;
    PyBuffer_Release(&rows->order);
columns:
    close_columns(&rows->columns);
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
    Keys keys = keys_of(&rows.columns);
    groups = group(&keys, n, rows.order.buf, rows.places.buf);
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
    Keys keys = keys_of(&rows.columns);
    failed = partition(&keys, n, bits, rows.order.buf, rows.places.buf);
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
    PyObject *codes, *targets[2], *result = NULL;
    Columns columns;
    Py_buffer numbers, firsts;
    if (!PyArg_ParseTuple(args, "OOO", &codes, &targets[0], &targets[1]))
        return NULL;
    Py_ssize_t n = open_columns(&columns, codes);
    if (n < 0)
        return NULL;
    if (open_buffer(targets[0], &numbers, PyBUF_WRITABLE, 4, n, "numbers") < 0)
        goto columns;
    if (open_buffer(targets[1], &firsts, PyBUF_WRITABLE, 4, n, "firsts") < 0)
        goto numbers;
    int64_t groups;
    Py_BEGIN_ALLOW_THREADS
    Keys keys = keys_of(&columns);
    groups = number_all(&keys, n, numbers.buf, firsts.buf);
    Py_END_ALLOW_THREADS
    result = number_or_error(groups);
    PyBuffer_Release(&firsts);
numbers:
    PyBuffer_Release(&numbers);
columns:
    close_columns(&columns);
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
    groups = number_all(&keys, n, numbers.buf, NULL);
    Py_END_ALLOW_THREADS
    result = number_or_error(groups);
    PyBuffer_Release(&numbers);
data:
    PyBuffer_Release(&data);
offsets:
    PyBuffer_Release(&offsets);
    return result;
}

PyMethodDef grouping_methods[] = {
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
     "number_rows(codes, numbers, firsts) -> int\n\n"
     "Write the number of each row's group to numbers and the first row of each group to firsts (uint32, both with room\n"
     "for all rows). codes is a tuple of columns (uint64). Groups are numbered by first occurrence. Return their number."},
    {"number_texts", number_texts, METH_VARARGS,
     "number_texts(offsets, data, numbers) -> int\n\n"
     "Number equal texts alike: text i is data[offsets[i]:offsets[i + 1]] (int32), its number is written to numbers\n"
     "(uint32), by first occurrence. Return how many differ."},
    {NULL, NULL, 0, NULL},
};
