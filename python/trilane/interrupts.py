"""Who has Ctrl-C: the kernel from the first import on, a command while it runs.

Python's own handler raises `KeyboardInterrupt` wherever the program is: within an import, or after
a native command has answered the signal itself. Both would end with a traceback.

This imports only what every interpreter has loaded: `signal` and `contextlib` take milliseconds, in
which Ctrl-C would still be Python's.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

# As `typing` has it, whose import takes longer than all else that is imported here.
TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal as _signal
    from types import TracebackType
else:
    import _signal  # Of which `signal` is made.

_AGAIN_S = 0.01
"""When an interrupt comes again that got lost: whatever lost it has returned by then."""


def leave_to_kernel() -> None:
    """From now on SIGINT ends the process without a word, unless somebody else handles it.

    Where it is ignored, as in a script's background job, it stays so.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


class raised:  # noqa: N801 - called as a function is
    """Within, SIGINT raises `KeyboardInterrupt`; afterwards it is handled as before.

    It may come while a finalizer or a callback of the garbage collector runs, as at the end of each
    import. An exception there goes nowhere but into `sys.unraisablehook`, and the command would go
    on: so it comes again.
    """

    def __enter__(self) -> None:
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._unraisable
        self._before = _signal.getsignal(_signal.SIGINT)
        if self._before == _signal.SIG_DFL:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _signal.signal(_signal.SIGINT, self._before)
        sys.unraisablehook = self._hook

    def _unraisable(self, lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is KeyboardInterrupt:
            # Not from here, where it would get lost as well.
            _thread.start_new_thread(_interrupt_again, ())
        else:
            self._hook(lost)


def _interrupt_again() -> None:
    time.sleep(_AGAIN_S)
    # To the process: the main thread may wait in a system call, which has to end.
    os.kill(os.getpid(), _signal.SIGINT)
