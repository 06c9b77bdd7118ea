"""Predicting rewards when the system is not known."""
