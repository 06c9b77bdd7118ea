"""What a journal's database is made of, and whether one that was opened is made of nothing else."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from kalmanbandits.errors import FileFormatError, shown

SCHEMA = """
CREATE TABLE journal (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE snapshot (event INTEGER PRIMARY KEY, agent BLOB NOT NULL);
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL,            -- seconds since 1970
    kind TEXT NOT NULL,   -- selected, asked, rewarded, expired, added, retired, unretired
    round INTEGER NOT NULL,
    arm INTEGER,          -- of what is chosen, added, retired or unretired
    reward,               -- as it was given; no declared type, or SQLite would turn -0.0 into 0.0
    "index" REAL,         -- what the policy compared when it chose
    name TEXT,            -- of an arm that was added
    checksum INTEGER NOT NULL
);
CREATE VIEW history AS
    SELECT c.round, c.arm, c."index", e.reward, datetime(c.time, 'unixepoch') AS chosen,
           datetime(e.time, 'unixepoch') AS closed, coalesce(e.kind, 'open') AS state
    FROM event c LEFT JOIN event e ON e.round = c.round AND e.kind IN ('rewarded', 'expired')
    WHERE c.kind IN ('selected', 'asked');
"""


def check_schema(path: Path, db: sqlite3.Connection) -> None:
    """Refuse what no journal has; somebody's own tables, and indices of these, are let be.

    A trigger, or a constraint such as `ON CONFLICT IGNORE`, could undo what was acknowledged; a view in place
    of a table could go on for ever, the view `history` say something else, an index take any time.
    """
    for kind, name, of, sql in db.execute("SELECT type, name, lower(tbl_name), sql FROM sqlite_master"):
        if kind in ("table", "view") and of in OURS:
            foreign = _plain(str(sql)) != OURS[of]
        else:
            foreign = of in OURS or kind not in ("table", "index")
        if foreign:
            raise FileFormatError(
                f"{path} holds a foreign {kind}, {shown(name)} (no journal has it: bring it back from a copy)"
            )


def _plain(sql: str) -> str:
    """Statements without comments, on one line."""
    return " ".join(re.sub("--.*", "", sql).split())


OURS = {
    sql.split()[2]: sql for sql in _plain(SCHEMA).rstrip(";").split("; ")
}  # by the names of what they make
