"""A server that misbehaves as it is told: `python fake_server.py MODE PORT [FILE]`.

`good` answers; `nothing` never listens; `dies` ends with a message; `sad` answers 503; `stubborn`
answers, ignores SIGTERM and has a child in a session of its own that ignores it too, whose id it
writes to FILE.
"""

from __future__ import annotations

import http.server
import os
import signal
import sys
import time
from pathlib import Path


class Answer(http.server.BaseHTTPRequestHandler):
    """Says hello."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("content-length", "11")
        self.end_headers()
        self.wfile.write(b"hello world")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


def main() -> None:
    mode, port, *more = sys.argv[1:]
    if mode == "dies":
        sys.exit("error: the dog ate the configuration")
    if mode == "nothing":
        sys.stderr.write("thinking\n")
        time.sleep(600)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            Path(more[0]).write_text(str(os.getpid()))
            time.sleep(600)
    if mode == "sad":
        Answer.status = 503
    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Answer).serve_forever()


if __name__ == "__main__":
    main()
