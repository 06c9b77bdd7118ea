"""The wheel, in an empty environment, does what the README says."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from documents import ROOT, blocks

UV = Path(sys.executable).with_name("uv")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "kalmanbandits/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"kalmanbandits"}


def test_the_readme_runs_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"
    run(UV, "venv", "--quiet", "--python", sys.executable, environment)
    install: list[str | Path] = [UV, "pip", "install", "--quiet", "--python", python, "--no-deps"]
    run(*install, "--require-hashes", "--requirement", ROOT / "requirements.txt")
    run(*install, wheel)
    run(
        UV, "pip", "check", "--quiet", "--python", python
    )  # nothing but what the wheel asks for, and all of it

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    example = elsewhere / "example.py"
    example.write_text(
        "\n".join(source for _, source in blocks(ROOT / "README.md", "python")), encoding="utf-8"
    )
    where = run(python, "-I", "-c", "import kalmanbandits; print(kalmanbandits.__file__)", cwd=elsewhere)
    assert Path(where.strip()).is_relative_to(environment)
    assert run(python, "-I", example, cwd=elsewhere).strip()
