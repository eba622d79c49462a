"""A private certificate authority and its leaves, made with the openssl command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .process import find

if TYPE_CHECKING:
    from pathlib import Path

_CONFIG = """
[ca]
default_ca = here
[here]
dir = {folder}
new_certs_dir = $dir
database = $dir/index.txt
serial = $dir/serial
certificate = $dir/ca.pem
private_key = $dir/ca.key
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
"""
_LEAF = """
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = {usage}
subjectAltName = {names}
authorityKeyIdentifier = keyid
"""
_LOCAL = "DNS:localhost, IP:127.0.0.1, IP:::1"


@dataclass(frozen=True)
class Leaf:
    """A certificate, its private key (unencrypted) and the authority's certificate, all PEM."""

    cert: Path
    key: Path
    ca: Path


class Authority:
    """The authority in one folder: `ca.pem` is what `--cacert` wants."""

    def __init__(self, folder: Path) -> None:
        self._openssl = find("openssl", "apt-get install openssl")
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ca = folder / "ca.pem"
        (folder / "index.txt").write_text("")
        (folder / "serial").write_text("1000\n")
        (folder / "ca.cnf").write_text(_CONFIG.format(folder=folder))
        self._run(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", "ca.key", "-out", "ca.pem", "-days", "90", "-subj", "/CN=Trilane test CA"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        )

    def local(self) -> Leaf:
        """For localhost, 127.0.0.1 and ::1, valid now."""
        return self._leaf("local", _LOCAL)

    def expired(self) -> Leaf:
        """For the same names, valid in January 2020 only."""
        return self._leaf("expired", _LOCAL, dates=("20200101000000Z", "20200131000000Z"))

    def wrong_name(self) -> Leaf:
        """Valid now, for another host only."""
        return self._leaf("wrong-name", "DNS:elsewhere.example")

    def client(self) -> Leaf:
        """For a client that proves who it is."""
        return self._leaf("client", "DNS:client.example", usage="clientAuth")

    def member(self) -> Leaf:
        """For a process that is server and client at once, as those of a cluster are."""
        return self._leaf("member", _LOCAL, usage="serverAuth, clientAuth")

    def version_1(self) -> Leaf:
        """A client's of X.509 version 1: without extensions, as `openssl x509 -req` makes them."""
        return self._leaf("version-1", None)

    def self_signed(self) -> Leaf:
        """What everybody makes first: it signs itself, and says that it is an authority."""
        leaf = Leaf(*(self.folder / f"self-signed.{end}" for end in ("pem", "key", "pem")))
        self._run(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", leaf.key.name, "-out", leaf.cert.name, "-days", "90"),
            *("-subj", "/CN=localhost", "-addext", f"subjectAltName={_LOCAL}"),
        )
        return leaf

    def _leaf(
        self,
        name: str,
        names: str | None,
        *,
        usage: str = "serverAuth",
        dates: tuple[str, str] | None = None,
    ) -> Leaf:
        leaf = Leaf(self.folder / f"{name}.pem", self.folder / f"{name}.key", self.ca)
        if leaf.cert.exists():
            return leaf
        extensions: tuple[str, ...] = ()
        if names is not None:
            (self.folder / f"{name}.ext").write_text(_LEAF.format(usage=usage, names=names))
            extensions = ("-extfile", f"{name}.ext")
        self._run(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", leaf.key.name, "-out", f"{name}.csr", "-subj", f"/CN=Trilane test {name}"),
        )
        # `openssl ca`, not `openssl x509`: only it can date a certificate in every version.
        # `trilane serve` takes one from its state folder that is valid for another 30 days.
        when = ("-days", "89") if dates is None else ("-startdate", dates[0], "-enddate", dates[1])
        self._run(
            *("ca", "-batch", "-notext", "-config", "ca.cnf", "-in", f"{name}.csr"),
            *("-out", leaf.cert.name, *extensions, *when),
        )
        return leaf

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            [self._openssl, *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"openssl {' '.join(arguments)}: {done.stderr.strip()}")
