# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.trilane]
# name = "fake_contender"
# title = "a client of the tests"
# versions = ["h1"]
# strategies = ["serial"]
# ///
"""A contender that sends nothing and says what it is told to say by FAKE_CONTENDER."""

from __future__ import annotations

import json
import os
import sys
import time


def say(**event: object) -> None:
    """One line."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main() -> None:
    """The protocol, with the fault that was asked for."""
    fault = os.environ.get("FAKE_CONTENDER", "")
    plan = json.loads(sys.stdin.readline())
    if fault == "dies":
        sys.exit("it broke: no such thing")
    if fault == "cannot":
        say(event="cannot", reason="not on a Tuesday")
        return
    if fault == "mute":
        time.sleep(60)
    if fault == "talks":
        sys.stdout.write("hello, world\n")
        sys.stdout.flush()
    before_s = time.process_time()
    say(event="ready", library="fake", library_version="1", runtime="none")
    sys.stdin.readline()
    began_s = time.process_time()
    while time.process_time() < began_s + 0.05:
        pass
    spent_s = time.process_time() - began_s
    if fault == "stays":
        # With what follows: nobody has to wait for that.
        sys.stdout.write('{"event": "done"}\n')
    else:
        say(event="done")
    # For the test, which finds it in the log.
    sys.stderr.write(json.dumps({"before_s": before_s, "spent_s": spent_s}) + "\n")
    count = int(plan["workload"]["count"] or 1)
    wrong = count if fault == "wrong version" else 0
    lost = {"fails": count, "half fails": count // 2}.get(fault, 0)
    failed = {"status": lost} if lost else {}
    if fault == "forgets":
        say(event="result", started=count)
        return
    if fault == "invents":
        failed = {"tired": 1}
    say(
        event="result",
        started=count + (fault == "loses"),
        ok=count - lost,
        failed=failed,
        examples={"status": "503 for /hello"} if lost else {},
        abandoned=0,
        status={"200": count},
        versions={"h2": wrong} if wrong else {"h1": count},
        connections=1,
        body_bytes=11 * count,
        body_digest=None
        if plan["discard"]
        else 7
        if fault == "wrong bodies"
        else 222957957 * count,
        elapsed_s=0.05,
        repetitions_s=[],
        latency=None,
    )
    if fault == "stays":
        time.sleep(60)
    # Its memory is looked at after `done`: it lives until the runner has all that it wants.
    sys.stdin.read()


if __name__ == "__main__":
    main()
