"""Tests that the wheel is complete: built, installed elsewhere, and able to serve a page."""

import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.pages import links
from tests.running.conftest import Up, clean_environment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel that borrows this environment's dependencies, so no network is needed."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*install, str(wheel)], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.fixture(scope="module")
def installed(elsewhere: Path) -> Iterator[Up]:
    """Start the wheel in a folder with another package of its name, as in a checkout that is newer than the wheel."""
    other = elsewhere.parent / "checkout" / "handoffaudit"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise RuntimeError('this is not the installed package')")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(other.parent)
        up = Up(elsewhere.parent / "data", program=[str(elsewhere / "bin" / "handoffaudit")])
    try:
        yield up.wait_ready()
    finally:
        up.stop()


def test_it_is_the_installed_package_that_runs(elsewhere: Path) -> None:
    ask = [str(elsewhere / "bin" / "python"), "-c", "import handoffaudit; print(handoffaudit.__file__)"]
    said = subprocess.run(
        ask, cwd=elsewhere, env=clean_environment(), capture_output=True, text=True, check=True
    ).stdout
    assert Path(said).is_relative_to(elsewhere)


def test_a_page_opens_with_its_styles(installed: Up) -> None:
    with httpx.Client(base_url=installed.address, follow_redirects=True) as browser:
        page = browser.get("/")
        assert page.status_code == 200
        styles = links(page, '[href$=".css"]')
        assert styles
        assert {browser.get(address).status_code for address in styles} == {200}


def test_templates_static_files_samples_and_licences_are_inside(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("templates", "static"):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
        assert files
        assert {f"handoffaudit/_web/{path.relative_to(ROOT)}" for path in files} <= inside
    samples = [path for path in (ROOT / "handoffaudit" / "samples").rglob("*") if path.is_file()]
    assert {str(path.relative_to(ROOT)) for path in samples} <= inside
    assert any(name.endswith("licenses/LICENSE") for name in inside)


def test_nothing_beside_the_product_is_inside(wheel: Path) -> None:
    folders = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"handoffaudit"}


@pytest.mark.parametrize("lock", ["requirements.lock", "client/frameworks.lock", "client/more-frameworks.lock"])
def test_a_lock_names_no_host_and_hashes_everything(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*--(?!hash=)", text, re.MULTILINE)
    pinned = re.findall(r"^[a-z0-9._-]+==.*(?:\n    --hash=sha256:.*)?", text, re.MULTILINE)
    assert pinned
    assert all("--hash=sha256:" in one for one in pinned)


def test_the_lock_has_every_dependency() -> None:
    import tomllib

    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[\[>=<]", one)[0] for one in wanted}
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert names <= locked


@pytest.mark.parametrize(("name", "least"), [("frameworks", 10), ("more-frameworks", 5)])
def test_the_lock_of_the_frameworks_has_each_of_them(name: str, least: int) -> None:
    wanted = re.findall(r"^([a-z0-9-]+)>=", (ROOT / f"client/{name}.in").read_text(), re.MULTILINE)
    locked = re.findall(r"^([a-z0-9._-]+)==", (ROOT / f"client/{name}.lock").read_text(), re.MULTILINE)
    assert len(wanted) >= least
    assert set(wanted) <= set(locked)
