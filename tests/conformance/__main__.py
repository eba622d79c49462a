"""Write `docs/conformance.md` anew."""

from .document import PAGE, text

PAGE.write_text(text(), encoding="utf-8")
