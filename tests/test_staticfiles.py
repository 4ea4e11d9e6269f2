"""Tests of the collected static files: their folder, and names that depend on content and on referenced files."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core.files.storage import FileSystemStorage
from pytest_django import Settings

from handoffaudit.cli import Stop
from handoffaudit.cli.serve.setup import STAMP, collect_static
from handoffaudit.staticfiles import BUNDLE, Storage

NAMED = re.compile(r'(?:from|import) "\./([^"]+)";')
PARTS = "js/review"


def test_parts_of_a_script_name_each_other_by_their_hashed_names(tmp_path: Path) -> None:
    source = FileSystemStorage(settings.STATICFILES_DIRS[0])
    paths = {f"{PARTS}/{name}": (source, f"{PARTS}/{name}") for name in source.listdir(PARTS)[1]}
    storage = Storage(location=tmp_path)
    for name in paths:
        with source.open(name) as file:
            storage.save(name, file)
    assert all(result is True for *_, result in storage.post_process(paths))
    collected = {path.name: path.read_text() for path in (tmp_path / PARTS).glob("*.js")}
    named = {name for text in collected.values() for name in NAMED.findall(text)}
    assert len(named) >= 5
    assert named <= set(collected)
    assert all(re.search(r"\.[0-9a-f]{12}\.js$", name) for name in named)


def test_the_sheets_are_collected_as_one_bundle(tmp_path: Path) -> None:
    source = FileSystemStorage(settings.STATICFILES_DIRS[0])
    paths = {f"css/{name}": (source, f"css/{name}") for name in source.listdir("css")[1]}
    storage = Storage(location=tmp_path)
    for name in paths:
        with source.open(name) as file:
            storage.save(name, file)
    assert all(result is True for *_, result in storage.post_process(paths))
    (bundle,) = (tmp_path / "css").glob("*.css")
    assert bundle.name in storage.url(BUNDLE)
    text = bundle.read_text()
    assert "@import" not in text
    assert "/*" not in text
    layers = re.findall(r"^@layer ([a-z]+) \{$", text, flags=re.MULTILINE)
    assert len(layers) > 20
    assert [layers[0], layers[-1]] == ["tokens", "utilities"]
    assert "--page:" in text
    assert text.count("{") == text.count("}")


@pytest.fixture
def named_folder(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that `HANDOFFAUDIT_STATIC` names."""
    settings.STATIC_ROOT = tmp_path
    monkeypatch.setenv("HANDOFFAUDIT_STATIC", str(tmp_path))
    return tmp_path


def test_a_folder_with_other_files_is_not_emptied(named_folder: Path) -> None:
    (named_folder / "mine.txt").write_text("my only copy")
    with pytest.raises(Stop, match="name a new or empty folder") as refused:
        collect_static()
    assert f"HANDOFFAUDIT_STATIC is '{named_folder}'" in refused.value.message
    assert [path.name for path in named_folder.iterdir()] == ["mine.txt"]


def test_files_of_a_killed_start_are_replaced(named_folder: Path) -> None:
    collect_static()
    (named_folder / "staticfiles.json").unlink()
    (named_folder / STAMP).write_text("")
    collect_static()
    assert (named_folder / "staticfiles.json").is_file()
