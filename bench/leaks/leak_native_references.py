"""Native code takes a reference and never gives it back: objects that nothing holds."""

import ctypes

from pace import rounds

KIND = "python_growth"
HOLDER = None


def native_work(number):
    record = {"number": number, "pad": bytes(900)}  # the leak
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(record))


for number in rounds(200):
    native_work(number)
