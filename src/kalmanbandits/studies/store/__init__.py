"""The store of a study: its numbers in a folder, written so that a crash at any moment loses nothing done."""
