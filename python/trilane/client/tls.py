"""Certificates: what callers of Python's libraries give, as one shared `_core.Tls`.

`ssl` and `hashlib`, which bring OpenSSL, are imported where a caller has something of theirs.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard, runtime_checkable

from trilane._core import Tls
from trilane.client import errors

if TYPE_CHECKING:
    import ssl


@runtime_checkable
class Readable(Protocol):
    """A file that is open."""

    def read(self, amount: int, /) -> str | bytes:
        """All of it, where the amount is -1."""


PEM: TypeAlias = str | bytes | os.PathLike[str] | Readable
"""A path, or what is in such a file: text or bytes with `-----BEGIN`, or a file that is open."""
Verify: TypeAlias = "bool | PEM | ssl.SSLContext | None"
Certificate: TypeAlias = PEM | tuple[PEM, PEM | None] | tuple[PEM, PEM | None, str | bytes] | None
Pins: TypeAlias = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""SHA-256 of a SubjectPublicKeyInfo, in base64 behind `sha256//` or `sha256/`; of any host, or of
those that the mapping has."""

_MOST: Final = 64
"""Sets of certificates that are kept. A client per request finds its own again."""
_BEGINS: Final = b"-----BEGIN"
_SHA_256: Final = 32
"""Bytes of a digest."""
# Where rustls-native-certs looks first; two values mean two sets of roots.
_ENVIRONMENT: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")

# What rustls offers, by OpenSSL's names.
_CIPHERS: Final = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-RSA-CHACHA20-POLY1305",
    }
)
_LEVEL: Final = 2
"""The security level of OpenSSL that rustls' least keys have: RSA of 2048 bits."""

_lock = threading.Lock()
_made: OrderedDict[tuple[object, ...], Tls] = OrderedDict()


def tls_maker(
    verify: Verify, cert: Certificate, pins: Pins | None, minimum: str | None
) -> Callable[[], Tls]:
    """What makes `tls_of` these, later: files are not read before they are needed.

    Raises:
        ValueError: a pin is none, or the version of TLS, or the name of a file is empty; the
            message names it.
        TypeError: `verify` or `cert` is none of what it may be.
    """
    if not (verify is None or isinstance(verify, bool) or _is_context(verify)):
        _expect_pem("verify", verify, "True, False, an ssl.SSLContext, ")
    for part in cert[:2] if isinstance(cert, tuple) else (cert,):
        if part is not None:
            _expect_pem("cert", part, "(certificate, key), ")
    # A file that is open can be read once.
    if isinstance(verify, Readable):
        verify = verify.read(-1)
    parts = cert if isinstance(cert, tuple) else (cert,)
    if any(isinstance(part, Readable) for part in parts):
        read = (part.read(-1) if isinstance(part, Readable) else part for part in parts)
        cert = tuple(read) if isinstance(cert, tuple) else next(read)  # type: ignore[assignment]
    return functools.partial(tls_of, verify, cert, _pins(pins), _tls13_only(minimum))


def tls_of(
    verify: Verify = True,
    cert: Certificate = None,
    pins: tuple[tuple[str | None, bytes], ...] = (),
    tls13_only: bool = False,
) -> Tls:
    """The certificates to trust and to show, loaded once for all clients that ask for them.

    `verify`: True or None trust the platform's authorities (SSL_CERT_FILE and SSL_CERT_DIR are
    honoured); a path trusts those of a PEM file, or of every file in a folder, and no others; False
    trusts any peer. Of an `ssl.SSLContext` its `verify_mode`, its authorities and whether it has
    nothing but TLS 1.3 are used; the platform's authorities where it shows none, as with
    `ssl.create_default_context()` on systems that look them up in a folder. Names are always
    checked where certificates are, and a client certificate inside of a context cannot be read:
    give `cert`.

    `cert`: a PEM file with certificate chain and private key; or two files; or these and the
    password of the key, which is encrypted by PKCS #8. Wherever a file is named its content may be
    given instead, as text or bytes that have `-----BEGIN`, or an open file.

    `pins` are for `_core.Tls`, and so is `tls13_only`.

    Raises:
        TLSError: a file cannot be read or holds no certificate, or a setting of the context cannot
            be obeyed; the message names it.
    """
    authorities: tuple[tuple[str, bytes], ...] = ()
    platform, insecure = False, False
    if _is_context(verify):
        forbidden = not_obeyed(verify)
        if forbidden:
            raise errors.TLSError(
                f"the SSLContext has {'; and '.join(forbidden)}: leave that out, or use"
                " HTTPSConnection of trilane.client.http, which hands it to Python's ssl"
            )
        insecure = verify.verify_mode.name == "CERT_NONE"
        tls13_only = tls13_only or _is_tls13_only(verify)
        if not insecure:
            authorities = _of_context(verify)
            platform = not authorities
    elif verify is None or isinstance(verify, bool):
        platform = verify is not False
        insecure = not platform
    else:
        given = _in_memory(verify, "certificates")  # type: ignore[arg-type]
        # What is no content is a path.
        authorities = _of_path(Path(verify)) if given is None else (given,)  # type: ignore[arg-type]
    certificate, key, password = _own(cert)
    environment = tuple(map(os.environ.get, _ENVIRONMENT)) if platform else ()
    wanted = (
        platform,
        insecure,
        environment,
        authorities,
        _digest(certificate, key, password),
        pins,
        tls13_only,
    )
    with _lock:
        found = _made.get(wanted)
        if found is not None:
            _made.move_to_end(wanted)
            return found
    made = Tls(
        authorities=authorities,
        platform=platform,
        insecure=insecure,
        certificate=certificate,
        key=key,
        password=password,
        pins=pins,
        tls13_only=tls13_only,
    )
    with _lock:
        # Two threads may have made the same; both use the one that is kept.
        made = _made.setdefault(wanted, made)
        while len(_made) > _MOST:
            _made.popitem(last=False)
    return made


def _expect_pem(name: str, given: object, others: str) -> None:
    """Refuse what is neither a file nor what is in one.

    Raises:
        ValueError: it is an empty text, which would be the current folder.
        TypeError: it is of another type.
    """
    if not isinstance(given, str | bytes | bytearray | os.PathLike | Readable):
        raise TypeError(
            f"{name}={given!r:.60} is of type {type(given).__name__}: give {others}the name of a"
            " PEM file, or what is in one"
        )
    if isinstance(given, str) and not given.strip():
        raise ValueError(f"{name}={given!r} names no file: give {others}or the name of a PEM file")


def check(pins: Pins | None, minimum: str | None) -> None:
    """Whether these are pins, and a version of TLS, for who uses them later.

    Raises:
        ValueError: a pin is none, or the version; the message names it.
    """
    _pins(pins)
    _tls13_only(minimum)


def _is_context(given: object) -> TypeGuard[ssl.SSLContext]:
    """Whether it is an `ssl.SSLContext`, which nobody has without the module."""
    module = sys.modules.get("ssl")
    return module is not None and isinstance(given, module.SSLContext)


def not_obeyed(context: ssl.SSLContext) -> list[str]:
    """What the context forbids and rustls would do: each setting, with its value.

    Versions of TLS, ciphers, the security level, and where certificates are verified also
    revocation lists, other rules for chains, and trust in certificates of no authority. What does
    not concern security is left out: tickets, ALPN, and the log of keys.
    """
    import ssl  # noqa: PLC0415 - the context has it

    found = _versions_not_obeyed(context)
    usual, usual_level = _usual()
    forbidden = usual - _ciphers(context)
    if forbidden:
        found.append(f"set_ciphers() without {', '.join(sorted(forbidden))}, which are offered")
    level = context.security_level
    if level > max(_LEVEL, usual_level):
        found.append(f"security_level={level}, and keys of level {_LEVEL} would be accepted")
    if context.verify_mode == ssl.CERT_NONE:
        return found
    # STRICT is RFC 5280, by which rustls' verifier goes; trusted certificates end a chain there.
    strict, first = ssl.VERIFY_X509_STRICT, ssl.VERIFY_X509_TRUSTED_FIRST
    obeyed = strict | first | ssl.VERIFY_X509_PARTIAL_CHAIN
    flags = ssl.VerifyFlags(context.verify_flags & ~obeyed)
    if flags:
        found.append(f"verify_flags with {flags.name}, which are not looked at")
    stored = context.cert_store_stats()
    if stored["x509"] and not stored["x509_ca"]:
        # Without authorities the platform's would be trusted in its place.
        found.append(f"trust in {stored['x509']} certificate(s) of no authority")
    return found


def _versions_not_obeyed(context: ssl.SSLContext) -> list[str]:
    import ssl  # noqa: PLC0415 - the context has it

    found = []
    if context.protocol not in {ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS}:
        found.append(f"protocol={context.protocol.name}, and TLS 1.2 and TLS 1.3 would be spoken")
    most = context.maximum_version
    # The constant for "no limit" is a small number.
    if ssl.TLSVersion.MAXIMUM_SUPPORTED != most < ssl.TLSVersion.TLSv1_3:
        found.append(f"maximum_version={most.name}, and TLS 1.3 would be offered")
    if context.options & ssl.OP_NO_TLSv1_3:
        found.append("options with OP_NO_TLSv1_3, and TLS 1.3 would be offered")
    return found


def _is_tls13_only(context: ssl.SSLContext) -> bool:
    import ssl  # noqa: PLC0415 - the context has it

    least = context.minimum_version
    return least > ssl.TLSVersion.TLSv1_2 or bool(context.options & ssl.OP_NO_TLSv1_2)


@functools.cache
def _usual() -> tuple[frozenset[str], int]:
    """Of the ciphers of rustls those that this machine's OpenSSL allows, and its security level.

    A policy of the machine may forbid some to OpenSSL; then every context would be refused.
    """
    import ssl  # noqa: PLC0415 - as above

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return _ciphers(context), context.security_level


def _ciphers(context: ssl.SSLContext) -> frozenset[str]:
    return _CIPHERS.intersection(cipher["name"] for cipher in context.get_ciphers())


def _after_fork() -> None:
    """Load anew: another thread of the parent may have had the lock, or that of a session cache."""
    global _lock  # noqa: PLW0603 - the parent's
    _lock = threading.Lock()
    _made.clear()


os.register_at_fork(after_in_child=_after_fork)


def _digest(
    certificate: tuple[str, bytes] | None, key: tuple[str, bytes] | None, password: bytes | None
) -> bytes:
    # Not the private key itself: it should not stay in memory for a comparison.
    if certificate is None and key is None and password is None:
        return b""
    import hashlib  # noqa: PLC0415 - few clients have a certificate

    digest = hashlib.sha256()
    for item in (certificate, key, None if password is None else ("password", password)):
        if item is not None:
            name, content = item
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.digest()


def _of_context(context: ssl.SSLContext) -> tuple[tuple[str, bytes], ...]:
    import ssl  # noqa: PLC0415 - the context has it

    # One bundle: of a file's certificates some may have expired, as some of a platform's have.
    bundle = "".join(map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(binary_form=True)))
    return (("the SSLContext", bundle.encode()),) if bundle else ()


def _of_path(path: Path) -> tuple[tuple[str, bytes], ...]:
    if not path.is_dir():
        content = _read(path, "certificates")
        if _BEGINS not in content:
            raise errors.TLSError(f"{path} holds no certificate in PEM: give a file that has some")
        return ((str(path), content),)
    # OpenSSL wants names made of hashes (c_rehash); every PEM file will do, links once.
    files = {file.resolve() for file in path.iterdir() if file.is_file()}
    found = [(str(file), _read(file, "certificates")) for file in sorted(files)]
    authorities = tuple(item for item in found if _BEGINS in item[1])
    if not authorities:
        raise errors.TLSError(f"no file in the folder {path} holds a certificate in PEM")
    return authorities


def _own(
    cert: Certificate,
) -> tuple[tuple[str, bytes] | None, tuple[str, bytes] | None, bytes | None]:
    """The certificate, the key, and its password."""
    if cert is None:
        return None, None, None
    first, second, *rest = cert if isinstance(cert, tuple) else (cert, None)
    password = rest[0] if rest else None
    certificate = _file(first, "the client's certificate")
    # One file often has both.
    key = certificate if second is None else _file(second, "the client's key")
    return certificate, key, password.encode() if isinstance(password, str) else password


def _file(given: PEM, what: str) -> tuple[str, bytes]:
    """A name for messages, and the content."""
    found = _in_memory(given, what)
    if found is not None:
        return found
    path = Path(given)  # type: ignore[arg-type] # what is no content is a path
    return str(path), _read(path, what)


def _in_memory(given: PEM, what: str) -> tuple[str, bytes] | None:
    """A name for messages, and the content that was given itself; None: it is a path.

    Raises:
        TLSError: it has no PEM.
    """
    if isinstance(given, Readable):
        given = given.read(-1)
    elif isinstance(given, str) and _BEGINS.decode() not in given:
        return None
    if not isinstance(given, str | bytes | bytearray):
        return None
    content = given.encode() if isinstance(given, str) else bytes(given)
    if _BEGINS not in content:
        raise errors.TLSError(
            f"what was given for {what} has no {_BEGINS.decode()}: give the name of a PEM file, or"
            " what is in one"
        )
    return f"the PEM given for {what}", content


def _pins(given: Pins | None) -> tuple[tuple[str | None, bytes], ...]:
    if given is None:
        return ()
    by_host: dict[str | None, str | Sequence[str]] = {}
    if isinstance(given, Mapping):
        by_host.update(given)
    else:
        by_host[None] = given
    return tuple(
        (None if host is None else host.lower(), _digest_of(pin))
        for host, several in by_host.items()
        for pin in ([several] if isinstance(several, str) else several)
    )


def _digest_of(pin: str) -> bytes:
    import base64  # noqa: PLC0415 - few clients have pins

    algorithm, slash, text = pin.partition("/")
    try:
        digest = base64.b64decode(text.removeprefix("/"), validate=True)
    except ValueError:
        digest = b""
    if algorithm.lower() != "sha256" or not slash or len(digest) != _SHA_256:
        raise ValueError(f"the pin {pin!r} is not sha256// and the 32 bytes of a SHA-256 in base64")
    return digest


def _tls13_only(minimum: str | ssl.TLSVersion | None) -> bool:
    # It is an `ssl.TLSVersion` where it is no text.
    name: Any = getattr(minimum, "name", minimum)
    wanted = {None: False, "TLSv1.2": False, "TLSv1_2": False, "TLSv1.3": True, "TLSv1_3": True}
    if name not in wanted:
        raise ValueError(f'minimum_tls={name!r}: it is "TLSv1.2" or "TLSv1.3"')
    return wanted[name]


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise errors.TLSError(f"{path}, where {what} should be, cannot be read: {reason}") from None
