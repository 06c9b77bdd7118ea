"""How things look: colours that the colour-blind can tell apart, line styles, markers, names of parameters.

The first colours are those of Okabe and Ito. The paper's red, green and blue keep their roles as vermilion,
bluish green and blue; marker and line style say the same a second and a third time, for print without colour.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

VERMILION, GREEN, BLUE = "#D55E00", "#009E73", "#0072B2"
ORANGE, SKY, PURPLE, YELLOW = "#E69F00", "#56B4E9", "#CC79A7", "#B8A800"
BLACK, GREY = "#1A1A1A", "#7A7A7A"
_MORE = (
    "#7F2704", "#08306B", "#00552B", "#6A3D9A", "#F4A582", "#4D9221", "#C51B7D", "#01999C", "#8C6D31",
    "#9E9AC8", "#B2182B",
)  # fmt: skip
COLOURS = (VERMILION, GREEN, BLUE, ORANGE, PURPLE, SKY, BLACK, YELLOW, GREY, *_MORE)

STROKES = {"-": "", "--": "6 3", ":": "2 3", "-.": "7 3 2 3"}  # matplotlib's line styles, and SVG's
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "*", "<", ">", "p", "h", "d", "8", "H", "x", "+", "1", "2", "3")
OPEN = "x+123"  # markers that are lines without an inside

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
    "UBSS s=1": Look(ORANGE, "-", "8"),
    "UBSS s=2": Look(PURPLE, "-", "p"),
    "UBSS s=3": Look(BLACK, "-", "D"),
    "UBSS s=2, default bonus": Look("#C51B7D", "--", "h"),
    "UBSS s=1, literal": Look("#8C6D31", ":", "P"),
    "UBSS s=2, literal": Look("#6A3D9A", ":", "*"),
    "UBSS s=3, literal": Look(GREY, ":", "d"),
    "Kalman greedy": Look(SKY, "-", "v"),
    "Kalman UCB": Look("#01999C", "--", "<"),
    "Kalman look-ahead": Look("#08306B", "-.", ">"),
    "Sees every arm": Look("#9E9AC8", "-", "X"),
}


def looks(policies: Sequence[str]) -> dict[str, Look]:
    """A look for each policy: its own if it has one, else the next that nobody has.

    Up to twenty policies have each a colour and a marker of their own; more have a combination of their own.
    """
    given = {name: _KNOWN[name] for name in policies if name in _KNOWN}
    colours, markers = (
        [each for each in all_ if each not in {getattr(look, part) for look in given.values()}]
        for part, all_ in (("colour", COLOURS), ("marker", MARKERS))
    )
    lines = tuple(STROKES)
    others = [name for name in policies if name not in _KNOWN]
    single = min(len(colours), len(markers))
    for i, name in enumerate(others[:single]):
        given[name] = Look(colours[i], lines[i // 7 % len(lines)], markers[i])
    taken = set(given.values())
    combined = (
        Look(colour, line, marker)
        for shift in range(len(MARKERS))
        for line in lines[::-1]
        for colour, marker in zip(COLOURS, MARKERS[shift + 1 :] + MARKERS[: shift + 1], strict=True)
    )
    given |= dict(zip(others[single:], (look for look in combined if look not in taken), strict=False))
    return {name: given.get(name, Look(BLACK)) for name in policies}


def parameter_label(name: str) -> str:
    """How a parameter is written on an axis.

    >>> parameter_label("theta"), parameter_label("noise_variance")
    ('θ', 'noise variance')
    """
    return PARAMETERS.get(name, name.replace("_", " "))


def parameter_text(value: object) -> str:
    """A parameter's value, as short as it can be read; multiples of π/64 are written as such.

    >>> [parameter_text(value) for value in (1.9634954084936207, 0.25, 6.283185307179586, 3)]
    ['5π/8', '0.25', '2π', '3']
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
    """A measured value with four digits, or with all before the point where they are few.

    >>> digits(92.6), digits(0.44), digits(-12345.6), digits(1e99)
    ('92.60', '0.4400', '−12,346', '1.000e+99')
    """
    return minus(f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:#.4g}")


def minus(text: str) -> str:
    """Numbers in a text with a real minus sign, and none before a zero."""
    return re.sub(r"-(0(?:\.0+)?(?![\d.]))", r"\1", text).replace("-", "−")


def percent(gain: object) -> str:
    """A gain with its interval, on one line: `+6.0 [+5.1, +7.0] %`."""
    return signed(gain, ".1f") + "\N{NO-BREAK SPACE}%"


def signed(change: object, spec: str) -> str:
    """A change with its interval, on one line."""
    return minus(format(change, f"+{spec}")).replace(" ", "\N{NO-BREAK SPACE}")


def amount(size: float) -> str:
    """So many bytes, with two digits or more.

    >>> amount(97_187), amount(12_163_481), amount(7e9)
    ('95 KiB', '11.6 MiB', '6,675.7 MiB')
    """
    return f"{size / 2**10:.0f} KiB" if size < 2**20 else f"{size / 2**20:,.1f} MiB"


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "run"), counted(3, "policy")
    ('1 run', '3 policies')
    """
    several = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else several}"
