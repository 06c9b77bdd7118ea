"""Predicting rewards when the system is known."""
