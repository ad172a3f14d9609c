"""Checks the dashboards for Grafana and the alert rules: their shape, by the types of Grafana's own schema where its package is
there, that they name metrics that exist, and, where promtool is there, every expression in them."""

from __future__ import annotations

import json
import re
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
        wrong += [f"{file.name}: {what}" for what in unlike_grafana(dashboard)]
        for panel in dashboard["panels"]:
            if panel["fieldConfig"]["defaults"]["unit"] not in UNITS:
                wrong.append(f"{file.name}: {panel['title']}: an unknown unit")
            expressions += [(f"{file.name}: {panel['title']}", target["expr"]) for target in panel["targets"]]
    rules = (ROOT / "deploy" / "prometheus" / "neurogc-alerts.yml").read_text(encoding="utf-8")
    wrong += unknown([*expressions, ("deploy/prometheus/neurogc-alerts.yml", rules)])
    wrong += parsed(expressions)
    for line in wrong:
        print(f"deploy: {line}")
    print(f"deploy: {len(files)} dashboards with {len(expressions)} expressions")
    return int(bool(wrong) or not files)


def unlike_grafana(dashboard: dict) -> list[str]:
    """Fields that Grafana's types do not have, or read as something else: they are gone once they have been read and written."""
    try:
        from grafana_foundation_sdk.cog import plugins
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.models.dashboard import Dashboard
    except ImportError:
        print("deploy: there is no grafana-foundation-sdk: dashboards are not compared with the schema of Grafana")
        return []
    plugins.register_default_plugins()
    try:
        read = json.loads(json.dumps(Dashboard.from_json(dashboard), cls=JSONEncoder))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [f"Grafana's types do not take it: {error}"]
    return [f"{place} is not in Grafana's schema, or has another type there" for place in lost(dashboard, read, "")]


def lost(written: object, read: object, place: str) -> list[str]:
    """Where a value is that was written and not read."""
    if isinstance(written, dict) and isinstance(read, dict):
        return [where for key, value in written.items() for where in lost(value, read.get(key), f"{place}.{key}")]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [where for index, pair in enumerate(zip(written, read)) for where in lost(*pair, f"{place}[{index}]")]
    return [] if written == read else [place]


def unknown(expressions: list[tuple[str, str]]) -> list[str]:
    """Metrics that no hub has. Those of processes are in the table that is written from the catalogue of figures."""
    page = (ROOT / "docs" / "hub.md").read_text(encoding="utf-8")
    table = page.partition("<!-- generated prometheus -->")[2].partition("<!-- end prometheus -->")[0]
    rows = re.findall(r"^\| `(neurogc_\w+)[^`]*` \| (\w+) \|", table, re.MULTILINE)
    known = {name for name, _ in rows}
    known |= {f"{name}_{part}" for name, kind in rows if kind == "histogram" for part in ("bucket", "sum", "count")}
    known |= set(re.findall(r'"(neurogc_(?:hub|alert)\w*)"', (ROOT / "crates/hub/src/export/prometheus.rs").read_text(encoding="utf-8")))
    if len(rows) < 40:
        return ["docs/hub.md has no table of metrics"]
    return [f"{where}: there is no metric {name}" for where, text in expressions
            for name in sorted(set(re.findall(r"\bneurogc_\w+", text)) - known)]


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
