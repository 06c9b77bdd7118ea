"""The parts of the page that only the paper's study has: the verdict, and the tables behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kalmanbandits.reporting.html import Html, escape
from kalmanbandits.reporting.paper.data import MEANING, PaperData, constants
from kalmanbandits.reporting.paper.verdict import Claim, Finding, claims, ten_percent_at
from kalmanbandits.reporting.style import digits, minus, percent
from kalmanbandits.reporting.tables import below, table
from kalmanbandits.statistics.intervals import Interval


def verdict_section(data: PaperData) -> Html:
    """Each sentence of the paper against what was measured, and where about 10 % appears."""
    at = ten_percent_at(data.scanned)
    crossing = (
        f"falls through 10 % at about {round(at, -2):,.0f}" if math.isfinite(at) else "does not cross 10 %"
    )
    literal = constants(data.windows.cell.policies[data.literal[0]])
    return Html(f"""
<p>Each sentence of the paper's text against what was measured. The gain of UBSS over another policy is
100 · (1 − regret of UBSS / regret of the other), from mean regrets; brackets hold 95&nbsp;% intervals from
paired runs. A verdict follows from the intervals alone.</p>
<p><b>Literal constants</b>: those of the text, B_c = {literal.B_c:g}, B_R = √tr Σ = {literal.B_R:.1f},
δ = {literal.delta_b:g}, λ = 1, so B_cB_R/δ = {literal.width:,.0f}. <b>Sensible width</b>: the same corrected
algorithm with B_c = 1, B_R² = 10, a bonus on the scale of the noise. Where only one s is meant, it is
s = 1, as in the paper.</p>
{verdict_table(claims(data))}
<h3>Where about 10 % appears</h3>
<p>The constants behind the paper's figure are not known. Only the width B_cB_R/δ matters much: at θ = 5π/8
the gain {crossing}. Far below it UBSS learns and gains more; far above it the bonus never shrinks and UBSS
plays at random.</p>
{scan_table(data)}
<h3>How much the comparators' own constants matter near θ = 0</h3>
<p>Gain of UBSS, s = 1, over each comparator as used in the figure (UCB with scale 1, SW-UCB with its
recommended window 4√(n log n)) and over the same with other constants. Negative: the
comparator is better.</p>
{sensitivity_table(data)}
""")


def figure_note(data: PaperData) -> Html:
    """What the shades of the figure mean."""
    counts = data.regions(data.literal[0]).tolist()
    meanings = "; ".join(f"<b>{name}</b>, {MEANING[name]} ({counts.count(name)})" for name in MEANING)
    return Html(
        '<p class="note">Regions of panels a to c, by the 95 % intervals at each angle (in brackets how many '
        f"angles): {meanings}. Blue says that these runs do not show a difference: more runs may.</p>"
    )


def verdict_table(answered: Sequence[Claim]) -> Html:
    """Claim, and what was found with the literal and with the sensible constants."""
    head = ["The paper says", "With the literal constants", "With a sensible width"]
    rows = [
        [below(claim.text, claim.test, "test"), _finding(claim.literal), _finding(claim.sensible)]
        for claim in answered
    ]
    return table(head, rows, "cards verdict")


def _finding(finding: Finding) -> Html:
    return Html(
        f'<span class="mark {finding.mark}">{escape(finding.verdict)}</span>'
        f'<span class="numbers">{escape(finding.numbers).replace("; ", "<br>")}</span>'
    )


def scan_table(data: PaperData) -> Html:
    """The gain over UCB for each width of the scan."""
    other = data.comparators[0]
    head = ["#B_c B_R/δ", f"#gain over {other}", "#95 % interval", "#runs"]
    rows = [
        [digits(width) if width < 1000 else f"{width:,.0f}", *_gain(gain), str(gain.runs)]
        for width, gain in data.scanned
    ]
    return table(head, rows)


def sensitivity_table(data: PaperData) -> Html:
    """What UBSS gains over each comparator, and over the same with other constants, near θ = 0."""
    ubss = (data.literal[0], data.corrected[0])
    head = ["θ", "compared with", *(f"#{name}" for name in ubss), "#runs"]
    rows = []
    for cell in data.ends:
        others = [name for name in cell.policies if not name.startswith("UBSS")]
        for other in others:
            gains = [cell.gain(name, other) for name in ubss]
            entries = [percent(gain) for gain in gains]
            rows.append([cell.name, other, *entries, str(gains[0].runs)])
    return table(head, rows)


def _gain(gain: Interval) -> list[str]:
    entries = [f"{float(gain.value):.1f} %", f"{float(gain.low):.1f} to {float(gain.high):.1f}"]
    return [minus(entry) for entry in entries]
