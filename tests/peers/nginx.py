"""nginx: h1 in cleartext and over TLS, h2 over TLS, h2c, from one generated configuration.

It is not `servers/nginx`, as tests ask for what a lab does not: client certificates, certificates
that are expired or of another name, few requests per connection, the ports of a predecessor, what
name the client asked for (`/sni`), a TLS port that speaks HTTP/1.1 alone, and what is too early in
early data (`/late`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .peer import Peer, cleartext, documents, secure
from .process import HOST, Process, find, free_port, listens

if TYPE_CHECKING:
    from pathlib import Path

    from .authority import Leaf

_CONFIG = """
{user}
daemon off;
pid {folder}/nginx.pid;
worker_processes 1;
worker_rlimit_nofile 4096;
error_log {folder}/error.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests {keepalive_requests};
    keepalive_timeout 60s;
    http2_max_concurrent_streams 128;
    client_max_body_size 64m;
    client_body_temp_path {folder}/temp-body;
    proxy_temp_path {folder}/temp-proxy;
    fastcgi_temp_path {folder}/temp-fastcgi;
    uwsgi_temp_path {folder}/temp-uwsgi;
    scgi_temp_path {folder}/temp-scgi;
    ssl_certificate {cert};
    ssl_certificate_key {key};
    ssl_protocols {protocols};
    ssl_session_cache shared:trilane:1m;
    {verify}
    {directives}
    server {{
        listen {host}:{plain} reuseport backlog=4096;
        listen {host}:{tls} ssl backlog=4096;
        include {folder}/locations;
    }}
    server {{
        listen {host}:{h2c} http2;
        listen {host}:{h2} ssl http2;
        include {folder}/locations;
    }}
}}
"""
_LOCATIONS = """
root {root};
open_file_cache max=16;
location = /hello { return 200 "hello world"; }
location = /sni { return 200 "$ssl_server_name"; }
location = /upload { return 200 "hello world"; }
location = /error { return 503 "no"; }
location = /late { if ($ssl_early_data) { return 425; } return 200 "hello world"; }
"""


def start(
    folder: Path,
    leaf: Leaf,
    *,
    keepalive_requests: int = 1_000_000_000,
    client_ca: Path | None = None,
    protocols: str = "TLSv1.2 TLSv1.3",
    ports: tuple[int, int, int, int] | None = None,
    directives: str = "",
) -> Peer:
    """Start it in `folder`.

    `keepalive_requests` is how many requests it takes per connection; `client_ca` makes it ask for
    a client certificate of that authority; `ports` are those of a predecessor, in the order h1,
    h1s, h2c, h2; `directives` are more lines for its `http` block.
    """
    program = find("nginx", "apt-get install nginx-light")
    folder.mkdir(parents=True, exist_ok=True)
    plain, tls, h2c, h2 = ports or (free_port() for _ in range(4))
    verify = f"ssl_verify_client on; ssl_client_certificate {client_ca};" if client_ca else ""
    config = folder / "nginx.conf"
    (folder / "locations").write_text(_LOCATIONS.replace("{root}", str(documents(folder))))
    config.write_text(
        _CONFIG.format(
            # Its workers would otherwise drop to a user who may not read the folder of a test.
            user="user root;" if os.geteuid() == 0 else "",
            folder=folder,
            keepalive_requests=keepalive_requests,
            cert=leaf.cert,
            key=leaf.key,
            protocols=protocols,
            verify=verify,
            directives=directives,
            host=HOST,
            plain=plain,
            tls=tls,
            h2c=h2c,
            h2=h2,
        )
    )
    process = Process(
        [program, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(config)],
        folder,
        ready=lambda: listens(plain) and listens(h2),
        name="nginx",
    )
    bases = {"h1": cleartext(plain), "h1s": secure(tls), "h2c": cleartext(h2c), "h2": secure(h2)}
    return Peer(process, bases, leaf.ca, upload="/upload")
