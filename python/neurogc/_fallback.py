"""The agent's stand-in where the extension module cannot be loaded: the same names, by public API only.

It measures collections, requests and resident memory. Everything else of a status report stays empty, and
`degraded` says why. It starts no thread and listens on no socket.
"""

import gc
import os
import sys
from contextlib import suppress
from time import perf_counter

from . import _generated

version = "0.1.0"

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
    """Starts measuring; raises `ValueError` for a keyword that is wrong. Gives what is wrong elsewhere."""
    global _installed, _fork_handled, _state
    if _stand_down:
        return []
    effective, reasons, complaints = _resolve(settings)
    reasons = [*complaints, *reasons]
    if not _installed:
        _state = _State()
        _callbacks().append(_on_collection)
        if not _fork_handled and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)
            _fork_handled = True
    _state.settings = effective
    _state.troubles = [*_state.troubles, *(reason for reason in reasons if reason not in _state.troubles)]
    _installed = True
    return complaints


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


def heap_dump(first, limit, rest, texts, urgent):
    """Raises: without the extension module there are no dumps."""
    raise RuntimeError("no heap dumps here: the extension module of neurogc could not be loaded")


def dump_triggers():
    """Nothing causes dumps here."""
    return False, 0, True


def next_dump():
    """None: no dump is ever written."""


def memory_room():
    """Nothing is known about it."""
    return 0


def heap_count():
    """Raises, as `heap_dump` does."""
    raise RuntimeError("no counts by type here: the extension module of neurogc could not be loaded")


def gpu_watch(look, explain):
    """Without the extension, nothing is watched."""


def gpu_figures(device, figures):
    """See `gpu_watch`."""


def gpu_step(read):
    """See `gpu_watch`."""
    return False, False


def gpu_card(device, total, free):
    """See `gpu_watch`."""


def gpu_others(device, told):
    """See `gpu_watch`."""


def gpu_pinned(bytes):
    """See `gpu_watch`."""


def gpu_holders(report):
    """See `gpu_watch`."""
    return False


def gpu_oom():
    """See `gpu_watch`."""
    return 0, []


def gpu_oom_reported(path):
    """See `gpu_watch`."""


def gpu_report_folder():
    """See `gpu_watch`."""
    return None


def quiet(more):
    """Nothing: nothing is ever collected by us."""


def batch():
    """Nothing: batches are not counted."""


def rank_step(ranks):
    """Nothing: steps are not counted, and nothing is collected by us."""


def ranks_parted():
    """See `rank_step`."""


def boundary():
    """See `rank_step`."""


def forks_workers(begins, kind="server", shares=True):
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


def sites_json(since):
    """The stand-in samples nothing."""
    raise RuntimeError("allocations are sampled by the extension module only, which this interpreter has not loaded")


def memory_json():
    """The stand-in knows nothing about allocators."""
    raise RuntimeError("where the memory is, only the extension module reads, which this interpreter has not loaded")


def memory_trim():
    """The stand-in knows nothing about allocators."""
    raise RuntimeError("only the extension module gives memory back, which this interpreter has not loaded")


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


def _resolve(keywords):
    """The effective settings, what of them has no effect here, and what is wrong in the environment and in the file.

    A keyword beats the environment, which beats the file. Only a wrong keyword raises.
    """
    effective = {name: _parsed(kind, default)[0] for name, (kind, default) in _generated.SETTINGS.items()}
    reasons, complaints = [], []

    def try_take(name, value, origin):
        try:
            _take(effective, name, value, origin)
        except ValueError as error:
            complaints.append(str(error))

    path = os.environ.get(_generated.CONFIG, _generated.FILE_NAME)
    if _generated.CONFIG in os.environ or os.path.exists(path):
        for name, value in _file(path, reasons, complaints):
            try_take(name, value, path)
    prefix = _generated.ENVIRONMENT_PREFIX
    for variable, value in os.environ.items():
        if variable.startswith(prefix) and variable not in _generated.NOT_SETTINGS:
            try_take(variable[len(prefix) :].lower(), value, "environment")
    for name, value in keywords.items():
        _take(effective, name, value, None)
    policy = effective["policy"]
    if policy not in ("auto", "observe", "cpython"):
        reasons.append(f"the policy {policy} needs the extension module: it is only measured here, and nothing is changed")
    return effective, reasons, complaints


def _service():
    """The service that the process belongs to: as it is set, or the application's name."""
    attributes = (pair.partition("=") for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    named = [value.strip() for key, _, value in attributes if key.strip() == "service.name"]
    script = os.path.basename(sys.argv[0] if getattr(sys, "argv", None) else "")
    application = script[:-3] if script.endswith(".py") else script
    known = [_state.settings.get("service"), os.environ.get("OTEL_SERVICE_NAME", "").strip(), *named, application]
    return next((name for name in known if name), "python")


def _file(path, reasons, complaints):
    """The names and written values of a settings file."""
    try:
        import tomllib
    except ImportError:
        reasons.append(f"{path} is not read: this Python has no module tomllib")
        return []
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except (OSError, ValueError) as error:
        complaints.append(f"{path}: {error}")
        return []
    written = []
    for name, value in table.items():
        if not isinstance(value, (str, int, float)):
            complaints.append(f"{path}: setting {name} must be a text, a number or true/false")
        else:
            written.append((name, str(value).lower() if isinstance(value, bool) else str(value)))
    return written


def _take(effective, name, value, origin):
    origin = f" (from {origin})" if origin else ""
    if name not in effective:
        near = _near(name, effective)
        raise ValueError(f'there is no setting "{name}"{origin}.{near} `neurogc doctor` lists them all')
    kind, _ = _generated.SETTINGS[name]
    parsed, wrong = _parsed(kind, value)
    if wrong is not None:
        shown = "(hidden)" if name == "hub_token" else value
        raise ValueError(f'setting {name} = "{shown}"{origin}: {wrong}')
    effective[name] = parsed


def _parsed(kind, text):
    """The value of a setting, and what is wrong with it."""
    what, *limits = kind
    plain = text.strip()
    if what == "policy":
        return text, _wrong_policy(text)
    if what == "switch":
        known = plain.lower() in ("true", "1", "on", "yes", "false", "0", "off", "no")
        return plain.lower() in ("true", "1", "on", "yes"), None if known else "it must be true or false"
    if what == "choice":
        return plain, None if plain in limits else f"it must be {' or '.join(limits)}"
    if what == "number":
        least, most = limits
        try:
            number = float(plain)
        except ValueError:
            number = None
        allowed = number is not None and least <= number <= most
        return number, None if allowed else f"it must be a number from {least} to {most}"
    return text or None, None


def _wrong_policy(text):
    """What is wrong with a written policy, as the agent says it; `None` where nothing is."""
    name, colon, parameter = text.partition(":")
    kind, _, wanted = _generated.POLICIES.get(name, (None, "", ""))
    if kind is None or (kind == "none" and colon):
        written = " ".join(policy[1] for policy in _generated.POLICIES.values())
        return f'there is no policy "{text}".{_near(name, _generated.POLICIES)} Policies: {written}'
    numbers = parameter.split(",")
    fits = {
        "none": True,
        "count": parameter.isdecimal() and 0 < int(parameter) < 2**32,
        "thresholds": len(numbers) == 3 and all(n.strip().isdecimal() and int(n) < 2**32 for n in numbers),
        "share": not colon or _is_share(parameter),
        "file": not colon or parameter != "",
    }[kind]
    return None if fits else f'policy "{text}" is not complete: write {wanted}'


def _is_share(text):
    try:
        percent = float(text) * 100
    except ValueError:
        return False
    return 0 <= percent <= 100 and abs(percent - round(percent)) < 1e-9


def _near(wrong, known):
    from difflib import get_close_matches

    close = get_close_matches(wrong, known)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def _report():
    """The empty report, and what is measured here in its place."""
    state = _state
    now = perf_counter()
    while state.recent and now - state.recent[0][0] > 10:
        del state.recent[: max(1, len(state.recent) // 64)]
    requests = state.requests
    name = "CPython" if sys.implementation.name == "cpython" else sys.implementation.name
    policy = state.settings.get("policy", "auto")
    report = _copied(_generated.REPORT)
    report |= {
        "pid": os.getpid(),
        "command": " ".join(getattr(sys, "orig_argv", sys.argv))[:256],
        "service": _service(),
        "role": "main",
        "python": f"{name} {sys.version.split()[0]}",
        "neurogc": version,
        "policy": "observe" if policy == "auto" else policy,
        "policy_set": policy,
        "uptime_s": now - state.since,
        "degraded": [
            *([] if hasattr(gc, "callbacks") else ["this interpreter does not tell of its collections: none is counted"]),
            f"{_reason}: stalls, GIL gaps, processor, I/O, traces, hubs and the control socket are not available",
            *state.troubles,
        ],
    }
    young, middle, full = (_pauses(kind) for kind in state.generations)
    report["gc"] |= {
        "young": young,
        "middle": middle,
        "full": full,
        "in_request": _place(state.in_request),
        "in_gap": _place(state.in_gap),
        "recent_max_ms": 1e3 * max(state.recent_pauses.get(int(now) - age, 0.0) for age in (0, 1)),
        "collected": state.collected,
        "uncollectable": state.uncollectable,
        "frozen": getattr(gc, "get_freeze_count", int)(),
    }
    guards = report["conduct"]["guards"]
    guards |= {name: type(guards[name])(state.settings[name]) for name in guards if name in state.settings}
    report["memory"] |= _memory()
    report["requests"] |= {
        "count": requests.count,
        "in_flight": len(state.open),
        "rps": len(state.recent) / min(10.0, max(now - state.since, 0.1)),
        **_latency(requests),
        "recent_p99_ms": _recent_p99_ms(state),
        "service": _latency(requests),
        "routes": [_route(name, of) for name, of in sorted(state.routes.items(), key=lambda it: -it[1].count)],
    }
    return report


def _copied(report):
    """A report of its own: its parts may be changed."""
    return {name: _copied(value) if isinstance(value, dict) else value for name, value in report.items()}


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
    memory = {}
    fields = {"VmRSS:": "rss", "VmHWM:": "peak_rss", "VmSize:": "vms", "VmSwap:": "swap"}
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        for line in lines:
            words = line.split()
            if words and words[0] in fields:
                memory[fields[words[0]]] = int(words[1]) * 1024
    return memory
