"""Online use of a policy: choose, learn, explain, save, load, and keep a journal."""

from kalmanbandits.agent.explanation import Explanation
from kalmanbandits.agent.history import History
from kalmanbandits.agent.online import Agent
from kalmanbandits.agent.tickets import Ticket

__all__ = ["Agent", "Explanation", "History", "Ticket"]
