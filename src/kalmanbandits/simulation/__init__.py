"""Policies and systems put together, in batch."""

from kalmanbandits.simulation.oracles import Clairvoyant, FullInformation, Oracle
from kalmanbandits.simulation.progress import Progress
from kalmanbandits.simulation.simulate import simulate

__all__ = ["Clairvoyant", "FullInformation", "Oracle", "Progress", "simulate"]
