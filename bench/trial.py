"""One trial of bench/serve.py: a service under one policy, started, loaded, asked for its figures and ended."""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE.parent / "python" / "neurogc"
# Policies that run without NeuroGC.
PLAIN = ("off", "cpython")
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


@dataclass
class Setup:
    """What all trials of a run have in common."""

    spins: int
    loop: str
    service_cores: set[int]
    load_cores: set[int]
    rest: float
    warm_up: float
    settings: dict[str, str] = field(default_factory=dict)


def start(command: list[str], env: dict[str, str], cores: set[int]) -> subprocess.Popen:
    """Starts a Python script on some cores. It gets no Ctrl-C of its own, and does not outlive us."""

    def before_exec() -> None:
        # Before the interpreter starts, so that the threads of an agent stay on these cores too.
        os.sched_setaffinity(0, cores)
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    return subprocess.Popen(
        [sys.executable, *command],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=before_exec,
    )


def stop(process: subprocess.Popen) -> None:
    """Ends a process that we started, gently first."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
    process.stdout.close()


def environment(policy: str | None, settings: dict[str, str]) -> dict[str, str]:
    """The environment of a program under a policy, as `neurogc run` makes it; None is a program left alone."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NEUROGC_")}
    env.pop("PYTHONPATH", None)
    if policy == "off":
        env["SERVICE_COLLECTOR"] = "off"
    elif policy not in (None, "cpython"):
        env |= {"PYTHONPATH": str(HOME / "_inject"), "NEUROGC_HOME": str(HOME), "NEUROGC_POLICY": policy}
        env |= {f"NEUROGC_{name.upper()}": value for name, value in settings.items()}
        if settings.get("allocations") == "native":
            env["LD_PRELOAD"] = str(HOME / "libneurogc_preload.abi3.so")
    return env


class Service:
    """A running service; a context manager, so that it always ends."""

    def __init__(self, setup: Setup, policy: str, records: int):
        self.policy = policy
        self._setup = setup
        script = [str(HERE / "service.py"), "--records", str(records), "--spins", str(setup.spins)]
        script += ["--loop", setup.loop]
        self._process = start(script, environment(policy, setup.settings), setup.service_cores)
        try:
            ready, _, _ = select.select([self._process.stdout], [], [], 180)
            line = self._process.stdout.readline() if ready else ""
            if not line:
                raise SystemExit(f"serve: the service did not start under {policy} (exit code {self._process.poll()})")
            self._port = json.loads(line)["port"]
            self._check()
            # A service stands ready for a while before its first client comes.
            time.sleep(setup.rest)
        except BaseException:
            stop(self._process)
            raise

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        stop(self._process)

    def _check(self) -> None:
        """That the service runs under the policy that we say it does."""
        report = self.report(0.0, 0.0)
        agent = report["neurogc"]
        if self.policy in PLAIN:
            right = agent is None and report["enabled"] == (self.policy == "cpython")
        else:
            # `auto` may say what it picked, and others may leave their numbers out.
            asked = self.policy.partition(":")[0]
            right = agent is not None and asked in ("auto", agent["policy"].partition(":")[0])
        if not right:
            found = agent["policy"] if agent else f"no NeuroGC, collector {'on' if report['enabled'] else 'off'}"
            raise SystemExit(f"serve: asked for {self.policy}, the service runs with: {found}. Is the package built?")
        for reason in agent["degraded"] if agent else ():
            print(f"  {self.policy}: degraded: {reason}", file=sys.stderr)

    def _get(self, path: str):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise SystemExit(f"serve: {path} under {self.policy} answered {answer.status}: {body[:200]!r}")
            return json.loads(body)
        finally:
            connection.close()

    def report(self, since: float, until: float) -> dict:
        """The collections in a stretch of time, and the agent's status where there is one."""
        return self._get(f"/report?since={since!r}&until={until!r}")

    def tracked(self) -> int:
        """How many objects the collector tracks. Needs memory itself, so not where a peak is measured."""
        return self._get("/tracked")

    def peak_mb(self) -> float:
        """The highest resident memory so far."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise SystemExit("serve: the kernel tells no VmHWM")

    def _core_times(self) -> tuple[float, float]:
        """Seconds that the service's threads ran, and that its main thread wanted a core and had none."""
        tasks = Path(f"/proc/{self._process.pid}/task")
        times = {task.name: (task / "schedstat").read_text().split() for task in tasks.iterdir()}
        return sum(int(each[0]) for each in times.values()) / 1e9, int(times[str(self._process.pid)][1]) / 1e9

    def drive(self, loop: str, seconds: float, **options: float) -> dict:
        """Loads the service; what the generator measured, with what the service and the kernel say about it."""
        script = [str(HERE / "load.py"), loop, "--port", str(self._port), "--seconds", str(seconds)]
        script += ["--warm-up", str(self._setup.warm_up)]
        for name, value in options.items():
            script += [f"--{name}", str(value)]
        before, (ran, waited) = self.report(0.0, 0.0)["neurogc"], self._core_times()
        began = time.monotonic()
        generator = start(script, environment(None, {}), self._setup.load_cores)
        try:
            output, _ = generator.communicate(timeout=seconds + self._setup.warm_up + 90)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"serve: the load generator did not end under {self.policy}") from None
        finally:
            stop(generator)
        if generator.returncode:
            raise SystemExit(f"serve: the load generator failed under {self.policy}")
        result = json.loads(output)
        peak = self.peak_mb()
        now_ran, now_waited = self._core_times()
        span = time.monotonic() - began
        report = self.report(result["since"], result["until"])
        result |= {"peak_mb": peak, "busy": (now_ran - ran) / span, "core_wait": (now_waited - waited) / span}
        # A flight's own memory beside the program's: at the worst when that is at its peak.
        flights = report["neurogc"]["gc"]["snapshot"] if report["neurogc"] else {}
        result["all_mb"] = peak + flights.get("extra_max_mb", 0.0)
        result["collections"] = report["collections"]
        if report["neurogc"]:
            result["agent"] = {
                place: report["neurogc"]["gc"][place]["count"] - before["gc"][place]["count"]
                for place in ("full", "in_request", "in_gap", "forced")
            }
            result["agent_status"] = report["neurogc"]
        return result
