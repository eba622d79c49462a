"""A relay that makes a nearby server far: every byte arrives half a round trip later.

Run by `relay`, a process of its own, because a delay is only as true as the process
that keeps it is on time.

TCP and UDP are relayed between a port of ours and the server's. What arrives is kept for half the
round-trip time and then sent on; order is kept, and the rate has no limit of its own. Connecting to
the relay costs nothing, so the round trip of a TCP connect is charged to the first bytes: what came
within one round trip after the connect counts as having come at its end. TCP's slow start is that
of `relay_window`. The end of a stream is relayed in its turn, in each direction by itself; a reset
resets the other side.

stdin, line 1: `{"delay_s": s, "origins": [[family, [host, port]], …]}`. stdout, once it listens:
`{"ports": […], "scheduling": text}`. Then, for every line on stdin, one report about what has
happened since the last one. When stdin closes, the relay ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys
from types import FrameType
from typing import Any

from trilane.lab.network.relay_loop import Loop
from trilane.lab.network.relay_tcp import Streams
from trilane.lab.network.relay_udp import Datagrams

_BACKLOG = 4096
_ATTEMPTS = 64
_NICE = -10
_NO_SLEEP_US = 1_000_000
_PR_SET_TIMERSLACK = 29


def main() -> int:
    """Relay until stdin closes."""
    # Ctrl-C at the terminal is for the lab, which closes our stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Unbuffered: what follows the first line is for the loop.
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        order = json.loads(stdin.readline())
    scheduling = _be_punctual()
    loop = Loop(order["delay_s"])
    ports: list[int] = []
    piles: list[Datagrams] = []
    for family, name in order["origins"]:
        listener, near, port = _listen(family)
        address = (family, tuple(name))
        Streams(loop, listener, address)
        piles.append(Datagrams(loop, near, address))
        ports.append(port)
    _say({"ports": ports, "scheduling": scheduling})

    def obey() -> bool:
        if not os.read(0, 4096):
            return False
        for datagrams in piles:
            datagrams.count_drops()
        _say(loop.ledger.report())
        loop.ledger.reset()
        return True

    loop.run(0, obey)
    return 0


def _be_punctual() -> str:
    """Do what this system lets us do against lateness; how we are scheduled now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
    # Nothing here makes cycles, and a collection is a pause.
    gc.disable()
    # A network does not stand still when the machine is busy. Measured on two busy CPUs: p99 of the
    # lateness 0.1 to 0.9 ms with real-time scheduling, 4 to 37 ms without.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        # A process that never sleeps would keep others from that CPU: at SIGXCPU it is like them.
        signal.signal(signal.SIGXCPU, _be_like_others)
        resource.setrlimit(resource.RLIMIT_RTTIME, (_NO_SLEEP_US, resource.RLIM_INFINITY))
        return "real-time"
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        return f"nice {_NICE}"
    return "normal"


def _be_like_others(_signal: int, _frame: FrameType | None) -> None:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _listen(family: int) -> tuple[socket.socket, socket.socket, int]:
    """A TCP and a UDP socket on the same free port of this machine."""
    host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    for _ in range(_ATTEMPTS):
        listener = socket.socket(family, socket.SOCK_STREAM)
        near = socket.socket(family, socket.SOCK_DGRAM)
        listener.bind((host, 0))
        port: int = listener.getsockname()[1]
        try:
            near.bind((host, port))
        except OSError:
            listener.close()
            near.close()
            continue
        listener.listen(_BACKLOG)
        return listener, near, port
    raise OSError(f"no port of {host} is free for TCP and UDP alike")


def _say(event: dict[str, Any]) -> None:
    os.write(1, json.dumps(event).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
