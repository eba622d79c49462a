"""Pages whose charts are empty: what tests ask of a page is seldom in its drawings.

The first chart of a process takes half a second, a page a second or two. A test that looks at
drawings says so: it uses the fixture `drawn`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import vl_convert

_EMPTY = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"></svg>'


@pytest.fixture
def drawn() -> None:
    """Charts are drawn in this test."""


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Charts are not drawn."""
    if "drawn" in request.fixturenames:
        yield
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vl_convert, "vegalite_to_svg", lambda *_, **__: _EMPTY)
        yield
