"""The command line: `kalmanbandits run | report | check | backtest | fit` and others. Parsing only."""

from kalmanbandits.cli import backtests, studies  # noqa: F401 - they add their commands
from kalmanbandits.cli.commands import answer, main

__all__ = ["answer", "main"]
