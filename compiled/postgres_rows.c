/* Rows of the PostgreSQL protocol, for doors/postgres/values, whose NumPy code computes the same.
 *
 *     columns ── join_fields ──► messages        DECIMALs ── write_numerics ──► lengths, digits
 *     COPY data ── find_rows ──► begin and length of each field ── read_numbers, read_texts, read_numerics ──► columns
 *
 * Numbers in the data are big-endian and not aligned; columns are native. A NULL has the length -1 in data, and a byte
 * that is not 0 in `nulls`.
 */
#include "arguments.h"
#include "postgres_numbers.h"

#define VERSION 2
#define HEAD 7 /* kind (1), length (4), number of fields (2) */
#define BASE 10000
#define MOST_GROUPS 11 /* of 4 digits, in 38 digits at any scale */

typedef unsigned __int128 Wide;

/* ---- rows out ---------------------------------------------------------------------------------------------------- */

/* One column of join_fields: values of one `width`, or, with `offsets`, of varying widths. */
typedef struct {
    Py_ssize_t width;
    const uint8_t *data;
    const int32_t *offsets;
    const uint8_t *nulls;
    Py_buffer views[3];
} Field;

/* Release the views of a column; those that were not opened are zero. */
static void
close_views(Py_buffer views[3])
{
    for (int i = 0; i < 3; i++)
        PyBuffer_Release(&views[i]);
}

/* Open (data, width, offsets, nulls) of n rows. Returns -1 with an error set and none open. */
static int
open_field(Field *field, PyObject *object, Py_ssize_t n)
{
    PyObject *data, *offsets, *nulls;
    memset(field, 0, sizeof *field);
    if (!PyArg_ParseTuple(object, "OnOO", &data, &field->width, &offsets, &nulls))
        return -1;
    if (offsets == Py_None && (field->width < 0 || (n > 0 && field->width > PY_SSIZE_T_MAX / n))) {
        PyErr_SetString(PyExc_ValueError, "width: out of range");
        return -1;
    }
    if (open_buffer(data, &field->views[0], 0, 1, offsets == Py_None ? n * field->width : 0, "data") < 0 ||
        (offsets != Py_None && open_buffer(offsets, &field->views[1], 0, 4, n + 1, "offsets") < 0) ||
        (nulls != Py_None && open_buffer(nulls, &field->views[2], 0, 1, n, "nulls") < 0)) {
        close_views(field->views);
        return -1;
    }
    field->data = field->views[0].buf;
    field->offsets = field->views[1].buf;
    field->nulls = field->views[2].buf;
    return 0;
}

/* The bytes of all values of a column; -1 if its offsets are not those of its data. */
static int64_t
bytes_of_field(const Field *field, Py_ssize_t n)
{
    int64_t total = 0;
    if (field->offsets == NULL) {
        if (field->nulls == NULL)
            return (int64_t)n * field->width;
        for (Py_ssize_t row = 0; row < n; row++)
            total += field->nulls[row] ? 0 : field->width;
        return total;
    }
    if (field->offsets[0] < 0 || field->offsets[n] > field->views[0].len)
        return -1;
    for (Py_ssize_t row = 0; row < n; row++) {
        int64_t length = (int64_t)field->offsets[row + 1] - field->offsets[row];
        if (length < 0)
            return -1;
        total += field->nulls != NULL && field->nulls[row] ? 0 : length;
    }
    return total;
}

static inline uint8_t *
put_field(const Field *field, Py_ssize_t row, uint8_t *place)
{
    if (field->nulls != NULL && field->nulls[row]) {
        memset(place, 0xFF, 4);
        return place + 4;
    }
    Py_ssize_t width = field->width;
    const uint8_t *value;
    if (field->offsets != NULL) {
        width = field->offsets[row + 1] - field->offsets[row];
        value = field->data + field->offsets[row];
    } else
        value = field->data + row * width;
    put_32(place, (uint32_t)width);
    place += 4;
    if (width == 8) /* a copy of a constant size is one instruction */
        memcpy(place, value, 8);
    else if (width == 4)
        memcpy(place, value, 4);
    else
        memcpy(place, value, (size_t)width);
    return place + width;
}

static void
put_rows(const Field *fields, int count, Py_ssize_t n, int kind, uint8_t *place)
{
    for (Py_ssize_t row = 0; row < n; row++) {
        uint8_t *head = place;
        head[0] = (uint8_t)kind;
        put_16(head + 5, (unsigned)count);
        place += HEAD;
        for (int i = 0; i < count; i++)
            place = put_field(&fields[i], row, place);
        put_32(head + 1, (uint32_t)(place - head - 1));
    }
}

static PyObject *
join_fields(PyObject *self, PyObject *args)
{
    PyObject *columns, *result = NULL;
    Py_ssize_t n;
    int kind, opened = 0;
    if (!PyArg_ParseTuple(args, "inO", &kind, &n, &columns))
        return NULL;
    Py_ssize_t count = PyTuple_Check(columns) ? PyTuple_Size(columns) : -1;
    if (count < 0 || count > UINT16_MAX || n < 0) {
        PyErr_SetString(PyExc_ValueError, "columns: a tuple is needed, and a number of rows");
        return NULL;
    }
    Field *fields = malloc(sizeof(Field) * (size_t)(count + 1));
    if (fields == NULL)
        return PyErr_NoMemory();
    int64_t total = (int64_t)n * (HEAD + 4 * count), size;
    for (; opened < count; opened++) {
        if (open_field(&fields[opened], PyTuple_GetItem(columns, opened), n) < 0)
            goto done;
        if ((size = bytes_of_field(&fields[opened], n)) < 0) {
            PyErr_SetString(PyExc_ValueError, "offsets: they are not those of the data");
            opened++;
            goto done;
        }
        total += size;
    }
    if ((result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total)) == NULL)
        goto done;
    uint8_t *place = (uint8_t *)PyBytes_AsString(result);
    Py_BEGIN_ALLOW_THREADS
    put_rows(fields, (int)count, n, kind, place);
    Py_END_ALLOW_THREADS
done:
    while (opened > 0)
        close_views(fields[--opened].views);
    free(fields);
    return result;
}

/* Groups of 4 digits of a magnitude, the lowest first, without leading zeros; returns their number. `rest` is the
 * number of digits, 0 to 3, of the lowest group, which is filled up with zeros. */
static inline int
groups_of(Wide magnitude, int rest, uint16_t *groups)
{
    static const unsigned powers[] = {1, 10, 100, 1000};
    int count = 0;
    if (rest != 0) {
        groups[count++] = (uint16_t)((unsigned)(magnitude % powers[rest]) * powers[4 - rest]);
        magnitude /= powers[rest];
    }
    for (; magnitude >> 64 != 0; magnitude /= BASE)
        groups[count++] = (uint16_t)(magnitude % BASE);
    for (uint64_t low = (uint64_t)magnitude; low != 0; low /= BASE)
        groups[count++] = (uint16_t)(low % BASE);
    while (count > 0 && groups[count - 1] == 0)
        count--;
    return count;
}

static inline uint8_t *
put_numeric(Wide value, int scale, uint8_t *place)
{
    uint16_t groups[MOST_GROUPS + 1];
    int is_negative = (int)(value >> 127), first = 0;
    int count = groups_of(is_negative ? -value : value, scale % 4, groups);
    while (first < count && groups[first] == 0)
        first++;
    put_16(place, (unsigned)(count - first));
    put_16(place + 2, count > 0 ? (unsigned)(count - 1 - (scale + 3) / 4) : 0);
    put_16(place + 4, is_negative ? 0x4000 : 0);
    put_16(place + 6, (unsigned)scale);
    place += 8;
    for (int i = count - 1; i >= first; i--, place += 2)
        put_16(place, groups[i]);
    return place;
}

static PyObject *
write_numerics(PyObject *self, PyObject *args)
{
    PyObject *objects[4], *result = NULL;
    Py_buffer words, nulls = {0}, lengths, data;
    int scale;
    if (!PyArg_ParseTuple(args, "OiOOO", &objects[0], &scale, &objects[1], &objects[2], &objects[3]))
        return NULL;
    if (scale < 0 || scale > 38) {
        PyErr_SetString(PyExc_ValueError, "scale: 0 to 38 is needed");
        return NULL;
    }
    if (open_buffer(objects[2], &lengths, PyBUF_WRITABLE, 4, 0, "lengths") < 0)
        return NULL;
    Py_ssize_t n = lengths.len / 4;
    if (open_buffer(objects[0], &words, 0, 1, 16 * n, "words") < 0)
        goto lengths;
    if (open_buffer(objects[3], &data, PyBUF_WRITABLE, 1, (8 + 2 * (MOST_GROUPS + 1)) * n, "data") < 0)
        goto words;
    if (objects[1] != Py_None && open_buffer(objects[1], &nulls, 0, 1, n, "nulls") < 0)
        goto data;
    uint8_t *place = data.buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < n; row++) {
        uint8_t *begin = place;
        Wide value;
        if (nulls.buf == NULL || !((uint8_t *)nulls.buf)[row]) {
            memcpy(&value, (uint8_t *)words.buf + 16 * row, 16);
            place = put_numeric(value, scale, place);
        }
        ((int32_t *)lengths.buf)[row] = (int32_t)(place - begin);
    }
    Py_END_ALLOW_THREADS
    result = PyLong_FromSsize_t(place - (uint8_t *)data.buf);
    if (nulls.obj != NULL)
        PyBuffer_Release(&nulls);
data:
    PyBuffer_Release(&data);
words:
    PyBuffer_Release(&words);
lengths:
    PyBuffer_Release(&lengths);
    return result;
}

/* ---- rows in ----------------------------------------------------------------------------------------------------- */

enum { UNFINISHED, TRAILER, OTHER_COUNT, OTHER_LENGTH, FULL };

/* Find the whole rows from `place` on. Returns why it ends, at the begin of a row. */
static int
walk_rows(const uint8_t *block, int64_t size, int64_t *place, const int32_t *widths, int count, int64_t room,
          int32_t *starts, int32_t *lengths, int64_t *rows)
{
    for (int64_t row = 0;; row++) {
        int64_t at = *place;
        *rows = row;
        if (size - at < 2)
            return UNFINISHED;
        int found = get_16(block + at);
        if (found != count)
            return found == -1 ? TRAILER : OTHER_COUNT;
        if (row == room)
            return FULL;
        at += 2;
        for (int i = 0; i < count; i++) {
            if (size - at < 4)
                return UNFINISHED;
            int32_t length = get_32(block + at);
            if (length != -1 && (length < 0 || (widths[i] != 0 && length != widths[i])))
                return OTHER_LENGTH;
            at += 4;
            starts[i * room + row] = (int32_t)at;
            lengths[i * room + row] = length;
            if (length > size - at)
                return UNFINISHED;
            at += length > 0 ? length : 0;
        }
        *place = at;
    }
}

static PyObject *
find_rows(PyObject *self, PyObject *args)
{
    PyObject *objects[4], *result = NULL;
    Py_buffer block, widths, starts, lengths;
    Py_ssize_t first;
    if (!PyArg_ParseTuple(args, "OnOOO", &objects[0], &first, &objects[1], &objects[2], &objects[3]))
        return NULL;
    if (open_buffer(objects[0], &block, 0, 1, first, "block") < 0)
        return NULL;
    if (open_buffer(objects[1], &widths, 0, 4, 1, "widths") < 0)
        goto block;
    Py_ssize_t count = widths.len / 4;
    if (open_buffer(objects[2], &starts, PyBUF_WRITABLE, 4, count, "starts") < 0)
        goto widths;
    Py_ssize_t room = starts.len / 4 / count;
    if (open_buffer(objects[3], &lengths, PyBUF_WRITABLE, 4, room * count, "lengths") < 0)
        goto starts;
    if (first < 0 || block.len > INT32_MAX || count > INT16_MAX)
        PyErr_SetString(PyExc_ValueError, "block: fewer than 2**31 bytes are needed, and fewer than 2**15 columns");
    else {
        int64_t place = first, rows = 0;
        int state;
        Py_BEGIN_ALLOW_THREADS
        state = walk_rows(block.buf, block.len, &place, widths.buf, (int)count, room, starts.buf, lengths.buf, &rows);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("LLi", (long long)rows, (long long)place, state);
    }
    PyBuffer_Release(&lengths);
starts:
    PyBuffer_Release(&starts);
widths:
    PyBuffer_Release(&widths);
block:
    PyBuffer_Release(&block);
    return result;
}

/* Fields of one column: open begins and lengths of n rows, all within the block. */
typedef struct {
    Py_ssize_t n;
    const uint8_t *block;
    const int32_t *starts;
    const int32_t *lengths;
    Py_buffer views[3];
} Found;

/* Open block, begins and lengths. Returns -1 with an error set and none open. */
static int
open_found(Found *found, PyObject *block, PyObject *starts, PyObject *lengths)
{
    memset(found, 0, sizeof *found);
    if (open_buffer(block, &found->views[0], 0, 1, 0, "block") < 0 ||
        open_buffer(starts, &found->views[1], 0, 4, 0, "starts") < 0 ||
        open_buffer(lengths, &found->views[2], 0, 4, found->views[1].len / 4, "lengths") < 0)
        goto failed;
    found->n = found->views[1].len / 4;
    found->block = found->views[0].buf;
    found->starts = found->views[1].buf;
    found->lengths = found->views[2].buf;
    for (Py_ssize_t row = 0; row < found->n; row++) {
        int64_t length = found->lengths[row] > 0 ? found->lengths[row] : 0;
        if (found->starts[row] < 0 || found->starts[row] + length > found->views[0].len) {
            PyErr_SetString(PyExc_ValueError, "starts: a field is not within the block");
            goto failed;
        }
    }
    return 0;
failed:
    close_views(found->views);
    return -1;
}

#define READ_NUMBERS(NAME, TYPE, SWAPPED)                                                                              \
    static void NAME(const Found *found, void *target)                                                                 \
    {                                                                                                                  \
        TYPE *values = target;                                                                                         \
        for (Py_ssize_t row = 0; row < found->n; row++) {                                                              \
            TYPE value = 0;                                                                                            \
            if (found->lengths[row] == (int32_t)sizeof(TYPE)) {                                                        \
                memcpy(&value, found->block + found->starts[row], sizeof(TYPE));                                       \
                value = SWAPPED(value);                                                                                \
            }                                                                                                          \
            values[row] = value;                                                                                       \
        }                                                                                                              \
    }

#define SAME(VALUE) VALUE
READ_NUMBERS(read_8, uint8_t, SAME)
READ_NUMBERS(read_16, uint16_t, __builtin_bswap16)
READ_NUMBERS(read_32, uint32_t, __builtin_bswap32)
READ_NUMBERS(read_64, uint64_t, __builtin_bswap64)

static PyObject *
read_numbers(PyObject *self, PyObject *args)
{
    PyObject *objects[4], *result = NULL;
    Found found;
    Py_buffer values;
    if (!PyArg_ParseTuple(args, "OOOO", &objects[0], &objects[1], &objects[2], &objects[3]))
        return NULL;
    if (open_found(&found, objects[0], objects[1], objects[2]) < 0)
        return NULL;
    if (PyObject_GetBuffer(objects[3], &values, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0)
        goto found;
    Py_ssize_t size = values.itemsize;
    if ((size != 1 && size != 2 && size != 4 && size != 8) || values.len / size < found.n)
        PyErr_Format(PyExc_ValueError, "values: %zd items of 1, 2, 4 or 8 bytes are needed", found.n);
    else {
        Py_BEGIN_ALLOW_THREADS
        (size == 1 ? read_8 : size == 2 ? read_16 : size == 4 ? read_32 : read_64)(&found, values.buf);
        Py_END_ALLOW_THREADS
        Py_INCREF(Py_None);
        result = Py_None;
    }
    PyBuffer_Release(&values);
found:
    close_views(found.views);
    return result;
}

static PyObject *
read_texts(PyObject *self, PyObject *args)
{
    PyObject *objects[5], *result = NULL;
    Found found;
    Py_buffer offsets, data;
    if (!PyArg_ParseTuple(args, "OOOOO", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4]))
        return NULL;
    if (open_found(&found, objects[0], objects[1], objects[2]) < 0)
        return NULL;
    if (open_buffer(objects[3], &offsets, PyBUF_WRITABLE, 4, found.n + 1, "offsets") < 0)
        goto found;
    int64_t total = 0;
    for (Py_ssize_t row = 0; row < found.n; row++)
        total += found.lengths[row] > 0 ? found.lengths[row] : 0;
    if (total > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "lengths: less than 2**31 bytes are needed");
        goto offsets;
    }
    if (open_buffer(objects[4], &data, PyBUF_WRITABLE, 1, (Py_ssize_t)total, "data") < 0)
        goto offsets;
    Py_BEGIN_ALLOW_THREADS
    int32_t place = 0, *ends = offsets.buf;
    ends[0] = 0;
    for (Py_ssize_t row = 0; row < found.n; row++) {
        int32_t length = found.lengths[row];
        if (length > 0) {
            memcpy((uint8_t *)data.buf + place, found.block + found.starts[row], (size_t)length);
            place += length;
        }
        ends[row + 1] = place;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    Py_INCREF(Py_None);
    result = Py_None;
offsets:
    PyBuffer_Release(&offsets);
found:
    close_views(found.views);
    return result;
}

/* Read one numeric as an integer of `scale`; -1 if it is not plain: malformed, not finite, with more digits behind the
 * point, or not below `limit`. */
static inline int
get_numeric(const uint8_t *place, int32_t length, int scale, Wide limit, const Wide *powers, Wide *value)
{
    if (length < 8)
        return -1;
    int count = get_16(place), weight = get_16(place + 2), sign = (uint16_t)get_16(place + 4);
    if (count < 0 || count > MOST_GROUPS || length != 8 + 2 * count || (sign != 0 && sign != 0x4000) ||
        get_16(place + 6) < 0)
        return -1;
    Wide total = 0;
    for (int i = 0; i < count; i++) {
        int digit = get_16(place + 8 + 2 * i);
        if (digit < 0 || digit >= BASE || total > powers[34])
            return -1;
        total = total * BASE + (unsigned)digit;
    }
    int exponent = 4 * (weight - count + 1) + scale;
    if (total == 0)
        exponent = 0;
    if (exponent > 38 || exponent < -38)
        return -1;
    if (exponent >= 0) {
        if (total > powers[38 - exponent])
            return -1;
        total *= powers[exponent];
    } else {
        if (total % powers[-exponent] != 0)
            return -1;
        total /= powers[-exponent];
    }
    if (total >= limit)
        return -1;
    *value = sign != 0 ? -total : total;
    return 0;
}

static PyObject *
read_numerics(PyObject *self, PyObject *args)
{
    PyObject *objects[4], *result = NULL;
    Found found;
    Py_buffer words;
    int precision, scale;
    if (!PyArg_ParseTuple(args, "OOOiiO", &objects[0], &objects[1], &objects[2], &precision, &scale, &objects[3]))
        return NULL;
    if (precision < 1 || precision > 38 || scale < 0 || scale > precision) {
        PyErr_SetString(PyExc_ValueError, "precision, scale: those of a DECIMAL are needed");
        return NULL;
    }
    if (open_found(&found, objects[0], objects[1], objects[2]) < 0)
        return NULL;
    if (open_buffer(objects[3], &words, PyBUF_WRITABLE, 1, 16 * found.n, "words") < 0)
        goto found;
    int is_plain = 1;
    Py_BEGIN_ALLOW_THREADS
    Wide powers[39] = {1};
    for (int i = 1; i < 39; i++)
        powers[i] = powers[i - 1] * 10;
    for (Py_ssize_t row = 0; row < found.n && is_plain; row++) {
        Wide value = 0;
        if (found.lengths[row] >= 0 && get_numeric(found.block + found.starts[row], found.lengths[row], scale,
                                                   powers[precision], powers, &value) < 0)
            is_plain = 0;
        memcpy((uint8_t *)words.buf + 16 * row, &value, 16);
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&words);
    result = PyBool_FromLong(is_plain);
found:
    close_views(found.views);
    return result;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

extern PyMethodDef single_row_methods[];

static PyMethodDef methods[] = {
    {"join_fields", join_fields, METH_VARARGS,
     "join_fields(kind, n, columns)\n\n"
     "The messages of n rows. Each column is (data, width, offsets, nulls): values of one width, or, if offsets (int32,\n"
     "n + 1) is not None, of varying widths; nulls (n bytes) may be None."},
    {"write_numerics", write_numerics, METH_VARARGS,
     "write_numerics(words, scale, nulls, lengths, data)\n\n"
     "Write the numerics of words (16 bytes each, little-endian) to data, which has room for 32 bytes each, and their\n"
     "lengths (int32, one for each; 0 for a NULL). Returns the number of bytes."},
    {"find_rows", find_rows, METH_VARARGS,
     "find_rows(block, place, widths, starts, lengths)\n\n"
     "Find the whole rows of COPY data from a place on. widths (int32) has the width of each column; 0: any. starts and\n"
     "lengths (int32, columns by rows) receive begin and length of each field. Returns the number of rows, the end of\n"
     "the last one, and why there is no other: 0 the block ends, 1 the trailer, 2 another number of fields, 3 a length\n"
     "that its column does not have, 4 no room."},
    {"read_numbers", read_numbers, METH_VARARGS,
     "read_numbers(block, starts, lengths, values)\n\n"
     "Read the fields of a column as numbers of the width of values. Fields of another length, NULLs too, are 0."},
    {"read_texts", read_texts, METH_VARARGS,
     "read_texts(block, starts, lengths, offsets, data)\n\n"
     "Copy the fields of a column to data, one after the other, and write their offsets (int32, one more than fields)."},
    {"read_numerics", read_numerics, METH_VARARGS,
     "read_numerics(block, starts, lengths, precision, scale, words)\n\n"
     "Read numerics as integers of 16 bytes. False: one is not plain (malformed, not finite, to be rounded, too large)."},
    {NULL, NULL, 0, NULL},
};

static int
add_functions(PyObject *module)
{
    return PyModule_AddFunctions(module, single_row_methods) < 0 ||
                   PyModule_AddIntConstant(module, "VERSION", VERSION) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_functions},
    {0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "compiled",
                                    "Compiled kernels of the PostgreSQL protocol; without them, NumPy computes the same.",
                                    0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit_compiled(void)
{
    return PyModuleDef_Init(&module);
}
