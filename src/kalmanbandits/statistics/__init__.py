"""How sure a number is: intervals over independent runs, and over rounds that depend on each other."""
