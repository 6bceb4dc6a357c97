/* Order of rows by columns of codes, for executor/kernels/groups/row_order.py, whose NumPy code computes the same.
 *
 *     codes ── radix sort, last column first, lowest digit first ──► order
 *
 * Digits are cut from the bits that differ between rows alone. Equal rows keep their order, which is why a pass per
 * column and digit is enough (Knuth, The Art of Computer Programming 3, section 5.2.5). Key and row number move together,
 * so a pass reads memory in order.
 */
#include "arguments.h"

#define LARGE ((int64_t)1 << 18) /* rows from which on fewer buckets than cache lines pay */
#define FEW_BITS 8
#define MANY_BITS 11
#define MOST_PASSES 8

typedef struct {
    uint64_t *keys, *other_keys;
    uint32_t *rows, *other_rows; /* `rows` is valid once a column was sorted */
    int is_sorted;
} Sorted;

static inline int
lowest_bit(uint64_t word)
{
    int bit = 0;
    while (!(word >> bit & 1))
        bit++;
    return bit;
}

static inline int
bits_of(uint64_t word)
{
    int bits = 0;
    for (; word != 0; word >>= 1)
        bits++;
    return bits;
}

/* Sort by one column, whose codes are in `keys` in the present order. `mask` has the bits that differ between rows. */
static void
sort_column(Sorted *sorted, const uint64_t *keys, int64_t n, uint64_t mask)
{
    uint32_t counts[MOST_PASSES][1 << MANY_BITS];
    int most = n < LARGE ? MANY_BITS : FEW_BITS, low = lowest_bit(mask), width = bits_of(mask) - low;
    int passes = (width + most - 1) / most, bits = (width + passes - 1) / passes, buckets = 1 << bits;
    uint64_t digit = (uint64_t)buckets - 1;
    for (int pass = 0; pass < passes; pass++)
        memset(counts[pass], 0, sizeof(uint32_t) * (size_t)buckets);
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = keys[i] >> low;
        for (int pass = 0; pass < passes; pass++, key >>= bits)
            counts[pass][key & digit]++;
    }
    for (int pass = 0; pass < passes; pass++) {
        uint32_t *places = counts[pass], place = 0;
        int shift = low + pass * bits;
        for (int bucket = 0; bucket < buckets; bucket++) {
            uint32_t count = places[bucket];
            places[bucket] = place;
            place += count;
        }
        if (sorted->is_sorted)
            for (int64_t i = 0; i < n; i++) {
                uint32_t to = places[(keys[i] >> shift) & digit]++;
                sorted->other_keys[to] = keys[i];
                sorted->other_rows[to] = sorted->rows[i];
            }
        else
            for (int64_t i = 0; i < n; i++) {
                uint32_t to = places[(keys[i] >> shift) & digit]++;
                sorted->other_keys[to] = keys[i];
                sorted->other_rows[to] = (uint32_t)i;
            }
        uint64_t *taken = sorted->keys;
        uint32_t *rows = sorted->rows;
        keys = sorted->keys = sorted->other_keys;
        sorted->other_keys = taken;
        sorted->rows = sorted->other_rows;
        sorted->other_rows = rows;
        sorted->is_sorted = 1;
    }
}

/* Write the rows in the order of their codes, the first column first. Returns -1 without memory. */
static int
sort(const Columns *columns, int64_t n, int64_t *order)
{
    size_t room = (size_t)(n + 1);
    Sorted sorted = {malloc(room * 8), malloc(room * 8), malloc(room * 4), malloc(room * 4), 0};
    void *made[] = {sorted.keys, sorted.other_keys, sorted.rows, sorted.other_rows};
    int failed = made[0] == NULL || made[1] == NULL || made[2] == NULL || made[3] == NULL;
    for (int at = columns->count - 1; at >= 0 && !failed && n > 0; at--) {
        const uint64_t *keys = columns->codes[at];
        if (sorted.is_sorted) {
            for (int64_t i = 0; i < n; i++)
                sorted.keys[i] = keys[sorted.rows[i]];
            keys = sorted.keys;
        }
        uint64_t mask = 0, before = keys[0];
        int is_ascending = 1;
        for (int64_t i = 0; i < n; i++) {
            mask |= keys[i] ^ keys[0];
            is_ascending &= keys[i] >= before;
            before = keys[i];
        }
        if (!is_ascending)
            sort_column(&sorted, keys, n, mask);
    }
    for (int64_t i = 0; i < n && !failed; i++)
        order[i] = sorted.is_sorted ? (int64_t)sorted.rows[i] : i;
    for (int at = 0; at < 4; at++)
        free(made[at]);
    return failed ? -1 : 0;
}

static PyObject *
sort_rows(PyObject *self, PyObject *args)
{
    PyObject *codes, *target;
    Columns columns;
    Py_buffer order;
    int failed;
    if (!PyArg_ParseTuple(args, "OO", &codes, &target))
        return NULL;
    Py_ssize_t n = open_columns(&columns, codes);
    if (n < 0)
        return NULL;
    if (open_buffer(target, &order, PyBUF_WRITABLE, 8, n, "order") < 0) {
        close_columns(&columns);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    failed = sort(&columns, n, order.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&order);
    close_columns(&columns);
    if (failed)
        return PyErr_NoMemory();
    Py_INCREF(Py_None);
    return Py_None;
}

PyMethodDef sorting_methods[] = {
    {"sort_rows", sort_rows, METH_VARARGS,
     "sort_rows(codes, order)\n\n"
     "Write the rows to order (int64), sorted by a tuple of columns (uint64), the first one first; equal rows keep their\n"
     "order."},
    {NULL, NULL, 0, NULL},
};
