"""What a workload must be; `BadExperiment` names the key that is wrong."""

from __future__ import annotations

import re

from trilane.lab.experiment.bad_experiment import BadExperiment, Key, at_least
from trilane.lab.experiment.form import Sweep
from trilane.lab.experiment.vocabulary import COMMAND, KINDS
from trilane.lab.experiment.words import is_not
from trilane.lab.experiment.workload import BODY_BYTES, Workload

METHOD = re.compile(r"[A-Z]+")
# Keys that belong to one kind only.
OF_KIND = {"urls": ("paths",), "index": ("index", "item"), "crawl": ("start",)}
# Kinds that a duration may end.
TIMED = frozenset({"urls", "call", "benchmark", COMMAND})
_BROUGHT = (
    *("method", "body", "body_file", "content_type", "discard", "gzip"),
    "check_body",
    *("repeat", "repeat_processes"),
)
# What the calls and the benchmarks of the arms bring themselves.
BROUGHT = {"call": _BROUGHT, "benchmark": (*_BROUGHT, "headers", "in_flight", "warmup")}
_PLAIN = Workload()
_SWEPT = {"call": ("count", "in_flight", "rtt"), "benchmark": ("count",)}
_EXAMPLES = {
    "paths": 'paths = ["/hello"]',
    "index": 'index = "/books"',
    "item": 'item = "/book?id={id}"',
    "start": 'start = "/site/"',
}


def check_workload(workload: Workload, sweep: Sweep | None, key: Key) -> None:
    """Refuse what cannot be sent, or says its length twice or not at all."""
    if workload.kind not in {*KINDS, COMMAND}:
        raise BadExperiment(is_not("kind of workload", workload.kind, KINDS), (*key, "kind"))
    _paths(workload, key)
    _brought(workload, sweep, key)
    _length(workload, sweep, key)
    _bodies(workload, sweep, key)
    if not METHOD.fullmatch(workload.method):
        raise BadExperiment(
            f"{workload.method!r} is not a method: write it in capitals", (*key, "method")
        )
    for part, least in (("in_flight", 1), ("repeat", 1), ("repeat_processes", 0)):
        at_least(getattr(workload, part), least, (*key, part))
    if min(workload.warmup_requests, workload.warmup_s) < 0:
        raise BadExperiment("must be at least 0", (*key, "warmup"))
    if workload.timeout_s <= 0:
        raise BadExperiment("must be above 0", (*key, "timeout"))
    if (sweep is None or sweep.key != "body_bytes") and any(
        BODY_BYTES in path for path in workload.paths
    ):
        raise BadExperiment(
            f"{BODY_BYTES} stands for the value of a sweep over body_bytes: add one",
            (*key, "paths"),
        )


def _brought(workload: Workload, sweep: Sweep | None, key: Key) -> None:
    """Refuse what would not be sent, because the arms say what is."""
    if workload.kind not in BROUGHT:
        return
    for part in _BROUGHT:
        if getattr(workload, part) != getattr(_PLAIN, part):
            raise BadExperiment(
                f"a workload of kind {workload.kind} brings its own: leave it out", (*key, part)
            )
    if workload.kind == "benchmark":
        for part, set_ in (("headers", workload.headers), ("in_flight", workload.in_flight)):
            if set_:
                raise BadExperiment("a benchmark says that itself: leave it out", (*key, part))
        if workload.warmup_requests or workload.warmup_s:
            raise BadExperiment("go test warms up by itself: leave it out", (*key, "warmup"))
    if sweep is not None and sweep.key not in _SWEPT[workload.kind]:
        raise BadExperiment(
            f"a workload of kind {workload.kind} has none to vary", (*key[:-1], "sweep", "key")
        )


def _bodies(workload: Workload, sweep: Sweep | None, key: Key) -> None:
    swept = sweep is not None and sweep.key == "body_bytes"
    if workload.body_file and workload.file_bytes is None and not swept:
        raise BadExperiment("how large is it? add body_bytes = 1000000", (*key, "body_file"))
    at_least(workload.file_bytes, 1, (*key, "body_bytes"))
    if workload.discard and workload.kind != "urls":
        problem = f"a workload of kind {workload.kind} reads what follows from the bodies"
        raise BadExperiment(problem, (*key, "discard"))


def _paths(workload: Workload, key: Key) -> None:
    for kind, parts in OF_KIND.items():
        for part in parts:
            value = getattr(workload, part)
            if kind != workload.kind:
                if value:
                    problem = f'goes with kind = "{kind}", not with "{workload.kind}"'
                    raise BadExperiment(problem, (*key, part))
            elif not value:
                raise BadExperiment(f"{part} is missing: add {_EXAMPLES[part]}", key)
            paths = value if isinstance(value, tuple) else (value,) if value else ()
            for index, path in enumerate(paths):
                if not path.startswith("/"):
                    where = (*key, part, index) if part == "paths" else (*key, part)
                    raise BadExperiment(f"{path!r} does not begin with /", where)
    if workload.item is not None and "{id}" not in workload.item:
        raise BadExperiment(f"{workload.item!r} has no {{id}}", (*key, "item"))


def _length(workload: Workload, sweep: Sweep | None, key: Key) -> None:
    swept = sweep is not None and sweep.key == "count"
    if workload.duration_s is not None:
        where = (*key, "duration")
        if workload.kind not in TIMED:
            raise BadExperiment(f"a workload of kind {workload.kind} ends by itself", where)
        if workload.count is not None or swept:
            raise BadExperiment("there is a count already: leave one of the two out", where)
        if workload.repeat > 1:
            raise BadExperiment("a workload that repeats needs a count instead", where)
        if workload.duration_s <= 0:
            raise BadExperiment("must be above 0", where)
    elif workload.count is None:
        # The list of ids ends; a site may not.
        if workload.kind != "index" and not swept:
            raise BadExperiment("count is missing: add count = 1000", key)
    elif swept:
        raise BadExperiment("the sweep sets the count: leave it out", (*key, "count"))
    else:
        at_least(workload.count, 1, (*key, "count"))
