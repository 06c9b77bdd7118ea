"""What commands print."""

from __future__ import annotations

import click


def say(*lines: object, err: bool = False) -> None:
    """Print lines, in which names of files and columns cannot end a line or tell the terminal what to do."""
    click.echo("\n".join(map(one_line, lines)), err=err)


def one_line(text: object) -> str:
    """A text without control characters; escapes stand for them."""
    from kalmanbandits.errors import visible  # with NumPy, for which `--help` does not wait

    return visible(text)
