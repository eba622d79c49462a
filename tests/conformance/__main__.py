"""Write `docs/conformance.md` and `cases.json` anew."""

from . import data, document

document.PAGE.write_text(document.text(), encoding="utf-8")
data.FILE.write_text(data.text(), encoding="utf-8")
