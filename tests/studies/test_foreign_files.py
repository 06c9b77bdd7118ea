"""What a study did not make it neither writes nor deletes, and what it is given it does not trust."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kalmanbandits import compilation
from kalmanbandits.errors import FileFormatError, InvalidArgument
from kalmanbandits.studies import Results, StoreRefused, StudyError, load_study, parse_study, run_study
from kalmanbandits.studies.store.provenance import commit
from kalmanbandits.systems import LinearGaussianSystem
from study_worlds import TEXT, contents, small_study

HEAD = "rounds = 10\nruns = 1\n"
SYSTEM = "[[systems]]\nfamily = 'rotation'\ntheta = 1.0\n"
POLICY = "[[policies]]\npolicy = 'Random'\n"


pytestmark = pytest.mark.usefixtures("small_blocks")


def everything(folder: Path) -> dict[str, tuple[bytes | str, int]]:
    """Every file and link of a folder: its content and when it was written."""
    return {
        str(path.relative_to(folder)): (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b"",
            path.lstat().st_mtime_ns,
        )
        for path in folder.rglob("*")
        if not path.is_dir()
    }


def make(folder: Path, name: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("precious")


FOREIGN = [
    "tmp/notes",
    "tmp",
    "lock",
    "data.zarr/angles/regret/c.0.0.0.0",
    "data.zarr",
    "manifest.json",
    "study.toml",
    "ledger",
    ".earlier-0123456789abcdef/manifest.json",
    ".manifest.json.0123456789abcdef0123456789abcdef.partial",
]


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_folder_with_anything_in_it_is_left_alone(name: str, resume: bool, tmp_path: Path) -> None:
    make(tmp_path, name)
    before = everything(tmp_path)
    with pytest.raises(StoreRefused):
        run_study(small_study(), tmp_path, resume=resume)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("target", ["notes", "nothing"])
def test_a_lock_that_is_a_link_is_left_alone(target: str, tmp_path: Path) -> None:
    make(tmp_path, "notes")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "lock").symlink_to(tmp_path / target)
    before = everything(tmp_path)
    with pytest.raises(StoreRefused):
        run_study(small_study(), tmp_path / "store")
    assert everything(tmp_path) == before


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "tmp/notes",
        "notes.txt",
        "data.zarr/notes.txt",
        "data.zarr/angles/notes.md",
        ".earlier-mine/notes",
        "earlier/x",
    ],
)
def test_what_people_put_into_a_store_stays(name: str, resume: bool, tmp_path: Path) -> None:
    run_study(small_study(), tmp_path)
    make(tmp_path, name)
    before = everything(tmp_path)[name]
    larger = small_study(("runs = 7", "runs = 8"))
    run_study(larger, tmp_path, resume=resume)
    assert everything(tmp_path).get(name, before) == before  # it may have moved aside with the numbers
    found = list(tmp_path.rglob(Path(name).name))
    assert [path.read_text() for path in found] == ["precious"]


def test_a_lock_of_somebody_else_in_a_store_is_refused(tmp_path: Path) -> None:
    run_study(small_study(), tmp_path)
    (tmp_path / "lock").write_text("precious")
    with pytest.raises(StoreRefused, match="is not a lock of this program"):
        run_study(small_study(), tmp_path)
    assert (tmp_path / "lock").read_text() == "precious"
    (tmp_path / "lock").write_bytes(b"")  # nothing in it to be lost: locked, not written
    assert run_study(small_study(), tmp_path).complete
    assert (tmp_path / "lock").read_bytes() == b""
    (tmp_path / "lock").unlink()
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(StoreRefused, match="got a link, folder or pipe"):
        run_study(small_study(), tmp_path)


def test_a_repository_is_read_and_nothing_of_it_is_run(tmp_path: Path) -> None:
    """`core.fsmonitor` is a command that `git status` runs."""

    def git(*words: str) -> str:
        names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=trunk"]
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *names, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "--quiet")
    assert commit(tmp_path) is None
    (tmp_path / "inner").mkdir()
    make(tmp_path, "inner/file")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    head = git("rev-parse", "HEAD")
    git("config", "core.fsmonitor", f"touch {tmp_path / 'ran'}; false")
    git("config", "core.pager", f"touch {tmp_path / 'ran'}; false")
    assert commit(tmp_path / "inner") == head
    git("-c", "core.fsmonitor=", "pack-refs", "--all")
    assert not (tmp_path / ".git" / "refs" / "heads" / "trunk").exists()
    assert commit(tmp_path) == head
    git("-c", "core.fsmonitor=", "worktree", "add", "--quiet", str(tmp_path / "tree"))
    assert commit(tmp_path / "tree") == head
    git("-c", "core.fsmonitor=", "checkout", "--quiet", "--detach")
    assert commit(tmp_path) == head
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["", "ref: refs/../../secret", "ref: refs/heads/none", "x" * 40, "\0"])
def test_a_strange_repository_has_no_commit(text: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(text)
    (tmp_path / "secret").write_text("0" * 40)
    assert commit(tmp_path) is None


def test_devices_and_pipes_are_no_documents(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    for path in ("/dev/zero", tmp_path / "pipe.toml"):
        with pytest.raises(StudyError, match="must be a regular file, got a device or a pipe"):
            load_study(path)
    with pytest.raises(StudyError, match="must be a regular file, got a folder"):
        load_study(tmp_path)
    with pytest.raises(InvalidArgument, match="path must be a path that a file can have"):
        load_study("a\0b")
    for name in ("/dev/zero", "pipe.toml"):
        (tmp_path / "study.toml").write_text(HEAD + POLICY + f"[[systems]]\nfile = '{name}'\n")
        with pytest.raises(StudyError, match=r"line 6: file must be the path of a system's TOML file"):
            load_study(tmp_path / "study.toml")
    (tmp_path / "long.toml").write_bytes(b"#" * (2**24 + 1))
    with pytest.raises(StudyError, match="must hold at most 16777216 bytes"):
        load_study(tmp_path / "long.toml")


@pytest.mark.parametrize("name", ["manifest.json", "study.toml"])
def test_a_store_with_a_pipe_in_it_does_not_hang(name: str, tmp_path: Path) -> None:
    run_study(small_study(), tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(FileFormatError, match=name):
        Results.open(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + 3000 * "[",
        "a = " + 3000 * "[" + 3000 * "]",
        "a" + 100_000 * ".a" + " = 1",
        "[" + ".".join(2000 * ["a"]) + "]",
        "a = " + 200 * "{a = " + "1" + 200 * "}",
        "a = 1" + 5000 * "0",
        "\0",
        "\ud800",
        "rounds = " + repr("x" * 10**6),
    ],
)
def test_no_text_is_too_deep_or_too_long_for_words(text: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(text)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("content", [b"\x80\x04\x95", b"\0" * 100, b"a = " + b"[" * 5000, b"\xff\xfe=\x00"])
def test_a_system_from_a_binary_or_deep_file_fails_in_words(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "system.toml"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"system\.toml is not TOML"):
        LinearGaussianSystem.from_toml(path)


@pytest.mark.parametrize(
    "name", ["zarr.json", "Zarr.JSON", "__x", "con", "NUL.txt", "a" * 61, ".hidden", "a/b", "..", "x\n", ""]
)
def test_names_that_are_folders_of_something_else_are_refused(name: str) -> None:
    with pytest.raises(StudyError, match="line 4: name must"):
        parse_study(HEAD + SYSTEM.replace("\n", f"\nname = {json.dumps(name)}\n", 1) + POLICY)


@pytest.mark.parametrize("label", ["", "  ", "a\nb", "a\tb", "\x1b[31m", "\u2028", "x" * 81])
def test_labels_are_one_line_that_can_be_read(label: str) -> None:
    with pytest.raises(StudyError, match="label must be 1 to 80 printable characters"):
        parse_study(HEAD + SYSTEM + POLICY + f"label = {json.dumps(label)}\n")
    if label.strip():
        with pytest.raises(StudyError, match="line 1: title must be one line"):
            parse_study(f"title = {json.dumps(label * 4)}\n" + HEAD + SYSTEM + POLICY)


def manifest_of(folder: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return known


def test_a_manifest_with_keys_removed_or_changed_is_refused_by_name(tmp_path: Path) -> None:
    run_study(small_study(), tmp_path)
    before, known = contents(tmp_path), manifest_of(tmp_path)
    for key in known:
        for other in (None, 3, "x", [], {}):
            changed = {name: value for name, value in known.items() if name != key}
            if other is not None:
                if type(other) is type(known[key]) or (key == "finished" and other == "x"):
                    continue
                changed[key] = other
            (tmp_path / "manifest.json").write_text(json.dumps(changed))
            if key in ("commit", "finished", "seconds") and other is not None:
                continue  # these may be several things
            with pytest.raises((FileFormatError, StoreRefused), match=r"manifest\.json|is not the store"):
                Results.open(tmp_path)
    for key, other in (
        ("blocks", {"angles": 0}),
        ("blocks", {"x": 3}),
        ("changes", {"counts": 3}),
        ("files", {"a": 1}),
    ):
        (tmp_path / "manifest.json").write_text(json.dumps(known | {key: other}))
        if key != "files":  # none is named by this study
            with pytest.raises(FileFormatError, match=r"manifest\.json is"):
                Results.open(tmp_path)
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(FileFormatError, match=r"manifest\.json is damaged"):
        Results.open(tmp_path)
    with pytest.raises(FileFormatError):
        run_study(small_study(), tmp_path)
    run_study(small_study(), tmp_path, resume=False)
    assert contents(tmp_path) == before


def test_an_own_policy_that_was_edited_makes_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(compilation.FOREIGN, "Random", "1" * 64)
    run_study(small_study(), tmp_path)
    monkeypatch.setitem(compilation.FOREIGN, "Random", "0" * 64)
    with pytest.raises(
        StoreRefused, match=r"another version: own policy Random: 1{16} in the store, 0{16} here"
    ):
        run_study(parse_study(TEXT), tmp_path)
