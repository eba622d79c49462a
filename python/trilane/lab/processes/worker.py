"""Calls functions of the lab in the namespaces that it was started in (`place.Place.call`).

Each line of stdin is a call, of stdout what it returned or raised; both are pickles in Base64. It
ends with stdin. What functions print goes to stderr.
"""

from __future__ import annotations

import base64
import os
import pickle
import sys


def main() -> None:
    """Answer calls until stdin ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        # Written by the lab that started this process.
        function, args, keywords = pickle.loads(base64.b64decode(line))  # noqa: S301
        try:
            told = pickle.dumps((True, function(*args, **keywords)))
        except Exception as error:  # noqa: BLE001 - raised again where it was called
            told = pickle.dumps((False, error))
        answers.write(base64.b64encode(told) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
