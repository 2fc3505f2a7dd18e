"""Registered names: where they come from, what is refused, and that listing imports nothing."""

import json
import os
import sys
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint

import pytest

from envs import plugins
from envs.picture import picture_from_description
from tests.golden import check_said

OURS = {"ours": "json:dumps"}


@pytest.fixture
def folder(tmp_path, plugins_in):
    """A plugin folder; write its plugins.toml."""
    plugins_in(tmp_path)
    return tmp_path


def test_built_in_names_are_loaded_and_others_refused_with_what_there_is():
    assert plugins.load("raycade.none", "ours", OURS) is json.dumps
    with pytest.raises(ValueError, match="ours"):
        plugins.load("raycade.none", "theirs", OURS)


def test_a_lack_of_memory_is_no_fault_of_the_module_that_is_imported(tmp_path, monkeypatch):
    (tmp_path / "large_module.py").write_text("raise MemoryError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MemoryError):
        plugins.load("raycade.none", "large", {"large": "large_module"})


@pytest.mark.parametrize("path", ["colorsys.py", "numpy/__init__.py"])
def test_a_folder_s_modules_take_nobody_s_place_in_child_processes(folder, path):
    (folder / "mine_module.py").touch()
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).touch()
    with pytest.raises(
        ValueError, match=rf"{folder / path.removesuffix('/__init__.py')} has the name of another module"
    ):
        plugins.folders()
    assert str(folder) not in sys.path


def test_a_folder_is_found_here_and_in_child_processes(folder):
    (folder / "mine_module.py").touch()
    assert plugins.folders() == plugins.folders() == [folder]
    assert PathFinder.find_spec("mine_module").origin == str(folder / "mine_module.py")
    assert sys.path.count(str(folder)) == os.environ["PYTHONPATH"].split(os.pathsep).count(str(folder)) == 1


def test_a_folder_s_names_are_listed_without_importing_anything(folder):
    (folder / "plugins.toml").write_text('["raycade.none"]\nmine = "mine_module:Thing"\n["raycade.other"]\nx = "y:Z"\n')
    (folder / "mine_module.py").write_text("class Thing: pass\n")
    assert plugins.registered("raycade.none", OURS) == {**OURS, "mine": "mine_module:Thing"}
    assert "mine_module" not in sys.modules
    assert plugins.load("raycade.none", "mine", OURS).__name__ == "Thing"
    (folder / "plugins.toml").write_text('["raycade.suites"]\nmine = "mine_module:Thing"\n')
    assert plugins.registered("raycade.suites").keys() >= {"kumo", "mine"}, "beside those of installed packages"


def test_a_name_is_summed_up_by_the_first_line_of_its_module_which_is_not_imported(folder):
    modules = {
        "told_module": '"""``raycade told``: Does 5 % of it: the rest.\n\nMore."""\nraise SystemExit\n',
        "told_package/inner": '"""``inner``: Deep things."""\n',
        "told_package/__init__": '"""``outer``: Not asked for."""\n',
        "told_nothing": "x = 1\n",
        "told_badly": '"""``bad``: Broken."""\ndef (\n',
    }
    (folder / "told_package").mkdir()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    wanted = {
        "told_module:Thing": "Does 5 %% of it: the rest",
        "told_package.inner:x": "Deep things",
        **dict.fromkeys(("told_nothing", "told_badly", "told_nowhere"), ""),
    }
    lines = [f'name{number} = "{value}"\n' for number, value in enumerate(wanted)]
    (folder / "plugins.toml").write_text(f'["raycade.none"]\n{"".join(lines)}')
    told = [plugins.summary("raycade.none", f"name{number}") for number in range(len(wanted))]
    assert told == [*wanted.values()] and not {name.partition("/")[0] for name in modules} & sys.modules.keys()


@pytest.mark.parametrize(
    "toml",
    ['["raycade.none"]\nours = "mine_module:Thing"\n', "not TOML", '["raycade.none"]\nmine = 3\n', None],
    ids=["taken", "damaged", "no text", "absent"],
)
def test_a_folder_that_cannot_be_used_is_named(folder, toml):
    if toml is not None:
        (folder / "plugins.toml").write_text(toml)
    with pytest.raises(ValueError, match=r"ours|plugins\.toml"):
        plugins.registered("raycade.none", OURS)


def test_a_folder_in_a_home_that_there_is_not_is_named(monkeypatch):
    monkeypatch.setenv("RAYCADE_PLUGINS", "~no-one/x")
    with pytest.raises(ValueError, match="RAYCADE_PLUGINS=~no-one/x: there is no such home"):
        plugins.registered("raycade.none", OURS)


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("import no_such_package_anywhere\n", "no_such_package_anywhere"),
        ("x = 1\n", "Thing"),
        ("raise BaseException('theirs')\n", "theirs"),
        (None, "mine_module"),
    ],
)
def test_what_cannot_be_imported_is_named_with_what_it_lacks(folder, code, named):
    (folder / "plugins.toml").write_text('["raycade.none"]\nmine = "mine_module:Thing"\n')
    if code is not None:
        (folder / "mine_module.py").write_text(code)
    sys.modules.pop("mine_module", None)
    with pytest.raises(ValueError, match=named):
        plugins.load("raycade.none", "mine", {})
    sys.modules.pop("mine_module", None)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("kumo", ": pip install 'raycade[kumo]'"),
        ("kumo_likely", ": pip install 'raycade[kumo]'"),
        ("bundle", ""),
        ("no", ""),
    ],
)
def test_a_package_that_is_missing_is_told_with_the_extra_that_brings_it(name, remedy):
    """That of the name, or the one that its entry point states."""
    said = plugins.missing_package("raycade.suites", name, ModuleNotFoundError("", name="some_package"))
    assert said == f"{name} needs the Python package 'some_package', which is not installed{remedy}"


def test_a_picture_of_another_package_is_rebuilt_by_its_registered_name(folder):
    (folder / "plugins.toml").write_text('["raycade.pictures"]\ndots = "dots_module:Dots"\n')
    (folder / "dots_module.py").write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\nimport numpy as np\n"
        "from envs.picture import Picture\n@dataclass(frozen=True)\nclass Dots(Picture):\n"
        "    kind: ClassVar[str] = 'dots'\n    edge: int\n    size = property(lambda self: (self.edge, self.edge))\n"
        "    def render(self): return np.zeros((self.edge, self.edge, 3), np.uint8)\n"
    )
    picture = picture_from_description('{"kind":"dots","version":1,"edge":5}')
    with pytest.raises(ValueError, match="has version 2; this renderer is version 1"):
        picture_from_description('{"kind":"dots","version":2,"edge":5}')
    assert picture.render().shape == (5, 5, 3)
    with pytest.raises(ValueError, match="lines"):
        picture_from_description('{"kind":"lines","version":1,"edge":5}')


def test_names_of_packages_and_folders_are_as_on_record(tmp_path, monkeypatch):
    class Package:
        def __init__(self, name, *extras):
            self.name, self.metadata = name, self
            self.get_all = lambda key: list(extras) if key == "Provides-Extra" and extras else None

    def entry(name, value, package=None):
        made = EntryPoint(name, value, "raycade.made")
        object.__setattr__(made, "__dict__", {**made.__dict__, "dist": package})
        return made

    toys = Package("toys", "big", "cars", "made")
    installed = [
        entry("cars", "toys.cars:Cars [big,fast]", toys),
        entry("made", "toys.made", toys),
        entry("cars", "toys.cars:Cars", Package("plain")),
        entry("lone", "lone_module:x"),
        entry("plain", "json:dumps [none]", Package("plain")),
    ]
    monkeypatch.setattr(
        plugins.importlib.metadata,
        "entry_points",
        lambda group, name=None: [each for each in installed if group == each.group and name in (None, each.name)],
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "")
    for name, toml in (
        ("one", '["raycade.made"]\nours = "one_module:a.b"\n"x.y-z_1" = "one_module"\ncars = "toys.cars:Cars"\n'),
        ("two", '["raycade.other"]\nx = "y:z"\n'),
        ("taken", '["raycade.made"]\ncars = "other:Cars"\n'),
        ("badly", '["raycade.made"]\n"-x" = "y"\n'),
        ("listed", '"raycade.made" = ["x"]\n'),
        ("number", '["raycade.made"]\nx = 1\n'),
        ("again", '["raycade.made"]\nlone = "lone_module:y"\n'),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plugins.toml").write_text(toml)
    (tmp_path / "one/one_module.py").write_text("class a:\n    b = 3\n")
    (tmp_path / "two/lone_module.py").write_text("raise SystemExit(4)\n")

    def placeless(function, *given):
        try:
            return function(*given)
        except ValueError as error:
            raise ValueError(str(error).replace(str(tmp_path), "PLACE")) from None

    def within(*names, group="raycade.made", **built_in):
        monkeypatch.setenv("RAYCADE_PLUGINS", os.pathsep.join(["", *(str(tmp_path / name) for name in names)]))
        plugins._registered.cache_clear()
        return placeless(plugins.registered, group, built_in)

    def loaded(name, **built_in):
        within("one", "two", **built_in)
        return placeless(plugins.load, "raycade.made", name, built_in)

    def missing(name):
        return plugins.missing_package("raycade.made", name, ModuleNotFoundError(name="wheels"))

    names = {**globals(), "within": within, "loaded": loaded, "missing": missing}
    check_said("plugins", names)
    plugins._registered.cache_clear()
    sys.modules.pop("one_module")
