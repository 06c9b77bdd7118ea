"""Which share next month? A table where no policy is shown to beat a fixed choice, as it should be.

python examples/backtest_stocks.py

Monthly prices from 1990 to 2022 of three companies that were listed all the time, from a sample that comes
with matplotlib. The reward is the month's growth in percent.
"""

import csv

import numpy as np
from matplotlib import cbook

from kalmanbandits.backtesting import backtest, line_up, recommend
from kalmanbandits.backtesting.recommendation import lines
from kalmanbandits.systems import Replay

with open(cbook.get_sample_data("Stocks.csv", asfileobj=False), newline="") as file:
    names, *rows = csv.reader(line for line in file if not line.startswith("#"))
prices = np.array([[float(cell or "nan") for cell in row[1:]] for row in rows])
prices = prices[~np.isnan(prices).all(axis=1)]  # every other line of the file is empty
growth = 100 * np.diff(np.log(prices), axis=0)
companies = [
    j for j, name in enumerate(names[1:]) if not name.startswith("^") and not np.isnan(growth[:, j]).any()
][:3]  # no index, and none that was listed later

replay = Replay(growth[:, companies])
found = line_up(replay, ["UBSS", "UCB", "DiscountedUCB", "KFMANB", "Random"])
result = backtest(replay, found.policies)
said = recommend(result)
print("\n".join(lines(result)))
print(f"\n{replay}, {result.best_arm} is {names[1 + companies[replay.best_arm]]}. {said}")

assert replay.rounds > 300
assert said.verdict != "wins"  # nobody earns more than the share one would have picked in hindsight
