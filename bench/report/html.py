"""The report as one HTML page that needs nothing beside it: styles, scripts and plots are inside.

Styles and scripts are the project's own, in files beside the template; scripts run by their hashes, so that nothing
else on the page can, whatever a name or a reason holds.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import markupsafe

from bench.report.content import Report, Section
from bench.report.sheets import Sheet

_FOLDER = Path(__file__).parent
# classes of the cells that set one model against another
_VERDICTS = {"+": "better", "-": "worse", "~": "tie"}
_PX_PER_PT = 4 / 3


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A section with its address on the page.  The models of a group are those of one text and vocabulary."""

    section: Section
    anchor: str
    group: int

    @property
    def is_lead(self) -> bool:
        """Whether its sentences are an answer, to be read first."""
        return self.section.level == 2 and not self.section.html


@dataclass(frozen=True, kw_only=True)
class _Picture:
    """A plot inside the page.  Its size lets a browser lay the page out before it draws what is not in sight yet."""

    url: str
    width_px: int
    height_px: int


def to_html(report: Report, plots: Path) -> str:
    """The page.  `plots` is the folder of the drawn figures; every text is escaped by the template engine."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"pieces": pieces, "column_classes": column_classes}
    scripts = _inlined("js")
    page = environment.get_template("page.html.jinja").render(
        report=report,
        parts=_parts(report.sections),
        kinds=sorted({kind for kinds in report.kinds.values() for kind in kinds.split()}),
        has_sizes=_has_sizes(report.sections),
        picture=_pictures_in(plots),
        styles=_inlined("css"),
        scripts=scripts,
        policy=_policy(scripts),
        verdicts=_VERDICTS,
    )
    # what no page can hold; a browser would drop it in one place and replace it in another
    return page.replace("\0", "\N{REPLACEMENT CHARACTER}")


def pieces(name: str) -> list[str]:
    """A model's name cut where a line may end: after a colon, a comma or a plus sign."""
    return re.findall(r"[^:,+]*[:,+]|[^:,+]+", name)


def column_classes(sheet: Sheet) -> list[str]:
    """The classes of a table's columns: how each is aligned, and which stay in sight when it is scrolled sideways.

    Pinned is what a row is about, its model or its first cell; a rank before it stays too.
    """
    pinned = max(sheet.align.find("n"), 0)
    stays = dict.fromkeys(range(pinned), "rank") | {pinned: "pinned"}
    return [f"{letter} {stays.get(place, '')}".rstrip() for place, letter in enumerate(sheet.align)]


def _has_sizes(sections: Sequence[Section]) -> bool:
    """Whether the example of a limit means anything on the page."""
    return any("size" in header for section in sections for sheet in section.sheets for header in sheet.headers)


def _parts(sections: Sequence[Section]) -> list[_Part]:
    """With several texts each has a section of level 2, and those below it are a group; else all are one."""
    several = any(section.level > 2 for section in sections)
    parts, n_top = [], 0
    for place, section in enumerate(sections, start=1):
        n_top += section.level == 2
        anchor = f"part-{n_top}" if section.level == 2 else f"part-{n_top}-{place}"
        parts.append(_Part(section=section, anchor=anchor, group=n_top if several else 0))
    return parts


def _inlined(suffix: str) -> list[markupsafe.Markup]:
    """The project's own styles or scripts, as they are; the page's first."""
    paths = sorted(_FOLDER.glob(f"*.{suffix}"), key=lambda path: (path.stem != "page", path.stem))
    return [markupsafe.Markup(path.read_text(encoding="utf-8")) for path in paths]


def _policy(scripts: Sequence[str]) -> str:
    """What a browser may do for this page: run these scripts, show what is inside; no request leaves it."""
    digests = [base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii") for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _pictures_in(plots: Path) -> Callable[[str], _Picture]:
    def picture(stem: str) -> _Picture:
        svg = (plots / f"{stem}.svg").read_bytes()
        size = re.search(rb'<svg[^>]*viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg)
        width_px, height_px = (round(float(pt) * _PX_PER_PT) for pt in size.groups()) if size else (0, 0)
        url = "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")
        return _Picture(url=url, width_px=width_px, height_px=height_px)

    return picture
