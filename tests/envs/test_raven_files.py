"""Official files: read without loss, written back identically, and damaged ones refused with their name and fault."""

import argparse
import dataclasses
import itertools
import json
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from envs.disk import own_folder
from envs.files import FileError
from envs.picture import picture_from_description
from envs.raven import (
    CONFIGURATIONS,
    STYLES,
    Component,
    Panel,
    generate,
    load,
    official,
    puzzle,
    read,
    render_problem,
    solve,
    write,
)
from envs.raven.commands import add_arguments, main
from envs.raven.files import content_digest, file_stem
from envs.raven.listing import find_files, read_index
from envs.raven.xmltree import read_document
from tests.golden import check_golden

FIXTURES = Path(__file__).resolve().parents[2] / "../shared/fixtures/raven"
OFFICIAL = sorted(FIXTURES.glob("*/RAVEN_*.npz"))
if not OFFICIAL:
    OFFICIAL = [pytest.param(None, marks=pytest.mark.skip("the official sample files are not here"))]
names = [str(path.relative_to(FIXTURES)) if isinstance(path, Path) else "none" for path in OFFICIAL]
every_official = pytest.mark.parametrize("path", OFFICIAL, ids=names)


def same(one, other):
    """Whether two files say the same, but for where they lie and parameters that the panels leave open."""
    arrays, others = one.arrays(), other.arrays()
    return (
        arrays.keys() == others.keys()
        and all(np.array_equal(arrays[name], others[name]) for name in arrays)
        and all(arrays[name].dtype == others[name].dtype for name in arrays)
        and one.text == other.text
        and one.problem.panels == other.problem.panels
        and one.problem.edits == other.problem.edits
        and one.problem.style == other.problem.style
    )


# --- official samples ------------------------------------------------------------------------------------------------


@every_official
def test_an_official_xml_is_written_back_byte_for_byte_and_all_arrays_with_their_types(path, tmp_path):
    npz, xml = write(read(path), tmp_path / "again")
    assert xml.read_bytes() == path.with_suffix(".xml").read_bytes()
    with np.load(npz) as ours, np.load(path) as theirs:
        assert ours.files == theirs.files
        for name in theirs.files:
            np.testing.assert_array_equal(ours[name], theirs[name])
            assert ours[name].dtype == theirs[name].dtype


@every_official
def test_our_codes_are_the_official_ones(path):
    file, ours = read(path), official(read(path).problem)
    for name in ("meta_matrix", "meta_target", "structure", "meta_structure"):
        np.testing.assert_array_equal(ours.arrays()[name], file.arrays()[name])


# --- our own files ---------------------------------------------------------------------------------------------------


@pytest.fixture
def stem(tmp_path):
    """A sound problem on disk."""
    write(official(generate("in_distribute_four_out_center_single", 5)), tmp_path / "RAVEN_0_train")
    return tmp_path / "RAVEN_0_train"


@pytest.mark.slow
def test_what_is_written_reads_back_identically_and_omitted_parameters_are_inferred(tmp_path):
    wrong = total = 0
    for name, style, seed in itertools.product(CONFIGURATIONS, STYLES, range(6)):
        file = official(generate(name, seed, style))
        again = read(write(file, tmp_path / file_stem(seed))[0])
        assert same(file, again)
        assert again.problem.target == file.problem.target
        for own, inferred in zip(file.problem.rules, again.problem.rules, strict=True):
            assert [(r.name, r.attribute) for r in own] == [(r.name, r.attribute) for r in inferred]
            wrong += sum(one.parameter != other.parameter for one, other in zip(own, inferred, strict=True))
            total += len(own)
    # Only shifts of opposite corners, which look the same both ways, may come out otherwise.
    assert wrong / total < 0.01


def test_file_names_carry_the_official_split():
    assert [file_stem(index).split("_")[2] for index in range(10)] == ["train"] * 6 + ["val"] * 2 + ["test"] * 2


def test_files_are_found_by_folder_and_number(tmp_path):
    names = ("RAVEN_x_train", "RAVEN_2_val", "RAVEN_10_train", "RAVEN_2_train", "OTHER_1_train", "b/RAVEN_1_train")
    (tmp_path / "b").mkdir()
    for name in names:
        (tmp_path / f"{name}.npz").touch()
    order = ["RAVEN_x_train", "RAVEN_2_train", "RAVEN_2_val", "RAVEN_10_train", "b/RAVEN_1_train"]
    assert find_files(tmp_path) == [tmp_path / f"{name}.npz" for name in order]
    assert find_files(tmp_path / "OTHER_1_train.npz") == [tmp_path / "OTHER_1_train.npz"]


@pytest.mark.parametrize("kind", ["bytes", "pickled bytes", "pickled text"])
def test_structure_names_may_be_of_either_python(stem, kind):
    npz = stem.with_suffix(".npz")
    with np.load(npz) as file:
        arrays = dict(file)
    text = arrays["structure"].tolist()
    raw = [name.encode() for name in text]
    changed = {"bytes": np.array(raw), "pickled bytes": np.array(raw, object), "pickled text": np.array(text, object)}
    np.savez(npz, **(arrays | {"structure": changed[kind]}), allow_pickle=True)
    names = read(npz).structure.tolist()
    assert [name.decode() if isinstance(name, bytes) else name for name in names] == text


class Boom:
    def __reduce__(self):
        return Path.touch, (Path("boom"),)


def test_nothing_in_a_file_is_executed(stem, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    npz = stem.with_suffix(".npz")
    with np.load(npz) as file:
        arrays = dict(file)
    np.savez(npz, **(arrays | {"structure": np.array([Boom()], object)}), allow_pickle=True)
    with pytest.raises(FileError, match="refused to unpack"):
        read(npz)
    assert not Path("boom").exists()
    with zipfile.ZipFile(npz, "w") as archive:
        archive.writestr("image.npy", pickle.dumps(Boom()))
    with pytest.raises(FileError, match="damaged header"):
        read(npz)
    assert not Path("boom").exists()


# --- damage ----------------------------------------------------------------------------------------------------------


def refused(stem, pattern):
    with pytest.raises(FileError, match=pattern) as caught:
        read(stem.with_suffix(".npz"))
    assert stem.name in str(caught.value)


def edit(stem, pattern, replacement, count=1):
    xml = stem.with_suffix(".xml")
    changed, number = re.subn(pattern, replacement, xml.read_text(), count=count)
    assert number
    xml.write_text(changed)


@pytest.mark.parametrize("cut", [0, 3, 200, 100_000, -10])
def test_a_truncated_npz_is_named(stem, cut):
    npz = stem.with_suffix(".npz")
    npz.write_bytes(npz.read_bytes()[:cut])
    refused(stem, "damaged npz")


def test_flipped_bits_in_an_npz_are_found(stem):
    npz = stem.with_suffix(".npz")
    data = bytearray(npz.read_bytes())
    data[5000] ^= 0xFF
    npz.write_bytes(data)
    refused(stem, "damaged npz.*CRC")


def test_files_that_would_fill_the_memory_are_refused(stem):
    npz = stem.with_suffix(".npz")
    np.savez_compressed(npz, image=np.zeros((16, 1600, 1600), np.uint8))
    refused(stem, "would unpack to")
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (16, 160, 10000000000), }"
    with zipfile.ZipFile(npz, "w") as archive:
        archive.writestr("image.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"0" * 99)
    refused(stem, "does not fit")


ARRAYS = [
    ("image", np.zeros((16, 80, 80), np.uint8)),
    ("image", np.zeros((16, 160, 160))),
    ("image", np.zeros((16, 160, 160), np.uint16)),
    ("target", np.array(8)),
    ("target", np.array(-1)),
    ("target", np.array([1, 2])),
    ("target", np.array(1.0)),
    ("predict", np.array([1])),
    ("predict", np.array("1")),
    ("meta_matrix", np.zeros((3, 9), np.uint8)),
    ("meta_target", np.zeros(9)),
    ("meta_structure", np.zeros(20, np.uint8)),
    ("structure", np.zeros(14, np.uint8)),
]
XML = [
    (r"<Entity [^>]*/>", ""),
    (r'Layout name="\w+"', 'Layout name="Distribute_Five"'),
    (r'Struct name="Out_In"', 'Struct name="Up_Down"'),
    (r'(<Panel>.*?<Panel>.*?)Struct name="Out_In"', r'\1Struct name="Up_Down"'),
    (r'(<Panel>.*?<Panel>.*?)Layout name="Out_Center_Single"', r'\1Layout name="Center_Single"'),
    (r'(<Panel>.*?<Panel>.*?)<Component id="1".*?</Component>', r"\1"),
    (r'attr="Type"', 'attr="Shape"'),
    (r'Rule name="Constant"', 'Rule name="Exclusive_Or"'),
    (r"<Rule [^>]*/>", ""),
    (r'<Rule_Group id="1">.*?</Rule_Group>', ""),
    (r' Color="\d"', ""),
    (r' Color="\d"', ' Color="10"'),
    (r' Size="\d"', ' Size="6"'),
    (r' Type="\d"', ' Type="0"'),
    (r' Type="\d"', ' Type="6"'),
    (r' Type="\d"', ' Type="²"'),
    (r' Angle="\d"', ' Angle="-1"'),
    (r' Angle="\d"', ' Angle="00008"'),
    (r' Uniformity="\d"', ' Uniformity="4"'),
    (r' Number="\d"', ' Number="2"'),
    (r' Number="\d"', ' Number="9"'),
    (r' Position="[^"]*"', ' Position="[[0.5, 0.5, 1, 1], 1]"'),
    (r' Position="[^"]*"', ' Position="[]"'),
    (r' bbox="[^"]*"', ' bbox="[0.1, 0.5, 1, 1]"'),
    (r'( bbox="[^"]*")(.*? )(bbox="[^"]*")(.*? )(bbox="[^"]*")', r"\1\2\3\4\3"),
    (r' mask="[^"]*"', ' mask="[oops"'),
    (r' mask="[^"]*"', ' mask="7"'),
    (r' mask="[^"]*"', ' mask="[1, &quot;a&quot;]"'),
    (r' real_bbox="[^"]*"', ' real_bbox="[[[1]]]"'),
    (r' real_bbox="[^"]*"', f' real_bbox="[{"x" * 50}]"'),
    (r"<Panel>.*?</Panel>", ""),
    (r"</Data>$", ""),
    (r"<Panels>.*</Panels>", ""),
    (r"<Rules>.*</Rules>", ""),
    (r"<Struct .*?</Struct>", ""),
    (r"<Layout .*?</Layout>", ""),
    (r'<Candidate id="7".*?(?=</Modified)', ""),
    (r'Attribute component_id="\d"', 'Attribute component_id="9"'),
    (r'Attribute component_id="\d" name="\w+"', 'Attribute component_id="0" name="Shade"'),
    (r'<Attribute component_id="\d" name="\w+" />', '<Attribute name="Size" />'),
    (r"^<Data>", '<!DOCTYPE Data [<!ENTITY a "aaaa">]><Data>'),
]


def refusal(path, reader=read):
    try:
        return f"read; {list(reader(path).remarks)}"
    except FileError as error:
        return str(error).replace(str(path.parent), "")


def test_what_is_wrong_in_a_file_is_named_with_its_place(stem):
    npz, xml = stem.with_suffix(".npz"), stem.with_suffix(".xml")
    text, whole = xml.read_text(), npz.read_bytes()
    parts = [refusal(npz), refusal(stem.with_name("none.npz"))]
    with np.load(npz) as file:
        arrays = dict(file)
    for name, value in ARRAYS:
        np.savez(npz, **(arrays | {name: value}))
        parts.append(refusal(npz))
    np.savez(npz, **{name: array for name, array in arrays.items() if name not in ("image", "predict")})
    parts.append(refusal(npz))
    npz.write_bytes(whole)
    for pattern, replacement in XML:
        changed, number = re.subn(pattern, replacement, text, count=1)
        assert number, pattern
        xml.write_text(changed)
        parts.append(f"{pattern[:50]} -> {replacement[:50]}: {refusal(xml, read_document)}")
    xml.unlink()
    parts.append(refusal(npz))
    check_golden("raven_damage", "\n".join(parts))


OLD = ("predict", "meta_matrix", "meta_target", "structure", "meta_structure")


def test_what_a_file_leaves_out_is_filled_in_from_its_xml(stem):
    npz, whole = stem.with_suffix(".npz"), read(stem.with_suffix(".npz"))
    with np.load(npz) as file:
        arrays = {name: array for name, array in file.items() if name not in OLD}
    np.savez(npz, **arrays)
    bare = read(npz)
    assert bare.predict is None and "predict" not in bare.arrays() and bare.remarks == whole.remarks == ()
    for name in OLD[1:]:
        np.testing.assert_array_equal(bare.arrays()[name], whole.arrays()[name])


def test_panels_that_do_not_obey_their_rules_are_refused(tmp_path):
    problem = next(p for seed in range(50) if (p := generate("Center", seed)).rules[0][2].name == "Progression")
    write(official(problem), tmp_path / "RAVEN_1_train")
    xml = tmp_path / "RAVEN_1_train.xml"
    size = problem.context[0].components[0].entities[0].size
    xml.write_text(xml.read_text().replace(f'Size="{size}"', f'Size="{(size + 3) % 6}"', 1))
    refused(tmp_path / "RAVEN_1_train", "component 0: the panels do not obey Progression of Size")


def test_a_picture_of_a_file_that_has_changed_since_is_refused(stem):
    problem = read(stem.with_suffix(".npz")).problem
    picture = puzzle(problem)
    assert load(problem.source) == problem
    load.cache_clear()
    from envs.raven.files import read_imported

    read_imported.cache_clear()
    xml = stem.with_suffix(".xml")
    xml.write_text(xml.read_text() + "\n")
    assert content_digest(stem.with_suffix(".npz")) != problem.source.digest
    with pytest.raises(FileError, match="content has changed"):
        picture_from_description(picture.description).render()


# --- command line ----------------------------------------------------------------------------------------------------


def run(*arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return main(parser.parse_args([str(argument) for argument in arguments]))


def test_no_set_is_generated_into_a_folder_that_another_command_writes(tmp_path, capsys):
    """Its puzzles would be mixed with those of the other seed."""
    words = ["generate", tmp_path / "set", "--configuration", "center_single", "--count", 1]
    with own_folder(tmp_path / "set", (), lambda: True, "inner"):
        assert run(*words, "--seed", 7) == 2
    assert "another command is writing it" in capsys.readouterr().err
    assert not [*(tmp_path / "set").iterdir()]
    assert run(*words) == 0


COMMANDS = [
    "generate data --count 2 --configuration Center --configuration Up-Down --seed 5",
    "generate data --count 1 --configuration center_single",
    "generate more --count 1 --configuration 4x4Grid",
    "generate raven --count 1 --configuration Center --style raven",
    "import data --index deep/index.jsonl",
    "import data --index index.txt",
    "import data/center_single/RAVEN_1_train.npz --index one.jsonl",
    "check data",
    "check raven",
    "check --count 2 --configuration Left-Right --seed 3",
    "check --count 1 --seed 9",
    "check nowhere",
    "show data/up_center_single_down_center_single",
    "show nowhere.npz",
    "show --configuration 3x3Grid --seed 4 --style raven",
    "show --configuration Out-InGrid --seed 4 --png puzzle.png",
    "show --configuration 4x4Grid",
]


def test_the_commands_say_what_is_on_record(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    parts = []

    def say(line):
        code = run(*line.split())
        out, err = capsys.readouterr()
        said = f"{out}{err}exit code {code}".replace(f"{tmp_path.resolve()}/", "")
        parts.extend([f"$ raven {line}", said, ""])

    for line in COMMANDS:
        say(line)
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*"))
    parts += [*files, ""]
    for index in (Path("deep/index.jsonl"), Path("one.jsonl")):
        text = index.read_text().replace(f"{tmp_path.resolve()}/", "")
        parts.append(re.sub(r"\b[0-9a-f]{32}\b", "DIGEST", text))
    assert Path("puzzle.png").read_bytes().startswith(b"\x89PNG")
    assert [load(each.source).panels for each in read_index(Path("deep/index.jsonl"))] == [
        generate(name, seed).panels
        for name in ("center_single", "up_center_single_down_center_single")
        for seed in (5, 6)
    ]
    Path("data/center_single/RAVEN_1_train.npz").write_bytes(b"nothing")
    stranger = Path("data/center_single/RAVEN_0_train.xml")
    stranger.write_text(stranger.read_text().replace("<Rule name", '<Rule value="1" name', 2))
    for line in ("import data --index rest.jsonl", "check data", "show data/center_single/RAVEN_1_train.npz"):
        say(line)
    check_golden("raven_commands", "\n".join(parts))


def test_an_index_line_that_is_none_is_named(tmp_path):
    sound = {"path": "a.npz", "digest": "0", "configuration": "center_single"}
    for other in ("{}", "[]", "7", "no JSON", json.dumps(sound | {"configuration": "4x4Grid"})):
        (tmp_path / "index.jsonl").write_text(f"{json.dumps(sound)}\n{other}\n")
        with pytest.raises(FileError, match="line 2"):
            read_index(tmp_path / "index.jsonl")
    lines = [json.dumps(sound | {"digest": digest}) for digest in ("1", "2", "3", "2")]
    (tmp_path / "index.jsonl").write_text("\n".join(lines))
    with pytest.raises(FileError, match="line 4: the same problem as in line 2"):
        read_index(tmp_path / "index.jsonl")
    (tmp_path / "index.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="is not UTF-8"):
        read_index(tmp_path / "index.jsonl")


# --- pictures, strange content, doubtful problems --------------------------------------------------------------------


def with_images(stem, change):
    """The file with its pictures changed."""
    file = read(stem.with_suffix(".npz"))
    images = file.images.copy()
    change(images)
    write(dataclasses.replace(file, images=images), stem)


def test_pictures_in_another_order_are_refused_by_name(stem):
    def swap(images):
        images[[2, 5]] = images[[5, 2]]

    with_images(stem, swap)
    with pytest.raises(FileError, match=r"RAVEN_0_train\.npz: the picture of panel 2 shows panel 5 of the XML"):
        read(stem.with_suffix(".npz"))


def test_pictures_of_another_problem_are_refused_by_name(stem):
    other = render_problem(generate("in_distribute_four_out_center_single", 6))
    with_images(stem, lambda images: np.copyto(images, other))
    with pytest.raises(FileError, match=r"RAVEN_0_train\.npz: the picture of panel 0 shows none of the XML's panels"):
        read(stem.with_suffix(".npz"))


def test_one_shape_of_another_shade_is_seen(stem):
    file = read(stem.with_suffix(".npz"))
    assert file.remarks == ()
    edit(stem, r' Color="[5-9]"', ' Color="1"')
    with pytest.raises(FileError, match=r"shows none of the XML's panels|do not obey"):
        read(stem.with_suffix(".npz"))


def test_what_nobody_knows_is_named_and_kept(stem):
    edit(stem, r"<Rule name", '<Rule value="1" name', count=2)
    edit(stem, r"</Data>", '<Author name="x" /></Data>')
    arrays = dict(np.load(stem.with_suffix(".npz")))
    np.savez(stem.with_suffix(".npz"), **arrays, note=np.array([7]))
    file = read(stem.with_suffix(".npz"))
    assert set(file.remarks) == {
        "unknown attribute 'value' of Rule (2 times)",
        "unknown tag 'Author' (1 times)",
        "unknown array 'note'",
    }
    write(file, stem.with_name("RAVEN_1_train"))
    again = read(stem.with_name("RAVEN_1_train.npz"))
    assert again.text == file.text and again.others["note"].tolist() == [7]


def test_codes_that_contradict_the_rules_are_named(stem):
    file = read(stem.with_suffix(".npz"))
    wrong = file.meta_matrix.copy()
    wrong[0] = 1 - wrong[0]
    write(dataclasses.replace(file, meta_matrix=wrong), stem)
    found = read(stem.with_suffix(".npz"))
    assert found.remarks == ("array 'meta_matrix' contradicts the rules or the structure in the XML",)
    assert np.array_equal(found.meta_matrix, wrong)


def test_an_import_lists_ambiguous_and_twin_problems_as_such(tmp_path, capsys):
    problem = generate("center_single", 3)
    wrong = (problem.target + 1) % 8
    candidates = list(problem.candidates)
    candidates[wrong] = problem.answer
    write(official(dataclasses.replace(problem, candidates=tuple(candidates))), tmp_path / "RAVEN_0_train")
    write(official(generate("center_single", 4)), tmp_path / "RAVEN_1_train")
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    index = tmp_path / "index.jsonl"
    assert main(parser.parse_args(["import", str(tmp_path), "--index", str(index)])) == 0
    first, second = (json.loads(line) for line in index.read_text().splitlines())
    both = sorted([problem.target + 1, wrong + 1])
    assert (first["ambiguous"], first["twins"]) == (both, [both])
    assert (second["ambiguous"], second["twins"]) == ([], [])
    told = capsys.readouterr().err
    assert told.count("ambiguous: ") == told.count("twins: ") == 1 and "RAVEN_0_train" in told
    assert len(read_index(index)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["distribute_four", "distribute_nine"])
def test_objects_are_told_apart_where_all_move(name):
    """Levels that change places among the moving objects are no constant levels, wherever a candidate has them so."""
    met = 0
    for seed in range(500):
        problem = generate(name, seed)
        place, kind = problem.rules[0][0], problem.rules[0][1]
        part = problem.answer.components[0]
        levels = part.levels("Type")
        if (place.name, place.attribute, kind.name) != ("Progression", "Position", "Constant") or len(set(levels)) < 2:
            continue
        turned = tuple(
            dataclasses.replace(entity, type=level)
            for entity, level in zip(part.entities, levels[1:] + levels[:1], strict=True)
        )
        candidates = list(problem.candidates)
        candidates[problem.target - 1] = Panel((Component(turned, part.uniformity),))
        met += 1
        assert solve(dataclasses.replace(problem, candidates=tuple(candidates))).answers == (problem.target,)
    assert met >= 2


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_larger_panels_show_the_same(name):
    problem = generate(name, 2)
    small, large = render_problem(problem), render_problem(problem, 2)
    assert large.shape == (16, 320, 320)
    averaged = large.reshape(16, 160, 2, 160, 2).mean(axis=(2, 4))
    assert np.abs(averaged - small).mean() < 3


def test_names_of_files_cannot_steer_a_terminal(tmp_path, capsys):
    (tmp_path / "RAVEN_\x1b[2J7_train.npz").write_bytes(b"none")
    assert run("check", tmp_path) == 1
    told = capsys.readouterr().err
    assert "\x1b" not in told and "RAVEN_\\x1b[2J7_train.npz" in told
