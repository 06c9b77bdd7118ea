from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kalmanbandits.errors import InvalidArgument
from kalmanbandits.learning.codes import decode, encode, shift


@pytest.mark.parametrize(("arms", "window"), [(2, 1), (2, 3), (3, 2), (5, 1)])
def test_codes_number_the_sequences_in_order(arms, window):
    for number, actions in enumerate(product(range(arms), repeat=window)):
        assert encode(actions, arms) == number
        assert decode(number, arms, window) == actions


@given(st.integers(1, 6), st.integers(1, 4), st.data())
@settings(deadline=None)
def test_shifting_drops_the_oldest_action(arms, window, data):
    actions = data.draw(st.lists(st.integers(0, arms - 1), min_size=window, max_size=window + 10))
    code = encode(actions[:window], arms)
    for action in actions[window:]:
        code = shift(code, action, arms, arms**window)
    assert decode(code, arms, window) == tuple(actions[-window:])


def test_what_is_no_code_is_refused():
    with pytest.raises(InvalidArgument, match="every action must be below 2, got 2"):
        encode((0, 2), arms=2)
    with pytest.raises(InvalidArgument, match="code must be below 4, got 4"):
        decode(4, arms=2, window=2)
