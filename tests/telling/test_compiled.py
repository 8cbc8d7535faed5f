"""Templates are kept compiled, and compiled again where their text changes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import jinja2
import pytest

from flashlab.telling.compiled import CACHE, bytecode_cache


def said(folder: Path) -> str:
    loader = jinja2.FileSystemLoader(folder)
    environment = jinja2.Environment(loader=loader, bytecode_cache=bytecode_cache(folder))
    return environment.get_template("a.j2").render()


def test_a_template_is_compiled_once_and_again_where_its_text_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    template = tmp_path / "a.j2"
    template.write_text("one")
    assert said(tmp_path) == "one"
    with monkeypatch.context() as patch:
        patch.setattr(jinja2.Environment, "_compile", lambda *_: pytest.fail("compiled again"))
        assert said(tmp_path) == "one"
        shutil.copytree(tmp_path, tmp_path / "copy")
        assert said(tmp_path / "copy") == "one"
    template.write_text("two")
    assert said(tmp_path) == "two"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # where Python keeps none
    shutil.rmtree(tmp_path / CACHE)
    assert bytecode_cache(tmp_path) is None
    assert not tmp_path.joinpath(CACHE).exists()
