"""Where the processor time of one end went, as a flame graph: callers above what they called."""

from __future__ import annotations

import altair as alt
from msgspec import UNSET

from trilane.lab.model.documents import Json
from trilane.lab.model.lab import LabResult
from trilane.lab.model.profile import Code, Frame, Profile
from trilane.report import formatting, view
from trilane.report.charts.base import PLAIN, Chart, data, legend, plain, spec

# Pixels: of a row, and of the whole, which a phone scrolls.
_ROW, _WIDTH = 17, 1000
# Pixels of a letter in a box, and of a box from which on it has a name.
_LETTER, _NAMED = 6.2, 24
_COLOURS: dict[Code, str] = {"program": "#f0b37e", "library": "#f2d98d", "kernel": "#a9c4e4"}


def flames(lab: LabResult) -> list[Chart]:
    """A chart for each end of each arm that was profiled."""
    if lab.profiles is UNSET:
        return []
    titles = view.lab_titles(lab)
    return [_flame(each, titles.get(each.arm, each.arm)) for each in lab.profiles.made]


def _flame(profile: Profile, title: str) -> Chart:
    # What all samples have in common says nothing, and takes the room of what tells them apart.
    below = _common(profile)
    rows = [_box(frame, profile.samples, below) for frame in profile.frames if frame.depth >= below]
    codes = [code for code in _COLOURS if any(row["code"] == code for row in rows)]
    depths = 1 + max(row["depth"] for row in rows)
    base = data(rows).encode(
        x=alt.X(
            "from:Q",
            title="share of the samples (%)",
            scale=alt.Scale(domain=[0, 100], nice=False),
            axis=alt.Axis(format=PLAIN, grid=False),
        ),
        y=alt.Y(
            "depth:Q",
            title=None,
            scale=alt.Scale(domain=[0, depths], reverse=True, nice=False),
            axis=alt.Axis(labels=False, ticks=False, grid=False, domain=False),
        ),
    )
    boxes = base.mark_rect(style="tile", strokeWidth=0.5).encode(
        x2=alt.X2("to:Q"),
        y2=alt.Y2("under:Q"),
        color=alt.Color(
            "code:N",
            scale=alt.Scale(domain=codes, range=[_COLOURS[code] for code in codes]),
            legend=legend(codes),
        ),
        description=alt.Description("said:N"),
    )
    room = f"(datum.share / 100 * width - {_LETTER})"
    name = f"{room} < {_NAMED} ? '' : truncate(datum.name, floor({room} / {_LETTER}))"
    names = base.mark_text(
        align="left", baseline="middle", dx=3, dy=_ROW / 2, fontSize=10.5
    ).encode(text=alt.value(alt.ExprRef(name)), color=alt.value("#1a1d21"))
    return Chart(
        f"flame-{plain(profile.arm)}-{profile.end}",
        f"{title}: CPU of the {profile.end}",
        f"{formatting.counted(profile.samples, 'sample')}, {profile.per_s} per second of CPU time. "
        "Each box is a function below its callers; the wider, the more time it and what it called "
        "took. Order says nothing. [FILE]: functions of a file without their names. Boxes of less "
        "than 0.5 % are left out.",
        spec([boxes, names], _ROW * depths, _WIDTH),
    )


def _common(profile: Profile) -> int:
    """How many functions from the outermost on are in every sample."""
    depth = 0
    while sum(frame.depth == depth for frame in profile.frames) == 1 and any(
        frame.depth == depth and frame.samples == profile.samples for frame in profile.frames
    ):
        depth += 1
    # The last of them stays, as what is below it is its own.
    return max(0, depth - 1)


def _box(frame: Frame, total: int, below: int) -> Json:
    share = 100 * frame.samples / total
    return {
        "name": frame.name,
        "code": frame.code,
        "from": 100 * frame.start / total,
        "to": 100 * (frame.start + frame.samples) / total,
        "depth": frame.depth - below,
        "under": frame.depth - below + 1,
        "share": share,
        "said": f"{frame.name}: {share:.3g} %, {formatting.counted(frame.samples, 'sample')}",
    }
