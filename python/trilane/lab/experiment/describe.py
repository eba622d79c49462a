"""An experiment in words, for the terminal, for Jupyter and for reports."""

from __future__ import annotations

import jinja2

from trilane.lab.experiment.experiment import Experiment, Source
from trilane.lab.experiment.form import MOST_TIMES, Answer, Form, Published
from trilane.lab.experiment.vocabulary import MESSAGES
from trilane.lab.experiment.workload import ArmSpec
from trilane.quantity import time_left, time_text, value_text

# What goes without saying when all arms have it.
_PLAIN = {
    "session": "yes",
    "gzip": "no",
    "headers": "0",
    "at": "all",
    "message": "",
    "benchmark": "",
    "command": "",
    "rate": "",
    "congestion control": "",
    "flags": "",
    "flags of the server": "",
}
# What tells arms apart, by kind of the workload; other columns only where their values differ.
_FIXED = {
    "call": ("arm", "version", "in flight", "server", "message"),
    "benchmark": ("arm", "client", "version", "benchmark"),
    "command": ("arm", "command"),
}
_FIXED_OTHERS = ("arm", "client", "version", "strategy", "in flight")
PUBLISHED_COLUMNS = ("measure", "arm", "to", "at", "published", "ratio", "where")


def html(experiment: Experiment) -> str:
    """A fragment of HTML: question, workload and arms of every form. Everything is escaped."""
    template = templates("trilane.lab.experiment").get_template("experiment.html.jinja")
    return template.render(
        confounded=confounders(experiment),
        experiment=experiment,
        source=experiment.source and source(experiment.source),
        workload=workload,
        statistics=statistics,
        arms=arms,
        published_columns=PUBLISHED_COLUMNS,
        published_cells=published_cells,
    )


def confounders(experiment: Experiment) -> str:
    """What the list of an experiment's confounders is called."""
    return "Confounded as published" if experiment.source else "To be borne in mind"


def templates(package: str) -> jinja2.Environment:
    """The templates of a package: they escape what they show, and refuse names they do not know."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def plain(experiment: Experiment) -> str:
    """An experiment in a few lines of plain text."""
    lines = [f"{experiment.name}: {experiment.title}", experiment.question]
    for form in experiment.forms.values():
        names = ", ".join(arm.name for arm in form.arms)
        lines += ["", f"{form.name}: {workload(form)}", statistics(form), f"arms: {names}"]
    return "\n".join(lines)


def source(source: Source) -> str:
    """Title, author and date of the post, as far as they are known."""
    return ", ".join(part for part in (source.title, source.author, source.date) if part)


def workload(form: Form) -> str:
    """What every arm does, in one sentence."""
    work = form.workload
    asked = _asked(form)
    if work.body is not None:
        asked += f", with a body of {len(work.body):,} B"
    elif work.body_file:
        size = "" if work.file_bytes is None else f" of {work.file_bytes:,} B"
        asked += f", with a body from a file{size}"
    if work.discard:
        asked += ", bodies counted and thrown away"
    if work.check_body:
        asked += ", every body checked"
    parts = [asked, _length(form)]
    if work.repeat > 1:
        pool = f" in a pool of {work.repeat_processes} processes" if work.repeat_processes else ""
        parts.append(f"all of it {work.repeat} times{pool}")
    if form.sweep is not None and form.sweep.key != "count":
        parts.append(f"at {values(form)}")
    return ", ".join(part for part in parts if part)


def statistics(form: Form) -> str:
    """How often the arms run, and what decides."""
    twice = ", one arm twice in each" if form.stats.aa else ""
    pinned = ", client and server on CPUs of their own" if form.pin else ""
    pinned += ", processors kept from halting" if form.awake else ""
    pinned += f", in turns of {1e3 * form.turn_s:g} ms" if form.turn_s else ""
    pairs = f", {len(form.pairs)} pairs with each other" if form.pairs else ""
    pairs += "".join(f", {question}" for question in form.compare)
    first = "" if form.answer is None else f"; first in the verdict: {_answer(form.answer)}"
    return (
        f"{_blocks(form)}{twice}; "
        f"compared with {form.baseline}{pairs}, ranked by {form.rank}{pinned}{first}"
    )


def _blocks(form: Form) -> str:
    plan = form.stats
    if not plan.until_decided:
        return f"{plan.blocks} blocks ({plan.publish_blocks} with --publish)"
    each = "it is" if form.sweep is None else "each point is"
    most, to_publish = MOST_TIMES * plan.blocks, MOST_TIMES * plan.publish_blocks
    within, without = "", ""
    if plan.within_s is not None:
        within = f", those after the first look within {time_left(plan.within_s)}"
        without = ", however long they take"
    return (
        f"blocks until {each} decided: {most} at most{within} "
        f"({to_publish} at most with --publish{without})"
    )


def _answer(answer: Answer) -> str:
    if answer.pair is not None:
        return f"{answer.pair[0]} against {answer.pair[1]}"
    return str(answer.compare or answer.measure)


def arms(form: Form) -> tuple[list[str], list[list[str]], str]:
    """The table of the arms: columns, rows, and in a line what is the same in all of them."""
    rows = [_facts(arm) for arm in form.arms]
    fixed = _FIXED.get(form.workload.kind, _FIXED_OTHERS)
    varied = [
        column for column in rows[0] if column in fixed or len({row[column] for row in rows}) > 1
    ]
    same = [
        f"{column} {value}"
        for column, value in rows[0].items()
        if column not in varied and _PLAIN.get(column) != value
    ]
    return varied, [[row[column] for column in varied] for row in rows], "; ".join(same)


def published_cells(row: Published) -> tuple[str, ...]:
    """One row of the table of published numbers, as `PUBLISHED_COLUMNS` names it."""
    return (
        row.measure,
        row.arm,
        row.to,
        "" if row.at is None else value_text(row.at),
        " against ".join(value_text(value) for value in row.values),
        f"{row.ratio:.2f}×",
        row.where,
    )


def values(form: Form) -> str:
    """The values of the sweep with their unit; empty without one."""
    sweep = form.sweep
    if sweep is None:
        return ""
    if sweep.key == "rtt":
        texts = [time_text(float(value)) for value in sweep.values]
        unit = "of round trip"
    else:
        texts, unit = [value_text(value) for value in sweep.values], sweep.unit
    listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    return f"{listed} {unit}".strip()


def _asked(form: Form) -> str:
    work = form.workload
    if work.kind == "index":
        return f"{work.method} {work.index}, then {work.item} for each id"
    if work.kind == "crawl":
        return f"{work.method} {work.start} and the pages that it leads to"
    if work.kind == "call":
        return "GetBook of the library, as each arm writes it"
    if work.kind == "benchmark":
        return "one process of `go test -bench` for each run, client and server in it"
    if work.kind == "command":
        return "a command, timed from outside, again and again in each run"
    others = len(work.paths) - 1
    rest = f" and {others} more path{'s' if others > 1 else ''} in turn" if others else ""
    return f"{work.method} {work.paths[0]}{rest}"


def _length(form: Form) -> str:
    work = form.workload
    if work.duration_s is not None:
        return f"for {time_text(work.duration_s)}"
    if form.sweep is not None and form.sweep.key == "count":
        return values(form)
    if work.count is None:
        return ""
    counted = {
        "urls": "request",
        "index": "id",
        "crawl": "page",
        "call": "call",
        "benchmark": "iteration",
        "command": "execution",
    }[work.kind]
    most = "at most " if work.kind in {"index", "crawl"} else ""
    return f"{most}{work.count:,} {counted}{'' if work.count == 1 else 's'}"


def _facts(arm: ArmSpec) -> dict[str, str]:
    return {
        "arm": arm.name,
        "client": arm.client,
        "version": arm.version if arm.tls else f"{arm.version} plain",
        "strategy": arm.strategy,
        "in flight": _in_flight(arm),
        "session": "yes" if arm.session else "no",
        "server": arm.server,
        "message": _message(arm),
        "benchmark": arm.benchmark or "",
        "command": arm.command or "",
        "rate": "" if arm.rate is None else f"{value_text(arm.rate)}/s",
        "network": arm.network or "direct",
        "congestion control": arm.congestion_control or "",
        "flags": " ".join(arm.flags),
        "flags of the server": " ".join(arm.server_flags),
        "gzip": "yes" if arm.gzip else "no",
        "headers": f"{len(arm.headers)}",
        "at": "all" if arm.at is None else ", ".join(map(value_text, arm.at)),
    }


def _message(arm: ArmSpec) -> str:
    written = MESSAGES[arm.message] if arm.message else ""
    return f"{written} ({arm.mode})" if arm.mode else written


def _in_flight(arm: ArmSpec) -> str:
    if arm.strategy == "load":
        return f"{arm.connections} × {arm.streams}"
    if arm.strategy == "processes_asyncio":
        return f"{arm.processes} × {arm.in_flight}"
    return f"{arm.in_flight}"
