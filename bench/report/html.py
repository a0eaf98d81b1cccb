"""The report as one HTML page that needs nothing beside it: styles, scripts and plots are inside."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path

import jinja2
import markupsafe

from bench.report.content import Report

_FOLDER = Path(__file__).parent


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
    environment.filters["pieces"] = pieces
    return environment.get_template("page.html.jinja").render(
        report=report, data_url=_data_url_in(plots), styles=_inlined("css"), scripts=_inlined("js")
    )


def _inlined(suffix: str) -> list[markupsafe.Markup]:
    """The project's own styles or scripts, as they are; the page's first."""
    paths = sorted(_FOLDER.glob(f"*.{suffix}"), key=lambda path: (path.stem != "page", path.stem))
    return [markupsafe.Markup(path.read_text(encoding="utf-8")) for path in paths]


def pieces(name: str) -> list[str]:
    """A model's name cut where a line may end: after a colon, a comma or a plus sign."""
    return re.findall(r"[^:,+]*[:,+]|[^:,+]+", name)


def _data_url_in(plots: Path) -> Callable[[str], str]:
    def data_url(stem: str) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode((plots / f"{stem}.svg").read_bytes()).decode("ascii")

    return data_url
