"""The native part of Trilane: the lab's command, and the connections of `trilane.client`.

A `Connection` is one HTTP connection, an `Exchange` one request on it with its response. Any number
of threads may use a connection at once; an exchange belongs to one reader at a time. A thread that
waits drives the connection for all: waiting releases the interpreter lock, and Ctrl-C ends it with
KeyboardInterrupt.

Failures are exceptions of `trilane.client.errors`; timeouts are seconds, and None waits for ever.
"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Final, Literal, Protocol, final, overload

from typing_extensions import Buffer

__all__ = [
    "DATA",
    "END",
    "HEAD",
    "HIDDEN",
    "INFORMATIONAL",
    "WHOLE",
    "WRITABLE",
    "Connecting",
    "Connection",
    "Decoder",
    "Exchange",
    "Facts",
    "Sections",
    "Tls",
    "build_profile",
    "check_goals",
    "completions",
    "connect",
    "for_terminal",
    "is_public_suffix",
    "is_secret",
    "main",
    "make_cluster_identity",
    "network_rtt",
    "revision",
    "version",
    "without_secrets",
]

version: Final[str]
"""Version of the native part, such as `0.1.0`."""

revision: Final[str]
"""Git revision that it was built from; empty when it was built outside a checkout."""

build_profile: Final[str]
"""`release`, `quick-build` (for a first look), `debug` or another profile of cargo's; only numbers
of `release` are worth publishing."""

HIDDEN: Final[str]
"""What stands in place of a secret."""

class _Pages(Protocol):
    def check(self, file: Path, /) -> None: ...
    def write(self, result: str, file: Path, /) -> None: ...

def main(argv: Sequence[str], pages: _Pages | None = None) -> int:
    """Run `trilane load`, `trilane serve` or `trilane network` and return the exit code.

    `argv` holds the program's name first. The interpreter lock is released while the command runs,
    and SIGINT goes to the command, which prints its partial report.

    `pages` is what `load --html` uses: `check(file)` before anything is sent, and then
    `write(result, file)`, where `result` is the JSON of a run or of a search. What they raise is
    told, and ends the command with exit code 1.
    """

def make_cluster_identity(folder: PathLike[str]) -> None:
    """Make a cluster's certificate, `cluster.pem`, and its key, `cluster-key.pem`, in `folder`.

    The certificate is its own authority, for all processes of the cluster. Those that are there are
    kept unless they do not go together, or the certificate ends within 30 days.

    Raises:
        OSError: the folder cannot be written.
    """

def completions(shell: str, also: str) -> str:
    """The script by which a shell completes `trilane`.

    `shell` is `bash`, `zsh`, `fish`, `elvish` or `powershell`; `also` are the commands in Python,
    as the JSON that `trilane.cli.completions` writes.

    Raises:
        ValueError: there is no such shell.
    """

def is_public_suffix(name: str) -> bool:
    """Whether anybody may register names below this one: `com`, `co.uk` or `github.io`.

    `name` is in lower case and ASCII, without a dot at its begin. It is looked up in the list of
    publicsuffix.org, as of the build, with its private part; a name of one label that is not listed
    is one too, as in browsers.
    """

def is_secret(name: str) -> bool:
    """Whether a field, a parameter, a member or a variable of this name is a secret."""

def without_secrets(text: str) -> str:
    """A word of a command line, or what a shell is given, with `HIDDEN` in place of its secrets.

    They are found by their names: in fields, parameters of URLs, bodies as JSON or as a form,
    variables and flags, and before the host of a URL. `${NAME}` stays: it names a secret.
    """

def for_terminal(text: str) -> str:
    """Lines of text without control characters, and without the secrets of URLs in it."""

def check_goals(goals: Sequence[str]) -> None:
    """Check what `--search` is to keep, such as `p99<10ms`.

    Raises:
        ValueError: one of them is nothing that a search can keep.
    """

def network_rtt(network: str) -> float:
    """The round-trip time in seconds of a network such as `rtt=40ms,loss=1%`.

    Raises:
        ValueError: this is no network, or a file that it names cannot be read.
    """

HEAD: Final = 1
"""For `Exchange.watch`: the final response head."""

DATA: Final = 2
"""For `Exchange.watch`: a byte of content, or its end."""

END: Final = 3
"""For `Exchange.watch`: the end of the response. What is unread then has no limit."""

WRITABLE: Final = 4
"""For `Exchange.watch`: room for more content of the request."""

INFORMATIONAL: Final = 5
"""For `Exchange.watch`: one more 1xx response, or the final head."""

WHOLE: Final = 6
"""For `Exchange.watch`: the end of a response whose `content-length` is less than 256 KiB.

Of any other response it is the final head.
"""

@final
class Tls:
    """What is trusted and what is shown, loaded once for any number of connections.

    Sessions are kept in it too (RFC 8446 §2.2), so that the next handshake is shorter.
    """

    def __new__(
        cls,
        *,
        authorities: Sequence[tuple[str, bytes]] = (),
        platform: bool = True,
        insecure: bool = False,
        certificate: tuple[str, bytes] | None = None,
        key: tuple[str, bytes] | None = None,
        password: bytes | None = None,
        pins: Sequence[tuple[str | None, bytes]] = (),
        tls13_only: bool = False,
    ) -> Tls:
        """Read certificates. Files are pairs of a name, for messages, and their contents in PEM.

        `authorities` are trusted, with `platform` those of the platform as well; with `insecure`
        any certificate is. `certificate` is the client's own chain; its `key` may be in the same
        file, and `password` decrypts it (PKCS #8). `pins` are keys that servers must have: the name
        of one, or None for any, and the SHA-256 of its certificate's SubjectPublicKeyInfo. With
        `tls13_only` TLS 1.2 is not offered. Raises `TLSError`.
        """

@overload
def connect(
    host: str,
    port: int,
    *,
    scheme: str = "https",
    versions: Sequence[str] | None = None,
    tls: Tls | None = None,
    server_name: str | None = None,
    timeout: float | None = None,
    source: tuple[str, int] | None = None,
    proxy: tuple[str, int, Sequence[tuple[str | bytes, str | bytes]]] | None = None,
    race: float = 0.25,
    unix: str | PathLike[str] | None = None,
    driven: bool = False,
    proxy_scheme: str = "http",
    proxy_auth: tuple[bytes, bytes] | None = None,
    addresses: Sequence[str] | None = None,
    ech: bytes | None = None,
    wait: Literal[True] = True,
    streams: int | None = None,
) -> Connection:
    """Connect and shake hands.

    `versions` are "h1", "h2" and "h3". With https the default is ("h2", "h1"), between which ALPN
    decides (RFC 7301); "h3" beside them is tried first, and TCP too after `race` seconds. With http
    it is "h1", or ("h2",) alone where the server is known to speak it (RFC 9113 §3.3).

    `tls` defaults to the platform's authorities. `server_name` is the name that the certificate is
    for, `host` by default. `source` is the address and port to connect from. `proxy` is the host
    and port of a proxy to tunnel through, and the fields of the CONNECT request (RFC 9110 §9.3.6);
    not for "h3". `proxy_scheme` says what the proxy speaks: "http", "https" (HTTP over TLS, with
    the certificates of `tls`), "socks5" or "socks5h" (RFC 1928; with the latter it resolves the
    name of `host`), where `proxy_auth` is user and password (RFC 1929). `addresses` are those of
    what is connected to, the proxy where there is one, in the order in which they are tried; the
    system's resolver is not asked then. `ech` is an ECHConfigList of the server's (RFC 9849): its
    name is encrypted, and TLS 1.3 alone is offered; not for "h3". `unix` is a socket to connect to
    in place of host and port. `streams` is how many requests the server is taken to allow at a time
    with h2 before its SETTINGS say so, as on an earlier connection: without it one leaves at once,
    and the others when they have come.
    `timeout` counts from the look-up of the name to the end of the handshake. With `wait=False`
    nothing is waited for: a `Connecting` is given, which an event loop drives. `driven` says that
    an event loop will call `drive`; else a thread of this module answers the peer on an idle
    connection of HTTP/2 or HTTP/3.

    Raises `ResolveError`, `ConnectionRefused`, `TLSError`, `ProxyError`, `VersionUnavailable`,
    `ConnectTimeout` or another `ConnectFailed`; `InvalidRequest` for impossible arguments.
    """

@overload
def connect(
    host: str,
    port: int,
    *,
    scheme: str = "https",
    versions: Sequence[str] | None = None,
    tls: Tls | None = None,
    server_name: str | None = None,
    timeout: float | None = None,
    source: tuple[str, int] | None = None,
    proxy: tuple[str, int, Sequence[tuple[str | bytes, str | bytes]]] | None = None,
    race: float = 0.25,
    unix: str | PathLike[str] | None = None,
    driven: bool = False,
    proxy_scheme: str = "http",
    proxy_auth: tuple[bytes, bytes] | None = None,
    addresses: Sequence[str] | None = None,
    ech: bytes | None = None,
    wait: Literal[False],
    streams: int | None = None,
) -> Connecting: ...

@final
class Connecting:
    """A connection that is being made. Made by `connect(wait=False)`; it never waits.

    Whoever drives it waits until `fileno` can be read or `timeout` has passed, calls `step`, and so
    on. Names are looked up by a thread of this module.
    """

    def step(self) -> Connection | None:
        """Go on: the connection when it is ready, None before.

        Raises what `connect` does.
        """

    def fileno(self) -> int:
        """The descriptor to wait for, always the same one until `close`."""

    @property
    def timeout(self) -> float | None:
        """Seconds after which `step` is to be called though nothing can be read; None: never."""

    def close(self) -> None:
        """Give up, and close the descriptor: who waits for it ends that before. Idempotent."""

@final
class Facts:
    """Both ends of a connection, and what making it took. It keeps nothing of it open."""

    @property
    def peer(self) -> tuple[str, int] | None:
        """As `Connection.peer`."""

    @property
    def local(self) -> tuple[str, int] | None:
        """As `Connection.local`."""

    @property
    def tls_info(self) -> dict[str, object] | None:
        """As `Connection.tls_info`."""

    @property
    def setup(self) -> list[float | None]:
        """Seconds of resolving, TCP, the proxy's tunnel, TLS and QUIC; None where it was not done.

        The handshake of QUIC has that of TLS in it. TCP counts from the first attempt.
        """

@final
class Connection:
    """One HTTP connection. Made by `connect` or `Connection.memory`."""

    @staticmethod
    def memory(
        version: str = "h1", *, authority: str = "localhost", scheme: str = "http"
    ) -> Connection:
        """Make a connection without a socket.

        What the peer sends goes in by `receive`, what is for it comes out by `output`. `version` is
        "h1" or "h2"; `authority` and `scheme` are those of the requests.
        """

    @property
    def version(self) -> str:
        """Version that was agreed on: "h1", "h2" or "h3"."""

    @property
    def peer(self) -> tuple[str, int] | None:
        """Remote address and port, a proxy's where there is one; None without an IP socket."""

    @property
    def local(self) -> tuple[str, int] | None:
        """Local address and port; None without an IP socket."""

    @property
    def tls_info(self) -> dict[str, object] | None:
        """What the handshake agreed on; None without TLS.

        `version`, `cipher`, `group` and `alpn` are str, such as "TLSv1.3",
        "TLS13_AES_128_GCM_SHA256", "X25519MLKEM768" and "h2"; `resumed` and `ech`, whether the
        server took Encrypted Client Hello, are bool; `certificates` is a list of bytes, the
        server's chain in DER with its own first (none with h3).
        """

    @property
    def proxy_fields(self) -> list[tuple[str, str]] | None:
        """Fields of the answer by which a proxy made the tunnel; None without one."""

    @property
    def facts(self) -> Facts:
        """`peer`, `local`, `tls_info` and what making the connection took."""

    @property
    def capacity(self) -> int:
        """How many requests `submit` should be given now.

        That is 1 with h1 when idle, else what the peer grants, and none while the connection
        `is_silent`. With h2 it is up to 100 before the server's SETTINGS: all but the first wait
        for these, and fail as `Full` where the server allows fewer.
        """

    @property
    def is_silent(self) -> bool:
        """Whether the peer has not answered since a request was given up while nothing came.

        It is asked by a PING then: the way to it may be cut without either end knowing. Never with
        h1, where the connection ends.
        """

    @property
    def outstanding(self) -> int:
        """How many requests are submitted and not complete."""

    @property
    def is_closing(self) -> bool:
        """Whether the connection takes no more requests, now or later."""

    @property
    def wants_write(self) -> bool:
        """Whether output is left: call `drive` when the socket is writable."""

    @property
    def timeout(self) -> float | None:
        """Seconds until `drive` must be called though the socket is silent; None if never."""

    def submit(
        self,
        method: str,
        target: str,
        fields: Sequence[tuple[str | bytes, str | bytes]],
        body: Buffer | None = None,
        *,
        authority: str | None = None,
        streaming: bool = False,
        length: int | None = None,
        raw: bool = False,
        flush: bool | None = None,
        timed: bool = False,
        protocol: str | None = None,
    ) -> Exchange:
        """Send a request, as far as the socket takes it: this never waits.

        `target` is the path and query, `*`, or whatever else RFC 9112 §3.2 allows. `fields` are
        pairs of name and value, text in ISO-8859-1; no `host` is needed, as the authority is that
        of the connection unless `authority` or a `host` field says another. `content-length` is
        added.

        With `streaming` the content follows by `Exchange.write` and ends with `Exchange.finish`, of
        `length` bytes where that is known. With `raw` (h1 alone) what is written is not framed: the
        fields have a `transfer-encoding` of the caller's own.

        With `protocol`, such as `websocket`, the server is asked to switch to it: by the field
        `upgrade` in h1 (RFC 9110 §7.8), by extended CONNECT in the others (RFC 8441, RFC 9220),
        whatever `method` is. Behind status 101, or one of success, `Exchange.write` sends what is
        not framed, and what comes is content. `InvalidRequest` where h2 or h3 does not take it,
        `Full` as long as the server has not said.

        `flush` says when the request leaves: True at once; None at once on an idle connection, else
        together with those that follow, at the latest a millisecond later; False with the next
        `flush`, `drive` or wait. `timed` has `Exchange.times` kept.

        Raises `Full` when `capacity` is 0, `InvalidRequest` for what cannot be sent, and what the
        connection has ended with.
        """

    def is_alive(self) -> bool:
        """Look, without waiting, whether an idle connection can still be used.

        False when the peer has closed it or has sent what nobody asked for.
        """

    def close(self) -> None:
        """Say goodbye and close; idempotent. What is outstanding fails with `ConnectionClosed`.

        The descriptors are closed too, whoever has an exchange still: an event loop that waits for
        `fileno` is told before.
        """

    def settings(self) -> dict[str, int]:
        """What the peer has said about its limits so far, by name."""

    def fileno(self) -> int:
        """Descriptor of the socket, for an event loop; `InvalidRequest` where there is none."""

    def drive(self) -> list[int]:
        """Read, write and do what is due, without waiting.

        Returns the tokens of exchanges whose watched state has come (`Exchange.watch`). Call it
        when the socket is readable, writable while `wants_write`, and after `timeout` seconds.
        """

    def flush(self) -> None:
        """Write what has gathered, as far as the socket takes it, without waiting."""

    def receive(self, data: Buffer) -> None:
        """Hand over bytes from the peer of a connection in memory.

        Raises `RemoteProtocolError` when the peer broke the protocol.
        """

    def eof(self) -> None:
        """Say that the peer of a connection in memory has closed its side."""

    def output(self) -> bytes:
        """Take what a connection in memory has to send."""

@final
class Exchange:
    """One request and its response. Made by `Connection.submit`.

    Dropping the last reference cancels it, if the response is not complete. A wait whose timeout
    has passed raises `ReadTimeout`; the exchange goes on and can be waited for again, and nothing
    that has arrived is lost. A response of which 256 KiB are unread is paused, and the others go
    on.
    """

    @property
    def stream_id(self) -> int:
        """Identifier on the wire: 1, 3, 5 … with h2; 0, 4, 8 … with h3; 1, 2, 3 … with h1.

        With h2 it is 0 while the request waits for the server's SETTINGS.
        """

    @property
    def token(self) -> int:
        """What `Connection.drive` calls it: unique among the living exchanges of the connection."""

    @property
    def version(self) -> str:
        """Version of the connection; "h1.0" when the server answered in HTTP/1.0."""

    def head(self, timeout: float | None = None) -> int:
        """Wait for the final response head and return its status."""

    def has(self, name: str) -> bool:
        """Whether the head has a field of that name, in any case. It is cheaper than `fields`."""

    def sections(self) -> Sections:
        """What can be kept of the response when its content was read, without the connection."""

    def fields(self) -> list[tuple[str, str]]:
        """Fields of the head, in order, as ISO-8859-1; empty before the head.

        Names are lower case in h2 and h3, and as the server sent them in h1.
        """

    @property
    def reason(self) -> str:
        """Reason phrase of h1 as sent; empty in h2 and h3 and before the head."""

    @property
    def informational(self) -> list[tuple[int, list[tuple[str, str]]]]:
        """Status and fields of every 1xx response so far (the first 16)."""

    def wait_informational(self, timeout: float | None = None) -> int | None:
        """Wait for the next 1xx response and return its status; None when the final head is there.

        Each is returned once. Wait here for a while before sending content with `expect:
        100-continue` (RFC 9110 §10.1.1).
        """

    def read(self, amount: int = -1, timeout: float | None = None) -> bytes:
        """Wait for `amount` bytes of content, fewer only at its end; by default all."""

    def read1(self, amount: int = -1, timeout: float | None = None) -> bytes:
        """Return what is there, up to `amount` bytes; wait only for the first. b"" at the end."""

    def readinto(self, buffer: Buffer, timeout: float | None = None) -> int:
        """Copy what is there into a writable buffer; wait only for the first byte.

        Returns the number of bytes, 0 at the end. The buffer must not be written to meanwhile.
        """

    def trailers(self) -> list[tuple[str, str]]:
        """Trailer fields; empty before the end of the response and where there are none."""

    @property
    def complete(self) -> bool:
        """Whether the response has arrived to its end; bytes of it may still be unread."""

    @property
    def times(self) -> tuple[float | None, float | None, int, int] | None:
        """Seconds from `submit` to the final head, and to the end; None for what has not come.

        Then bytes of content that were handed over to be sent, and that have come, without their
        framing. None unless the request was `timed`.
        """

    @property
    def quiet(self) -> float:
        """Seconds since something of the response came, or since the request was submitted."""

    @property
    def unread(self) -> int:
        """Bytes of content that have arrived and were not read."""

    @property
    def content_length(self) -> int | None:
        """Value of `content-length`; None without it and before the head."""

    def write(self, data: Buffer, timeout: float | None = None) -> None:
        """Send content of a streaming request; wait while 256 KiB or more are unsent.

        Up to 256 KiB are taken whole: `WriteTimeout` then says that nothing was. When the server
        has ended the upload (see `upload_open`), data is dropped: the response tells why.
        """

    def finish(
        self,
        trailers: Sequence[tuple[str | bytes, str | bytes]] | None = None,
        timeout: float | None = None,
    ) -> None:
        """End the content of a streaming request, with trailer fields where there are any."""

    @property
    def upload_open(self) -> bool:
        """Whether `write` still sends: until `finish`, or until the server ends the upload."""

    def cancel(self) -> None:
        """Give up; idempotent, and nothing happens when the response is complete.

        h2 and h3 reset the stream (RFC 9113 §8.1, RFC 9114 §4.1.1), h1 closes the connection.
        """

    def watch(self, what: int) -> bool:
        """Ask for HEAD, DATA, END, WRITABLE, INFORMATIONAL or WHOLE, without waiting.

        True: it is there, or never will be, and the next call about it does not wait. False:
        `Connection.drive` will return `token` when it is. The last watch counts.
        """

@final
class Sections:
    """What a response tells beside its status and its content, by the names of `Exchange`.

    It keeps nothing of the connection. Made by `Exchange.sections`.
    """

    @property
    def reason(self) -> str:
        """As `Exchange.reason`."""

    @property
    def informational(self) -> list[tuple[int, list[tuple[str, str]]]]:
        """As `Exchange.informational`."""

    def has(self, name: str) -> bool:
        """As `Exchange.has`."""

    def fields(self) -> list[tuple[str, str]]:
        """As `Exchange.fields`."""

    def trailers(self) -> list[tuple[str, str]]:
        """As `Exchange.trailers`."""

@final
class Decoder:
    """Undoes content codings as the content comes (RFC 9110 §8.4).

    gzip (several members), deflate (with or without the zlib format), br, zstd (several frames).
    """

    def __new__(cls, codings: Sequence[str], *, limit: int | None = None) -> Decoder:
        """Undo `codings`, names in the order of the `content-encoding` field.

        "gzip", "x-gzip", "deflate", "br", "zstd", and "identity" for nothing, in any case. `limit`
        is the most bytes that the whole content may decode to. Raises `InvalidRequest`, a
        ValueError, for unknown names and for more than five.
        """

    def decode(self, data: Buffer, most: int = -1) -> bytes:
        """Take more content and return what it decodes to, up to `most` bytes.

        What does not fit waits: `decode(b"", most)` gives more until it gives nothing. Raises
        `DecodingError` when the content is broken, exceeds `limit`, or expands more than 1,000-fold
        past 1 MiB.
        """

    def finish(self) -> bytes:
        """Say that the content has ended and return what was waiting.

        Raises `DecodingError` when the end of the coding is missing. No content at all is fine.
        """
