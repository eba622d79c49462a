"""When a worker ends the load that it carries out, of processes that are made up."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

pytest.importorskip("distributed")

from distributed.core import Status

from trilane.cluster import agent
from trilane.cluster.agent import Refused
from trilane.lab.processes.supervisor import Child


@pytest.mark.parametrize("lost", ["lease", "sender", "worker"])
def test_a_load_is_killed_once_nobody_is_there_whose_load_it_is(lost: str) -> None:
    child = create_autospec(Child, instance=True)
    sender: Any = Mock(failed=threading.Event(), is_full=lambda: False)
    lease: Any = SimpleNamespace(lost=threading.Event(), stop=threading.Event())
    worker: Any = SimpleNamespace(status=Status.running)

    def loses(*_: object) -> bytes:
        assert child.read.call_count == 1, "it went on"
        if lost == "worker":
            worker.status = Status.closing
        else:
            {"lease": lease.lost, "sender": sender.failed}[lost].set()
        return b""

    child.read.side_effect = loses
    with pytest.raises(Refused, match="lost the scheduler, and ended its load"):
        agent._watched(child, sender, lease, worker)
    child.kill.assert_called_once_with()
