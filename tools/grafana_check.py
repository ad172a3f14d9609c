"""Checks the dashboards for Grafana: their shape, and, where promtool is there, every expression in them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNITS = {"s", "reqps", "percentunit", "bytes", "Bps", "none", "cps", "short"}


def main() -> int:
    """Looks at every dashboard."""
    wrong = []
    expressions: list[tuple[str, str]] = []
    files = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
    for file in files:
        dashboard = json.loads(file.read_text(encoding="utf-8"))
        ids = [panel["id"] for panel in dashboard["panels"]]
        if len(set(ids)) != len(ids) or not ids:
            wrong.append(f"{file.name}: panels without a number of their own")
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
        if len(set(places)) != len(places):
            wrong.append(f"{file.name}: two panels in one place")
        for panel in dashboard["panels"]:
            if panel["fieldConfig"]["defaults"]["unit"] not in UNITS:
                wrong.append(f"{file.name}: {panel['title']}: an unknown unit")
            expressions += [(f"{file.name}: {panel['title']}", target["expr"]) for target in panel["targets"]]
    wrong += parsed(expressions)
    for line in wrong:
        print(f"deploy: {line}")
    print(f"deploy: {len(files)} dashboards with {len(expressions)} expressions")
    return int(bool(wrong) or not files)


def parsed(expressions: list[tuple[str, str]]) -> list[str]:
    """What Prometheus says of the expressions, as rules; nothing where it is not installed."""
    if shutil.which("promtool") is None:
        print("deploy: there is no promtool: the expressions of dashboards are not checked")
        return []
    rules = []
    for number, (_, expression) in enumerate(expressions):
        filled = expression.replace("$__rate_interval", "1m").replace("$service", ".*")
        rules.append({"record": f"check:{number}", "expr": filled})
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump({"groups": [{"name": "dashboards", "rules": rules}]}, file)
        file.flush()
        done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
    return [] if done.returncode == 0 else [(done.stdout + done.stderr).strip()]


if __name__ == "__main__":
    sys.exit(main())
