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
from envs.raven.listing import read_index

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


@pytest.mark.parametrize(
    ("name", "value", "pattern"),
    [
        ("image", np.zeros((16, 80, 80), np.uint8), "array 'image' has shape"),
        ("image", np.zeros((16, 160, 160)), "array 'image' has shape.*float64"),
        ("target", np.array(8), "target is 8, not a candidate 0..7"),
        ("target", np.array([1, 2]), "array 'target' has shape"),
        ("meta_matrix", np.zeros((3, 9), np.uint8), "array 'meta_matrix'"),
    ],
)
def test_arrays_of_the_wrong_kind_are_named(stem, name, value, pattern):
    npz = stem.with_suffix(".npz")
    with np.load(npz) as file:
        arrays = dict(file)
    np.savez(npz, **(arrays | {name: value}))
    refused(stem, pattern)


def test_files_that_would_fill_the_memory_are_refused(stem):
    npz = stem.with_suffix(".npz")
    np.savez_compressed(npz, image=np.zeros((16, 1600, 1600), np.uint8))
    refused(stem, "would unpack to")
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (16, 160, 10000000000), }"
    with zipfile.ZipFile(npz, "w") as archive:
        archive.writestr("image.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"0" * 99)
    refused(stem, "does not fit")


def test_a_missing_array_and_missing_files_are_named(stem):
    npz = stem.with_suffix(".npz")
    with np.load(npz) as file:
        arrays = {name: file[name] for name in file.files if name != "image"}
    np.savez(npz, **arrays)
    refused(stem, "no array 'image'")
    stem.with_suffix(".xml").unlink()
    refused(stem, "xml: there is no such file")
    npz.unlink()
    refused(stem, "npz: there is no such file")


@pytest.mark.parametrize(
    ("pattern", "replacement", "complaint"),
    [
        (r"<Entity [^>]*/>", "", r"panel 0, component 0 \(Out\): no entities"),
        (r'Layout name="\w+"', 'Layout name="Distribute_Five"', r"unknown configuration: .*Distribute_Five"),
        (r'attr="Type"', 'attr="Shape"', r"rule group 0: unknown rule .* of attribute 'Shape'"),
        (r'Rule name="Constant"', 'Rule name="Exclusive_Or"', r"rule group 0: unknown rule 'Exclusive_Or'"),
        (r' Color="\d"', "", r"panel 0, component 0 \(Out\), entity 0: Entity lacks the attribute Color"),
        (r' Size="\d"', ' Size="6"', r"Size is '6', not a level 0..5"),
        (r' Type="\d"', ' Type="0"', r"Type is '0', not a level 1..5"),
        (r' Angle="\d"', ' Angle="-1"', r"Angle is '-1'"),
        (r' Number="\d"', ' Number="2"', r"Number says '2' for 1 entities"),
        (r' bbox="[^"]*"', ' bbox="[0.1, 0.5, 1, 1]"', r"bbox .* is no slot of Out_Center_Single"),
        (r' mask="[^"]*"', ' mask="[oops"', r"mask is not a list of numbers"),
        (r' mask="[^"]*"', ' mask="7"', r"mask is not a list of numbers"),
        (r' real_bbox="[^"]*"', ' real_bbox="[[[1]]]"', r"real_bbox is not a list of numbers"),
        (r"<Panel>.*?</Panel>", "", r"15 panels instead of 16"),
        (r"</Data>$", "", r"not well-formed XML"),
        (r"<Rules>.*</Rules>", "", r"Data has no Rules"),
        (r"^<Data>", '<!DOCTYPE Data [<!ENTITY a "aaaa">]><Data>', r"document type declarations are not allowed"),
        (r'Attribute component_id="\d"', 'Attribute component_id="9"', r"component_id is '9'"),
    ],
)
def test_what_is_wrong_in_an_xml_is_named_with_its_place(stem, pattern, replacement, complaint):
    edit(stem, pattern, replacement)
    refused(stem, complaint)


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


def test_generated_files_can_be_imported_and_checked(tmp_path, capsys):
    assert (
        run("generate", tmp_path / "data", "--count", 2, "--configuration", "Center", "--configuration", "2x2Grid") == 0
    )
    assert run("import", tmp_path / "data", "--index", tmp_path / "index.jsonl") == 0
    listed = read_index(tmp_path / "index.jsonl")
    assert [each.configuration for each in listed] == ["center_single"] * 2 + ["distribute_four"] * 2
    assert [load(each.source).panels for each in listed] == [
        generate(name, seed).panels for name in ("center_single", "distribute_four") for seed in (0, 1)
    ]
    assert run("check", tmp_path / "data") == 0
    assert "center_single" in capsys.readouterr().out


def test_one_damaged_file_costs_that_file_only(tmp_path, capsys):
    assert run("generate", tmp_path / "data", "--count", 3, "--configuration", "Center") == 0
    (tmp_path / "data/center_single/RAVEN_1_train.npz").write_bytes(b"nothing")
    assert run("import", tmp_path / "data", "--index", tmp_path / "index.jsonl") == 1
    assert len(read_index(tmp_path / "index.jsonl")) == 2
    assert "RAVEN_1_train.npz: damaged npz" in capsys.readouterr().err
    assert run("check", tmp_path / "data") == 1
    said = capsys.readouterr()
    assert "left out: " in said.err and "RAVEN_1_train.npz: damaged npz" in said.err
    assert said.out.splitlines()[1].split()[:4] == ["center_single", "iraven", "2", "2"], "the two others are checked"
    assert run("show", tmp_path / "data/center_single/RAVEN_1_train.npz") == 2


def test_show_draws_the_puzzle(tmp_path, capsys):
    assert run("show", "--configuration", "3x3Grid", "--seed", 4, "--png", tmp_path / "puzzle.png") == 0
    assert (tmp_path / "puzzle.png").read_bytes().startswith(b"\x89PNG")
    assert f"answer {generate('3x3Grid', 4).target + 1}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["show", "--configuration", "4x4Grid"], "unknown configuration '4x4Grid'"),
        (["check", "nowhere"], "nowhere: no RAVEN_"),
        (["show", "nowhere.npz"], "nowhere.npz: there is no such file"),
    ],
)
def test_bad_input_is_told_without_a_stack_trace(arguments, complaint, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    assert complaint in capsys.readouterr().err


def test_an_index_line_that_is_none_is_named(tmp_path):
    sound = {"path": "a.npz", "digest": "0", "configuration": "center_single"}
    for other in ("{}", "[]", "7", "no JSON", json.dumps(sound | {"configuration": "4x4Grid"})):
        (tmp_path / "index.jsonl").write_text(f"{json.dumps(sound)}\n{other}\n")
        with pytest.raises(FileError, match="line 2"):
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
