"""What tests of load generators share: the shape of a load, and what holds of every result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.contenders.conversation import Said

CONNECTIONS = 6
# Streams of each connection, where there are several.
STREAMS = {"h1": 1, "h2": 4, "h2c": 4, "h3": 4}

Load = Callable[..., Said]


def added_up(said: Said) -> dict[str, Any]:
    """The result, which accounts for every request."""
    assert said.names == ["ready", "done", "result"], said.errors
    assert said.code == 0, said.errors
    result = said["result"]
    failed = sum(result["failed"].values())
    assert result["started"] == result["ok"] + failed + result["abandoned"]
    assert result["examples"].keys() == result["failed"].keys()
    # Of the program itself, whatever the script that started it took. Which of the two it was, the
    # kernel tells by samples: a short one may have none of either.
    used = result["program"]
    assert used["user_s"] + used["system_s"] > 0
    return result


def refused(said: Said, reason: str) -> None:
    """The contender says that it cannot do the plan, and why."""
    assert (said.names, said.code) == (["cannot"], 0), said.errors
    assert reason in said["cannot"]["reason"]
