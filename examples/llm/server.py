"""A server that streams as those of large language models do: something to measure without a GPU.

python server.py --port 8000

It speaks the part of OpenAI's protocol that a chat needs. The first event comes at once and has no
text, the first token after 200 ms, and one more every 20 ms: what `trilane load` should find.
"""

import argparse
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

THINKING_S, TOKEN_S = 0.2, 0.02
ANSWER = "It is HTTP/1.1, one token at a time: each of them is an event of its own."


def events() -> Iterator[str]:
    """The data of each event."""

    def chunk(delta: dict[str, str], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return json.dumps({"object": "chat.completion.chunk", "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    time.sleep(THINKING_S)
    for token in ANSWER.split():
        yield chunk({"content": f"{token} "})
        time.sleep(TOKEN_S)
    yield chunk({}, "stop")
    yield "[DONE]"


class Model(BaseHTTPRequestHandler):
    """POST /v1/chat/completions."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Stream the answer, whatever was asked."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for data in events():
            event = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Write no line for each request."""


class Server(ThreadingHTTPServer):
    """A thread for each connection."""

    request_queue_size = 128  # five by default: the sixth that connects at once waits for a second

    def handle_error(self, *_: object) -> None:
        """Write nothing where a client has gone away, as at the end of a load."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    with Server(("127.0.0.1", port), Model) as server:
        print(f"the model listens on http://127.0.0.1:{port}", flush=True)
        server.serve_forever()
