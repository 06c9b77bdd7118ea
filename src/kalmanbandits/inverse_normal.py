"""Φ⁻¹ below the median, to the last digit but one, without SciPy: that takes as long to import as NumPy.

Rational approximations of Cephes (Moshier, "Methods and Programs for Mathematical Functions", 1989), which
`scipy.special.ndtri` computes too: the tests hold one against the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

CENTRE = math.exp(-2.0)  # above it a polynomial in p − ½
ROOT = 2.50662827463100050242  # √(2π)
# fmt: off
P0 = (
    -5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1, 1.39312609387279679503e1,
    -1.23916583867381258016e0,
)
Q0 = (
    1.0, 1.95448858338141759834e0, 4.67627912898881538453e0, 8.63602421390890590575e1,
    -2.25462687854119370527e2, 2.00260212380060660359e2, -8.20372256168333339912e1, 1.59056225126211695515e1,
    -1.18331621121330003142e0,
)
P1 = (
    4.05544892305962419923e0, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.40805073893200834700e1,
    1.46849561928858024014e1, 2.18663306850790267539e0, -1.40256079171354495875e-1,
    -3.50424626827848203418e-2, -8.57456785154685413611e-4,
)
Q1 = (
    1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1,
    1.50425385692907503408e1, 2.50464946208309415979e0, -1.42182922854787788574e-1,
    -3.80806407691578277194e-2, -9.33259480895457427372e-4,
)
# fmt: on


def inverse_normal(p: float) -> float:
    """Φ⁻¹(p) for 1e-13 ≤ p ≤ ½.

    >>> round(inverse_normal(0.025), 12)
    -1.95996398454
    """
    if p > CENTRE:
        y = p - 0.5
        return (y + y * (y * y * _polynomial(P0, y * y) / _polynomial(Q0, y * y))) * ROOT
    x = math.sqrt(-2 * math.log(p))
    z = 1 / x
    return z * _polynomial(P1, z) / _polynomial(Q1, z) - (x - math.log(x) / x)


def _polynomial(coefficients: Sequence[float], x: float) -> float:
    """By Horner's rule, the highest power first."""
    value = 0.0
    for coefficient in coefficients:
        value = value * x + coefficient
    return value
