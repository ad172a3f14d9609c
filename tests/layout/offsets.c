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
#if PY_VERSION_HEX >= 0x030B0000
#include "internal/pycore_dict.h"
#include "internal/pycore_code.h"
#endif
#if PY_VERSION_HEX >= 0x030D0000
#include "internal/pycore_moduleobject.h"
#include "internal/pycore_genobject.h"
#endif

#define OUT(name, value) printf("%s=%zu\n", name, (size_t)(value))
#define FIELD(name, type, field) OUT(name, offsetof(type, field))

/* What a walk of all objects needs beyond that. */
#if PY_VERSION_HEX < 0x030B0000
/* 3.10 has these two in C files only. */
struct _dictkeysobject {
    Py_ssize_t dk_refcnt;
    Py_ssize_t dk_size;
    void *dk_lookup;
    Py_ssize_t dk_usable;
    Py_ssize_t dk_nentries;
    char dk_indices[];
};
#endif
#if PY_VERSION_HEX < 0x030D0000
typedef struct {
    PyObject_HEAD
    PyObject *md_dict;
} ModuleStart;
#else
#define ModuleStart PyModuleObject
#endif

static void heap(void)
{
    OUT("interpreter.size", sizeof(PyInterpreterState));
#if PY_VERSION_HEX >= 0x030B0000
    FIELD("interpreter.threads_head", PyInterpreterState, threads.head);
#else
    FIELD("interpreter.threads_head", PyInterpreterState, tstate_head);
#endif
#if PY_VERSION_HEX >= 0x030C0000
    FIELD("interpreter.modules", PyInterpreterState, imports.modules);
    FIELD("interpreter.type_cache", PyInterpreterState, types.type_cache);
    OUT("type_cache.size", sizeof(struct type_cache));
#else
    FIELD("interpreter.modules", PyInterpreterState, modules);
#if PY_VERSION_HEX >= 0x030B0000
    FIELD("interpreter.type_cache", PyInterpreterState, type_cache);
    OUT("type_cache.size", sizeof(struct type_cache));
#endif
#endif
    FIELD("interpreter.sysdict", PyInterpreterState, sysdict);
    FIELD("interpreter.builtins", PyInterpreterState, builtins);
    FIELD("gc.garbage", struct _gc_runtime_state, garbage);
    FIELD("gc.callbacks", struct _gc_runtime_state, callbacks);
    FIELD("thread.next", PyThreadState, next);
    OUT("thread.size", sizeof(PyThreadState));

#if PY_VERSION_HEX >= 0x030C0000
    FIELD("frame.function", _PyInterpreterFrame, f_funcobj);
#elif PY_VERSION_HEX >= 0x030B0000
    FIELD("frame.function", _PyInterpreterFrame, f_func);
#endif
#if PY_VERSION_HEX >= 0x030B0000
    FIELD("frame.globals", _PyInterpreterFrame, f_globals);
    FIELD("frame.builtins", _PyInterpreterFrame, f_builtins);
    FIELD("frame.locals", _PyInterpreterFrame, f_locals);
    FIELD("frame.object", _PyInterpreterFrame, frame_obj);
    FIELD("frame.owner", _PyInterpreterFrame, owner);
#if PY_VERSION_HEX >= 0x030E0000
    FIELD("frame.stack", _PyInterpreterFrame, stackpointer);
    FIELD("generator.frame", PyGenObject, gi_iframe);
#else
    FIELD("frame.stack", _PyInterpreterFrame, stacktop);
    FIELD("generator.frame", PyGenObject, gi_iframe);
#endif
    FIELD("frame_object.frame", PyFrameObject, f_frame);
    FIELD("frame_object.data", PyFrameObject, _f_frame_data);
#else
    FIELD("frame.globals", PyFrameObject, f_globals);
    FIELD("frame.builtins", PyFrameObject, f_builtins);
    FIELD("frame.locals", PyFrameObject, f_locals);
    FIELD("frame.stack", PyFrameObject, f_stackdepth);
    FIELD("frame.generator", PyFrameObject, f_gen);
    FIELD("generator.frame", PyGenObject, gi_frame);
#endif

    FIELD("code.consts", PyCodeObject, co_consts);
    FIELD("code.names", PyCodeObject, co_names);
#if PY_VERSION_HEX >= 0x030B0000
    FIELD("code.exceptiontable", PyCodeObject, co_exceptiontable);
    FIELD("code.localsplusnames", PyCodeObject, co_localsplusnames);
    FIELD("code.localspluskinds", PyCodeObject, co_localspluskinds);
    FIELD("code.qualname", PyCodeObject, co_qualname);
#if PY_VERSION_HEX >= 0x030C0000
    FIELD("code.cached", PyCodeObject, _co_cached);
#else
    FIELD("code.code", PyCodeObject, _co_code);
#endif
#else
    FIELD("code.code", PyCodeObject, co_code);
    FIELD("code.varnames", PyCodeObject, co_varnames);
    FIELD("code.freevars", PyCodeObject, co_freevars);
    FIELD("code.cellvars", PyCodeObject, co_cellvars);
#endif

    OUT("type.size", sizeof(PyTypeObject));
    OUT("heap_type.size", sizeof(PyHeapTypeObject));
    FIELD("type.base", PyTypeObject, tp_base);
    FIELD("type.bases", PyTypeObject, tp_bases);
    FIELD("type.mro", PyTypeObject, tp_mro);
    FIELD("type.dict", PyTypeObject, tp_dict);
    FIELD("type.cache", PyTypeObject, tp_cache);
    FIELD("type.subclasses", PyTypeObject, tp_subclasses);
    FIELD("type.members", PyTypeObject, tp_members);
    FIELD("type.dictoffset", PyTypeObject, tp_dictoffset);
    FIELD("type.is_gc", PyTypeObject, tp_is_gc);
    FIELD("type.finalize", PyTypeObject, tp_finalize);
    FIELD("heap_type.name", PyHeapTypeObject, ht_name);
    FIELD("heap_type.qualname", PyHeapTypeObject, ht_qualname);
    FIELD("heap_type.slots", PyHeapTypeObject, ht_slots);
    FIELD("heap_type.cached_keys", PyHeapTypeObject, ht_cached_keys);
    FIELD("heap_type.module", PyHeapTypeObject, ht_module);

    OUT("dict.size", sizeof(PyDictObject));
    FIELD("dict.used", PyDictObject, ma_used);
    FIELD("dict.keys", PyDictObject, ma_keys);
    FIELD("dict.values", PyDictObject, ma_values);
    FIELD("keys.refcnt", struct _dictkeysobject, dk_refcnt);
    FIELD("keys.usable", struct _dictkeysobject, dk_usable);
    FIELD("keys.nentries", struct _dictkeysobject, dk_nentries);
    FIELD("keys.indices", struct _dictkeysobject, dk_indices);
#if PY_VERSION_HEX >= 0x030B0000
    FIELD("keys.log2_size", struct _dictkeysobject, dk_log2_size);
    FIELD("keys.log2_index_bytes", struct _dictkeysobject, dk_log2_index_bytes);
    FIELD("keys.kind", struct _dictkeysobject, dk_kind);
    FIELD("values.values", PyDictValues, values);
#else
    FIELD("keys.size", struct _dictkeysobject, dk_size);
#endif
#if PY_VERSION_HEX >= 0x030D0000
    FIELD("values.capacity", PyDictValues, capacity);
    FIELD("values.embedded", PyDictValues, embedded);
    FIELD("values.valid", PyDictValues, valid);
#endif

    FIELD("list.items", PyListObject, ob_item);
    FIELD("list.allocated", PyListObject, allocated);
    FIELD("tuple.items", PyTupleObject, ob_item);
    FIELD("cell.value", PyCellObject, ob_ref);
    FIELD("function.closure", PyFunctionObject, func_closure);
    FIELD("function.code", PyFunctionObject, func_code);
    FIELD("set.used", PySetObject, used);
    FIELD("set.mask", PySetObject, mask);
    FIELD("set.table", PySetObject, table);
    FIELD("set.smalltable", PySetObject, smalltable);
    FIELD("bytearray.alloc", PyByteArrayObject, ob_alloc);
    FIELD("bytearray.bytes", PyByteArrayObject, ob_bytes);
#if PY_VERSION_HEX >= 0x030F0000
    FIELD("bytearray.object", PyByteArrayObject, ob_bytes_object);
#endif
#if PY_VERSION_HEX >= 0x030C0000
    FIELD("long.digits", PyLongObject, long_value.ob_digit);
#else
    FIELD("long.digits", PyLongObject, ob_digit);
#endif
    FIELD("unicode.utf8_length", PyCompactUnicodeObject, utf8_length);
    FIELD("unicode.utf8", PyCompactUnicodeObject, utf8);
    FIELD("unicode.data", PyUnicodeObject, data);
    OUT("unicode.size", sizeof(PyUnicodeObject));
    FIELD("descriptor.name", PyDescrObject, d_name);
    FIELD("descriptor.qualname", PyDescrObject, d_qualname);
    FIELD("module.dict", ModuleStart, md_dict);
}

int main(void)
{
    heap();
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
