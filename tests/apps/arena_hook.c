/* A hook for arenas, as a profiler of memory would have one: it counts, and passes everything on. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObjectArenaAllocator below;
static Py_ssize_t in_use;
static size_t least = SIZE_MAX, most;

static void *take(void *context, size_t size)
{
    void *arena = below.alloc(below.ctx, size);
    if (arena != NULL) {
        __atomic_add_fetch(&in_use, 1, __ATOMIC_RELAXED);
        least = size < least ? size : least;
        most = size > most ? size : most;
    }
    return arena;
}

static void give_back(void *context, void *arena, size_t size)
{
    __atomic_sub_fetch(&in_use, 1, __ATOMIC_RELAXED);
    below.free(below.ctx, arena, size);
}

static PyObject *put_on(PyObject *self, PyObject *none)
{
    PyObjectArenaAllocator ours = {NULL, take, give_back};
    PyObject_GetArenaAllocator(&below);
    PyObject_SetArenaAllocator(&ours);
    Py_RETURN_NONE;
}

static PyObject *take_off(PyObject *self, PyObject *none)
{
    PyObject_SetArenaAllocator(&below);
    Py_RETURN_NONE;
}

static PyObject *arenas_in_use(PyObject *self, PyObject *none)
{
    return PyLong_FromSsize_t(in_use);
}

static PyObject *sizes(PyObject *self, PyObject *none)
{
    return Py_BuildValue("nn", (Py_ssize_t)least, (Py_ssize_t)most);
}

static PyMethodDef methods[] = {
    {"put_on", put_on, METH_NOARGS, NULL},
    {"take_off", take_off, METH_NOARGS, NULL},
    {"in_use", arenas_in_use, METH_NOARGS, NULL},
    {"sizes", sizes, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "arena_hook", NULL, -1, methods};

PyMODINIT_FUNC PyInit_arena_hook(void)
{
    return PyModule_Create(&definition);
}
