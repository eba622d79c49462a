"""What JSON Schema says of the keys of a table of an experiment file together.

It is for editors and `docs/experiment.schema.json`: `check` decides.
"""

from __future__ import annotations

from typing import Any

from trilane.lab.experiment.check_workload import BROUGHT, OF_KIND, TIMED
from trilane.lab.experiment.vocabulary import KINDS, MULTIPLEXED
from trilane.lab.experiment.workload import Workload


def _of_kind(kind: str) -> dict[str, Any]:
    """What goes with a kind of workload, as JSON Schema."""
    others = [part for each, parts in OF_KIND.items() if each != kind for part in parts]
    if kind in BROUGHT:
        others += [*BROUGHT[kind], "body_bytes"]
    if kind not in TIMED:
        others.append("duration")
    # The kind of a workload that does not say it is the default, which brings its path along.
    default = kind == Workload().kind
    needed = {} if default else {"required": list(OF_KIND.get(kind, ()))}
    given = {} if default else {"required": ["kind"]}
    return {
        "if": {"properties": {"kind": {"const": kind}}, **given},
        "then": {**needed, "properties": dict.fromkeys(others, False)},
    }


WORKLOAD = {
    "allOf": [
        *map(_of_kind, KINDS),
        {
            "if": {"required": ["duration"]},
            "then": {
                "properties": {
                    "count": False,
                    "warmup": {"type": "string"},
                    "repeat": {"maximum": 1},
                }
            },
            "else": {"properties": {"warmup": {"type": "integer"}}},
        },
        {"not": {"required": ["body", "body_bytes"]}},
    ]
}

ARM = {
    "allOf": [
        {
            "if": {
                "properties": {"strategy": {"enum": list(MULTIPLEXED)}},
                "required": ["strategy"],
            },
            "then": {
                "properties": {
                    "version": {"not": {"const": "h1"}},
                    "session": {"const": True},
                    "connections": {"const": 1},
                }
            },
        },
        {
            "if": {"properties": {"strategy": {"const": "load"}}, "required": ["strategy"]},
            "then": {"properties": {"session": {"const": True}}},
        },
    ]
}

SWEEP = {
    "if": {"properties": {"key": {"enum": ["rtt", "network"]}}},
    "then": {"properties": {"values": {"items": {"type": "string"}}}},
    "else": {"properties": {"values": {"items": {"type": "integer"}}}},
}

FORM = {"anyOf": [{"required": ["arms"]}, {"required": ["matrix"]}]}
