"""What every page has in common: one HTML file with its styles, charts and data inside."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from kalmanbandits.reporting.style import looks

Section = tuple[str, str, str]  # anchor, heading, HTML


def assemble(path: Path, title: str, size: str, sections: Sequence[Section], data: Any, script: str) -> Path:
    """Write a page; `data` goes to the `script`, a file of the assets, which draws the charts."""
    from plotly.offline import get_plotlyjs

    text = Template(asset("page.html")).substitute(
        title=escape(title),
        size=escape(size),
        style=asset("page.css"),
        contents="".join(f'<a href="#{key}">{escape(name)}</a>' for key, name, _ in sections),
        sections="\n".join(
            f'<section id="{key}"><h2>{escape(name)}</h2>{body}</section>' for key, name, body in sections
        ),
        plotly=get_plotlyjs(),
        # No "</script>" may stand inside a script.
        data=json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/"),
        script=asset(script),
    )
    path.write_text(text, encoding="utf-8")
    return path


def chips(policies: Sequence[str]) -> str:
    """A switch for each policy, with its line, and two for all of them."""
    found = []
    for i, (name, look) in enumerate(looks(policies).items()):
        dash = {"-": "", "--": "6 3", ":": "2 3", "-.": "7 3 2 3"}[look.line]
        found.append(
            f'<label class="chip" data-policy="{i}"><input type="checkbox" value="{escape(name)}" checked>'
            '<svg viewBox="0 0 26 10" aria-hidden="true"><line x1="0" y1="5" x2="26" y2="5" stroke-width="3" '
            f'stroke="{look.colour}" stroke-dasharray="{dash}"/></svg>{escape(name)}</label>'
        )
    return (
        f"<fieldset><legend>Policies</legend>{''.join(found)}\n"
        '<button type="button" id="all">all</button><button type="button" id="none">none</button></fieldset>'
    )


def image(figure: Path, description: str) -> str:
    """A picture inside the page."""
    content = base64.b64encode(figure.read_bytes()).decode("ascii")
    return f'<figure><img alt="{escape(description)}" src="data:image/png;base64,{content}"></figure>'


def asset(name: str) -> str:
    """The text of a file that lies beside the code."""
    return (resources.files("kalmanbandits.reporting") / "assets" / name).read_text(encoding="utf-8")
