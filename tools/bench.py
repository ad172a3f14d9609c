"""`make bench`: runs bench/observe.py in an environment that has what it needs; arguments are passed on."""

import os
import sys

from interpreters import ROOT, environment, probe

interpreter = probe(sys.executable)
if interpreter is None:
    sys.exit("bench: CPython 3.10 or newer is needed")
python = environment(interpreter, "bench", ROOT / "bench" / "requirements.txt")
os.execv(python, [str(python), str(ROOT / "bench" / "observe.py"), *sys.argv[1:]])
