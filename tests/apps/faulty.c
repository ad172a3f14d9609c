/* An extension with one bug of each kind, for the tests of `neurogc check`. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

/* Not optimized away, and not seen through by the compiler. */
static volatile char sink;
static void *volatile kept;

static PyObject *overflow(PyObject *self, PyObject *args) {
    volatile char *block = malloc(80);
    block[80] = 1;
    free((void *)block);
    Py_RETURN_NONE;
}

static PyObject *use_after_free(PyObject *self, PyObject *args) {
    volatile char *block = malloc(48);
    block[3] = 1;
    free((void *)block);
    sink = block[3];
    Py_RETURN_NONE;
}

static PyObject *double_free(PyObject *self, PyObject *args) {
    kept = malloc(32);
    void *again = kept;
    free(kept);
    free(again);
    Py_RETURN_NONE;
}

static PyObject *uninitialised(PyObject *self, PyObject *args) {
    volatile int *block = malloc(16);
    int found = block[2] > 7;
    free((void *)block);
    return PyBool_FromLong(found ? 1 : 0);
}

static PyObject *leak(PyObject *self, PyObject *args) {
    kept = malloc(1234);
    memset(kept, 1, 1234);
    kept = NULL;
    Py_RETURN_NONE;
}

static PyObject *leak_object(PyObject *self, PyObject *args) {
    /* No container: those are in the collector's lists, and so can be reached. */
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, 500);
    (void)bytes;
    Py_RETURN_NONE;
}

static PyObject *fine(PyObject *self, PyObject *args) {
    char *block = malloc(64);
    memset(block, 0, 64);
    sink = block[63];
    free(block);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"overflow", overflow, METH_NOARGS, NULL},
    {"use_after_free", use_after_free, METH_NOARGS, NULL},
    {"double_free", double_free, METH_NOARGS, NULL},
    {"uninitialised", uninitialised, METH_NOARGS, NULL},
    {"leak", leak, METH_NOARGS, NULL},
    {"leak_object", leak_object, METH_NOARGS, NULL},
    {"fine", fine, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "faulty", NULL, -1, methods};

PyMODINIT_FUNC PyInit_faulty(void) {
    return PyModule_Create(&module);
}
