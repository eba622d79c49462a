"""What files say of the project to others: one version, address and list of versions of Python."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml

from repository import ROOT


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def yml(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return read


WORKSPACE = toml("Cargo.toml")["workspace"]
PACKAGE = WORKSPACE["package"]
PROJECT = toml("pyproject.toml")["project"]
CITATION = yml("CITATION.cff")


def test_a_citation_is_of_this_version_and_project() -> None:
    assert CITATION["version"] == PACKAGE["version"]
    assert [each["name"] for each in CITATION["authors"]] == PACKAGE["authors"]
    assert " OR ".join(CITATION["license"]) == PACKAGE["license"] == PROJECT["license"]
    assert [each["name"] for each in PROJECT["authors"]] == PACKAGE["authors"]


def test_the_address_of_the_project_is_one() -> None:
    address = PACKAGE["repository"]
    assert CITATION["repository-code"] == PROJECT["urls"]["Repository"] == address
    (contact,) = yml(".github/ISSUE_TEMPLATE/config.yml")["contact_links"]
    for url in (*PROJECT["urls"].values(), contact["url"]):
        assert url == address or url.startswith(f"{address}/")
    for member in WORKSPACE["members"]:
        package = toml(f"{member}/Cargo.toml")["package"]
        assert package["repository"] == package["authors"] == {"workspace": True}, member


def test_every_python_that_is_named_is_tested() -> None:
    said = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert yml(".github/workflows/ci.yml")["jobs"]["python"]["strategy"]["matrix"]["python"] == said
    assert PROJECT["requires-python"] == f">={said[0]}"


def test_what_is_compiled_in_is_in_the_sdist() -> None:
    """Cargo's packages have their own folders; what lies beside them has to be named."""
    included = toml("pyproject.toml")["tool"]["maturin"]["include"]
    there = {
        path
        for entry in included
        if isinstance(entry, dict) and entry["format"] == "sdist"
        for path in ROOT.glob(entry["path"])
    }
    # `conformance` is for tests alone.
    sources = (
        source
        for crate in (ROOT / "crates").iterdir()
        if crate.name != "conformance"
        for source in crate.glob("src/**/*.rs")
    )
    outside = {
        path
        for source in sources
        for found in re.findall(
            r'include_(?:str|bytes)!\(\s*"([^"]+)"', source.read_text(encoding="utf-8")
        )
        if not (path := (source.parent / found).resolve()).is_relative_to(ROOT / "crates")
    }
    assert outside
    assert outside - there == set()
