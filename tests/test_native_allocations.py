"""Allocations of native code under the sampler: below other allocators, in threads and places that no Python code knows."""

import signal
import subprocess
import sys

import pytest
from observed import answer_to, ask, command, environment, eventually, run
from sampling import HAS_PRELOAD, LIBRARIES, OTHER_ALLOCATORS, PRELOAD, TINY, compiled, preloaded, sampled

pytestmark = pytest.mark.needs_agent


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("native"))


@pytest.mark.skipif(not HAS_PRELOAD, reason="the command and the library are not built")
class TestNative:
    def test_anonymous_mappings_are_counted_and_arenas_are_not(self):
        sampled("""
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def mapped(): return sum(s["bytes"] for s in neurogc.memory.sites() if s["domain"] == "mmap")
before = mapped()
def take(): return libc.mmap(None, 5 << 20, 3, 0x22, -1, 0)
at = take()
assert mapped() - before == 5 << 20, (mapped(), before)
assert by_function()["take"] >= 5 << 20
libc.mremap.restype = ctypes.c_void_p
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
at = libc.mremap(at, 5 << 20, 9 << 20, 1)
assert mapped() - before == 9 << 20, (mapped(), before)
assert by_function()["take"] >= 9 << 20
libc.munmap(at, 9 << 20)
assert mapped() == before
kept = [bytes(400) for _ in range(100_000)]
assert mapped() == before, mapped()
""")

    def test_native_memory_has_a_python_line(self):
        sampled("""
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.calloc.restype = libc.realloc.restype = ctypes.c_void_p
libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
libc.calloc.argtypes, libc.realloc.argtypes = [ctypes.c_size_t] * 2, [ctypes.c_void_p, ctypes.c_size_t]
libc.aligned_alloc.restype, libc.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
def small(): return [libc.malloc(5000) for _ in range(4000)]
def zeros(): return [libc.calloc(1000, 90) for _ in range(200)]
def aligned(): return [libc.aligned_alloc(4096, 8192) for _ in range(2000)]
def moved(): return [libc.realloc(libc.malloc(100), 30_000) for _ in range(500)]
kept = {f.__name__: f() for f in (small, zeros, aligned, moved)}
truth = dict(small=20e6, zeros=18e6, aligned=16.4e6, moved=15e6)
for name, size in truth.items():
    found = sum(s["bytes"] for s in neurogc.memory.sites() if name in [f for _, _, f in s["stack"]])
    near(found, size, 0.1)
assert all(at % 4096 == 0 for at in kept["aligned"])
assert all(ctypes.string_at(at, 90_000) == bytes(90_000) for at in kept["zeros"][:20])
[libc.free(at) for blocks in kept.values() for at in blocks]
assert sum(s["bytes"] for s in neurogc.memory.sites() if s["function"] in truth) < 1e6
""")

    @pytest.mark.parametrize("allocator", ["glibc", "strict", "jemalloc"])
    def test_zeros_of_a_large_array_stay_untouched(self, allocator, built):
        preload = {} if allocator == "glibc" else {"LD_PRELOAD": preloaded(allocator, built)}
        out = sampled("""
import ctypes, os
libc = ctypes.CDLL(None)
libc.calloc.restype, libc.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
def rss(): return int(open("/proc/self/statm").read().split()[1]) * 4096
before = rss()
def zeros(): return [libc.calloc(1, 16 << 20) for _ in range(30)]
kept = zeros()
print(os.environ["LD_PRELOAD"])
assert rss() - before < 20 << 20, (rss() - before) >> 20
found = sum(s["bytes"] for s in neurogc.memory.sites() if s["domain"] == "malloc" and s["bytes"] > 1 << 20)
near(found, 30 * (16 << 20), 0.05)
mapped = sum(s["bytes"] for s in neurogc.memory.sites() if s["domain"] == "mmap")
assert mapped < 50 << 20, mapped
""", **preload)
        assert out.strip().split(":")[0].endswith(PRELOAD.name) and preload.get("LD_PRELOAD", "") in out

    @pytest.mark.parametrize("allocator", OTHER_ALLOCATORS)
    def test_another_allocator_below(self, allocator, built):
        path = preloaded(allocator, built)
        out = sampled("""
import os, threading
kept = [bytes(i % 3000) for i in range(30_000)]
def work():
    mine = {}
    for i in range(20_000):
        mine[i % 200] = bytearray(i % 50_000)
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
assert all(len(x) == i % 3000 for i, x in enumerate(kept))
print(neurogc.status()["allocations"]["mode"], os.path.realpath(os.environ["BELOW"]) in open("/proc/self/maps").read())
if "strict" in os.environ["BELOW"]:
    import ctypes
    assert ctypes.CDLL(None).strict_malloc_bytes() > 10_000_000
""", BELOW=path, LD_PRELOAD=path, **TINY)
        assert out == "native True\n"

    def test_the_strict_allocator_ends_a_process_that_frees_what_is_not_its(self, built):
        """So the tests with it can fail."""
        code = "import ctypes; free = ctypes.CDLL(None).free; free.argtypes = [ctypes.c_void_p]; free(ctypes.addressof(ctypes.c_long()))"
        done = run(sys.executable, "-c", code, LD_PRELOAD=built["strict"], NEUROGC_ALLOCATIONS="off")
        assert done.returncode == -signal.SIGABRT and "strict_malloc: free()" in done.stderr, done

    @pytest.mark.parametrize("allocator", ["glibc", *OTHER_ALLOCATORS])
    def test_programs_that_are_not_python_run_as_ever(self, allocator, built):
        script = "timeout 20 bash -c 'for i in 1 2 3; do echo $i | sort | tr 1-3 a-c; done'"
        extra = {} if allocator == "glibc" else {"LD_PRELOAD": preloaded(allocator, built)}
        done = run("bash", "-c", script, **extra)
        assert (done.returncode, done.stdout) == (0, "a\nb\nc\n") and "ld.so" not in done.stderr, done

    def test_a_static_program_runs_as_ever(self, tmp_path):
        source, static = tmp_path / "s.c", tmp_path / "s"
        source.write_text('#include <stdio.h>\n#include <stdlib.h>\nint main(){free(malloc(9));puts("ok");}\n')
        if subprocess.run(["cc", "-static", "-o", static, source], capture_output=True).returncode != 0:
            pytest.skip("programs cannot be linked statically here")
        done = run(static)
        assert (done.returncode, done.stdout) == (0, "ok\n")

    @pytest.mark.parametrize("allocator", ["glibc", "strict"])
    def test_threads_without_python_that_outlive_the_interpreter(self, allocator, built):
        # The library begins a thread before the interpreter starts, which allocates until the process has ended.
        libraries = [built["traps"], *([built["strict"]] if allocator == "strict" else [])]
        out = sampled("""
import ctypes, os
traps = ctypes.CDLL(os.environ["TRAPS"])
assert traps.traps_early_rounds() > 0
kept = [bytes(i % 3000) for i in range(30_000)]
assert traps.traps_threads(6, 16) == 0
# Each thread's destructor is called four times.
assert (traps.traps_destroyed(), traps.traps_wrong()) == (6 * 16 * 4, 0), (traps.traps_destroyed(), traps.traps_wrong())
before = traps.traps_early_rounds()
while traps.traps_early_rounds() < before + 5:
    pass
assert traps.traps_wrong() == 0
print("fine")
""", TRAPS=built["traps"], LD_PRELOAD=":".join(map(str, libraries)), NATIVE_TRAPS_EARLY=1, **TINY)
        assert out == "fine\n"

    def test_memory_of_threads_without_python_has_no_python_line(self, built):
        sampled("""
import ctypes, os
traps = ctypes.CDLL(os.environ["TRAPS"])
traps.traps_keep.restype, traps.traps_keep.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
traps.traps_drop.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def foreign(): return sum(s["bytes"] for s in neurogc.memory.sites() if s["domain"] == "malloc" and s["function"] is None)
before = foreign()
kept = traps.traps_keep(40_000_000)
near(foreign() - before, 40_000_000, 0.1)
traps.traps_drop(kept, 40_000_000)
assert foreign() - before < 1_000_000, foreign() - before
""", TRAPS=built["traps"])

    @pytest.mark.parametrize("allocator", ["glibc", *OTHER_ALLOCATORS])
    def test_every_function_that_hands_out_memory(self, allocator, built):
        extra = {} if allocator == "glibc" else {"LD_PRELOAD": preloaded(allocator, built)}
        code = "import ctypes, os, sys; sys.exit(ctypes.CDLL(os.environ['TRAPS']).traps_family(200))"
        alone = subprocess.run([sys.executable, "-c", code], env={**environment(TRAPS=built["traps"]), **extra}).returncode
        if alone and allocator in LIBRARIES:
            pytest.skip(f"{LIBRARIES[allocator]} by itself fails at {alone}")
        assert alone == 0
        sampled("""
import ctypes, os
traps = ctypes.CDLL(os.environ["TRAPS"])
assert traps.traps_family(200) == 0, traps.traps_family(200)
""", TRAPS=built["traps"], **extra, **TINY)

    def test_signal_handlers_that_allocate(self, built):
        # On this allocator a handler may run at any moment, also while the sampler does.
        sampled("""
import ctypes, os
traps = ctypes.CDLL(os.environ["TRAPS"])
assert traps.traps_signals(1000) == 0
rounds = 0
while traps.traps_handled() < 300:
    kept = [bytes(i % 5000) for i in range(3000)]
    assert all(len(x) == i % 5000 and not any(x[:40]) for i, x in enumerate(kept))
    assert traps.traps_threads(1, 4) == 0
assert traps.traps_wrong() == 0
# The handler's memory is in no site: it was freed.
assert traps.traps_signals(0) == 0
""", TRAPS=built["traps"], LD_PRELOAD=built["strict"], timeout=120, **TINY)

    def test_signal_handlers_that_allocate_with_the_allocator_of_libc(self, built):
        # There a handler may do that only where no function of the allocator runs.
        sampled("""
import ctypes, os
traps = ctypes.CDLL(os.environ["TRAPS"])
assert traps.traps_raise(20_000) == 0 and traps.traps_handled() == 20_000 and traps.traps_wrong() == 0
""", TRAPS=built["traps"], **TINY)

    def test_a_command_asks_for_the_sites(self):
        code = "def keep(): return [bytes(400) for _ in range(40_000)]\nkept = keep()\nprint('ready', flush=True)\ninput()"
        process = subprocess.Popen(
            command(sys.executable, "-c", code),
            env=environment(NEUROGC_POLICY="observe"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout.readline() == "ready\n"
            eventually(lambda: ask(process.pid))
            answer = answer_to(process.pid, {"sites": None})["sites"]
            assert answer["pid"] == process.pid and answer["mode"] == "native"
            assert sum(site["now"]["live_bytes"] for site in answer["sites"]) > 15e6
            for parent, node in enumerate(answer["nodes"]):
                assert node["parent"] == 2**32 - 1 or node["parent"] < parent
            compared = answer_to(process.pid, {"sites": 60})["sites"]
            assert compared["compared_unix_ms"] is not None
        finally:
            process.communicate("\n")
        assert process.returncode == 0

    def test_children_of_every_kind(self):
        sampled("""
import subprocess, multiprocessing, os
kept = [bytes(300) for _ in range(20_000)]
assert subprocess.run(["/bin/echo", "x"], capture_output=True, text=True).stdout == "x\\n"
assert subprocess.run([sys.executable, "-c", "import neurogc; print(neurogc.status()['allocations']['mode'])"],
                      capture_output=True, text=True).stdout == "native\\n"
assert os.posix_spawn("/bin/true", ["true"], os.environ)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, range(100)) == list(range(100))
""", **TINY)
