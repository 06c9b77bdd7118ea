"""Backtests: what policies would have earned on a table of past rewards, with intervals.

replay = Replay("rewards.csv")
found = line_up(replay)
result = backtest(replay, found.policies)
print(recommend(result))
"""

from kalmanbandits.backtesting.lineup import LineUp, line_up
from kalmanbandits.backtesting.logged import Estimate, Log, evaluate, read_log
from kalmanbandits.backtesting.play import backtest
from kalmanbandits.backtesting.recommendation import Recommendation, recommend
from kalmanbandits.backtesting.result import Backtest
from kalmanbandits.backtesting.training import Trained, train

__all__ = [
    "Backtest", "Estimate", "LineUp", "Log", "Recommendation", "Trained", "backtest", "evaluate", "line_up",
    "read_log", "recommend", "train",
]  # fmt: skip
