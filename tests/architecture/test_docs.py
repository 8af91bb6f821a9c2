"""What the documents promise exists: make targets, commands, files, settings."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import typer.main
from pydantic import SecretStr

from app.cli.main import app
from app.config import Settings
from tests.architecture import cli_page, settings_page
from tests.architecture.tree import CODE, ROOT, Module, files, modules, parsed

README: Final = (ROOT / "README.md").read_text()
ARCHITECTURE: Final = (ROOT / "docs" / "architecture.md").read_text()
ROOT_PAGES: Final = tuple(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY"))
DOCUMENTS: Final = (*ROOT_PAGES, *sorted((ROOT / "docs").rglob("*.md")))
SECTIONS: Final = frozenset({"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"})

_MAKE: Final = re.compile(r"(?:^|`)make ([a-z]+)", re.MULTILINE)
_COMMAND: Final = re.compile(r"(?:^|[`/])angelia ([a-z]+)(?: ([a-z]+)\b)?", re.MULTILINE)
_PATH: Final = re.compile(
    r"(?<![\w/.-])((?:app|workers|migrations|tests|docs|\.ci)/[\w./*-]*[\w/*])"
)

_PRODUCT: Final = tuple(package for package in CODE if package != "tests")
_MODULE: Final = re.compile(r"\b\w+\.py\b")


def targets() -> set[str]:
    """What the Makefile can make, by name."""
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands() -> dict[str, set[str]]:
    """Each `angelia` command with its sub-commands, and with an empty one if it runs alone, too."""
    root = typer.main.get_command(app)
    found = dict[str, set[str]]()
    for name, entry in getattr(root, "commands", {}).items():
        command = cli_page.loaded(entry)
        alone = {""} if getattr(command, "invoke_without_command", False) else set[str]()
        found[name] = alone | set(getattr(command, "commands", {}))
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_exist(document: Path) -> None:
    assert set(_MAKE.findall(document.read_text())) <= targets()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_exist(document: Path) -> None:
    known = commands()
    for command, argument in _COMMAND.findall(document.read_text()):
        assert command in known
        assert not known[command] or argument in known[command]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_exist(document: Path) -> None:
    named = set(_PATH.findall(document.read_text()))
    assert not [path for path in named if not list(ROOT.glob(path.rstrip("/")))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", document.read_text())
    here = [link for link in links if "://" not in link]
    assert not [link for link in here if not (document.parent / link).exists()]


def test_the_page_of_the_command_line_is_the_commands_own_help() -> None:
    assert cli_page.PAGE.read_text() == cli_page.page(), "docs/cli.md is stale: run `make cli`"


def test_the_first_screen_has_the_two_commands() -> None:
    screen = README.splitlines()[:25]
    assert any(line.startswith("make up") for line in screen)
    assert any(line.startswith("make test") for line in screen)


def test_every_setting_is_described() -> None:
    undescribed = [name for name, field in Settings.model_fields.items() if not field.description]
    assert not undescribed


def test_no_setting_has_a_secret_for_a_default() -> None:
    assert not [
        name
        for name, field in Settings.model_fields.items()
        if isinstance(field.default, SecretStr)
    ]


def test_the_page_of_settings_is_the_code_s() -> None:
    assert settings_page.PAGE.read_text() == settings_page.page(), (
        "docs/settings.md is stale: run `make settings`"
    )


def test_the_page_of_settings_begins_each_section_with_a_setting_that_exists() -> None:
    assert settings_page.SECTIONS.keys() <= Settings.model_fields.keys()
    assert next(iter(settings_page.SECTIONS)) == next(iter(Settings.model_fields))


@pytest.mark.parametrize("package", ["app", "workers", "spark"])
def test_the_map_names_every_package(package: str) -> None:
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    missing = {folder for folder in folders if f"{package}/{folder}/" not in ARCHITECTURE}
    assert not missing, "say in docs/architecture.md, `Where things are`, what these folders have"


def test_the_way_of_a_message_names_functions_that_their_files_have() -> None:
    steps = re.findall(r"^\d+\. .*(?:\n   .*)*", ARCHITECTURE, re.MULTILINE)
    assert len(steps) > 20
    for step in steps:
        quoted = re.findall(r"`([\w/.]+)`", step)
        files = [ROOT / name for name in quoted if name.endswith((".py", "/"))]
        text = "".join(path.read_text() for path in files if path.is_file())
        functions = [name for name in quoted if re.fullmatch(r"_?[a-z]+(_[a-z]+)*", name)]
        assert files, step
        assert not [name for name in functions if f"def {name}(" not in text], step


def test_every_page_is_reached_from_the_index() -> None:
    linked = set(re.findall(r"\]\(([\w./-]+)", (ROOT / "docs" / "index.md").read_text()))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert pages - linked == {"index.md"}, "docs/index.md links to every page"


def test_links_lead_to_headings() -> None:
    for document in DOCUMENTS:
        for page, heading in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", document.read_text()):
            target = (document.parent / page) if page else document
            assert heading in headings(target), f"{document.name}: {page}#{heading}"


def headings(document: Path) -> set[str]:
    """The headings of a page, as links name them."""
    found = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in found)
    return {heading.replace(" ", "-") for heading in plain}


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_lines_and_cells_are_short(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    others = [line for line in text.splitlines() if not line.startswith("|")]
    cells = [cell for row in rows for cell in row.split(" | ")]
    assert not [line for line in others if len(line) > 120]
    assert not [cell for cell in cells if len(cell) > 200]


def test_the_changelog_keeps_its_form() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    versions = [line for line in lines if line.startswith("## ")]
    assert lines[0] == "# Changelog"
    assert versions[0] == "## [Unreleased]"
    assert all(
        re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", each) for each in versions[1:]
    )
    assert {line[4:] for line in lines if line.startswith("### ")} <= SECTIONS


def test_decisions_are_numbered_and_say_context_decision_and_consequences() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [page.name[:5] for page in pages] == [f"{n:04}-" for n in range(1, len(pages) + 1)]
    for page in pages:
        headings = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences"]


def test_docstrings_and_comments_name_files_that_exist() -> None:
    there = {path.name for path in files()}
    named = [each for module in modules(*_PRODUCT) for each in named_files(module)]
    assert named
    assert not [f"{path}: {name}" for path, name in named if name not in there]


@pytest.mark.parametrize(
    "text", ["# See old_name.py.\n", '"""As in `old_name.py`."""\n', "x = 1  # old_name.py\n"]
)
def test_a_file_that_is_named_is_found(text: str) -> None:
    assert list(named_files(parsed("app/a.py", text))) == [("app/a.py", "old_name.py")]


def named_files(module: Module) -> Iterator[tuple[str, str]]:
    """The Python files that a module's comments and texts of several words name."""
    if not _MODULE.search(module.text):
        return
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING} and " " in token.string:
            yield from ((module.path, name) for name in _MODULE.findall(token.string))
