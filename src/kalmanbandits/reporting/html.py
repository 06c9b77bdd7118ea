"""Text on its way into a page: escaped once, and by nothing but this."""

from __future__ import annotations

import html
import json

from kalmanbandits.errors import visible


class Html(str):
    """Text that is HTML already. Whatever is not of this type is escaped before it enters a page."""


def escape(value: object) -> Html:
    r"""Any value as HTML that shows it.

    >>> escape("<b>\x1b"), escape(Html("<b>"))
    ('&lt;b&gt;\\x1b', '<b>')
    """
    if isinstance(value, Html):
        return value
    lines = str(value).replace("\r\n", "\n").expandtabs(4).split("\n")  # the file of a study has many
    return Html(html.escape("\n".join(map(visible, lines))))


def script_data(data: object) -> str:
    r"""Data as JSON for the inside of a `<script>`: nothing in it can end the script or open a comment.

    >>> print(script_data({"label": "</script><!--<script>"}))
    {"label":"\u003c/script\u003e\u003c!--\u003cscript\u003e"}
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # in ASCII, of which DEL is the last
    for letter in "<>&\x7f":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
