"""Enters namespaces and becomes a program there, with the same process id.

`place` runs `main` with the arguments USER NETWORK COMMAND..., where USER is the file of a user
namespace, or empty, and NETWORK that of a network namespace (namespaces(7)). Only a process with
one thread may enter a user namespace.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_NOT_FOUND = 127


def main(arguments: Sequence[str]) -> None:
    """Become the command; exits with 127 where that cannot be, with the reason on stderr."""
    user, network, *command = arguments
    try:
        for file, kind in ((user, _CLONE_NEWUSER), (network, _CLONE_NEWNET)):
            if file:
                _enter(file, kind)
        # Python ignores SIGPIPE, and programs inherit what is ignored.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606 - no shell is what we want
    except OSError as error:
        sys.stderr.write(f"{error.filename or command[0]}: {error.strerror}\n")
        sys.exit(_NOT_FOUND)


def _enter(file: str, kind: int) -> None:
    namespace = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    # os.setns came with Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot enter the namespace: {os.strerror(number)}", file)
