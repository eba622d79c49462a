"""Stands for `trilane serve`: says that it is ready and waits for its stdin to close.

FAKE_SERVE: `silent` never gets ready, `broken` says something else, `dead` ends with a message,
`counting` answers a line by counts, `garbled` by something else, `leaving` by its end.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> int:
    mode = os.environ.get("FAKE_SERVE", "")
    if mode == "dead":
        sys.stderr.write("trilane serve: error: port 80 is not ours to take\n")
        return 1
    if mode == "silent":
        time.sleep(600)
    ready = {
        "schema": "trilane.serve/1",
        "ready": mode != "broken",
        "pid": os.getpid(),
        "http": "http://127.0.0.1:8080",
        "https": "https://127.0.0.1:8443",
        "cacert": "/nowhere/ca.pem",
        "tcp_congestion_control": "vegas",
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        if mode == "leaving":
            return 1
        counts = {"requests": 3, "connections": 2} if mode == "counting" else {"requests": "many"}
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
