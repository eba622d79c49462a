"""Stands for `trilane load`: takes its flags, obeys FAKE_LOAD, sends nothing.

FAKE_LOAD maps a version to what its runs do: {"rate": 1e4}, {"fail": "message", "code": 1},
{"hang": true} until SIGTERM (after a SIGUSR1 for the process "tells"), {"deaf": true} not even
then, {"garbage": true}, {"status": 404}, {"disturbed": true} by other machines; and for searches
{"low": 1e4, "high": null}.
`{"probe": {...}}` inside it rules the probe alone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from synthetic import runs, searches


def behaviour(version: str, *, probing: bool) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(os.environ.get("FAKE_LOAD", "{}")).get(version, {})
    if "probe" in told:
        told = told["probe"] if probing else {k: v for k, v in told.items() if k != "probe"}
    elif probing:
        told = {k: v for k, v in told.items() if k not in ("hang", "deaf", "garbage")}
    return told


def searched(arguments: list[str], version: str, told: dict[str, Any]) -> dict[str, Any]:
    goals = arguments[arguments.index("--search") + 1].split(",")
    ends = {"low": told.get("low", 10_000.0), "high": told.get("high", 10_400.0)}
    return searches.search(version, goals=goals, **ends)


def single(version: str, told: dict[str, Any]) -> dict[str, Any]:
    run = runs.run(version, rate=float(told.get("rate", 10_000)))
    if told.get("invalid"):
        reason = runs.reason(told["invalid"], "invalid")
        run["validity"] = {"verdict": "invalid", "reasons": [reason], "bound": "client"}
    if told.get("disturbed"):
        reason = {**runs.reason("other machines took 9 %", "suspect"), "code": "steal"}
        run["validity"] = {"verdict": "suspect", "reasons": [reason], "bound": "client"}
    if "status" in told:
        run["requests"].update(
            ok=0, failures={"status": {"count": 1, "example": f"status {told['status']}"}}
        )
    return run


def main(arguments: list[str]) -> int:
    version = next(a[2:] for a in arguments if a in ("--h1", "--h2", "--h2c", "--h3"))
    file = Path(arguments[arguments.index("-o") + 1])
    told = behaviour(version, probing="-n" in arguments)
    if "log" in os.environ.get("FAKE_LOG", ""):
        with Path(os.environ["FAKE_LOG"]).open("a", encoding="utf-8") as log:
            log.write(json.dumps(arguments) + "\n")
    if told.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if told.get("hang") or told.get("deaf"):
        if told_of := told.get("tells"):
            os.kill(told_of, signal.SIGUSR1)
        time.sleep(600)
    if "fail" in told:
        sys.stderr.write(f"trilane load: error: {told['fail']}\n")
        return int(told.get("code", 1))
    if told.get("garbage"):
        file.write_text("{", encoding="utf-8")
        return 0
    if "--search" in arguments:
        file.write_text(json.dumps(searched(arguments, version, told)), encoding="utf-8")
        return 0
    run = single(version, told)
    file.write_text(json.dumps(run), encoding="utf-8")
    return 4 if told.get("invalid") or "status" in told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
