"""What a contender is told to do: the plan of `trilane.contender/1` (docs/contenders.md)."""

from __future__ import annotations

import base64
from pathlib import Path

from trilane.lab.experiment.workload import ArmSpec, Workload
from trilane.lab.model.documents import Json

SCHEMA = "trilane.contender/1"


def contender_plan(
    arm: ArmSpec,
    workload: Workload,
    origin: str,
    cacert: str | None,
    body_file: Path | None = None,
) -> Json:
    """The plan of one run, as JSON; `body_file` is what a workload with one sends."""
    return {
        "schema": SCHEMA,
        "origin": origin,
        "version": arm.version,
        "strategy": arm.strategy,
        "session": arm.session,
        "in_flight": arm.in_flight,
        "connections": arm.connections,
        "processes": arm.processes,
        "chunk": arm.chunk,
        "threads": arm.threads,
        "timeout_s": workload.timeout_s,
        "cacert": cacert,
        "workload": {
            "kind": workload.kind,
            "paths": list(workload.paths),
            "index": workload.index,
            "item": workload.item,
            "start": workload.start,
            "count": workload.count,
            "duration_s": workload.duration_s,
        },
        "method": workload.method,
        "headers": header_fields(arm, workload),
        "body": None if workload.body is None else base64.b64encode(workload.body).decode(),
        "body_file": None if body_file is None else str(body_file),
        "discard": workload.discard,
        "gzip": arm.gzip,
        "warmup": workload.warmup_requests,
        "warmup_s": workload.warmup_s,
        "repeat": workload.repeat,
        "repeat_processes": workload.repeat_processes,
    }


def header_fields(arm: ArmSpec, workload: Workload) -> list[list[str]]:
    """The header fields that are asked for: pairs of name and value; clients add their own."""
    fields = [list(pair) for pair in arm.headers]
    if workload.content_type and not any(name.lower() == "content-type" for name, _ in fields):
        fields.append(["content-type", workload.content_type])
    return fields
