"""The report of any study: its numbers summed up, the figure, and the page."""
