"""The command line: `kalmanbandits run | report | reproduce | check | list`. Parsing only."""

from kalmanbandits.cli.commands import answer, main

__all__ = ["answer", "main"]
