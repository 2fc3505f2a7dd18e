"""``raycade new``: a package of your own, with its test, to start from."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import keyword
import re
from pathlib import Path
from string import Template
from typing import Final

from cluster.errors import UserError, cannot_write
from envs import plugins

KINDS: Final = {
    "suite": "games with pictures, a table, a figure and a view",
    "engine": "what completes requests",
    "task": "a KidGym task",
    "domain": "a KUMO domain, one YAML file",
}
TEMPLATES: Final = Path(__file__).parent / "templates"
"""A folder for each kind; a file's name ends in ``.txt``, and ``NAME`` in it stands for the name."""
GROUPS: Final = {"suite": "raycade.suites", "engine": "raycade.engines", "task": "raycade.kidgym"}
"""Entry-point groups in which the name must be free."""
LONGEST: Final = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``raycade new``."""
    parser.description = (
        "Writes a package that works as it stands: change it step by step, and run its test after each."
    )
    what = "; ".join(f"{kind}: {text}" for kind, text in KINDS.items())
    parser.add_argument("kind", choices=KINDS, help=what)
    parser.add_argument("name", metavar="NAME", help="lower-case letters, digits and _, such as number_hunt")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to write it (default: ./NAME)")


def main(options: argparse.Namespace) -> None:
    """Write the files and say what to do next.

    Raises:
        UserError: the name cannot be used, or the folder is not empty or cannot be written.
        RunFailedError: the disk takes no more.
    """
    kind, name = options.kind, options.name
    folder: Path = options.folder or Path(name)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder}: exists; name an empty folder with --folder")
    _check_name(kind, name)
    try:
        written = write_package(kind, name, folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
    print(f"{folder}: {', '.join(path.name for path in written)}\n")
    print((folder / "README.md").read_text(encoding="utf-8"), end="")


def write_package(kind: str, name: str, folder: Path) -> list[Path]:
    """Fill in the templates of a kind.

    Args:
        kind: One of ``KINDS``.
        name: Of the suite, engine, task or domain, and of its module.
        folder: Where the files are written; made where it is missing.

    Returns:
        The files.

    Raises:
        OSError: one cannot be written; none of them is there.
    """
    values = _values(name)
    contents = {}
    for template in sorted((TEMPLATES / kind).glob("*.txt")):
        path = folder / template.stem.replace("NAME", name)
        contents[path] = Template(template.read_text(encoding="utf-8")).substitute(values)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for path, content in contents.items():
            path.write_text(content, encoding="utf-8")
    except BaseException:  # a full disk, say: the same command can write the package later
        for path in contents:
            path.unlink(missing_ok=True)
        raise
    return [*contents]


def _values(name: str) -> dict[str, str]:
    """What the templates are filled in with."""
    words = name.split("_")
    return {
        "name": name,
        "distribution": name.replace("_", "-"),
        "title": " ".join(words).capitalize(),
        "class_name": "".join(word.capitalize() for word in words),
        "task": name.replace("_", "").upper(),
    }


def _check_name(kind: str, name: str) -> None:
    # The name becomes that of a Python module and, in capitals, of a class.
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name) or len(name) > LONGEST:
        raise UserError(
            f"NAME {name!r}: must be lower-case letters, digits and single _, begin with a letter, "
            f"have at most {LONGEST} characters and be no word of Python's"
        )
    if kind in GROUPS and name in plugins.registered(GROUPS[kind]):
        raise UserError(f"NAME {name!r}: is the name of an installed {kind} already")
    if kind in GROUPS and importlib.util.find_spec(name) is not None:
        raise UserError(f"NAME {name!r}: is the name of an installed Python module already")
    if taken := _taken_by(kind, name):
        raise UserError(f"NAME {name!r}: {taken}; add a word, such as {name}_{kind}")


def _taken_by(kind: str, name: str) -> str:
    """What else is called by a name that the package would use; empty where nothing is."""
    from cluster.config.registry import file_names  # not above: the help waits for nothing that takes time to import
    from cluster.models.table import rows
    from envs import picture

    values = _values(name)
    class_name, task = values["class_name"], values["task"]
    if kind == "suite":
        if name in file_names("suite"):
            return f"suite={name} is another one already"
        if name in plugins.registered(picture.GROUP, picture.BUILT_IN):
            return "is the name of a kind of pictures already"
    if kind == "engine" and name in {*file_names("model.engine"), *rows()}:
        return f"model={name} is another one already"
    if kind == "task" and _is_task(task):
        return f"{task} is a task of KidGym's already"
    if kind in GROUPS:
        if keyword.iskeyword(class_name):
            return f"its class would be called {class_name}, which is a word of Python's"
        imported = _imported(kind)
        # A task's test imports the module by its name; the other packages import what is in it.
        own_names = {"suite": (class_name, f"{class_name}Picture"), "engine": (class_name,), "task": (class_name, name)}
        for own in own_names[kind]:
            if own in imported:
                return f"{own} would take the place of what the package imports by that name"
    return ""


def _is_task(task: str) -> bool:
    """Whether KidGym has a task of this name, of ours or of an installed package."""
    from cluster.config.plan import make_suite

    try:
        make_suite({"type": "kidgym", "tasks": [task], "episodes": 1}).plan()
    except (UserError, ValueError):  # KidGym is not installed, or its plan knows no such task
        return False
    return True


def _imported(kind: str) -> set[str]:
    """The names that the Python files of a kind import from elsewhere."""
    module = "name_of_the_module"
    names: set[str] = set()
    for template in (TEMPLATES / kind).glob("*.py.txt"):
        text = Template(template.read_text(encoding="utf-8")).substitute(_values(module))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module != module:
                names |= {each.name for each in node.names}
            elif isinstance(node, ast.Import):
                names |= {each.asname or each.name for each in node.names if each.name != module}
    return names
