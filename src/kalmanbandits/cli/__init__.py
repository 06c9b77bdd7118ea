"""The command line: `kalmanbandits run | report | check | backtest | fit` and others. Parsing only."""

from kalmanbandits.cli import backtests  # noqa: F401 - adds its commands
from kalmanbandits.cli.commands import answer, main

__all__ = ["answer", "main"]
