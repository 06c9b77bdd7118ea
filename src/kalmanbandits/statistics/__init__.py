"""Uncertainty of results: intervals over independent runs, and over rounds that depend on each other."""
