"""A page of another origin calls services of a gateway, in a real browser."""

from __future__ import annotations

import functools
import html
import json
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from peers.browser import document
from peers.running import Peers

from .gateways import Own, gateway

PAGE = """
<pre></pre>
<script type="module">
const method = "BASE/trilane.library.v1.Library/GetBook";
const found = {};
const call = async (name, url, options) => {
  try {
    const answer = await fetch(url, options);
    found[name] = [answer.status, await answer.text()];
  } catch (error) {
    found[name] = [0, String(error)];
  }
};
const json = {"content-type": "application/json", "connect-protocol-version": "1"};
const body = JSON.stringify({name: "shelves/1/books/2"});
await call("connect", method, {method: "POST", headers: json, body});
const name = new TextEncoder().encode("shelves/1/books/1");
const web = {"content-type": "application/grpc-web+proto", "x-grpc-web": "1"};
// One frame: its flags, its length, the message with its first field.
const frame = new Uint8Array([0, 0, 0, 0, name.length + 2, 10, name.length, ...name]);
await call("grpc-web", method, {method: "POST", headers: web, body: frame});
await call("rest", "BASE/v1/shelves/1/books/1");
await call("missing", "BASE/v1/shelves/1/books/0");
document.querySelector("pre").textContent = JSON.stringify(found);
</script>
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the origin that serves it."""
    folder = tmp_path / "pages"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "refused"])
def test_a_page_calls_by_connect_grpc_web_and_rest(
    own: Own, peers: Peers, pages: tuple[Path, str], tmp_path: Path, *, allowed: bool
) -> None:
    folder, origin = pages
    flags = ("--cors-origin", origin if allowed else "https://app.example")
    peer = gateway(own, peers["grpc-go"].bases["h2c"], flags=flags)
    base = peer.bases["h1"]
    (folder / "index.html").write_text(PAGE.replace("BASE", base))
    # It tells of each answer that is no success, and of each that it keeps from the page.
    drawn = document(f"{origin}/", tmp_path, says="404" if allowed else "CORS|ERR_FAILED")
    told = re.search(r"<pre>(.*)</pre>", drawn)
    assert told is not None, drawn
    found = json.loads(html.unescape(told[1]))
    assert set(found) == {"connect", "grpc-web", "rest", "missing"}
    if not allowed:
        assert all(status == 0 for status, _ in found.values()), found
        return
    status, text = found["connect"]
    assert (status, json.loads(text)["name"]) == (200, "shelves/1/books/2")
    status, text = found["grpc-web"]
    assert status == 200
    assert "shelves/1/books/1" in text
    assert "grpc-status:0" in text.replace(" ", "")
    status, text = found["rest"]
    assert (status, json.loads(text)["name"]) == (200, "shelves/1/books/1")
    status, text = found["missing"]
    assert (status, json.loads(text)["code"]) == (404, 5)
