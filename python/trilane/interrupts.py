"""Who has Ctrl-C: the kernel from the first import on, a command while it runs.

Python's own handler raises `KeyboardInterrupt` wherever the program is: within an import, or after
a native command has answered the signal itself. Both would end with a traceback.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


def leave_to_kernel() -> None:
    """From now on SIGINT ends the process without a word, unless somebody else handles it.

    Where it is ignored, as in a script's background job, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def raised() -> Iterator[None]:
    """Within, SIGINT raises `KeyboardInterrupt`; afterwards it is handled as before."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
