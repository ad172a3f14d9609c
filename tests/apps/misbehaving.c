/* A type whose tp_traverse misbehaves, but only in a process other than the one that imported the module. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
    PyObject_HEAD
    int how;
    PyObject *other;
} Misbehaving;

enum { CRASH = 1, LOOP, ABORT, LOCK, TWICE, ALLOCATE };

static long home;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int traverse(Misbehaving *self, visitproc visit, void *arg) /* Py_VISIT wants these names. */
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->other);
    if (self->how == TWICE)
        Py_VISIT(self->other); /* One reference is told of as if it were two. */
    if (syscall(SYS_getpid) == home)
        return 0;
    switch (self->how) {
    case CRASH:
        *(volatile int *)16 = 1;
        break;
    case LOOP:
        for (;;)
            __asm__ volatile("");
    case ABORT:
        abort();
    case LOCK:
        pthread_mutex_lock(&mutex);
        break;
    case ALLOCATE:
        free(malloc(300000));
        break;
    }
    return 0;
}

static int clear(Misbehaving *self)
{
    Py_CLEAR(self->other);
    return 0;
}

static void dealloc(Misbehaving *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static int init(Misbehaving *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *other = NULL;
    if (!PyArg_ParseTuple(arguments, "i|O", &self->how, &other))
        return -1;
    Py_XINCREF(other);
    Py_XSETREF(self->other, other);
    return 0;
}

static PyObject *take_mutex(PyObject *module, PyObject *nothing)
{
    pthread_mutex_lock(&mutex);
    Py_RETURN_NONE;
}

static PyType_Slot slots[] = {
    {Py_tp_traverse, traverse}, {Py_tp_clear, clear}, {Py_tp_dealloc, dealloc}, {Py_tp_init, init}, {0, NULL},
};
static PyType_Spec spec = {
    "misbehaving.Misbehaving", sizeof(Misbehaving), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, slots,
};
static PyMethodDef functions[] = {{"take_mutex", take_mutex, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "misbehaving", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_misbehaving(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = PyType_FromSpec(&spec);
    home = syscall(SYS_getpid);
    if (!module || !type || PyModule_AddObject(module, "Misbehaving", type) < 0)
        return NULL;
    return module;
}
