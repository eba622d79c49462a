"""Your server in the lab: here a small one of the standard library, with an access log or without.

python server.py --port 8000 --access-log access.log
"""

import argparse
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers every GET with a book."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # a response leaves in one write

    def do_GET(self) -> None:
        """The same for each path, so that all arms of an experiment get the same bytes."""
        content = b'{"title": "Ulysses", "author": "James Joyce"}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, message: str, *args: object) -> None:
        """Write the log where there is one: this is what the experiment is about."""
        if log is not None:
            print(self.address_string(), message % args, file=log, flush=True)


class Server(ThreadingHTTPServer):
    """A thread for each connection."""

    request_queue_size = 128  # five by default: the sixth that connects at once waits for a second


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--access-log", type=argparse.FileType("a"))
    options = parser.parse_args()
    log = options.access_log
    with Server(("127.0.0.1", options.port), Handler) as server:
        print(f"listening on http://127.0.0.1:{options.port}", file=sys.stderr)
        server.serve_forever()
