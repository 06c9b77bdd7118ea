"""Parts of the M-step, called from Python."""

from __future__ import annotations

from kalmanbandits.compilation import entry
from kalmanbandits.identification.maximisation import (
    maximise,
    normalise,
    regress_arm,
    regress_states,
    share_noise,
    share_priors,
)


@entry
def regress(d, p, w, moved):
    regress_states(d, p, w, moved)
    for arm in range(p.C.shape[0]):
        regress_arm(d, p, w, arm)


@entry
def regress_first(d, p, w):
    regress_arm(d, p, w, 0)


@entry
def share_noises(d, p, w):
    share_noise(p, w, d)


@entry
def spread_priors(d, p, w):
    share_priors(d, p, w)


@entry
def turn(d, p, w, moved):
    normalise(d, p, w, moved)


@entry
def m_step(d, p, w, moved):
    maximise(d, p, w, moved)
