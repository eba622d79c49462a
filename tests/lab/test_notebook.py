"""The notebook of examples/: its cells run, and show what a reader is told that they show."""

from __future__ import annotations

import ast
import html
import json
from pathlib import Path
from typing import Any

import pytest

from repository import ROOT

NOTEBOOK = ROOT / "examples" / "experiment.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> object:
    """What Jupyter would show below the cell: the value of its last expression."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)  # noqa: S102 - our own
    if not isinstance(last, ast.Expr):
        return None
    shown: object = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)  # noqa: S307
    return shown


def test_the_cells_of_the_notebook_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    shown = [
        run_cell("".join(cell["source"]), names)
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]
    displayed = [value for value in shown if value is not None]
    assert [type(value).__name__ for value in displayed] == ["Experiment", "LabResult"]
    result: Any = displayed[1]
    # The verdict of a suspect run may have an apostrophe.
    assert result.verdict in html.unescape(result._repr_html_())
    assert not result.interrupted
    assert len(list(tmp_path.glob("trilane/runs/*-small-fair/runs/*.json"))) == 18
    printed = capsys.readouterr().out
    assert "engine-h2-load requests_per_s" in printed
    assert printed.count("HTTP/2") == 9
    # It is repeated from its folder: there is no command that has the experiment.
    assert result.command.startswith("trilane lab replay ")


def test_the_notebook_is_kept_without_what_its_cells_printed() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    for cell in notebook["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
