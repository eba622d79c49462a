"""`trilane race`: its flags, its progress bar, where its results go."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from trilane.cli import units
from trilane.cli.options import Output, State, keep_report
from trilane.cli.units import Usage

if TYPE_CHECKING:
    from trilane.lab import race as lab
    from trilane.lab.model.comparison import Comparison
    from trilane.lab.runner import Entry

HELP = """Race HTTP/1.1, HTTP/2 and HTTP/3 against each other.

Without a URL the embedded server is started, raced and stopped. With https:// the arms are h1,
h2 and h3, with http:// they are h1 and h2c; --h1 --h2 --h2c --h3 choose among them. Every arm
keeps the same number of requests in flight: h1 on as many connections, h2 and h3 on 4.

Each block runs every arm once and one of them twice, in random order: what arms differ from
themselves is the noise floor. Of three arms, ten blocks can show a difference with one block that
disagrees; with six, the fewest that can show one at all, all must agree.

Exit codes: 0 done, 1 could not run, 2 wrong usage, 4 the measurement is invalid, 130 interrupted
(what was measured is still reported)."""

OK, FAILED, INVALID, INTERRUPTED = 0, 1, 4, 130
_REPORT = Path("report.html")


def race(  # noqa: PLR0913, PLR0917 - one parameter per flag
    url: Annotated[
        str | None, typer.Argument(metavar="URL", show_default=False, help="What to race against.")
    ] = None,
    h1: Annotated[bool, typer.Option("--h1", help="Race HTTP/1.1.")] = False,
    h2: Annotated[bool, typer.Option("--h2", help="Race HTTP/2 over TLS.")] = False,
    h2c: Annotated[bool, typer.Option("--h2c", help="Race HTTP/2 in cleartext.")] = False,
    h3: Annotated[bool, typer.Option("--h3", help="Race HTTP/3.")] = False,
    in_flight: Annotated[
        str | None, typer.Option(metavar="N", help="Requests in flight in every arm. [default: 64]")
    ] = None,
    connections: Annotated[
        str | None,
        typer.Option("-c", "--connections", metavar="N", help="Connections of h2 and h3."),
    ] = None,
    streams: Annotated[
        str | None,
        typer.Option("-m", "--streams", metavar="N", help="Streams per connection of h2 and h3."),
    ] = None,
    blocks: Annotated[
        str | None,
        typer.Option(metavar="N", help="Blocks. [default: 10]"),
    ] = None,
    duration: Annotated[
        str, typer.Option("-d", "--duration", "-z", "-D", metavar="TIME", help="Length of a run.")
    ] = "1s",
    warmup: Annotated[str, typer.Option(metavar="TIME", help="Warm-up of a run.")] = "1s",
    timeout: Annotated[str, typer.Option(metavar="TIME", help="Limit of one request.")] = "30s",
    baseline: Annotated[
        str | None,
        typer.Option(metavar="ARM", help="The arm ratios refer to. [default: the oldest version]"),
    ] = None,
    margin: Annotated[
        str, typer.Option(metavar="SHARE", help="What counts as no difference.")
    ] = "5%",
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="Seed of order and bootstrap. [default: random]")
    ] = None,
    threads: Annotated[
        str,
        typer.Option("-t", "--threads", metavar="N", help="Client threads, server threads too."),
    ] = "1",
    header: Annotated[
        list[str] | None,
        typer.Option("-H", "--header", metavar="FIELD", help="Header field 'name: value'."),
    ] = None,
    method: Annotated[
        str | None, typer.Option("-X", "--method", metavar="METHOD", help="Request method.")
    ] = None,
    body: Annotated[
        str | None, typer.Option("-b", "--body", metavar="TEXT", help="Request body, or @file.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("-k", "--insecure", help="Accept any certificate.")
    ] = False,
    cacert: Annotated[
        str | None, typer.Option(metavar="FILE", help="Trust this certificate authority.")
    ] = None,
    cert: Annotated[str | None, typer.Option(metavar="FILE", help="Client certificate.")] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="Its private key.")] = None,
    sni: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name to ask for and to verify.")
    ] = None,
    connect_to: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Connect here instead.")
    ] = None,
    connect_timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Limit of a connect and handshake.")
    ] = None,
    expect_status: Annotated[
        str | None, typer.Option(metavar="CODES", help="What counts as ok, such as 200-299,404.")
    ] = None,
    congestion_control: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the TCP arms. [default: cubic, like QUIC, if here]"),
    ] = None,
    no_pin: Annotated[
        bool, typer.Option("--no-pin", help="Do not pin client and server to CPUs.")
    ] = False,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the report goes.")] = _REPORT,
    state: State = None,
    output: Output = "text",
) -> int:
    """Run the command; the exit code."""
    try:
        from trilane.lab import race as lab
        from trilane.lab.arms import BadArms
        from trilane.lab.runner import Misused
    except ModuleNotFoundError as error:
        return _fail(
            f"`trilane race` needs the package {error.name}",
            "type: pip install 'trilane[lab]'",
        )
    flags = _passed_on(
        ("-H", header or ()),
        *(
            (flag, () if value is None else (value,))
            for flag, value in (
                ("-X", method),
                ("-b", body),
                ("--cacert", cacert),
                ("--cert", cert),
                ("--key", key),
                ("--sni", sni),
                ("--connect-to", connect_to),
                ("--connect-timeout", connect_timeout),
                ("--expect-status", expect_status),
            )
        ),
    )
    if insecure:
        flags.append("-k")
    wanted = lab.Wanted(
        url=url,
        versions=[n for n, on in (("h1", h1), ("h2", h2), ("h2c", h2c), ("h3", h3)) if on],
        in_flight=_count("--in-flight", in_flight),
        connections=_count("-c", connections),
        streams=_count("-m", streams),
        baseline=baseline,
        blocks=_count("--blocks", blocks),
        duration_s=units.duration("-d", duration),
        warmup_s=units.duration("--warmup", warmup, zero=True),
        timeout_s=units.duration("--timeout", timeout),
        seed=None if seed is None else units.seed("--seed", seed),
        margin=units.share("--margin", margin),
        threads=units.count("-t", threads),
        pin=not no_pin,
        congestion_control=congestion_control,
        flags=flags,
        state=state,
        command=["trilane", *sys.argv[1:]],
    )
    if report.is_dir() or not report.absolute().parent.is_dir():
        raise Usage(f"--report takes a file in a folder that exists, not {str(report)!r}")
    try:
        with _watcher(Console(stderr=True)) as watcher:
            result = lab.run(wanted, watcher)
    except (BadArms, Misused) as error:
        raise Usage(str(error)) from error
    except lab.CannotRace as error:
        return _fail(str(error))
    return _tell(result, report, output)


def _tell(result: lab.Result, report: Path, output: str) -> int:
    import msgspec

    from trilane.report import html, terminal

    comparison = result.comparison
    report = keep_report(html.render(comparison), result.folder, report)
    if output == "json":
        sys.stdout.write(msgspec.json.encode(comparison).decode() + "\n")
    else:
        terminal.show(comparison, Console())
        sys.stdout.flush()
    sys.stderr.write(f"report: {report}\nruns: {result.folder}\n")
    return _exit_code(comparison)


def _exit_code(comparison: Comparison) -> int:
    if comparison.interrupted:
        return INTERRUPTED
    return INVALID if comparison.validity.verdict == "invalid" else OK


def _passed_on(*options: tuple[str, list[str] | tuple[str, ...]]) -> list[str]:
    return [word for flag, values in options for value in values for word in (flag, value)]


def _count(flag: str, text: str | None) -> int | None:
    return None if text is None else units.count(flag, text)


def _fail(message: str, hint: str | None = None) -> int:
    sys.stderr.write(f"trilane race: error: {message}\n" + (f"{hint}\n" if hint else ""))
    return FAILED


class _TimeLeft(ProgressColumn):
    """Time left, counted down between runs as well: their length is known beforehand."""

    max_refresh = 0.25

    def render(self, task: Task) -> Text:
        done, total = int(task.completed), int(task.total or 0)
        now = time.monotonic()
        begun, each = task.fields["begun"], task.fields["each"]
        if done:
            # What runs really took, start and handshakes included.
            each = (task.fields["stepped"] - begun) / done
        left = max(0.0, (total - done) * each - (now - task.fields["stepped"]))
        minutes, seconds = divmod(round(left), 60)
        return Text(f"{minutes}:{seconds:02} left", style="progress.remaining")


@contextmanager
def _watcher(console: Console) -> Iterator[lab.Watcher]:
    from trilane.lab import race as lab

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        _TimeLeft(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    started: list[Task] = []

    def say(message: str) -> None:
        console.print(message, style="dim", highlight=False, markup=False, soft_wrap=True)

    def begin(runs: int, each: float) -> None:
        if not console.is_terminal:
            say(f"{runs} runs of {each:g} s: about {runs * each:.0f} s")
        now = time.monotonic()
        task = progress.add_task("racing", total=runs, begun=now, stepped=now, each=each)
        started.append(progress.tasks[progress.task_ids.index(task)])

    def step(entry: Entry) -> None:
        task = started[0]
        first = entry.block == 0 and entry.position == 0
        if not first:
            progress.update(task.id, advance=1, stepped=time.monotonic())
        title = f"block {entry.block + 1}: {entry.arm.title}"
        progress.update(task.id, description=f"{title:<28}")

    with progress:
        yield lab.Watcher(say=say, begin=begin, step=step)
