"""What a contender is told to do: the plan of `trilane.contender/1` (docs/contenders.md)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from trilane.lab.experiment import places
from trilane.lab.experiment.workload import ArmSpec, Headers, Workload
from trilane.lab.model.documents import Json
from trilane.lab.targets.calls import DEFINITION

if TYPE_CHECKING:
    from trilane.lab.clients.executor import Setting

SCHEMA = "trilane.contender/1"


def contender_plan(
    arm: ArmSpec, workload: Workload, setting: Setting, *, latency: bool = True
) -> Json:
    """The plan of one run, as JSON; `latency` says whether a latency is among the measures."""
    paths, method, body = workload.paths, workload.method, workload.body
    fields: Headers = ()
    call, definitions = setting.call, places.shipped("proto")
    if call is not None:
        paths, method = (call.path,), call.method
        fields, body = call.encoded
    return {
        "schema": SCHEMA,
        "origin": setting.origin,
        "version": arm.version,
        "strategy": arm.strategy,
        "session": arm.session,
        "in_flight": arm.in_flight,
        "connections": arm.connections,
        "processes": arm.processes,
        "chunk": arm.chunk,
        "threads": arm.threads,
        "rate_per_s": arm.rate,
        "timeout_s": workload.timeout_s,
        "cacert": setting.cacert,
        "workload": {
            "kind": workload.kind,
            "paths": list(paths),
            "index": workload.index,
            "item": workload.item,
            "start": workload.start,
            "count": workload.count,
            "duration_s": workload.duration_s,
        },
        "method": method,
        "headers": header_fields(arm, workload, fields),
        "body": None if body is None else base64.b64encode(body).decode(),
        "body_file": None if setting.body_file is None else str(setting.body_file),
        "discard": workload.discard,
        "gzip": arm.gzip,
        "warmup": workload.warmup_requests,
        "warmup_s": workload.warmup_s,
        "repeat": workload.repeat,
        "repeat_processes": workload.repeat_processes,
        "call": None
        if call is None
        else {
            "message": call.message,
            "definition": str(definitions / DEFINITION),
            "definitions": str(definitions),
        },
        "latency": latency,
    }


def header_fields(arm: ArmSpec, workload: Workload, own: Headers = ()) -> list[list[str]]:
    """The header fields that are asked for: pairs of name and value; clients add their own.

    `own` are those of a call that the arm does not say itself.
    """
    fields = [list(pair) for pair in arm.headers]
    said = {name.lower() for name, _ in fields}
    fields += [[name, value] for name, value in own if name.lower() not in said]
    if workload.content_type and not any(name.lower() == "content-type" for name, _ in fields):
        fields.append(["content-type", workload.content_type])
    return fields
