"""A shop whose visitors log in by a form, as many sites have it: for `shop.toml` to try itself on.

python shop.py --port 8000
"""

import argparse
import csv
import json
import secrets
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

with (Path(__file__).parent / "users.csv").open(newline="") as lines:
    PASSWORDS = {row["name"]: row["password"] for row in csv.DictReader(lines)}
forms: set[str] = set()
"""Tokens of the forms that were given out and not sent back yet."""
sessions: dict[str, str] = {}
"""Who is logged in, by the value of the cookie."""


class Shop(BaseHTTPRequestHandler):
    """The pages of the shop."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # a response leaves in one write

    def do_GET(self) -> None:
        """The form, and what only those see who are logged in."""
        user = sessions.get(self.cookie("sid"))
        if self.path == "/login":
            token = secrets.token_urlsafe(16)
            forms.add(token)
            self.answer(200, f'<form><input type="hidden" name="csrf" value="{token}"></form>')
        elif self.path == "/account" and user:
            self.answer(200, f"<h1>Hello {user}</h1>")
        else:
            self.answer(403, "log in first")

    def do_POST(self) -> None:
        """Log in, or order."""
        content = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path == "/login":
            form = {name: values[0] for name, values in parse_qs(content).items()}
            if form.get("csrf") not in forms:
                self.answer(400, "this form is not from here")
            elif PASSWORDS.get(form.get("name", "")) != form.get("password", ""):
                self.answer(401, "wrong password")
            else:
                forms.discard(form["csrf"])
                session = secrets.token_urlsafe(16)
                sessions[session] = form["name"]
                cookie = f"sid={session}; Path=/; HttpOnly"
                self.answer(303, "", location="/account", set_cookie=cookie)
        elif self.path == "/orders" and self.cookie("sid") in sessions:
            self.answer(201, json.dumps({"ordered": json.loads(content)["item"]}))
        else:
            self.answer(403, "log in first")

    def cookie(self, name: str) -> str:
        """A cookie of the request; empty where there is none."""
        found = SimpleCookie(self.headers.get("cookie", "")).get(name)
        return found.value if found else ""

    def answer(self, status: int, text: str, **fields: str) -> None:
        """Send a response."""
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

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
    with Server(("127.0.0.1", port), Shop) as server:
        print(f"the shop listens on http://127.0.0.1:{port}", flush=True)
        server.serve_forever()
