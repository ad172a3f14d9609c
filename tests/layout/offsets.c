/* Prints the real offsets of the CPython headers it is compiled against, one `name=value` a line.
   tests/test_layout.py compares them with the agent's own table. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#include "internal/pycore_gc.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#if PY_VERSION_HEX >= 0x030B0000
#include "internal/pycore_frame.h"
#else
#include <frameobject.h>
#endif
#if PY_VERSION_HEX >= 0x030F0000
#include "internal/pycore_interpframe_structs.h"
#endif

#define OUT(name, value) printf("%s=%zu\n", name, (size_t)(value))
#define FIELD(name, type, field) OUT(name, offsetof(type, field))

int main(void)
{
    FIELD("runtime.main_interpreter", _PyRuntimeState, interpreters.main);
#if PY_VERSION_HEX >= 0x030C0000
    FIELD("interpreter.gil_pointer", PyInterpreterState, ceval.gil);
#else
    FIELD("runtime.gil", _PyRuntimeState, ceval.gil);
#endif
    FIELD("gil.interval", struct _gil_runtime_state, interval);
    FIELD("gil.last_holder", struct _gil_runtime_state, last_holder);
    FIELD("gil.locked", struct _gil_runtime_state, locked);
    FIELD("gil.switch_number", struct _gil_runtime_state, switch_number);

    FIELD("interpreter.gc", PyInterpreterState, gc);
    FIELD("gc.generations", struct _gc_runtime_state, generations);
    FIELD("gc.permanent_generation", struct _gc_runtime_state, permanent_generation);
    FIELD("gc.collecting", struct _gc_runtime_state, collecting);
    FIELD("gc.long_lived_total", struct _gc_runtime_state, long_lived_total);
    FIELD("gc.long_lived_pending", struct _gc_runtime_state, long_lived_pending);
    OUT("gc_generation.size", sizeof(struct gc_generation));
    FIELD("gc_generation.threshold", struct gc_generation, threshold);
    FIELD("gc_generation.count", struct gc_generation, count);

#if PY_VERSION_HEX >= 0x030B0000
    FIELD("thread.native_thread_id", PyThreadState, native_thread_id);
#endif
    FIELD("thread.thread_id", PyThreadState, thread_id);

#if PY_VERSION_HEX >= 0x030D0000
    FIELD("thread.frame", PyThreadState, current_frame);
#elif PY_VERSION_HEX >= 0x030B0000
    FIELD("thread.cframe", PyThreadState, cframe);
    FIELD("cframe.current_frame", _PyCFrame, current_frame);
#else
    FIELD("thread.frame", PyThreadState, frame);
#endif

#if PY_VERSION_HEX >= 0x030D0000
    FIELD("frame.code", _PyInterpreterFrame, f_executable);
    FIELD("frame.instruction", _PyInterpreterFrame, instr_ptr);
#elif PY_VERSION_HEX >= 0x030B0000
    FIELD("frame.code", _PyInterpreterFrame, f_code);
    FIELD("frame.instruction", _PyInterpreterFrame, prev_instr);
#else
    FIELD("frame.code", PyFrameObject, f_code);
    FIELD("frame.instruction", PyFrameObject, f_lasti);
#endif
#if PY_VERSION_HEX >= 0x030B0000
    FIELD("frame.previous", _PyInterpreterFrame, previous);
    FIELD("frame.localsplus", _PyInterpreterFrame, localsplus);
#else
    FIELD("frame.previous", PyFrameObject, f_back);
    FIELD("frame.localsplus", PyFrameObject, f_localsplus);
#endif

    FIELD("code.filename", PyCodeObject, co_filename);
    FIELD("code.name", PyCodeObject, co_name);
    FIELD("code.firstlineno", PyCodeObject, co_firstlineno);
    FIELD("code.linetable", PyCodeObject, co_linetable);
    FIELD("code.stacksize", PyCodeObject, co_stacksize);
#if PY_VERSION_HEX >= 0x030B0000
    FIELD("code.instructions", PyCodeObject, co_code_adaptive);
    FIELD("code.nlocalsplus", PyCodeObject, co_nlocalsplus);
#else
    FIELD("code.nlocalsplus", PyCodeObject, co_nlocals);
#endif

    FIELD("unicode.length", PyASCIIObject, length);
    FIELD("unicode.state", PyASCIIObject, state);
    OUT("unicode.ascii_data", sizeof(PyASCIIObject));
    OUT("unicode.compact_data", sizeof(PyCompactUnicodeObject));
    FIELD("bytes.size", PyVarObject, ob_size);
    FIELD("bytes.data", PyBytesObject, ob_sval);
#if PY_VERSION_HEX >= 0x030C0000
    OUT("object.refcount_bits", 8 * sizeof(int32_t)); /* _Py_IsImmortal() looks at the sign of these. */
#else
    OUT("object.refcount_bits", 8 * sizeof(Py_ssize_t));
#endif
    FIELD("object.type", PyObject, ob_type);
    FIELD("var_object.size", PyVarObject, ob_size);
    FIELD("cfunction.method", PyCFunctionObject, m_ml);
    FIELD("cfunction.module", PyCFunctionObject, m_module);
    FIELD("method_descriptor.type", PyMethodDescrObject, d_common.d_type);
    FIELD("method_descriptor.method", PyMethodDescrObject, d_method);
    FIELD("method.name", PyMethodDef, ml_name);
    FIELD("method.function", PyMethodDef, ml_meth);
    FIELD("type.name", PyTypeObject, tp_name);
    FIELD("type.basicsize", PyTypeObject, tp_basicsize);
    FIELD("type.itemsize", PyTypeObject, tp_itemsize);
    FIELD("type.flags", PyTypeObject, tp_flags);
    FIELD("type.traverse", PyTypeObject, tp_traverse);
    FIELD("type.weaklistoffset", PyTypeObject, tp_weaklistoffset);
    FIELD("weakref.next", PyWeakReference, wr_next);
    return 0;
}
