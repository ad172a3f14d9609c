/* A program that exports what `neurogc attach` looks for, and whose runtime says that it is a free-threaded 3.14. */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

struct { char cookie[8]; uint64_t words[127]; } _PyRuntime = {
    {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'}, {0x030e00f0, 1, 1024, 512, 520},
};
const unsigned int Py_Version = 0x030e00f0;

#define EXPORTED(name) int name(void) { return 0; }
EXPORTED(Py_AddPendingCall) EXPORTED(PyRun_SimpleString) EXPORTED(PyGILState_Ensure) EXPORTED(PyGILState_Release)
EXPORTED(PyGILState_GetThisThreadState) EXPORTED(PyThreadState_GetUnchecked) EXPORTED(Py_IsInitialized)
EXPORTED(Py_IsFinalizing) EXPORTED(PyErr_Fetch) EXPORTED(PyErr_Restore)

int main(void)
{
    puts("ready");
    fflush(stdout);
    char letter;
    return read(0, &letter, 1) < 0;
}
