"""How things look: colours that the colour-blind can tell apart, line styles, names of parameters.

The colours are those of Okabe and Ito. The paper's red, green and blue keep their roles as vermilion, bluish
green and blue; marker and line style say the same a second time, for print without colour.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

VERMILION, GREEN, BLUE = "#D55E00", "#009E73", "#0072B2"
ORANGE, SKY, PURPLE, YELLOW = "#E69F00", "#56B4E9", "#CC79A7", "#B8A800"
BLACK, GREY = "#1A1A1A", "#7A7A7A"

DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}  # matplotlib's names, Plotly's names
MARKERS = {"o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down", "X": "x"}

PARAMETERS = {"theta": "θ"}


@dataclass(frozen=True)
class Look:
    """How one policy is drawn, everywhere."""

    colour: str
    line: str = "-"
    marker: str = "o"


# The policies of the paper's study look the same in the figure and on the page.
_KNOWN = {
    "UCB": Look(VERMILION, "-", "o"),
    "SW-UCB": Look(GREEN, "--", "s"),
    "Random": Look(BLUE, ":", "^"),
    "UBSS s=1": Look(ORANGE, "-", "o"),
    "UBSS s=2": Look(PURPLE, "-", "s"),
    "UBSS s=3": Look(BLACK, "-", "D"),
    "UBSS s=2, default bonus": Look(PURPLE, "--", "s"),
    "UBSS s=1, literal": Look(ORANGE, ":", "o"),
    "UBSS s=2, literal": Look(PURPLE, ":", "s"),
    "UBSS s=3, literal": Look(BLACK, ":", "D"),
    "Kalman greedy": Look(SKY, "-", "v"),
    "Kalman UCB": Look(SKY, "--", "v"),
    "Kalman look-ahead": Look(SKY, "-.", "v"),
    "Sees every arm": Look(GREY, "-", "X"),
}
_CYCLE = (VERMILION, GREEN, BLUE, ORANGE, PURPLE, SKY, BLACK, YELLOW, GREY)


def looks(policies: Sequence[str]) -> dict[str, Look]:
    """A look for each policy: its own if it has one, else the next colour and line that nobody has taken."""
    given = {name: _KNOWN[name] for name in policies if name in _KNOWN}
    taken = {(look.colour, look.line) for look in given.values()}
    pairs = ((colour, line) for line in DASHES for colour in _CYCLE)
    free = [pair for pair in pairs if pair not in taken] or [(BLACK, "-")]
    markers = list(MARKERS)
    for i, name in enumerate(name for name in policies if name not in _KNOWN):
        given[name] = Look(*free[i % len(free)], markers[i % len(markers)])
    return {name: given[name] for name in policies}


def parameter_label(name: str) -> str:
    """How a parameter is written on an axis.

    >>> parameter_label("theta"), parameter_label("noise_variance")
    ('θ', 'noise variance')
    """
    return PARAMETERS.get(name, name.replace("_", " "))


def number(value: object) -> str:
    """A parameter's value, as short as it can be read; multiples of π/64 are written as such.

    >>> number(1.9634954084936207), number(0.25), number(6.283185307179586), number(3)
    ('5π/8', '0.25', '2π', '3')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    parts = value / math.pi * 64
    if value and isinstance(value, float) and abs(parts - round(parts)) < 1e-9:
        top, bottom = round(parts), 64
        while top % 2 == 0 and bottom > 1:
            top, bottom = top // 2, bottom // 2
        head = "π" if top == 1 else "−π" if top == -1 else f"{top}π"
        return head if bottom == 1 else f"{head}/{bottom}"
    return f"{value:.6g}"


def digits(value: float) -> str:
    """A measured value with four digits.

    >>> digits(92.6), digits(0.44), digits(-12345.6)
    ('92.60', '0.4400', '−12,346')
    """
    return minus(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.4g}")


def minus(text: str) -> str:
    """Numbers in a text with a real minus sign, and none before a zero."""
    return re.sub(r"-(0(?:\.0+)?(?![\d.]))", r"\1", text).replace("-", "−")


def percent(gain: object) -> str:
    """A gain with its interval, on one line: `+6.0 [+5.1, +7.0] %`."""
    return signed(gain, ".1f") + "\N{NO-BREAK SPACE}%"


def signed(change: object, spec: str) -> str:
    """A change with its interval, on one line."""
    return minus(format(change, f"+{spec}")).replace(" ", "\N{NO-BREAK SPACE}")
