"""What the runner of Connect's conformance suite starts: asks the gateway that runs where it is.

It imports next to nothing, so that it answers at once on a busy machine, too.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from pathlib import Path

RELAYS = "relays"
"""The socket on which `conformance_gateway` answers, in its folder."""


def main(folder: str) -> None:
    """Hand over the request from stdin and the answer to stdout, then wait for SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with socket.socket(socket.AF_UNIX) as gateway:
        gateway.connect(str(Path(folder) / RELAYS))
        length = sys.stdin.buffer.read(4)
        gateway.sendall(length + sys.stdin.buffer.read(int.from_bytes(length)))
        with contextlib.suppress(BrokenPipeError):
            while content := gateway.recv(65536):
                sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
