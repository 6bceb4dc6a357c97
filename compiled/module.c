/* The extension module `nyala.executor.kernels.compiled`; `VERSION` is that of its functions. */
#include "arguments.h"

#define VERSION 2

static int
add_functions(PyObject *module)
{
    return PyModule_AddFunctions(module, grouping_methods) < 0 || PyModule_AddFunctions(module, sorting_methods) < 0 ||
                   PyModule_AddFunctions(module, sums_methods) < 0 || PyModule_AddFunctions(module, moments_methods) < 0 ||
                   PyModule_AddIntConstant(module, "VERSION", VERSION) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_functions},
    {0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "compiled",
                                    "Compiled kernels of nyala; without them, NumPy and Arrow compute the same.", 0,
                                    NULL, slots, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit_compiled(void)
{
    return PyModuleDef_Init(&module);
}
