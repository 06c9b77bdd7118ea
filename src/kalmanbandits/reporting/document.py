"""What every page has in common: one HTML file with its styles, charts and data inside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

from kalmanbandits.reporting.html import Html, escape, script_data
from kalmanbandits.reporting.style import STROKES, looks

Section = tuple[str, str, str]  # anchor, heading, HTML


def assemble(
    path: Path, title: str, size: str, sections: Sequence[Section], data: object, script: str | None
) -> Path:
    """Write a page; `data` goes to the `script`, a file of the assets, which draws the charts, if any.

    The page loads nothing from elsewhere, and its content security policy allows no scripts but its own:
    they are named by their hashes, so that a script which came in some other way would not run.
    """
    style, scripts = asset("page.css"), [asset("charts.js"), asset(script) if script else ""]
    text = Template(asset("page.html")).substitute(
        title=escape(title),
        size=escape(size),
        policy=f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; "
        f"style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'",
        style=style,
        contents="".join(f'<a href="#{escape(key)}">{escape(name)}</a>' for key, name, _ in sections),
        sections="\n".join(
            f'<section id="{escape(key)}"><h2>{escape(name)}</h2>{body}</section>'
            for key, name, body in sections
        ),
        data=script_data(data),
        library=scripts[0],
        script=scripts[1],
    )
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _hash(script: str) -> str:
    """How a content security policy names a script or a style sheet."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def chips(policies: Sequence[str]) -> Html:
    """A switch for each policy, with its line, and two for all of them."""
    found = []
    for i, (name, look) in enumerate(looks(policies).items()):
        found.append(
            f'<label class="chip" data-policy="{i}"><input type="checkbox" value="{escape(name)}" checked>'
            '<svg viewBox="0 0 26 10" aria-hidden="true"><line x1="0" y1="5" x2="26" y2="5" stroke-width="3" '
            f'stroke="{look.colour}" stroke-dasharray="{STROKES[look.line]}"/></svg>{escape(name)}</label>'
        )
    return Html(
        f"<fieldset><legend>Policies</legend>{''.join(found)}\n"
        '<button type="button" id="all">all</button><button type="button" id="none">none</button></fieldset>'
    )


def image(figure: Path, description: str) -> Html:
    """A picture inside the page."""
    content = base64.b64encode(figure.read_bytes()).decode("ascii")
    return Html(f'<figure><img alt="{escape(description)}" src="data:image/png;base64,{content}"></figure>')


def asset(name: str) -> str:
    """The text of a file that lies beside the code."""
    return (resources.files("kalmanbandits.reporting") / "assets" / name).read_text(encoding="utf-8")
