"""A comparison as one offline HTML file."""

from __future__ import annotations

import altair as alt
import jinja2
import vl_convert

from trilane.lab.arms import TITLES
from trilane.lab.measures import RACE, Json
from trilane.lab.verdict import bound_text
from trilane.report import text
from trilane.report.charts import charts

_MARKS = {
    "higher": "higher",
    "lower": "lower",
    "no_difference": "no difference",
    "undecided": "undecided",
    "invalid": "invalid",
}


def render(comparison: Json) -> str:
    """The whole page: everything that a server said is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("trilane.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(
        "comparison.html.jinja"
    ).render(
        comparison=comparison,
        plan=comparison["plan"],
        baseline=TITLES[comparison["baseline"]],
        titles=TITLES,
        rows=_rows(comparison),
        charts=charts(comparison),
        # "v6.1.0" -> "v6.1": the name vl-convert knows a Vega-Lite release by.
        vega=vl_convert.javascript_bundle(  # type: ignore[call-arg]
            vl_version=".".join(alt.SCHEMA_VERSION.split(".")[:2])
        ),
        text=text,
        bound_text=bound_text,
    )


def _rows(comparison: Json) -> list[Json]:
    """One row per measure, one cell per arm: value with interval, then ratio with finding."""
    ratios = {(row["measure"], row["arm"]): row for row in comparison["ratios"]}
    rows = []
    for measure in RACE:
        summaries = [arm["summary"][measure.name] for arm in comparison["arms"]]
        if all(summary["median"] is None for summary in summaries):
            continue
        factor, unit = text.scale((summary["median"] for summary in summaries), measure.unit)
        floor = comparison["noise_floor"][measure.name]
        rows.append(
            {
                "label": measure.label,
                "unit": "" if measure.unit == "1/s" else unit,
                "floor": f"{floor['low']:.3f}–{floor['high']:.3f}×" if floor else text.NONE,
                "cells": [
                    {
                        "arm": arm["title"],
                        **_cell(
                            summary, factor, ratios.get((measure.name, arm["name"])), measure.better
                        ),
                    }
                    for arm, summary in zip(comparison["arms"], summaries, strict=True)
                ],
            }
        )
    return rows


def _cell(summary: Json, factor: float, ratio: Json | None, better: str) -> Json:
    median, low, high = (
        None if summary[key] is None else summary[key] / factor for key in ("median", "low", "high")
    )
    cell: Json = {
        "value": text.number(median),
        "interval": None if low is None else f"{text.number(low)}–{text.number(high)}",
        "ratio": None,
    }
    if ratio is not None:
        finding = ratio["finding"]
        tone = "plain"
        if finding in ("higher", "lower"):
            tone = "good" if finding == better else "bad"
        cell["ratio"] = text.ratio(ratio)
        cell["finding"] = _MARKS[finding]
        cell["tone"] = "bad" if finding == "invalid" else tone
        cell["p"] = None if ratio["p_holm"] is None else f"p {ratio['p_holm']:.3f}"
    return cell
