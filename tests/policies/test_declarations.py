"""What each policy declares of itself: what `check_policy` then holds it to, and what people read."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest

from every_policy import EVERY_POLICY
from kalmanbandits.compilation import Field
from kalmanbandits.errors import InvalidArgument, InvalidType
from kalmanbandits.policies import (
    ARUCB,
    KFMANB,
    LARL,
    POLICIES,
    UBSS,
    UCB,
    AdaptiveUBSS,
    DiscountedThompson,
    DiscountedUCB,
    KalmanGreedy,
    KalmanThompson,
    LearnedKalman,
    LinearThompson,
    Policy,
    Random,
    Rexp3,
    SlidingWindowThompson,
    SlidingWindowUCB,
    register_kernel,
)
from kalmanbandits.policies.deviation import unpromised
from kalmanbandits.policies.spec import PROMISES, Spec
from kalmanbandits.systems import rotation

ALL, MEANS = set(PROMISES), {"outlier", "quiet start", "risen arm"}
SYSTEM = rotation(theta=1.0)
OUTLIER = {"outlier"}
LEVEL_FREE = (UBSS, AdaptiveUBSS, ARUCB, LARL, Rexp3, LinearThompson)
# policy; what it prints after `arms=2`; no chance in scores; a unit and a level of its own; promises not made
TABLE = [
    (UCB(arms=2), "scale=None", True, True, MEANS),
    (UCB(arms=2, scale=1.0), "scale=1.0", True, False, MEANS),
    (SlidingWindowUCB(arms=2, window=4), "window=4, scale=None", True, True, OUTLIER),
    (SlidingWindowUCB(arms=2, window=3), "window=3, scale=None", True, True, ALL),
    (DiscountedUCB(arms=2), "discount=0.95, xi=0.02, scale=None", True, True, OUTLIER),
    (DiscountedUCB(arms=2, discount=0.7, scale=2.0), None, True, False, ALL),
    (DiscountedThompson(arms=2), "discount=0.98, scale=None", False, True, OUTLIER),
    (DiscountedThompson(arms=2, discount=0.7, scale=2.0), None, False, False, ALL),
    (SlidingWindowThompson(arms=2), "window=50, scale=None", False, True, OUTLIER),
    (SlidingWindowThompson(arms=2, window=3, scale=1.0), None, False, False, ALL),
    (KFMANB(arms=2), "observation=0.1, transition=0.01, scale=None", False, True, OUTLIER),
    (KFMANB(arms=6, scale=1.0), None, False, False, ALL),
    (Rexp3(arms=2), "batch=1000, gamma=0.2", False, True, ALL),
    (LinearThompson(arms=2), "window=2, v=0.3", False, True, set()),
    (AdaptiveUBSS(arms=2), "delta_e=0.1", True, True, set()),
    (UBSS(arms=2), None, True, True, set()),
    (UBSS(arms=2, bonus="none"), None, True, True, {"risen arm"}),
    (UBSS(arms=2, bonus="printed"), None, True, False, ALL),
    (ARUCB(arms=2), None, True, True, set()),
    (ARUCB(arms=2, scale=1.0), None, True, False, OUTLIER),
    (LARL(arms=2), None, True, True, set()),
    (LARL(arms=2, scale=1.0), None, True, False, OUTLIER),
    (KalmanGreedy(SYSTEM), None, True, False, ALL),
    (KalmanThompson(SYSTEM), None, False, False, ALL),
]


@pytest.mark.parametrize(
    ("policy", "text", "deterministic", "free", "not_promised"),
    TABLE,
    ids=[f"{row[0]!r}"[:40] for row in TABLE],
)
def test_a_policy_declares(policy, text, deterministic, free, not_promised):
    assert text is None or repr(policy) == f"{type(policy).__name__}(arms=2, {text})"
    assert policy.deterministic == deterministic
    assert policy.scale_free == free
    if isinstance(policy, LEVEL_FREE):
        assert policy.level_free == free
    assert set(policy.unpromised) == not_promised
    assert policy.rounding < 1e-6


@pytest.mark.parametrize(
    "text",
    [
        "DiscountedUCB(arms=2, discount=0.95, xi=0.02, scale=None)",
        "DiscountedThompson(arms=2, discount=0.98, scale=None)",
        "SlidingWindowThompson(arms=2, window=50, scale=None)",
        "KFMANB(arms=2, observation=0.1, transition=0.01, scale=None)",
        "Rexp3(arms=2, batch=1000, gamma=0.2)",
        "LinearThompson(arms=2, window=2, v=0.3)",
        "AdaptiveUBSS(arms=2, delta_e=0.1)",
        "UBSS(arms=2, window=2, bonus='scaled', delta_e=0.1, delta_b=0.1, lambda_=None, "
        "B_c=1.0, B_R=1.0, B_G=1.0)",
        "ARUCB(arms=2, lags=5, delta=0.5, lambda_=1.0, m=1.0, sigma=None, scale=None)",
        "LARL(arms=2, lags=5, alpha=1.0, lambda_=1.0, scale=None, opening=7)",
    ],
)
def test_defaults_are_those_that_were_tuned(text):
    """Made inside the test: `TABLE` is made before `make mutate` changes anything."""
    made = POLICIES[text.partition("(")[0]](arms=2)
    assert repr(made) == text
    (declared,) = ((chance, free) for policy, _, chance, free, _ in TABLE if policy == made)
    assert (made.deterministic, made.scale_free) == declared
    assert made.level_free == isinstance(made, LEVEL_FREE)


def test_numbers_are_kept_as_pythons_own():
    made = DiscountedThompson(arms=np.int64(2), discount=np.float32(0.5), scale=1)
    assert repr(made) == "DiscountedThompson(arms=2, discount=0.5, scale=1.0)"


def test_a_memory_too_short_to_compare_the_arms_promises_nothing():
    assert set(unpromised(5, 3)) == ALL
    assert set(unpromised(6, 3)) == OUTLIER
    assert set(unpromised(math.inf, 3)) == MEANS


def test_a_kernel_of_another_module_is_not_replaced():
    with pytest.raises(InvalidArgument, match=r"name must be a new one, got 'UCB'"):
        register_kernel("UCB", *(test_a_kernel_of_another_module_is_not_replaced,) * 3)


def test_a_class_of_ones_own_must_not_have_the_name_of_one_of_the_library():
    with pytest.raises(InvalidArgument, match="must not be named 'Random'"):
        type("Random", (Policy,), {"__module__": "mine"})
    assert Random(arms=2).to_dict() == {"policy": "Random", "arms": 2}


@pytest.mark.parametrize(
    "make",
    [
        lambda scale: DiscountedThompson(arms=2, scale=scale),
        lambda scale: SlidingWindowThompson(arms=2, scale=scale),
        lambda scale: KFMANB(arms=2, scale=scale),
        lambda scale: ARUCB(arms=2, scale=scale),
    ],
)
def test_a_scale_of_zero_is_refused(make):
    with pytest.raises(InvalidArgument, match=r"scale must be positive, got 0\.0"):
        make(0.0)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> type[Policy]:
    """A policy with a memory of any length, which declares nothing; nobody else gets to know it."""
    monkeypatch.setattr(Spec, "known", dict(Spec.known))

    @dataclass(frozen=True, kw_only=True)
    class Ledger(Policy):
        arms: int = 2
        length: int = 1
        more: tuple[Field, ...] = ()

        def fields(self) -> list[Field]:
            return [("kept", "f8", (self.length,)), *self.more]

    return Ledger


def test_what_is_not_declared_is_not_promised(ledger: type[Policy]) -> None:
    own = ledger()
    assert not own.scale_free
    assert not own.level_free
    assert not own.has_long_work
    assert LearnedKalman(arms=2).has_long_work


def test_a_memory_of_more_than_a_gibibyte_is_refused_however_it_comes_about(ledger: type[Policy]) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Checked(ledger):
        def __post_init__(self) -> None:
            self._set(length=abs(self.length))

    assert Checked(length=-5).length == 5
    for policy in (ledger, Checked):
        policy(length=2**27 - 3)  # three words are the kernel's and the pulls
        with pytest.raises(InvalidArgument, match=r"at most 1 GiB, these parameters need 1\.0 GiB"):
            policy(length=2**27 - 2)
        for words, said in ((2**77, r"2\^50"), (2**100, r"2\^73")):
            with pytest.raises(InvalidArgument, match=f"need {said} GiB"):
                policy(length=words)
    restored = object.__new__(ledger)  # as copies are made, without any check
    restored.__dict__.update(arms=2, length=2**27)
    with pytest.raises(InvalidArgument, match="at most 1 GiB"):
        restored.dtype()


NO_FIELDS: list[object] = [(5, "f8"), ("x", "no type"), ("x",)]
NO_FIELDS += [("x", "f8", shape) for shape in ((-1,), (2, -1), (1.5,))]


@pytest.mark.parametrize("field", NO_FIELDS)
def test_what_is_no_field_is_refused(ledger: type[Policy], field: object) -> None:
    ledger(more=(("nothing", "f8", (0,)),))
    with pytest.raises(InvalidType, match="must list fields such as"):
        ledger(more=(field,))


@pytest.mark.parametrize("name", ["kept", "pulls", "Ledger"])
def test_a_field_has_a_name_of_its_own(ledger: type[Policy], name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"names of their own, got '{name}' twice"):
        ledger(more=((name, "f8"),))


@pytest.mark.parametrize("policy", EVERY_POLICY, ids=repr)
def test_a_fresh_memory_is_in_its_ranges(policy: Policy) -> None:
    policy.check_memory(policy.memory())


def test_a_count_may_be_as_large_as_a_float_can_count() -> None:
    policy, memory = UCB(arms=2), UCB(arms=2).memory()
    memory["pulls"][0, 0] = 2**52
    policy.check_memory(memory)
    memory["pulls"][0, 0] += 1
    with pytest.raises(InvalidArgument, match="must lie between 0 and"):
        policy.check_memory(memory)


def test_weights_may_be_as_small_as_can_be_divided_by() -> None:
    policy, memory = ARUCB(arms=2), ARUCB(arms=2).memory()
    for small, fits in ((1e-300, True), (0.0, False)):
        memory["squares"] = small
        with nullcontext() if fits else pytest.raises(InvalidArgument, match="squares"):
            policy.check_memory(memory)
