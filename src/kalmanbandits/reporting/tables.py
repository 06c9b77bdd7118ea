"""Tables of a page, as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from kalmanbandits.reporting.html import Html, escape


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "", body: str = "") -> Html:
    """A table as HTML.

    Parameters
    ----------
    head
        The names of the columns; one that starts with `#` holds numbers.
    rows
        The cells. Text is escaped, `Html` goes in as it is.
    kind, body
        A class for the table, and an id for its body.
    """
    classes = [' class="n"' if name.startswith("#") else "" for name in head]
    names = [escape(name.removeprefix("#")) for name in head]
    top = "".join(f"<th{cls}>{name}</th>" for name, cls in zip(names, classes, strict=True))
    lines = [
        "<tr>"
        + "".join(
            f'<td{cls} data-label="{name}">{escape(entry)}</td>'
            for name, cls, entry in zip(names, classes, row, strict=True)
        )
        + "</tr>"
        for row in rows
    ]
    rows_id = f' id="{body}"' if body else ""
    return Html(
        f'<div class="scroll"><table class="{kind}"><thead><tr>{top}</tr></thead>'
        f"<tbody{rows_id}>{''.join(lines)}</tbody></table></div>"
    )


def below(text: object, more: object, kind: str) -> Html:
    """A text, and under it a smaller one."""
    return Html(f'{escape(text)}<span class="{kind}">{escape(more)}</span>')


def manifest_table(manifest: Mapping[str, object]) -> Html:
    """What was computed, with what, where and when."""
    rows = [[str(key), _value(value)] for key, value in manifest.items() if value not in ({}, "", None, [])]
    return table(["key", "value"], rows, "facts")


def _value(value: object) -> Html:
    if isinstance(value, Mapping):
        lines = [f"{key}: {_text(entry)}" for key, entry in value.items()]
    elif isinstance(value, list):
        lines = [_text(entry) for entry in value]
    else:
        lines = [_text(value)]
    return Html("<br>".join(escape(line) for line in lines))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
