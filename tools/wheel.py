"""`make wheel`: what a package index would carry, in dist/: one wheel for each architecture, and the source archive.

The wheels are for glibc 2.28 and newer, and for every CPython with a GIL from 3.10 on. They are linked by zig, which has
the symbols of every glibc, so no container and no cross compiler is needed. `--arch x86_64` builds one of them; `--test`
installs what is in dist/ into a fresh environment of every interpreter found, and builds nothing.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import interpreters
from interpreters import ROOT, Interpreter
from package import ENGINES, PLUGIN

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
WORK = TARGET / "wheels"
VENV = TARGET / "wheel-venv"
DIST = ROOT / "dist"
REQUIREMENTS = ROOT / "tools" / "requirements-wheel.txt"

HERE = platform.machine()
ARCHITECTURES = ("x86_64", "aarch64")
GLIBC = "2.28"
LARGEST = 8_000_000
"""What a wheel may have, in bytes."""

SQLITE = (
    "-USQLITE_ENABLE_FTS3 -USQLITE_ENABLE_FTS3_PARENTHESIS -USQLITE_ENABLE_FTS5 -USQLITE_ENABLE_RTREE -USQLITE_ENABLE_STAT4 "
    "-USQLITE_ENABLE_DBSTAT_VTAB -USQLITE_ENABLE_LOAD_EXTENSION -DSQLITE_OMIT_LOAD_EXTENSION -USQLITE_SOUNDEX"
)
"""What the hub's database needs of SQLite, which libsqlite3-sys builds with all of this: tables, indexes and rows."""

PROGRAM = (
    "import gc, neurogc, neurogc._agent; gc.collect(); report = neurogc.status(); "
    "assert report['degraded'] == [] and report['gc']['full']['count'] > 0, report['degraded']; "
    "assert report['allocations']['mode'] == 'native', report['allocations']"
)

SHELLS = {
    "bash": "share/bash-completion/completions/neurogc",
    "zsh": "share/zsh/site-functions/_neurogc",
    "fish": "share/fish/vendor_completions.d/neurogc.fish",
}
"""Where each shell looks for completions, below the folder that a package is installed to."""


def main() -> int:
    """Builds, or tests what was built."""
    parser = argparse.ArgumentParser(prog="wheel.py", description=__doc__.splitlines()[0])
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="build for this one only; can be repeated")
    parser.add_argument("--test", action="store_true", help="install what is in dist/ and try it; build nothing")
    arguments = parser.parse_args()
    if arguments.test:
        return test()
    environment()
    DIST.mkdir(exist_ok=True)
    source_archive()
    # The manual pages come from a command that runs here.
    wanted = sorted(arguments.arch or ARCHITECTURES, key=lambda it: it != HERE)
    too_large = [wheel for wheel in map(built, wanted) if wheel.stat().st_size > LARGEST]
    for wheel in too_large:
        print(f"wheel: {wheel.name} has more than {LARGEST / 1e6:g} MB", flush=True)
    return int(bool(too_large))


def environment() -> None:
    """Makes the environment of the build, where it is not there or its requirements have changed."""
    stamp = VENV / "made-from"
    if stamp.exists() and stamp.read_text() == REQUIREMENTS.read_text():
        return
    print("wheel: making an environment with zig", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
    pip = [VENV / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    subprocess.run([*pip, "-r", REQUIREMENTS], check=True)
    stamp.write_text(REQUIREMENTS.read_text())


def built(arch: str) -> Path:
    """The wheel of an architecture."""
    started = time.monotonic()
    target = f"{arch}-unknown-linux-gnu"
    have_target(target)
    folder = WORK / arch
    shutil.rmtree(folder, ignore_errors=True)
    # What an earlier build left here would end up in the wheel, even where its source is gone.
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    env = {
        **os.environ,
        "NEUROGC_WHEEL": "1",
        "PATH": f"{cargo_with_zig()}:{VENV / 'bin'}:{os.environ['PATH']}",
        "CARGO_BUILD_TARGET": f"{target}.{GLIBC}",
        "CARGO_TARGET_DIR": str(TARGET),
        "SETUPTOOLS_RUST_CARGO_PROFILE": "wheel",
        "LIBSQLITE3_FLAGS": SQLITE,
        "PYO3_PYTHON": "python3",
    }
    env.pop("CARGO", None)
    print(f"wheel: compiling for {target}, glibc {GLIBC}", flush=True)
    code = (
        "import setuptools.build_meta as it, sys; "
        "it.build_wheel(sys.argv[1], {'--build-option': ['--plat-name', sys.argv[2]]})"
    )
    folder.mkdir(parents=True)
    subprocess.run([VENV / "bin" / "python", "-c", code, folder / "built", f"linux_{arch}"], check=True, cwd=ROOT, env=env)
    [plain] = (folder / "built").glob("*.whl")
    wheel = audited(with_share(plain, folder), arch, folder)
    size, seconds = wheel.stat().st_size / 1e6, time.monotonic() - started
    print(f"wheel: dist/{wheel.name}: {size:.2f} MB, built in {seconds:.0f} s", flush=True)
    return wheel


def have_target(target: str) -> None:
    """Rust's standard library for a target."""
    folder = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    if not (Path(folder) / "lib" / "rustlib" / target).is_dir():
        subprocess.run(["rustup", "target", "add", target], check=True)


def cargo_with_zig() -> Path:
    """A folder with a `cargo` that links by zig: setuptools-rust knows no other name for it."""
    folder = WORK / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    real = shutil.which("cargo")
    if real is None:
        sys.exit("wheel: there is no cargo on PATH")
    script = folder / "cargo"
    script.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        f"build | rustc) CARGO='{real}' exec '{VENV}/bin/cargo-zigbuild' \"$@\" ;;\n"
        f"*) exec '{real}' \"$@\" ;;\n"
        "esac\n"
    )
    script.chmod(0o755)
    return folder


def with_share(plain: Path, folder: Path) -> Path:
    """The wheel with manual pages and completions, which the command writes itself."""
    tool = [VENV / "bin" / "wheel"]
    subprocess.run([*tool, "unpack", "-d", folder, plain], check=True, stdout=subprocess.DEVNULL)
    [content] = [path for path in folder.iterdir() if path.name != "built"]
    [data] = content.glob("*.data")
    share = WORK / "share"
    if plain.name.endswith(f"{HERE}.whl"):
        shutil.rmtree(share, ignore_errors=True)
        command = data / "scripts" / "neurogc"
        command.chmod(0o755)
        subprocess.run([command, "man", "--to", share / "share" / "man" / "man1"], check=True)
        for shell, place in SHELLS.items():
            text = subprocess.run([command, "completions", shell], check=True, capture_output=True).stdout
            (share / place).parent.mkdir(parents=True, exist_ok=True)
            (share / place).write_bytes(text)
    if not share.is_dir():
        sys.exit(f"wheel: the manual pages come from the wheel of {HERE}: build that one first")
    shutil.copytree(share, data / "data")
    packed = folder / "packed"
    packed.mkdir()
    subprocess.run([*tool, "pack", "-d", packed, content], check=True, stdout=subprocess.DEVNULL)
    [wheel] = packed.glob("*.whl")
    return wheel


def audited(wheel: Path, arch: str, folder: Path) -> Path:
    """The wheel with its platform in the name, after a check that it needs no more than that."""
    policy = f"manylinux_{GLIBC.replace('.', '_')}_{arch}"
    repaired = folder / "repaired"
    # It knows the names of this processor's platforms only; for another one it finds the oldest that will do.
    wanted = policy if arch == HERE else "auto"
    command = ["repair", "--plat", wanted, "--only-plat", "--zip-compression-level", "9", "-w", repaired, wheel]
    env = {**os.environ, "PATH": f"{VENV / 'bin'}:{os.environ['PATH']}"}
    subprocess.run([VENV / "bin" / "auditwheel", *command], check=True, env=env)
    [done] = repaired.glob("*.whl")
    if not done.stem.endswith(policy):
        sys.exit(f"wheel: {done.name} is not for {policy}")
    for old in DIST.glob(f"neurogc-*_{arch}.whl"):
        old.unlink()
    subprocess.run([VENV / "bin" / "python", ROOT / "tools" / "repack.py", done, DIST / done.name], check=True)
    return DIST / done.name


def source_archive() -> None:
    """The source archive."""
    for old in DIST.glob("neurogc-*.tar.gz"):
        old.unlink()
    code = "import setuptools.build_meta as it, sys; it.build_sdist(sys.argv[1])"
    subprocess.run([VENV / "bin" / "python", "-c", code, DIST], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    [archive] = DIST.glob("neurogc-*.tar.gz")
    print(f"wheel: dist/{archive.name}: {archive.stat().st_size / 1e6:.2f} MB", flush=True)


def test() -> int:
    """Installs the wheel of this architecture on every interpreter, and tries it."""
    wheels = list(DIST.glob(f"neurogc-*_{HERE}.whl"))
    if len(wheels) != 1:
        sys.exit(f"wheel: dist/ has no wheel for {HERE}: run `make wheel`")
    failed = [it.title for it in interpreters.find() if it.supported and it.venv and not works(it, wheels[0])]
    print(f"wheel: {'FAILED on ' + ', '.join(failed) if failed else 'works on every interpreter found'}", flush=True)
    return int(bool(failed))


def works(interpreter: Interpreter, wheel: Path) -> bool:
    """Whether a fresh environment of the interpreter runs what the wheel has, with nothing else on PATH."""
    with tempfile.TemporaryDirectory(prefix="neurogc-wheel-") as place:
        binaries = Path(place) / "venv" / "bin"
        subprocess.run([interpreter.executable, "-m", "venv", binaries.parent], check=True)
        env = {"PATH": str(binaries), "HOME": place, "LANG": "C.UTF-8"}
        commands = [
            ["pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", str(wheel)],
            ["neurogc", "--version"],
            ["neurogc", "run", "--", "python", "-c", PROGRAM],
            ["python", "-c", PLUGIN],
            ["python", "-c", ENGINES],
            ["neurogc", "doctor", "--json"],
            ["neurogc", "completions", "bash"],
        ]
        for command in commands:
            done = subprocess.run(
                [binaries / command[0], *command[1:]], cwd=place, env=env, capture_output=True, text=True, timeout=120
            )
            if done.returncode != 0:
                print(f"wheel: {interpreter.title}: {' '.join(command)}: {done.stdout}{done.stderr}", flush=True)
                return False
        page = binaries.parent / "share" / "man" / "man1" / "neurogc-run.1"
        if not page.is_file():
            print(f"wheel: {interpreter.title}: {page.name} was not installed", flush=True)
            return False
    print(f"wheel: works on {interpreter.title}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
