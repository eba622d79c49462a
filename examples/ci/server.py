"""The program of the repository: a server that answers with what it computes.

python3 server.py --port 8000
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers every GET with the first primes."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # a response leaves in one write

    def do_GET(self) -> None:
        """The work that a change may make slower."""
        primes = [n for n in range(2, 120) if all(n % divisor for divisor in range(2, n))]
        content = json.dumps(primes).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Write no line for each request."""


class Server(ThreadingHTTPServer):
    """A thread for each connection."""

    request_queue_size = 128  # five by default: the sixth that connects at once waits for a second


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    Server(("127.0.0.1", parser.parse_args().port), Handler).serve_forever()
