"""Which airport? Two tables of one year in New York, hour by hour: one where policies pay, one where not.

python examples/backtest_airports.py [FOLDER]        with a folder, the reports go there

The data are in examples/data, with their licence.
"""

import sys
from pathlib import Path

from kalmanbandits.backtesting import backtest, line_up, recommend
from kalmanbandits.backtesting.deployment import Origin
from kalmanbandits.backtesting.report import write_backtest
from kalmanbandits.systems import Replay

DATA = Path(__file__).parent / "data"
PLAYERS = [
    "UBSS",
    "LinearThompson",
    "UCB",
    "SlidingWindowUCB",
    "DiscountedUCB",
    "KFMANB",
    "Random",
    "KalmanGreedy",
]


def compare(name: str) -> str:
    path = DATA / f"airport_{name}.csv"
    replay = Replay(path)
    found = line_up(replay, PLAYERS)
    result = backtest(replay, found.policies, left_out=found.left_out)
    said = recommend(result)
    print(f"{name}: {said}\n")
    if len(sys.argv) > 1:
        title = f"Airports of New York, 2013: {name}"
        write_backtest(result, Path(sys.argv[1]) / name, title, Origin(path, {}))
    return said.verdict


# Temperature: the warmest of three places changes with the hour and the wind, and hours follow each other.
assert compare("temperatures") == "wins"

# Delays: an hour says little about the next, and no policy is shown to beat always taking the same airport.
assert compare("delays") == "open"
