"""A result in a notebook: its verdict and tables as rich display."""

from __future__ import annotations

from dataclasses import dataclass

from trilane.report.view import Result


@dataclass(frozen=True, slots=True)
class Display:
    """Shows a `trilane.lab/1` or `trilane.comparison/1` where Python objects are displayed."""

    result: Result

    def _repr_html_(self) -> str:
        from trilane.report import html  # noqa: PLC0415 - charts and vl-convert only when shown

        return html.fragment(self.result)

    def __repr__(self) -> str:
        return str(self.result.verdict)
