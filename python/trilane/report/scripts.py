"""What draws the charts of a page: Vega, Vega-Lite and Vega-Embed as one script."""

from __future__ import annotations

import contextlib
import importlib.metadata

import altair as alt
import vl_convert

from trilane.lab.storage import store


def vega() -> str:
    """The script for the charts that Altair makes.

    vl-convert takes seconds of CPU to put it together, so it is kept in the cache folder, by the
    versions that it comes from.
    """
    # "v6.1.0" -> "v6.1": the name vl-convert knows a Vega-Lite release by.
    vega_lite = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    converter = importlib.metadata.version("vl-convert-python")
    kept = store.cache_folder() / "scripts" / f"vega-lite-{vega_lite}-{converter}.js"
    # A folder that cannot be read or written costs the time, not the report.
    with contextlib.suppress(OSError):
        return kept.read_text(encoding="utf-8")
    script: str = vl_convert.javascript_bundle(vl_version=vega_lite)  # type: ignore[call-arg]
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        store.write_text(kept, script)
    return script
