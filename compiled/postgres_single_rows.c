/* Single rows of the PostgreSQL protocol: the values of a Bind message whose other bytes are known, and one DataRow.
 *
 *     head │ length │ value   length │ value ... │ tail ── match_values ──► (values, place of the tail)
 *     (7, "a", None) ── data_row ──► D  length  count   length │ value ...
 *
 * `forms` has one letter for each value. What they do not cover is left to Python, which computes the same.
 */
#include "arguments.h"
#include "postgres_numbers.h"

/* ---- values in --------------------------------------------------------------------------------------------------- */

/* Decimal digits, with a sign perhaps, of an integer of `width` bytes. Returns 0 if they are none. */
static int
read_digits(const char *text, int32_t length, int width, long long *value)
{
    int is_negative = length > 0 && text[0] == '-', at = is_negative;
    if (length - at < 1 || length - at > 18)
        return 0;
    long long found = 0;
    for (; at < length; at++) {
        if (text[at] < '0' || text[at] > '9')
            return 0;
        found = found * 10 + (text[at] - '0');
    }
    *value = is_negative ? -found : found;
    return width == 8 || (*value >= -(1LL << (8 * width - 1)) && *value < 1LL << (8 * width - 1));
}

/* The value of a form. NULL: it is not plain, or, with an error set, there is no memory. */
static PyObject *
read_value(int form, const char *place, int32_t length)
{
    const uint8_t *bytes = (const uint8_t *)place;
    long long number;
    switch (form) {
    case 'n': /* a binary integer of any width */
        if (length == 4)
            return PyLong_FromLong(get_32(bytes));
        if (length == 8)
            return PyLong_FromLongLong((long long)get_64(bytes));
        return length == 2 ? PyLong_FromLong(get_16(bytes)) : NULL;
    case 'd': /* a binary float of either width */
        if (length == 8)
            return PyFloat_FromDouble(get_double(bytes));
        return length == 4 ? PyFloat_FromDouble(get_float(bytes)) : NULL;
    case 't': { /* a text */
        if (memchr(place, 0, (size_t)length) != NULL)
            return NULL;
        PyObject *text = PyUnicode_DecodeUTF8(place, length, NULL);
        if (text == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
            PyErr_Clear();
        return text;
    }
    case '2':
    case '4':
    case '8': /* an integer of so many bytes, as a text */
        return read_digits(place, length, form - '0', &number) ? PyLong_FromLongLong(number) : NULL;
    default:
        return NULL;
    }
}

/* Read all values from `*place` on. Returns NULL as `read_value`. */
static PyObject *
read_all(const char *data, Py_ssize_t size, Py_ssize_t *place, const char *forms, Py_ssize_t count)
{
    PyObject *values = PyTuple_New(count);
    for (Py_ssize_t i = 0; values != NULL && i < count; i++) {
        int32_t length = size - *place < 4 ? -1 : get_32((const uint8_t *)data + *place);
        PyObject *value = NULL;
        *place += 4;
        if (length >= 0 && length <= size - *place)
            value = read_value(forms[i], data + *place, length);
        if (value == NULL) {
            Py_DECREF(values);
            return NULL;
        }
        PyTuple_SetItem(values, i, value);
        *place += length;
    }
    return values;
}

static PyObject *
match_values(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    char *parts[4]; /* data, head, tail, forms */
    Py_ssize_t sizes[4], place = nargs == 5 ? PyLong_AsSsize_t(args[4]) : -1;
    if (place < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "five arguments are needed, the last of them a place");
        return NULL;
    }
    for (int i = 0; i < 4; i++)
        if (PyBytes_AsStringAndSize(args[i], &parts[i], &sizes[i]) < 0)
            return NULL;
    if (place <= sizes[0] && sizes[1] <= sizes[0] - place && memcmp(parts[0] + place, parts[1], (size_t)sizes[1]) == 0) {
        place += sizes[1];
        PyObject *values = read_all(parts[0], sizes[0], &place, parts[3], sizes[3]);
        if (values == NULL && PyErr_Occurred())
            return NULL;
        if (values != NULL) {
            if (sizes[2] <= sizes[0] - place && memcmp(parts[0] + place, parts[2], (size_t)sizes[2]) == 0)
                return Py_BuildValue("Nn", values, place);
            Py_DECREF(values);
        }
    }
    Py_INCREF(Py_None);
    return Py_None;
}

/* ---- rows out ---------------------------------------------------------------------------------------------------- */

#define HEAD 7 /* kind (1), length (4), number of fields (2) */

/* Bytes that grow: in `first` as long as they fit, then in memory of their own. */
typedef struct {
    uint8_t *data;
    Py_ssize_t size, room;
    uint8_t first[1024];
} Message;

static int
reserve(Message *message, Py_ssize_t size)
{
    if (size <= message->room - message->size)
        return 0;
    Py_ssize_t room = 2 * message->room + size;
    uint8_t *data = message->data == message->first ? malloc((size_t)room) : realloc(message->data, (size_t)room);
    if (data == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (message->data == message->first)
        memcpy(data, message->first, (size_t)message->size);
    message->data = data;
    message->room = room;
    return 0;
}

/* Add a field of some bytes. */
static int
put_bytes(Message *message, const void *bytes, Py_ssize_t size)
{
    if (size > INT32_MAX - 4) {
        PyErr_SetString(PyExc_ValueError, "a value has more bytes than a field can have");
        return -1;
    }
    if (reserve(message, 4 + size) < 0)
        return -1;
    put_32(message->data + message->size, (uint32_t)size);
    memcpy(message->data + message->size + 4, bytes, (size_t)size);
    message->size += 4 + size;
    return 0;
}

static int
put_digits(Message *message, long long value)
{
    char digits[20], *place = digits + sizeof digits;
    unsigned long long rest = value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value;
    do
        *--place = (char)('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (value < 0)
        *--place = '-';
    return put_bytes(message, place, digits + sizeof digits - place);
}

/* Add an integer, as a text or of 2, 4 or 8 bytes. */
static int
put_integer(Message *message, int form, PyObject *value)
{
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return -1;
    if (form == 'n')
        return put_digits(message, number);
    int width = form - '0';
    if (width < 8 && (number < -(1LL << (8 * width - 1)) || number >= 1LL << (8 * width - 1))) {
        PyErr_Format(PyExc_OverflowError, "%lld has more than %d bytes", number, width);
        return -1;
    }
    uint64_t swapped = __builtin_bswap64((uint64_t)number);
    return put_bytes(message, (uint8_t *)&swapped + 8 - width, width);
}

/* Add a text and release it. */
static int
put_text(Message *message, PyObject *text)
{
    Py_ssize_t size;
    const char *bytes = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, &size);
    int state = bytes == NULL ? -1 : put_bytes(message, bytes, size);
    Py_XDECREF(text);
    return state;
}

/* Add the bytes that an encoder returns for a value. */
static int
put_encoded(Message *message, PyObject *encoder, PyObject *value)
{
    char *bytes;
    Py_ssize_t size;
    PyObject *encoded = PyObject_CallFunctionObjArgs(encoder, value, NULL);
    if (encoded == NULL)
        return -1;
    int state = PyBytes_AsStringAndSize(encoded, &bytes, &size) < 0 ? -1 : put_bytes(message, bytes, size);
    Py_DECREF(encoded);
    return state;
}

static int
put_value(Message *message, int form, PyObject *encoder, PyObject *value)
{
    if (value == Py_None) {
        if (reserve(message, 4) < 0)
            return -1;
        memset(message->data + message->size, 0xFF, 4);
        message->size += 4;
        return 0;
    }
    switch (form) {
    case 'n':
    case '2':
    case '4':
    case '8':
        return put_integer(message, form, value);
    case 'd': {
        double number = PyFloat_AsDouble(value);
        if (number == -1.0 && PyErr_Occurred())
            return -1;
        uint64_t bits;
        memcpy(&bits, &number, 8);
        bits = __builtin_bswap64(bits);
        return put_bytes(message, &bits, 8);
    }
    case 't':
        Py_INCREF(value);
        return put_text(message, value);
    case 's':
        return put_text(message, PyObject_Str(value));
    case 'f': {
        PyObject *spec = PyUnicode_FromString("f");
        int state = spec == NULL ? -1 : put_text(message, PyObject_Format(value, spec));
        Py_XDECREF(spec);
        return state;
    }
    default:
        return put_encoded(message, encoder, value);
    }
}

static PyObject *
data_row(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    char *forms;
    Py_ssize_t count;
    if (nargs != 3 || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_ValueError, "three arguments are needed: forms, a tuple of encoders, a row");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(args[0], &forms, &count) < 0)
        return NULL;
    PyObject *row = PySequence_Tuple(args[2]), *result = NULL;
    if (row == NULL)
        return NULL;
    Message message = {.data = message.first, .size = HEAD, .room = sizeof message.first};
    if (PyTuple_Size(row) != count || PyTuple_Size(args[1]) != count || count > UINT16_MAX) {
        PyErr_SetString(PyExc_ValueError, "row: as many values as forms and encoders are needed");
        goto done;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (put_value(&message, forms[i], PyTuple_GetItem(args[1], i), PyTuple_GetItem(row, i)) < 0)
            goto done;
    if (message.size > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a row has more bytes than a message can have");
        goto done;
    }
    message.data[0] = 'D';
    put_32(message.data + 1, (uint32_t)(message.size - 1));
    put_16(message.data + 5, (unsigned)count);
    result = PyBytes_FromStringAndSize((char *)message.data, message.size);
done:
    if (message.data != message.first)
        free(message.data);
    Py_DECREF(row);
    return result;
}

PyMethodDef single_row_methods[] = {
    {"match_values", (PyCFunction)(void (*)(void))match_values, METH_FASTCALL,
     "match_values(data, head, tail, forms, place)\n\n"
     "The values of a Bind message and the place behind them, if head is at a place, values of the forms follow, and then\n"
     "tail. Forms: n binary integer, d binary float, t text, 2, 4 and 8 integers of this width as texts. None for other\n"
     "values, also for NULL."},
    {"data_row", (PyCFunction)(void (*)(void))data_row, METH_FASTCALL,
     "data_row(forms, encoders, row)\n\n"
     "The DataRow message of a row. Forms: n integer as a text, 2, 4 and 8 binary integers of this width, d binary double,\n"
     "t text, s the text of str(), f that of format(value, 'f'); any other: the bytes that the encoder at this place\n"
     "returns for the value."},
    {NULL, NULL, 0, NULL},
};
