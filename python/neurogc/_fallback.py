"""The agent's stand-in where the extension module cannot be loaded: the same names, by public API only.

It measures collections, requests and resident memory. Everything else of a status report stays empty, and
`degraded` says why. It starts no thread and listens on no socket.
"""

import gc
import os
import sys
from time import perf_counter

version = "0.1.0"

_POLICIES = ("auto", "observe", "cpython")
_LATER = ("threshold", "freeze", "every", "gap", "classic", "neural")
_NOT_SETTINGS = {"CONFIG", "HOME", "ROOT_PID", "TEST_PYTHONS", "BIN", "ALLOW_FALLBACK"}


# Routes that are told apart; all others are one.
_ROUTES = 64


class _Histogram:
    """Durations in logarithmic buckets of about 6 %, in seconds."""

    def __init__(self):
        self.buckets = {}
        self.count = 0
        self.total = 0.0
        self.max = 0.0

    def add(self, seconds):
        nanoseconds = int(seconds * 1e9)
        shift = max(nanoseconds.bit_length() - 5, 0)
        bucket = (shift << 5) | (nanoseconds >> shift)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1
        self.total += seconds
        if seconds > self.max:
            self.max = seconds

    def quantile_ms(self, share):
        left = share * self.count
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket]
            if left <= 0:
                return min(((bucket & 31) << (bucket >> 5)) / 1e6, self.max * 1e3)
        return 0.0


class _State:
    """What one process measured; a forked child begins with a new one."""

    def __init__(self):
        self.since = perf_counter()
        self.settings = {}
        self.began = None
        self.generations = [_Histogram(), _Histogram(), _Histogram()]
        self.in_request = _Histogram()
        self.in_gap = _Histogram()
        self.requests = _Histogram()
        self.routes = {}
        self.troubles = []
        self.recent = []
        self.recent_pauses = {}
        # By number, because adding one to an integer is not safe among threads that run at the same time.
        self.open = set()
        self.collected = 0
        self.uncollectable = 0


_state = _State()
_installed = False
_fork_handled = False
_reason = "the extension module is not there"
_stand_down = False


def stand_in_for(error):
    """Remembers why the extension module could not be loaded."""
    global _reason, _stand_down
    text = str(error)
    if "subinterpreter" in text or "sub-interpreter" in text:
        _stand_down = True
        _reason = "the extension module cannot be loaded into a sub-interpreter"
    elif sys.implementation.name != "cpython":
        _reason = f"the extension module is for CPython, and this is {sys.implementation.name}"
    elif "t" in getattr(sys, "abiflags", ""):
        _reason = "the extension module does not know free-threaded builds of CPython"
    elif not sys.platform.startswith("linux"):
        _reason = f"the extension module is for Linux, and this is {sys.platform}"
    else:
        _reason = f"the extension module could not be loaded ({text})"


def install(settings):
    """Starts measuring; raises `ValueError` for a setting that is wrong."""
    global _installed, _fork_handled, _state
    if _stand_down:
        return
    effective = _resolve(settings)
    if not _installed:
        _state = _State()
        _callbacks().append(_on_collection)
        if not _fork_handled and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)
            _fork_handled = True
    _state.settings = effective
    _installed = True


def uninstall():
    """Stops measuring."""
    global _installed
    _installed = False
    if _on_collection in _callbacks():
        _callbacks().remove(_on_collection)


def _callbacks():
    """Where the interpreter calls us for each collection; PyPy has nothing of the kind."""
    return getattr(gc, "callbacks", [])


def installed():
    """Whether this process is being measured."""
    return _installed


def adapters():
    """Whether servers and frameworks are to be adapted by themselves."""
    return _state.settings.get("adapters", True)


def degrade(reason):
    """Adds a reason to the report's `degraded`."""
    _state.troubles.append(reason)


def progress():
    """Nothing: stalls are not measured here, and nothing is ever due."""
    return False


# No function of `gc` is ever replaced here.
originals = {}


def gap():
    """There is nothing to be done."""
    return False


def is_due():
    """Nothing is ever due."""
    return False


def on_request_end(may_act):
    """Nothing is done at the end of a request."""


def prefers_snapshot():
    """There are no snapshots."""
    return False


def collect_snapshot():
    """Nothing: there are no snapshots here, so an ordinary collection takes its place."""


def quiet(more):
    """Nothing: nothing is ever collected by us."""


def forks_workers(begins):
    """False: nothing is ever frozen by us."""
    return False


class Mark:
    """A request, from now to `end()` or to the end of this object."""

    __slots__ = ("_began", "_name", "_owner")

    def __init__(self, name=None):
        self._name = name if isinstance(name, str) else "other"
        self._owner = _state
        self._owner.open.add(id(self))
        self._began = perf_counter()

    @classmethod
    def asgi(cls, scope):
        """The wait is not measured here, and routes are not told apart."""
        return cls()

    @classmethod
    def wsgi(cls, environ):
        return cls()

    def answered(self, environ):
        """Nothing: routes are not told apart."""

    def end(self):
        owner, self._owner = self._owner, None
        if owner is not None:
            now = perf_counter()
            owner.open.discard(id(self))
            owner.requests.add(now - self._began)
            if self._name in owner.routes or len(owner.routes) < _ROUTES:
                owner.routes.setdefault(self._name, _Histogram()).add(now - self._began)
            else:
                owner.routes.setdefault("other", _Histogram()).add(now - self._began)
            owner.recent.append((now, now - self._began))
            if len(owner.recent) > 20000:
                del owner.recent[:10000]

    def __del__(self):
        self.end()


def status_json():
    """The status report, with every field of the real one."""
    if not _installed:
        raise RuntimeError("neurogc is not installed: call neurogc.install()")
    import json

    return json.dumps(_report())


def _on_collection(phase, info):
    state = _state
    if phase == "start":
        state.began = perf_counter()
    elif state.began is not None:
        now = perf_counter()
        pause = now - state.began
        state.began = None
        # The longest pause of this second and of the one before; older ones are forgotten.
        second = int(now)
        state.recent_pauses = {
            second: max(pause, state.recent_pauses.get(second, 0.0)),
            second - 1: state.recent_pauses.get(second - 1, 0.0),
        }
        state.generations[min(info["generation"], 2)].add(pause)
        (state.in_request if state.open else state.in_gap).add(pause)
        state.collected += info["collected"]
        state.uncollectable += info["uncollectable"]


def _after_fork():
    global _state
    settings = _state.settings
    _state = _State()
    _state.settings = settings


def _guards(settings):
    """What the guards would go by, as the settings have it."""
    names = ("memory_percent", "growth_percent", "postpone_s", "gc_percent")
    guards = {name: float(settings.get(name, _NUMBERS[name][0])) for name in names}
    return {"memory_max_mb": int(settings.get("memory_max_mb", 0)), **guards}


# The settings that are numbers: default, least and most.
_NUMBERS = {
    "stall_ms": (5.0, 1, 60000),
    "sample_ms": (1000.0, 100, 60000),
    "pause_ms": (1.0, 0.1, 1000),
    "memory_price": (0.01, 0, 10),
    "memory_max_mb": (0.0, 0, 1000000000),
    "memory_percent": (90.0, 10, 100),
    "growth_percent": (25.0, 5, 1000),
    "postpone_s": (30.0, 0, 86400),
    "gc_percent": (10.0, 1, 100),
}


def _resolve(keywords):
    """The effective settings: keyword, then environment, then default."""
    effective = {"policy": "auto", "trace": None, "hub": None, "hub_token": None, "adapters": True, "explicit_collect": "keep"}
    effective |= {"snapshots": True, "huge_arenas": True}
    effective |= {name: default for name, (default, _, _) in _NUMBERS.items()}
    for variable, value in os.environ.items():
        if variable.startswith("NEUROGC_") and variable[8:] not in _NOT_SETTINGS:
            _take(effective, variable[8:].lower(), value, "environment")
    for name, value in keywords.items():
        _take(effective, name, value, "keyword")
    return effective


def _take(effective, name, value, origin):
    if name not in effective:
        raise ValueError(
            f'there is no setting "{name}" (from {origin}).{_near(name, effective)} '
            "`neurogc doctor` lists them all"
        )
    wrong = None
    if name == "policy":
        if value.split(":")[0] in _LATER:
            wrong = f'policy "{value}" is not in this version yet. Policies: {", ".join(_POLICIES)}'
        elif value not in _POLICIES:
            wrong = f'there is no policy "{value}".{_near(value, _POLICIES)} Policies: {", ".join(_POLICIES)}'
        effective[name] = value
    elif name in ("adapters", "snapshots", "huge_arenas"):
        if value.strip().lower() not in ("true", "1", "on", "yes", "false", "0", "off", "no"):
            wrong = "it must be true or false"
        effective[name] = value.strip().lower() in ("true", "1", "on", "yes")
    elif name in ("trace", "hub", "hub_token"):
        effective[name] = value or None
    elif name == "explicit_collect":
        if value.strip() not in ("keep", "defer"):
            wrong = "it must be keep or defer"
        effective[name] = value.strip()
    else:
        _, least, most = _NUMBERS[name]
        try:
            effective[name] = float(value)
        except ValueError:
            effective[name] = -1.0
        if not least <= effective[name] <= most:
            wrong = f"it must be a number from {least} to {most}"
    if wrong is not None:
        raise ValueError(f'setting {name} = "{value}" (from {origin}): {wrong}')


def _near(wrong, known):
    from difflib import get_close_matches

    close = get_close_matches(wrong, known)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def _report():
    state = _state
    now = perf_counter()
    while state.recent and now - state.recent[0][0] > 10:
        del state.recent[: max(1, len(state.recent) // 64)]
    requests = state.requests
    young, middle, full = (_pauses(kind) for kind in state.generations)
    spans = {"count": 0, "p50_ms": 0.0, "p99_ms": 0.0, "max_ms": 0.0}
    name = "CPython" if sys.implementation.name == "cpython" else sys.implementation.name
    return {
        "pid": os.getpid(),
        "command": " ".join(getattr(sys, "orig_argv", sys.argv))[:256],
        "python": f"{name} {sys.version.split()[0]}",
        "neurogc": version,
        "policy": _resolved(state.settings.get("policy", "auto")),
        "uptime_s": now - state.since,
        "degraded": [
            *([] if hasattr(gc, "callbacks") else ["this interpreter does not tell of its collections: none is counted"]),
            f"{_reason}: stalls, GIL gaps, processor, I/O, traces, hubs and the control socket are not available",
            *state.troubles,
        ],
        "gc": {
            "young": young,
            "middle": middle,
            "full": full,
            "reap": _pauses(_Histogram()),
            "snapshot": {
                "count": 0,
                "failed": 0,
                "failures": [],
                "clone_p50_ms": 0.0,
                "clone_max_ms": 0.0,
                "flight_p50_ms": 0.0,
                "copied_ms": 0.0,
                "latest_copied_ms": 0.0,
                "extra_max_mb": 0.0,
                "candidates": 0,
                "freed": 0,
            },
            "in_request": _place(state.in_request),
            "in_gap": _place(state.in_gap),
            "in_gap_arrivals": _place(_Histogram()),
            "arrivals": 0,
            "forced": _place(_Histogram()),
            "recent_max_ms": 1e3 * max(state.recent_pauses.get(int(now) - age, 0.0) for age in (0, 1)),
            "collected": state.collected,
            "uncollectable": state.uncollectable,
            "frozen": getattr(gc, "get_freeze_count", int)(),
            "tracked": 0,
        },
        "conduct": {
            "acting": False, "due": "", "overdue_s": 0.0, "missed": 0, "deferred": 0, "orders": [],
            "model": None,
            "guards": _guards(state.settings),
        },
        "bound": {
            "goal_bytes": 0,
            "live_bytes": 0,
            "goal_objects": 0,
            "live_objects": 0,
            "objects": 0,
            "over": 0.0,
            "launches": 0,
            "backstops": 0,
            "throttled_ms": 0.0,
            "assisted_ms": 0.0,
        },
        "gil": {"busy_percent": 0.0, "busy": spans, "idle": spans},
        "memory": _memory(),
        "requests": {
            "count": requests.count,
            "in_flight": len(state.open),
            "rps": len(state.recent) / min(10.0, max(now - state.since, 0.1)),
            **_latency(requests),
            "recent_p99_ms": _recent_p99_ms(state),
            "wait": _latency(_Histogram()),
            "service": _latency(requests),
            "waits": {"measured": 0, "estimated": 0, "unknown": 0},
            "routes": [_route(name, of) for name, of in sorted(state.routes.items(), key=lambda it: -it[1].count)],
            "slowest": [],
        },
        "stalls": {
            "count": 0,
            "max_ms": 0.0,
            "by_cause": {"gc": 0, "gil_native": 0, "python": 0, "cpu_starved": 0, "unknown": 0},
            "recent": [],
        },
        "cpu": {"percent": 0.0},
        "io": {"read_bytes": 0, "write_bytes": 0},
        "net": {"sent_bytes": 0, "recv_bytes": 0},
        "fds": 0,
        "threads": 0,
        "children": [],
        "agent": {"cpu_ms": 0.0, "dropped": 0, "rss_bytes": 0},
    }


def _latency(histogram):
    return {
        "p50_ms": histogram.quantile_ms(0.5),
        "p95_ms": histogram.quantile_ms(0.95),
        "p99_ms": histogram.quantile_ms(0.99),
        "p999_ms": histogram.quantile_ms(0.999),
        "max_ms": histogram.max * 1e3,
    }


def _route(name, histogram):
    return {
        "route": name,
        "count": histogram.count,
        "p50_ms": histogram.quantile_ms(0.5),
        "p99_ms": histogram.quantile_ms(0.99),
        "max_ms": histogram.max * 1e3,
        "wait_p50_ms": 0.0,
        "wait_p99_ms": 0.0,
        "gc_ms": 0.0,
        "gc_requests": 0,
        "stall_ms": 0.0,
    }


def _recent_p99_ms(state):
    recent = _Histogram()
    for _, duration in state.recent:
        recent.add(duration)
    return recent.quantile_ms(0.99)


def _resolved(policy):
    return "observe" if policy == "auto" else policy


def _pauses(histogram):
    return {
        "count": histogram.count,
        "total_ms": histogram.total * 1e3,
        "p50_ms": histogram.quantile_ms(0.5),
        "p99_ms": histogram.quantile_ms(0.99),
        "max_ms": histogram.max * 1e3,
    }


def _place(histogram):
    return {"count": histogram.count, "total_ms": histogram.total * 1e3, "max_ms": histogram.max * 1e3}


def _memory():
    memory = {"rss": 0, "peak_rss": 0, "pss": None, "uss": None, "vms": 0, "swap": 0, "limit": None}
    fields = {"VmRSS:": "rss", "VmHWM:": "peak_rss", "VmSize:": "vms", "VmSwap:": "swap"}
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if words and words[0] in fields:
                    memory[fields[words[0]]] = int(words[1]) * 1024
    except OSError:
        pass
    return memory
