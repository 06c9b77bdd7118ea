"""Text on its way into a page: escaped once, and by nothing but this."""

from __future__ import annotations

import html
import json


class Html(str):
    """Text that is HTML already. Whatever is not of this type is escaped before it enters a page."""


def escape(value: object) -> Html:
    """Any value as HTML that shows it.

    >>> escape("<b>"), escape(Html("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    return value if isinstance(value, Html) else Html(html.escape(_whole(str(value))))


def _whole(text: str) -> str:
    """A text without lone surrogates, which names of files may have and no page can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def script_data(data: object) -> str:
    r"""Data as JSON for the inside of a `<script>`: nothing in it can end the script or open a comment.

    >>> print(script_data({"label": "</script><!--<script>"}))
    {"label":"\u003c/script\u003e\u003c!--\u003cscript\u003e"}
    """
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return _whole(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
