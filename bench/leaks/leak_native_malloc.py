"""Native code allocates and never frees; Python objects stay the same."""

import ctypes

from pace import rounds

KIND = "native_growth"
HOLDER = None

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]


def native_work(size):
    block = libc.malloc(size)  # the leak
    ctypes.memset(block, 1, size)


for number in rounds(100):
    native_work(4000)
