"""Tests of the names of collected static files, which depend on their content and on files they refer to."""

import re
from pathlib import Path

from django.conf import settings
from django.core.files.storage import FileSystemStorage

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
