/* Arguments of the compiled kernels: buffers, and columns of codes. All kernels release the interpreter lock while they
 * work. Only the stable ABI is used (PEP 384, Python 3.11).
 */
#ifndef NYALA_ARGUMENTS_H
#define NYALA_ARGUMENTS_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COLUMNS 64

/* Open a contiguous buffer of items of `size` bytes, at least `least` of them. */
static inline int
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

/* Open columns of codes of 64 bits, with equally many rows. */
typedef struct {
    int count;
    const uint64_t *codes[MOST_COLUMNS];
    Py_buffer views[MOST_COLUMNS];
} Columns;

static inline void
close_columns(Columns *columns)
{
    while (columns->count > 0)
        PyBuffer_Release(&columns->views[--columns->count]);
}

/* Open a tuple of columns. Returns the number of rows, or -1 with an error set and none open. */
static inline Py_ssize_t
open_columns(Columns *columns, PyObject *tuple)
{
    Py_ssize_t n = -1, width = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : 0;
    columns->count = 0;
    if (width < 1 || width > MOST_COLUMNS) {
        PyErr_Format(PyExc_ValueError, "codes: a tuple of 1 to %d columns is needed", MOST_COLUMNS);
        return -1;
    }
    for (; columns->count < width; columns->count++) {
        int at = columns->count;
        Py_buffer *view = &columns->views[at];
        if (open_buffer(PyTuple_GetItem(tuple, at), view, 0, 8, n < 0 ? 0 : n, "codes") < 0)
            goto failed;
        columns->codes[at] = view->buf;
        if (n < 0)
            n = view->len / 8;
    }
    if (n < (Py_ssize_t)UINT32_MAX)
        return n;
    PyErr_Format(PyExc_ValueError, "codes: fewer than 2**32 rows are needed, got %zd", n);
failed:
    close_columns(columns);
    return -1;
}

/* True if some number is not below `size`. */
static inline int
is_beyond(const Py_buffer *numbers, int64_t n, int64_t size)
{
    uint32_t most = 0;
    for (int64_t row = 0; row < n; row++) {
        uint32_t number = numbers->itemsize == 1   ? ((const uint8_t *)numbers->buf)[row]
                          : numbers->itemsize == 2 ? ((const uint16_t *)numbers->buf)[row]
                                                   : ((const uint32_t *)numbers->buf)[row];
        most = number > most ? number : most;
    }
    return n > 0 && (int64_t)most >= size;
}

extern PyMethodDef grouping_methods[], moments_methods[], sorting_methods[], sums_methods[];

#endif
