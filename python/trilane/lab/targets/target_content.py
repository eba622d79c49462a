"""What other servers need to serve the same as the embedded one: its certificate and its content.

Both come from the embedded server itself, started for a moment: it keeps a certificate authority in
the state folder and renews the certificate for localhost and 127.0.0.1, and what it serves is read
from it once and kept in the cache folder, byte for byte. The copy lies under a name made from a
sample of the content, so that another build of the server never meets a stale copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trilane.lab.targets import servers
from trilane.lab.targets.servers import ServerFailed
from trilane.lab.targets.target_ready import connection

_BOOKS_FILE = "books.json"
_WWW = "www"
SIZES = (
    *("0", "1", "100", "128", "1000", "1024", "2500", "4096", "5000", "10000", "16384"),
    *("65536", "100000", "131072", "1048576"),
    *("1k", "4k", "5k", "10k", "16k", "50k", "64k", "100k", "128k", "1m"),
)
"""The files `www/bytes/N`, for servers that serve files."""
SITE = (
    *("arrivals", "archive", "charts", "crew", "engine-room"),
    *("garden", "log", "observatory", "signals", "supplies"),
)
"""The pages below `/site/`."""
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Content:
    """Files for a server that is to serve what the embedded server serves."""

    cert: Path
    key: Path
    cacert: Path
    books: Path
    """One JSON object: id to book, in the order of `/books`, each book's bytes as served."""
    www: Path
    """A folder to serve: hello, bytes/N, books, book/ID, site/index.html, site/NAME."""


def prepare(state: Path | None, cache: Path) -> Content:
    """The certificate of the state folder and the content in the cache folder, made if missing.

    Raises:
        ServerFailed: the embedded server does not give its content, or it cannot be kept.
    """
    with (
        servers.embedded(threads=1, cpus=None, state=state) as server,
        contextlib.closing(connection(server.http, None, _TIMEOUT_S)) as asked,
    ):
        folder = _content(asked, cache)
    cacert = Path(server.cacert)
    return Content(
        cert=cacert.with_name("cert.pem"),
        key=cacert.with_name("key.pem"),
        cacert=cacert,
        books=folder / _BOOKS_FILE,
        www=folder / _WWW,
    )


def _content(asked: http.client.HTTPConnection, cache: Path) -> Path:
    index = _get(asked, "/books")
    ids: list[str] = json.loads(index)
    sample = hashlib.sha256(repr((SIZES, SITE)).encode())
    for path in ("/hello", "/bytes/1024", "/site/", f"/book?id={ids[0]}", f"/book?id={ids[-1]}"):
        sample.update(_get(asked, path))
    sample.update(index)
    folder = cache / f"content-{sample.hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=cache, prefix=".content-"))
    try:
        _read_all(asked, ids, index, unfinished)
        # A process that finishes second finds the same content there.
        with contextlib.suppress(OSError):
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    if not folder.is_dir():
        raise ServerFailed(f"{folder}: could not be made; is {cache} writable?")
    return folder


def _read_all(
    asked: http.client.HTTPConnection, ids: list[str], index: bytes, folder: Path
) -> None:
    www = folder / _WWW
    for name in ("bytes", "book", "site"):
        (www / name).mkdir(parents=True)
    # mkdtemp makes a private folder; a server may run as another user.
    folder.chmod(0o755)
    (www / "hello").write_bytes(_get(asked, "/hello"))
    (www / "books").write_bytes(index)
    for size in SIZES:
        (www / "bytes" / size).write_bytes(_get(asked, f"/bytes/{size}"))
    (www / "site" / "index.html").write_bytes(_get(asked, "/site/"))
    for page in SITE:
        (www / "site" / page).write_bytes(_get(asked, f"/site/{page}"))
    entries = []
    for name in ids:
        book = _get(asked, f"/book?id={name}")
        (www / "book" / name).write_bytes(book)
        entries.append(json.dumps(name).encode() + b":" + book)
    (folder / _BOOKS_FILE).write_bytes(b"{" + b",\n".join(entries) + b"}")


def _get(asked: http.client.HTTPConnection, path: str) -> bytes:
    try:
        # Without a host, the site's links are relative, so that they fit every server.
        asked.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
        asked.putheader("Host", "")
        asked.endheaders()
        with asked.getresponse() as response:
            body = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise ServerFailed(f"the embedded server did not give its {path}: {error}") from error
    if response.status != http.HTTPStatus.OK:
        raise ServerFailed(f"the embedded server answered {response.status} to {path}")
    return body
