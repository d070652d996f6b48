"""What the pages are made of: little, own, and allowed by the strictest policy."""

from __future__ import annotations

import re
from pathlib import Path

import kai_ray.console

STATIC = Path(kai_ray.console.__file__).parent / "static"
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
MOST = 200_000


def test_all_of_it_weighs_less_than_two_hundred_kilobytes() -> None:
    assert 50_000 < sum(path.stat().st_size for path in FILES) < MOST


def test_nothing_comes_from_another_host() -> None:
    for path in FILES:
        found = set(re.findall(r"https?://[\w.-]+", path.read_text(encoding="utf-8")))
        assert found <= {"http://www.w3.org"}, path


def test_the_page_has_neither_script_nor_style_of_its_own() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]* src=)|<style| style=| on\w+=", page) == []


def test_what_the_page_and_the_modules_name_is_there() -> None:
    page = STATIC / "index.html"
    for name in re.findall(r'(?:src|href)="([^"#]+)"', page.read_text(encoding="utf-8")):
        assert (STATIC / name).is_file(), name
    for path in FILES:
        if path.suffix == ".js":
            text = path.read_text(encoding="utf-8")
            for name in re.findall(r'(?:from|import\()\s*"(\.[^"]+)"', text):
                assert (path.parent / name).resolve().is_file(), f"{path.name} imports {name}"


def test_nothing_writes_markup_from_text() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
