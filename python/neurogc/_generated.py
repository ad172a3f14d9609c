"""Written by `cargo run -p xtask -- docs` from crates/wire, crates/settings and crates/policy. Change it there."""

ENVIRONMENT_PREFIX = "NEUROGC_"
FILE_NAME = "neurogc.toml"
CONFIG = "NEUROGC_CONFIG"

# Names in the environment that are not settings.
NOT_SETTINGS = {
    "NEUROGC_CONFIG",
    "NEUROGC_HOME",
    "NEUROGC_ROOT_PID",
    "NEUROGC_TEST_PYTHONS",
    "NEUROGC_BIN",
    "NEUROGC_ALLOW_FALLBACK",
}

# Each setting: what may be written, and the default.
SETTINGS = {
    "policy": (("policy",), "auto"),
    "trace": (("text",), ""),
    "hub": (("text",), ""),
    "hub_token": (("text",), ""),
    "stall_ms": (("number", 1, 60000), "5"),
    "sample_ms": (("number", 100, 60000), "1000"),
    "adapters": (("switch",), "true"),
    "explicit_collect": (("choice", "keep", "defer"), "keep"),
    "snapshots": (("switch",), "true"),
    "huge_arenas": (("switch",), "true"),
    "pause_ms": (("number", 0.1, 1000), "1"),
    "memory_price": (("number", 0, 10), "0.01"),
    "memory_max_mb": (("number", 0, 1000000000), "0"),
    "memory_percent": (("number", 10, 100), "90"),
    "growth_percent": (("number", 5, 1000), "25"),
    "postpone_s": (("number", 0, 86400), "30"),
    "gc_percent": (("number", 1, 100), "10"),
}

# Each policy: what stands behind its colon, how it is written, and what is said where that is wrong.
POLICIES = {
    "auto": ("none", "auto", ""),
    "observe": ("none", "observe", ""),
    "cpython": ("none", "cpython", ""),
    "threshold": ("thresholds", "threshold:G0,G1,G2", "threshold:G0,G1,G2 with three numbers, for instance threshold:10000,10,10"),
    "freeze": ("none", "freeze", ""),
    "every": ("count", "every:N", "every:N with a number above zero, for instance every:100"),
    "gap": ("none", "gap", ""),
    "classic": ("share", "classic[:T]", "classic, or classic:T with a threshold from 0 to 1, for instance classic:0.55"),
    "neural": ("file", "neural[:FILE]", "neural, or neural:FILE with a file that neurogc train wrote"),
}

# A report of which nothing is known.
REPORT = {
    "agent": {
        "cpu_ms": 0.0,
        "dropped": 0,
        "rss_bytes": 0,
    },
    "bound": {
        "assisted_ms": 0.0,
        "backstops": 0,
        "goal_bytes": 0,
        "goal_objects": 0,
        "launches": 0,
        "live_bytes": 0,
        "live_objects": 0,
        "objects": 0,
        "over": 0.0,
        "throttled_ms": 0.0,
    },
    "children": [],
    "command": "",
    "conduct": {
        "acting": False,
        "deferred": 0,
        "due": "",
        "guards": {
            "gc_percent": 0.0,
            "growth_percent": 0.0,
            "memory_max_mb": 0,
            "memory_percent": 0.0,
            "postpone_s": 0.0,
        },
        "missed": 0,
        "model": None,
        "orders": [],
        "overdue_s": 0.0,
    },
    "cpu": {
        "percent": 0.0,
    },
    "degraded": [],
    "fds": 0,
    "gc": {
        "collected": 0,
        "forced": {
            "count": 0,
            "max_ms": 0.0,
            "total_ms": 0.0,
        },
        "frozen": 0,
        "full": {
            "count": 0,
            "max_ms": 0.0,
            "p50_ms": 0.0,
            "p99_ms": 0.0,
            "total_ms": 0.0,
        },
        "in_gap": {
            "count": 0,
            "max_ms": 0.0,
            "total_ms": 0.0,
        },
        "in_request": {
            "count": 0,
            "max_ms": 0.0,
            "total_ms": 0.0,
        },
        "middle": {
            "count": 0,
            "max_ms": 0.0,
            "p50_ms": 0.0,
            "p99_ms": 0.0,
            "total_ms": 0.0,
        },
        "reap": {
            "count": 0,
            "max_ms": 0.0,
            "p50_ms": 0.0,
            "p99_ms": 0.0,
            "total_ms": 0.0,
        },
        "recent_max_ms": 0.0,
        "snapshot": {
            "candidates": 0,
            "clone_max_ms": 0.0,
            "clone_p50_ms": 0.0,
            "copied_ms": 0.0,
            "count": 0,
            "extra_max_mb": 0.0,
            "failed": 0,
            "failures": [],
            "flight_p50_ms": 0.0,
            "freed": 0,
            "latest_copied_ms": 0.0,
            "new_walks": 0,
        },
        "tracked": 0,
        "uncollectable": 0,
        "young": {
            "count": 0,
            "max_ms": 0.0,
            "p50_ms": 0.0,
            "p99_ms": 0.0,
            "total_ms": 0.0,
        },
    },
    "gil": {
        "busy": {
            "count": 0,
            "max_ms": 0.0,
            "p50_ms": 0.0,
            "p99_ms": 0.0,
        },
        "busy_percent": 0.0,
        "idle": {
            "count": 0,
            "max_ms": 0.0,
            "p50_ms": 0.0,
            "p99_ms": 0.0,
        },
    },
    "io": {
        "read_bytes": 0,
        "write_bytes": 0,
    },
    "memory": {
        "limit": None,
        "peak_rss": 0,
        "pss": None,
        "rss": 0,
        "swap": 0,
        "uss": None,
        "vms": 0,
    },
    "net": {
        "recv_bytes": 0,
        "sent_bytes": 0,
    },
    "neurogc": "",
    "pid": 0,
    "policy": "",
    "policy_set": "",
    "python": "",
    "requests": {
        "count": 0,
        "in_flight": 0,
        "max_ms": 0.0,
        "p50_ms": 0.0,
        "p95_ms": 0.0,
        "p999_ms": 0.0,
        "p99_ms": 0.0,
        "recent_p99_ms": 0.0,
        "rps": 0.0,
    },
    "stalls": {
        "by_cause": {
            "cpu_starved": 0,
            "gc": 0,
            "gil_native": 0,
            "python": 0,
            "unknown": 0,
        },
        "count": 0,
        "max_ms": 0.0,
        "recent": [],
    },
    "threads": 0,
    "uptime_s": 0.0,
}
