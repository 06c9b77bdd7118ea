"""The jobs of a fit, as the GPU's kernels do them, by the CPU's functions on one memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from kalmanbandits.identification import search_machine as machine
from kalmanbandits.identification.arrays import Cells, Parameters, workspace
from kalmanbandits.identification.by_dimension import smooth_cells
from kalmanbandits.identification.past import add_to_past, carry_past
from kalmanbandits.identification.search import CURRENT, MODELS, SPARE
from kalmanbandits.identification.steps import filter_cells, improve
from kalmanbandits.identification.subspace import observability
from kalmanbandits.policies import learned_kalman_machine
from kalmanbandits.policies.learned_kalman_memory import BY_ARM, NAMES
from kalmanbandits.policies.learned_kalman_rehearsal import episodes_of, play_episodes


def do_job(spec: Any, memory: Any, fits: Any, job: Any, arms: Any, y: Any, result: Any) -> None:
    """Do one job."""
    kind, i, d, first, n, steps, repeats, leaving, count = (int(number) for number in job)
    own, rewards = arms[first : first + n].astype(np.int64), y[first : first + n].copy()
    cells = Cells(own, rewards, np.ones(n, np.int64), float(result[machine.REACH]))
    w = workspace(max(n, 1), spec.arms, spec.dimensions)
    models = []
    for j in range(MODELS):
        views = {name: memory[name][0, j] for name in NAMES}
        models.append(Parameters(**{**views, **{name: views[name][:count] for name in BY_ARM}}))
    if kind == machine.IMPROVE:
        for _ in range(repeats):
            result[:2] = improve(d, models[i], cells, n, w, models[SPARE], memory["state"][0, i], steps)
    elif kind == machine.FILTER:
        result[:2] = filter_cells(d, models[i], cells, n, w)
    elif kind == machine.FINISH:
        spec._filter(d, models[i], cells, w)
        memory["z"][0, :d], memory["P"][0, :d, :d] = w.zt[:d], w.Pt[:d, :d]
        if leaving > 0:
            w.weight[leaving:n] = 0.0
            smooth_cells(d, models[i], cells, n, w)
            add_to_past(d, models[i], w)
    elif kind == machine.CARRY:
        states = []
        for j in (CURRENT, i):
            e = int(memory["d"][0, j])
            filter_cells(e, models[j], cells, n, w)
            states.append(w.z[:n, :e].copy())
        carry_past(models[CURRENT], models[i], *states)
    elif kind == machine.CORRELATE:
        given = fits["place"][0], int(fits["places"][0]), fits["mean"][0], fits["spread"][0]
        found = observability(cells, n, *given, spec.dimensions)
        fits["V"][0, : len(found)], fits["height"] = found, len(found)
    else:
        assert kind == learned_kalman_machine.REHEARSAL_JOB
        assert first == memory["t"][0]
        losses = play_episodes(memory, episodes_of(spec.arms))
        fits["losses"][0, :, : losses.shape[1]] = losses


def attend(spec: Any, memory: Any) -> None:
    """`LearnedKalman.attend` by the machine, with jobs done by the CPU's functions."""
    fits = np.zeros(1, learned_kalman_machine.fit_fields(spec.arms, spec.dimensions))
    arms, y = np.zeros(spec.window, np.int8), np.zeros(spec.window)
    job, result, m = np.zeros(machine.NUMBERS, np.int32), np.zeros(4), memory[0]
    while m["t"] >= (m["adopt"] or m["next"]):
        if m["adopt"] == 0:
            learned_kalman_machine.note_begin(m)
            continue
        learned_kalman_machine.begin_fit(m, fits[0], arms, y)
        while learned_kalman_machine.go_on(m, fits[0], job, result):
            do_job(spec, memory, fits, job, arms, y, result)
