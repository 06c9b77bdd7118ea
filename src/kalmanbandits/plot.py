"""Pictures for a notebook, as matplotlib figures in the style of the reports.

    kb.plot.regret(kb.simulate(system, policies, rounds=1000, runs=20))
    kb.plot.choices(agent)
    kb.plot.backtest(kb.backtesting.backtest(replay, policies))

Each returns a `matplotlib.figure.Figure`: the last line of a cell shows it, `savefig` writes it to a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from kalmanbandits.backtesting.figure import STRETCHES, backtest_figure, draw_shares, heading
from kalmanbandits.backtesting.result import Backtest
from kalmanbandits.backtesting.stretches import edges, shares
from kalmanbandits.errors import InvalidArgument, InvalidType, has, instance, shown, texts, truth, whole
from kalmanbandits.reporting import drawing
from kalmanbandits.reporting.style import looks
from kalmanbandits.statistics.intervals import mean, over_time

if TYPE_CHECKING:
    import xarray

MOST_ARMS = 10_000  # rows of a picture

__all__ = ["backtest", "choices", "regret"]


def regret(result: xarray.Dataset, *, per_round: bool = True) -> Figure:
    """Regret over time of every policy of a simulation, with 95 % bands over the runs.

    Parameters
    ----------
    result : xarray.Dataset
        What `simulate` returned.
    per_round : bool
        Regret divided by the rounds so far; else summed.

    Returns
    -------
    matplotlib.figure.Figure

    >>> from kalmanbandits.policies import UCB, Random
    >>> from kalmanbandits.simulation import simulate
    >>> from kalmanbandits.systems import rotation
    >>> policies = {"UCB": UCB(arms=2), "Random": Random(arms=2)}
    >>> figure = regret(simulate(rotation(theta=1.0), policies, rounds=200, runs=3))
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['UCB', 'Random']
    """
    if not has(result, "regret", "checkpoint"):
        raise InvalidType(f"result must be a dataset of simulate(…), got {type(result).__name__}")
    per_round = truth("per_round", per_round)
    names = [str(name) for name in result.policy.values]
    look, at = looks(names), result.checkpoint.values
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    drawing.tidy(axes)
    for place, name in enumerate(names):
        values = result.regret.values[place]  # run × checkpoint
        band = over_time(values, at) if per_round else mean(values.T)
        drawing.band(axes, at, band, look[name], name, markers=(place, len(names)))
    axes.set_xlabel("rounds played")
    axes.set_ylabel("regret per round" if per_round else "regret, summed")
    runs = len(result.run)
    heading(axes, f"Regret against the clairvoyant  ({runs} runs{', 95 % bands' if runs > 1 else ''})")
    figure.legend(loc="outside right upper", **drawing.LEGEND)
    return figure


def choices(source: object, *, names: Sequence[str] | None = None) -> Figure:
    """Which arm was chosen when: a strip for each arm, the darker the more often it was chosen.

    Parameters
    ----------
    source : Agent, data frame, dict or array
        An agent that keeps its `history`, or anything that has columns `arm` and, if some rounds are missing,
        `round`; an array is the arms of rounds 1, 2, ….
    names : list of str, optional
        The names of the arms; those of the agent by default.

    Returns
    -------
    matplotlib.figure.Figure

    >>> figure = choices({"round": [1, 2, 3, 4], "arm": [0, 1, 1, 1]})
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['arm 0', 'arm 1']
    """
    given = None if names is None else texts("names", names)
    if given is not None and len(given) > MOST_ARMS:
        raise InvalidArgument(f"names must hold at most {MOST_ARMS}, got {len(given)}")
    rounds, arms, known = _chosen(source)
    labels = _names(arms, known if given is None else given)
    place = {label: a for a, label in enumerate(labels)} if arms.dtype.kind in "UO" else None
    index = np.array([place[str(arm)] for arm in arms]) if place else arms.astype(np.int64)
    share = shares(index, len(labels), edges(len(index), STRETCHES))
    figure = Figure(figsize=(9, 1.6 + 0.3 * max(2, min(len(labels), 25))), layout="constrained")
    axes = figure.subplots()
    draw_shares(axes, share, labels, rounds[[0, -1]])
    axes.set_xlabel("round")
    heading(axes, "Which arm was chosen when")
    return figure


def backtest(result: Backtest, title: str = "Backtest") -> Figure:
    """What a backtest found: gains with intervals, over time, the table, the choices, and the predictions.

    Parameters
    ----------
    result : Backtest
        What `backtesting.backtest` returned.
    title : str
        Above the picture.

    Returns
    -------
    matplotlib.figure.Figure
    """
    instance("result", result, Backtest, "such as backtest(replay, policies)")
    return backtest_figure(result, instance("title", title, str))


def _chosen(source: Any) -> tuple[Any, Any, list[str] | None]:
    """Rounds and arms in a history, however it is kept, and the names of the arms if it knows them."""
    count = getattr(source.policy, "arms", None) if has(source, "policy") else None
    known = source.arms if has(source, "arms") else None
    names = list(known) if isinstance(known, (list, tuple)) else None
    if names is None and isinstance(count, int):
        names = [f"arm {a}" for a in range(count)]
    kept = source.history if has(source, "history") else source
    kept = kept() if callable(kept) else kept
    names = list((has(kept, "names") and kept.names) or ()) or names
    if isinstance(kept, (list, tuple, np.ndarray)) and not getattr(
        getattr(kept, "dtype", None), "names", None
    ):
        arms, rounds = _column({"arm": kept}, "arm"), None
    else:
        arms, rounds = _column(kept, "arm"), _column(kept, "round")
    if arms is None or arms.ndim != 1 or arms.dtype.kind not in "iuUO":
        raise InvalidType(
            f"source must have a column `arm` of arms, got {shown(source)} "
            '(such as an agent with a history, or {"round": [1, 2], "arm": [0, 1]})'
        )
    if len(arms) == 0:
        raise InvalidArgument("source must hold at least one choice, got none")
    at = np.arange(1, len(arms) + 1) if rounds is None else np.asarray(rounds)
    if len(at) != len(arms):
        raise InvalidArgument(f"round and arm must be of one length, got {len(at)} and {len(arms)}")
    return at, arms, names


def _column(kept: Any, name: str) -> Any:
    """A column by its name: an item of what has items, else an attribute."""
    if has(kept, "__getitem__") and not isinstance(kept, str):
        try:
            return np.asarray(kept[name])
        except Exception:  # there is none, or what it holds is of somebody's own and fails
            return None
    return np.asarray(getattr(kept, name)) if has(kept, name) else None


def _names(arms: Any, known: list[str] | None) -> list[str]:
    if arms.dtype.kind in "UO":
        seen = list(dict.fromkeys(str(arm) for arm in arms))
        return [*(known or []), *(arm for arm in seen if arm not in (known or []))] if known else sorted(seen)
    for end in (arms.min(), arms.max()):
        whole("every arm", end, 0, "an index from 0", below=MOST_ARMS)
    count = int(arms.max()) + 1
    if known is not None and len(known) < count:
        raise InvalidArgument(f"names must hold one for each of {count} arms, got {len(known)}")
    return known if known is not None else [f"arm {a}" for a in range(count)]
