"""What can be tested of aarch64 on another machine.

`tools/aarch64.py check` compiles the workspace for aarch64 (`make test` does it).
`tools/aarch64.py layout` compares what the layout tables say of aarch64 with CPython's headers, compiled by zig and run under qemu.
`tools/aarch64.py run ROOT` runs programs under the agent with an arm64 CPython below ROOT, under qemu, and says line by line what works. What
qemu does not emulate is named, and is no failure.
`tools/aarch64.py starts ROOT [100]` starts that CPython so often: plain, with the preloaded library, with the agent, and with both.

ROOT can be made of Debian's packages: python3.11-minimal, libpython3.11-stdlib, libc6 and what they need, each unpacked with
`dpkg-deb -x`. The agent is that of the wheel for aarch64 in dist/, or of a build with the profile `fast`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import interpreters
import wheel
from interpreters import ROOT

TRIPLE = "aarch64-unknown-linux-gnu"
OFFSETS = ROOT / "tests" / "layout" / "offsets.c"

CANNOT = 77
"""The exit code where nothing could be checked."""

FURTHER_ON = {"interpreter.size": 16, "interpreter.type_cache": 16}
"""What lies behind the two mutexes of an interpreter's GIL, from 3.12 on: `BEHIND_GIL` in crates/agent/src/cpython/heap_layout.rs."""

PROGRAMS = {
    "the agent is loaded and its tables fit": (
        "import neurogc; neurogc.install(policy='observe'); report = neurogc.status(); print(report['degraded'])"
    ),
    "collections are measured": (
        "import gc, neurogc; neurogc.install(policy='observe'); [gc.collect() for _ in range(3)]; "
        "full = neurogc.status()['gc']['full']; assert full['count'] == 3 and full['max_ms'] > 0, full"
    ),
    "requests and their collections are measured": (
        "import gc, neurogc; neurogc.install(policy='observe')\n"
        "for _ in range(5):\n    with neurogc.request('x'): gc.collect()\n"
        "report = neurogc.status(); assert report['requests']['count'] == 5, report['requests']; "
        "assert report['gc']['in_request']['count'] == 5, report['gc']['in_request']"
    ),
    "allocation sites are found": (
        "import neurogc; neurogc.install(policy='observe', sample_kib=1); kept = [bytearray(3000) for _ in range(3000)]; "
        "report = neurogc.status()['allocations']; assert report['top'], report; "
        "assert '<string>' in report['top'][0]['site'], report['top'][0]"
    ),
    "the policy gap collects": (
        "import neurogc\nneurogc.install(policy='gap')\n"
        "for _ in range(60_000):\n    a = []; a.append(a)\n"
        "report = neurogc.status(); assert report['policy'].startswith('gap'), report['policy']; "
        "assert report['gc']['collected'] > 1000, report['gc']"
    ),
    "native allocations are sampled": (
        "import neurogc; neurogc.install(policy='observe', sample_kib=1); "
        "mode = neurogc.status()['allocations']['mode']; assert mode == 'native', mode"
    ),
    "a child of a fork has an agent": (
        "import os, gc, neurogc; neurogc.install(policy='observe'); child = os.fork()\n"
        "if child == 0:\n    gc.collect(); os._exit(0 if neurogc.status()['gc']['full']['count'] == 1 else 3)\n"
        "assert os.waitpid(child, 0)[1] == 0"
    ),
    "a snapshot is taken": (
        "import neurogc; neurogc.install(policy='gap'); heap = [[i] for i in range(60_000)]; "
        "neurogc.collect('snapshot'); report = neurogc.status()['gc']['snapshot']; assert report['count'] > report['failed'], report"
    ),
}

NOT_UNDER_QEMU = dict.fromkeys(
    ("allocation sites are found", "native allocations are sampled", "a snapshot is taken"),
    "it does not emulate process_vm_readv",
)
"""What rests on what qemu's emulation of a process does not have."""


def main() -> int:
    """Does what was asked."""
    match sys.argv[1:]:
        case ["check"]:
            return check()
        case ["layout"]:
            return layout()
        case ["run", root]:
            return run(Path(root))
        case ["starts", root, *times]:
            return starts(Path(root), int(times[0]) if times else 100)
    print(__doc__)
    return 2


def zig() -> list[str]:
    """zig as a C compiler for aarch64."""
    wheel.environment()
    return [str(wheel.VENV / "bin" / "python"), "-m", "ziglang", "cc", "-target", f"aarch64-linux-gnu.{wheel.GLIBC}"]


def check() -> int:
    """Compiles everything, without making code."""
    try:
        wheel.environment()
        wheel.have_target(TRIPLE)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"aarch64: {error}", flush=True)
        return CANNOT
    env = {**os.environ, "PATH": f"{wheel.VENV / 'bin'}:{os.environ['PATH']}", "PYO3_PYTHON": "python3"}
    # As for a release: nothing but what is shipped.
    command = ["cargo-zigbuild", "check", "--locked", "--quiet", "--workspace", "--target", TRIPLE]
    return subprocess.run(command, cwd=ROOT, env={**env, "RUSTFLAGS": "-D warnings"}).returncode


def offsets(compiler: list[str], runner: list[str], include: str, place: Path) -> dict[str, int]:
    """The offsets as a compiler sees them."""
    program = place / "offsets"
    subprocess.run([*compiler, "-w", f"-I{include}", "-o", program, OFFSETS], check=True)
    lines = subprocess.run([*runner, program], check=True, capture_output=True, text=True).stdout.split()
    return {name: int(value) for name, value in (line.split("=") for line in lines)}


def layout() -> int:
    """The headers of every interpreter, compiled for both processors."""
    failed = 0
    code = (
        "import os, sys, sysconfig; from pathlib import Path; it = Path(sysconfig.get_paths()['include']); "
        "moved = Path(os.path.realpath(sys.executable)).parent.parent / 'include' / it.name; "
        "print(it if (it / 'internal').is_dir() else moved)"
    )
    for interpreter in (it for it in interpreters.find() if it.supported):
        include = subprocess.run(
            [interpreter.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.strip()
        with tempfile.TemporaryDirectory() as place:
            here = offsets(["cc"], [], include, Path(place))
            there = offsets(zig(), ["qemu-aarch64"], include, Path(place))
        wanted = {**here}
        if interpreter.numbers >= (3, 12):
            wanted |= {name: here[name] + more for name, more in FURTHER_ON.items()}
        wrong = {name: (wanted.get(name), value) for name, value in there.items() if wanted.get(name) != value}
        print(f"aarch64: {interpreter.title}: {len(there)} offsets, {'WRONG: ' + str(wrong) if wrong else 'as expected'}")
        failed |= bool(wrong)
    return int(failed)


def package(folder: Path) -> Path:
    """The package for aarch64, in a folder: that of the wheel in dist/, or else of a build with the profile `fast`."""
    place = folder / "neurogc"
    for made in wheel.DIST.glob("neurogc-*_aarch64.whl"):
        with zipfile.ZipFile(made) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith("neurogc/")])
        print(f"aarch64: {made.name}", flush=True)
        return place
    built = wheel.TARGET / TRIPLE / "fast"
    shutil.copytree(ROOT / "python" / "neurogc", place, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(built / "lib_agent.so", place / "_agent.abi3.so")
    shutil.copy(built / "libneurogc_preload.so", place / "libneurogc_preload.abi3.so")
    return place


@contextmanager
def under_qemu(root: Path) -> Iterator[tuple[list[str], Path, dict[str, str]]]:
    """The command line of the interpreter under qemu, the preloaded library, and an environment with the package."""
    [python] = [path for path in (root / "usr" / "bin").glob("python3.*") if path.name.count(".") == 1]
    with tempfile.TemporaryDirectory(prefix="neurogc-aarch64-") as folder:
        preload = package(Path(folder)) / "libneurogc_preload.abi3.so"
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": folder, "HOME": folder}
        yield ["qemu-aarch64", "-L", str(root)], preload, {**env, "PYTHON": str(python)}


def ended(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """The exit code of a program and the last line that it said."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return -1, "no answer within 120 s"
    return done.returncode, "".join((done.stdout + done.stderr).strip().splitlines()[-1:])


def run(root: Path) -> int:
    """Runs the programs under qemu."""
    failed = 0
    with under_qemu(root) as (qemu, preload, env):
        command = [*qemu, "-E", f"LD_PRELOAD={preload}", env["PYTHON"], "-c"]
        for title, program in PROGRAMS.items():
            code, said = ended([*command, program], env)
            works = "ok" if code == 0 else f"FAILED ({code})"
            if code != 0 and title in NOT_UNDER_QEMU:
                works = f"not under qemu ({NOT_UNDER_QEMU[title]})"
            failed |= code != 0 and title not in NOT_UNDER_QEMU
            print(f"aarch64: {works}: {title} {json.dumps(said) if said else ''}", flush=True)
    return int(failed)


def starts(root: Path, times: int) -> int:
    """Starts the interpreter again and again, with what it has to import, and counts what goes wrong."""
    plain = "import gc, json, decimal, argparse, asyncio; gc.collect()"
    with_agent = f"import neurogc; neurogc.install(policy='observe'); {plain}"
    faults = 0
    with under_qemu(root) as (qemu, preload, env):
        loaded = ["-E", f"LD_PRELOAD={preload}"]
        ways = {"plain": ([], plain), "preloaded": (loaded, plain), "agent": ([], with_agent), "both": (loaded, with_agent)}
        for title, (more, program) in ways.items():
            said = [ended([*qemu, *more, env["PYTHON"], "-c", program], env) for _ in range(times)]
            wrong = [line for code, line in said if code != 0]
            faults += len(wrong)
            print(f"aarch64: {title}: {times - len(wrong)} of {times} starts went well {sorted(set(wrong)) or ''}", flush=True)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
