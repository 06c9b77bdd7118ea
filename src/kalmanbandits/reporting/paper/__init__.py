"""What only the report of the paper's study needs: its figure, its claims, and their tables."""
