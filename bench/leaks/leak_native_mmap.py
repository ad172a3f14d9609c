"""Memory is mapped by native code and never unmapped."""

import ctypes

from pace import rounds

KIND = "native_growth"
HOLDER = None

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def native_work(size):
    start = libc.mmap(None, size, 3, 0x22, -1, 0)  # the leak
    ctypes.memset(start, 1, size)


for number in rounds(10):
    native_work(65536)
