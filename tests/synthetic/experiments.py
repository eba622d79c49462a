"""An experiment file to vary in tests: all that a form can have, once; and those that ship."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from trilane.lab.experiment import places
from trilane.lab.experiment.experiment import Experiment
from trilane.lab.experiment.experiment_file import files, read

SHIPPED = files([places.shipped("experiments")])
"""The files of the experiments that ship, by name."""
# Each process collects all tests: they are parsed, and not checked, which takes four times as long.
FORMS = [
    (name, form)
    for name, path in SHIPPED.items()
    for form in tomllib.loads(path.read_text())["forms"]
]
"""Each of their forms, after its experiment's name."""

TEXT = """\
schema = "trilane.experiment/1"
name = "sample"
title = "A sample"
question = "Which?"
hypothesis = "This one."
confounders = ["The moon."]

[source]
title = "A post"
author = "Somebody"
date = "2020-02-29"
claim = "It is."

[forms.fair]
note = "Everything at once."
baseline = "plain"
rank = "elapsed_s"
measures = ["elapsed_s", "user_s"]
server = "embedded"
network = "rtt=40ms"
pin = true
margin = 0.1

[forms.fair.stats]
blocks = 7
publish_blocks = 21
aa = false

[forms.fair.workload]
kind = "urls"
paths = ["/hello", "/echo"]
method = "POST"
body_bytes = 50
content_type = "application/json"
headers = ["accept: */*", "x-empty:"]
gzip = true
in_flight = 10
warmup = 3
repeat = 2
repeat_processes = 2
timeout = "5s"

[forms.fair.sweep]
key = "count"
values = [10, 100]
unit = "requests"
crossings = [["plain", "httpx-h2-serial"]]

[[forms.fair.arms]]
name = "plain"
title = "Plain"
client = "requests"
version = "h1"
strategy = "serial"

[[forms.fair.arms]]
name = "some"
client = "requests"
version = "h1"
strategy = "threads"
session = false
server = "twisted-hello"
network = "rtt=1ms"
threads = 4
gzip = false
headers = ["accept: text/plain"]
at = [100]

[[forms.fair.arms]]
name = "engine"
client = "engine"
version = "h2"
strategy = "load"
connections = 2

[forms.fair.matrix]
client = ["httpx", "niquests"]
version = ["h2", "h3"]
strategy = ["serial", "multiplexed"]
exclude = [
  { client = "httpx", version = "h3" },
  { client = ["niquests"], strategy = "serial" },
]

[[forms.fair.published]]
measure = "elapsed_s"
arm = "some"
to = "plain"
values = [3.53, 5.84]
at = 100
where = "table 1"

[[forms.fair.expect]]
measure = "user_s"
arm = "httpx-h2-serial"
to = "plain"
low = 0.5
high = 1.5

[forms.fair.quick]
blocks = 6
values = [5, 50]
arms = ["plain", "httpx-h2-serial"]
network = "rtt=5ms"
repeat = 1
"""


@functools.cache
def shipped(name: str) -> Experiment:
    """One that ships, by name."""
    return read(SHIPPED[name])


def written(folder: Path, text: str = TEXT) -> Path:
    """The text as `sample.toml` in that folder."""
    path = folder / "sample.toml"
    path.write_text(text)
    return path


def sample(folder: Path, *edits: tuple[str, str]) -> Experiment:
    """The sample, with texts replaced."""
    return read(written(folder, edited(*edits)))


def edited(*edits: tuple[str, str]) -> str:
    """The text of the sample, with texts replaced; each must be there once."""
    text = TEXT
    for old, new in edits:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    return text
