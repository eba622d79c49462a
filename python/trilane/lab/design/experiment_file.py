"""Experiment files: TOML in, `Experiment` out, errors with file, line and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trilane.lab.design import places, toml_lines
from trilane.lab.design.bad_experiment import BadExperiment, Key
from trilane.lab.design.experiment import SCHEMA, Experiment, Source
from trilane.lab.design.form import Expect, Form, Published, Quick, Stats, Sweep
from trilane.lab.design.matrix import expand
from trilane.lab.design.toml_table import Table
from trilane.lab.design.vocabulary import SWEEPS
from trilane.lab.design.words import meant
from trilane.lab.design.workload import (
    ArmOptions,
    ArmSpec,
    Headers,
    Workload,
    body_of,
    told_apart,
)

_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read(path: Path) -> Experiment:
    """Read an experiment file; BadExperiment names file, line and key."""
    return parse(path.read_bytes(), path)


def parse(content: bytes, path: Path) -> Experiment:
    """The experiment in the content of the file `path`."""
    try:
        text = content.decode()
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadExperiment("is not UTF-8", where=f"{_shown(path)}:{line}") from None
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(str(error), text, path) from None
    # Where in the file an arm of a form stands, because a matrix makes several arms.
    origins: dict[Key, Key] = {}
    try:
        return _experiment(Table(document, ()), path, origins)
    except BadExperiment as error:
        lines = toml_lines.lines(text)
        key = _in_file(error.key, origins, lines)
        raise BadExperiment(error.problem, key, f"{_shown(path)}:{_line(key, lines)}") from None


def files(folders: Sequence[Path]) -> dict[str, Path]:
    """Experiment files by name; of two with one name that of the earlier folder."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return found


def find(name: str, folders: Sequence[Path] | None) -> Experiment:
    """The experiment `name` from the first of the folders that has it."""
    folders = places.experiments() if folders is None else folders
    known = files(folders)
    if name in known:
        return read(known[name])
    if not known:
        where = ", ".join(map(str, folders)) or "any folder named experiments"
        raise BadExperiment(f"there is no experiment in {where}")
    raise BadExperiment(f"there is no experiment {name!r}{meant(name, known)}")


def placed(problem: str, key: Key, value: str, experiment: Experiment) -> BadExperiment:
    """The error on a key of an experiment, with file and line where it is still what its file says.

    `value` is what is wrong, for keys such as the `client` of a matrix, which has several.
    """
    unplaced = BadExperiment(problem, key)
    origins: dict[Key, Key] = {}
    if experiment.path is None:
        return unplaced
    try:
        text = experiment.path.read_bytes().decode()
        document = tomllib.loads(text)
        if _experiment(Table(document, ()), experiment.path, origins) != experiment:
            return unplaced
    except (OSError, ValueError):
        return unplaced
    lines = toml_lines.lines(text)
    key = _in_file(key, origins, lines)
    found = _value(document, key)
    if isinstance(found, list) and value in found:
        key = (*key, found.index(value))
    return BadExperiment(problem, key, f"{_shown(experiment.path)}:{_line(key, lines)}")


def _value(document: Any, key: Key) -> Any:
    """What the document has at the key; None where it has nothing there."""
    for part in key:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _shown(path: Path) -> Path:
    """As people would write it here: `experiments/bookstore.toml`."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _unreadable(message: str, text: str, path: Path) -> BadExperiment:
    at = _AT.search(message)
    line = at[1] if at and at[1] else text.count("\n") + 1
    problem = _AT.sub("", message)
    return BadExperiment(
        f"is not TOML: {problem[:1].lower()}{problem[1:]}", where=f"{_shown(path)}:{line}"
    )


def _in_file(key: Key, origins: dict[Key, Key], lines: dict[Key, int]) -> Key:
    """The key as the file has it: arms come from a matrix, some of their values from the form."""
    for length in range(len(key), 0, -1):
        if key[:length] in origins:
            key = origins[key[:length]] + key[length:]
            break
    of_form = (*key[:2], *key[-1:])
    return of_form if key not in lines and of_form in lines else key


def _line(key: Key, lines: dict[Key, int]) -> int:
    """Line of the key, or of the nearest table around it that the file has."""
    while key and key not in lines:
        key = key[:-1]
    return lines.get(key, 1)


def _experiment(table: Table, path: Path, origins: dict[Key, Key]) -> Experiment:
    schema = table.text("schema")
    if schema != SCHEMA:
        raise table.bad("schema", f"is {schema!r}, but this trilane reads {SCHEMA!r}")
    name = table.text("name")
    if name != path.stem:
        raise table.bad("name", f"is {name!r}, but the file is {path.name}: make them agree")
    title, question = table.text("title"), table.text("question")
    hypothesis = table.text("hypothesis", "")
    confounders = table.texts("confounders", ())
    source = _source(table.table("source"))
    forms = table.table("forms")
    table.close()
    found = forms.named() if forms is not None else []
    return Experiment(
        name=name,
        title=title,
        question=question,
        hypothesis=hypothesis,
        confounders=confounders,
        source=source,
        forms={form: _form(form, inner, origins) for form, inner in found},
        path=path,
    )


def _source(table: Table | None) -> Source | None:
    if table is None:
        return None
    source = Source(
        title=table.text("title"),
        author=table.text("author", ""),
        date=table.text("date", ""),
        claim=table.text("claim", ""),
    )
    table.close()
    return source


def _form(name: str, table: Table, origins: dict[Key, Key]) -> Form:
    note = table.text("note", "")
    baseline = table.text("baseline")
    rank = table.text("rank")
    measures = table.texts("measures")
    defaults: ArmOptions = {
        "server": table.text("server", "embedded"),
        "delay_s": table.time("delay", 0.0),
    }
    margin, pin = table.number("margin", 0.05), table.flag("pin", default=False)
    stats = _stats(table.table("stats"))
    workload = _workload(table.table("workload"), table)
    sweep = _sweep(table.table("sweep"))
    in_seconds = sweep is not None and sweep.key == "delay"
    arms = _arms(table, workload, defaults, in_seconds=in_seconds, origins=origins)
    published = tuple(_published(row, in_seconds) for row in table.tables("published"))
    expect = tuple(_expect(row, in_seconds) for row in table.tables("expect"))
    pairs = _pairs(table, "pairs")
    quick = _quick(table.table("quick"), in_seconds)
    table.close()
    return Form(
        name=name,
        note=note,
        baseline=baseline,
        rank=rank,
        measures=measures,
        margin=margin,
        pin=pin,
        stats=stats,
        workload=workload,
        arms=arms,
        sweep=sweep,
        published=published,
        expect=expect,
        quick=quick,
        pairs=pairs,
    )


def _stats(table: Table | None) -> Stats:
    if table is None:
        return Stats()
    stats = Stats(
        blocks=table.whole("blocks", 10),
        publish_blocks=table.whole("publish_blocks", 20),
        aa=table.flag("aa", default=True),
    )
    table.close()
    return stats


def _workload(table: Table | None, form: Table) -> Workload:
    if table is None:
        raise form.bad(None, f"workload is missing: add [{'.'.join(map(str, form.key))}.workload]")
    kind = table.text("kind", "urls")
    content_type = table.text("content_type", None)
    text, size = table.text("body", None), table.whole("body_bytes", None)
    if text is not None and size is not None:
        raise table.bad("body_bytes", "there is a body already: leave one of the two out")
    if size is not None and size < 0:
        raise table.bad("body_bytes", f"must be at least 0, not {size}")
    body_file = table.flag("body_file", default=False)
    if body_file and text is not None:
        raise table.bad("body_file", "there is a body already: give its size as body_bytes")
    timed = table.time("duration", None)
    warmup_requests, warmup_s = _warmup(table)
    workload = Workload(
        kind=kind,
        paths=table.texts("paths", ("/hello",) if kind == "urls" else ()),
        index=table.text("index", None),
        item=table.text("item", None),
        start=table.text("start", None),
        count=table.whole("count", None),
        duration_s=timed,
        method=table.text("method", "GET"),
        body=text.encode() if text else _sized(None if body_file else size, content_type),
        content_type=content_type,
        body_file=body_file,
        file_bytes=size if body_file else None,
        discard=table.flag("discard", default=False),
        headers=_headers(table, ()),
        gzip=table.flag("gzip", default=False),
        in_flight=table.whole("in_flight", None),
        warmup_requests=warmup_requests,
        warmup_s=warmup_s,
        repeat=table.whole("repeat", 1),
        repeat_processes=table.whole("repeat_processes", 0),
        timeout_s=table.time("timeout", 30.0),
    )
    table.close()
    return workload


def _sized(size: int | None, content_type: str | None) -> bytes | None:
    return None if size is None else body_of(size, content_type)


def _warmup(table: Table) -> tuple[int, float]:
    """Requests with a count, a time with a duration."""
    if "duration" in table:
        return 0, table.time("warmup", 0.0)
    return table.whole("warmup", 0), 0.0


def _headers(table: Table, default: Headers) -> Headers:
    found = []
    lines = table.texts("headers", None)
    if lines is None:
        return default
    for index, line in enumerate(lines):
        name, colon, value = line.partition(":")
        if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise table.bad("headers", f"{line!r} is no header: write 'name: value'", index)
        found.append((name, value.strip()))
    return tuple(found)


def _arms(
    table: Table,
    workload: Workload,
    defaults: ArmOptions,
    *,
    in_seconds: bool,
    origins: dict[Key, Key],
) -> tuple[ArmSpec, ...]:
    arms: list[ArmSpec] = []

    def keep(arm: ArmSpec, row: Table) -> None:
        origins[*table.key, "arms", len(arms)] = row.key
        arms.append(arm)

    for row in table.tables("arms"):
        client, version = row.text("client"), row.text("version")
        strategy = row.text("strategy", "serial")
        options = _options(row, defaults, workload, in_seconds)
        options["server"] = row.text("server", defaults["server"])
        for key in ("name", "title", "message", "benchmark"):
            if key in row:
                options[key] = row.text(key)
            else:
                row.text(key, None)
        options["session"] = row.flag("session", default=True)
        row.close()
        keep(workload.arm(client, version, strategy, **options), row)
    for row in table.table_or_tables("matrix"):
        options = _options(row, defaults, workload, in_seconds)
        options["server"] = defaults["server"]
        for arm in expand(row, workload, options):
            keep(arm, row)
    return told_apart(arms)


def _options(row: Table, defaults: ArmOptions, workload: Workload, in_seconds: bool) -> ArmOptions:
    """What an arm or a matrix may set beside what a matrix varies."""
    options: ArmOptions = {
        "delay_s": row.time("delay", defaults["delay_s"]),
        "gzip": row.flag("gzip", default=workload.gzip),
        "headers": _headers(row, workload.headers),
        "tls": row.flag("tls", default=True),
    }
    mode = row.text("mode", None)
    if mode is not None:
        options["mode"] = mode
    at = row.times("at", None) if in_seconds else row.numbers("at", None)
    if at is not None:
        options["at"] = at
    for key in ("in_flight", "connections", "streams", "threads", "processes", "chunk"):
        value = row.whole(key, None)
        if value is not None:
            if value < 1:
                raise row.bad(key, f"must be at least 1, not {value}")
            options[key] = value
    return options


def _sweep(table: Table | None) -> Sweep | None:
    if table is None:
        return None
    key = table.text("key")
    if key not in SWEEPS:
        raise table.bad("key", f"{key!r} cannot be swept{meant(key, SWEEPS)}")
    sweep = Sweep(
        key=key,
        values=table.times("values", ()) if key == "delay" else table.numbers("values", ()),
        unit=table.text("unit", SWEEPS[key]),
        crossings=_pairs(table, "crossings"),
    )
    table.close()
    return sweep


def _pairs(table: Table, name: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for index, pair in enumerate(table.lists(name)):
        if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise table.bad(name, 'takes pairs of arms, such as ["one", "other"]', index)
        pairs.append((pair[0], pair[1]))
    return tuple(pairs)


def _at(table: Table, in_seconds: bool) -> float | None:
    return table.time("at", None) if in_seconds else table.number("at", None)


def _published(table: Table, in_seconds: bool) -> Published:
    values = table.numbers("values")
    if len(values) != 2:
        raise table.bad("values", "takes two numbers: the post's of arm, and of to")
    row = Published(
        measure=table.text("measure"),
        arm=table.text("arm"),
        to=table.text("to"),
        values=(values[0], values[1]),
        at=_at(table, in_seconds),
        where=table.text("where", ""),
    )
    table.close()
    return row


def _expect(table: Table, in_seconds: bool) -> Expect:
    row = Expect(
        measure=table.text("measure"),
        arm=table.text("arm"),
        to=table.text("to"),
        low=table.number("low"),
        high=table.number("high"),
        at=_at(table, in_seconds),
    )
    table.close()
    return row


def _quick(table: Table | None, in_seconds: bool) -> Quick | None:
    if table is None:
        return None
    quick = Quick(
        blocks=table.whole("blocks", None),
        count=table.whole("count", None),
        values=table.times("values", None) if in_seconds else table.numbers("values", None),
        arms=table.texts("arms", None),
        duration_s=table.time("duration", None),
        delay_s=table.time("delay", None),
        repeat=table.whole("repeat", None),
    )
    table.close()
    return quick
