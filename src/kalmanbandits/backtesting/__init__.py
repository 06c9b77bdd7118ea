"""Backtests: how policies would have done on a table of past rewards, and how sure that is.

replay = Replay("rewards.csv")
found = line_up(replay)
result = backtest(replay, found.policies)
print(recommend(result))
"""

from kalmanbandits.backtesting.lineup import LineUp, line_up
from kalmanbandits.backtesting.play import Backtest, backtest
from kalmanbandits.backtesting.recommendation import Recommendation, recommend

__all__ = ["Backtest", "LineUp", "Recommendation", "backtest", "line_up", "recommend"]
