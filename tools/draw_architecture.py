"""Draw the way of a number from a system to a page: docs/images/architecture.png.

python tools/draw_architecture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "architecture.png"
BLUE, GREY, GREEN, SAND = "#dbe9f6", "#eeeeee", "#e0f0dc", "#f7ecd9"
# Name, package, column, row, colour.
BOXES = {
    "chance": ("numbers by address\n(seed, run, purpose, round)", "streams", 0, 3, GREY),
    "system": ("LinearGaussianSystem,\nor Replay of a table", "systems", 0, 2, BLUE),
    "fit": ("a system fitted to\na table or a history", "identification", 0, 1, GREY),
    "spec": ("policy: a frozen spec;\nits memory: one record", "policies", 0, 0, GREEN),
    "world": ("trajectory: state, means\nand noise of a block", "simulation", 1, 2, BLUE),
    "round": ("one round, compiled:\nselect ► reward ► update", "simulation · policies", 1, 1, GREEN),
    "agent": ("Agent: the same memory,\nyour rewards, a journal", "agent", 1, 0, GREEN),
    "runs": ("many runs: threads,\nGPUs, Dask workers", "pool · simulation · cluster", 2, 1, SAND),
    "dataset": ("xarray dataset:\npolicy × run × checkpoint", "simulation", 3, 1, SAND),
    "store": ("Zarr store: systems × runs,\nresumable", "studies", 3, 2, SAND),
    "backtest": ("gains over the best\nfixed arm of a table", "backtesting", 3, 0, SAND),
    "statistics": ("intervals, paired\ndifferences, ranks", "statistics", 4, 1, GREY),
    "page": ("figure, table,\none HTML page", "reporting", 4, 2, BLUE),
}
ARROWS = [
    ("system", "world"), ("chance", "world"), ("world", "round"), ("spec", "round"), ("round", "runs"),
    ("runs", "dataset"), ("dataset", "store"), ("dataset", "statistics"), ("store", "statistics"),
    ("statistics", "page"), ("spec", "agent"), ("runs", "backtest"), ("backtest", "statistics"),
    ("fit", "system"), ("fit", "spec"),
]  # fmt: skip
WIDTH, HEIGHT, STEP, RISE = 2.3, 0.95, 2.9, 1.5


def centre(name: str) -> tuple[float, float]:
    """Where a box stands."""
    _, _, column, row, _ = BOXES[name]
    return column * STEP, row * RISE


def main() -> None:
    """Draw and write it."""
    figure, axes = plt.subplots(figsize=(14, 6), dpi=110)
    for name, (text, package, _, _, colour) in BOXES.items():
        x, y = centre(name)
        axes.add_patch(
            plt.Rectangle(
                (x - WIDTH / 2, y - HEIGHT / 2), WIDTH, HEIGHT, facecolor=colour, edgecolor="#555555"
            )
        )
        axes.text(x, y + 0.08, text, ha="center", va="center", fontsize=8.8)
        axes.text(
            x,
            y - HEIGHT / 2 + 0.1,
            package,
            ha="center",
            va="center",
            fontsize=7.5,
            color="#666666",
            style="italic",
        )
    for start, end in ARROWS:
        (x0, y0), (x1, y1) = centre(start), centre(end)
        side = 1 if x1 > x0 else -1
        begin = (
            (x0 + side * WIDTH / 2, y0) if x0 != x1 else (x0, y0 + (HEIGHT / 2 if y1 > y0 else -HEIGHT / 2))
        )
        stop = (
            (x1 - side * WIDTH / 2, y1) if x0 != x1 else (x1, y1 + (-HEIGHT / 2 if y1 > y0 else HEIGHT / 2))
        )
        axes.annotate("", stop, begin, arrowprops={"arrowstyle": "-|>", "color": "#444444"})
    axes.set_xlim(-WIDTH / 2 - 0.2, 4 * STEP + WIDTH / 2 + 0.2)
    axes.set_ylim(-HEIGHT / 2 - 0.2, 3 * RISE + HEIGHT / 2 + 0.2)
    axes.set_aspect("equal")
    axes.axis("off")
    figure.savefig(TARGET, bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    main()
