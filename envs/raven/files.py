"""Problems in RAVEN's official format: an npz of pixels and codes beside an XML of the symbolic scene.

What is read is kept whole (``OfficialFile``), so that writing it again gives the same content. The format omits the
parameters of rules (a progression's step, whether an arithmetic adds or takes away); they are inferred from the nine
panels of the completed matrix.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.disk import whole_file
from envs.files import FileError, read_bytes
from envs.files.arrays import read_npz
from envs.raven.grammar import ANGLE_VALUES, PANEL, SIZE_VALUES, Configuration, Layout
from envs.raven.pictures import check_pictures
from envs.raven.raster import CIRCLE, silhouette, unit_of, vertices
from envs.raven.render import render_published, slot_centers
from envs.raven.rules import RULE_GROUPS
from envs.raven.scene import Component, Entity, Imported, Panel, Problem, Rule, Rules
from envs.raven.solve import holds, rule_views, solve
from envs.raven.xmltree import Document, Shape, document_text, read_document

META_COLUMNS = (
    ("Constant", "Progression", "Arithmetic", "Distribute_Three"),
    ("Number", "Position", "Type", "Size", "Color"),
)
META_STRUCTURE = (
    *("Singleton", "Left_Right", "Up_Down", "Out_In", "Left", "Right", "Up", "Down", "Out", "In", "Grid"),
    *("Center_Single", "Distribute_Four", "Distribute_Nine", "Left_Center_Single", "Right_Center_Single"),
    *("Up_Center_Single", "Down_Center_Single", "Out_Center_Single", "In_Center_Single", "In_Distribute_Four"),
)


@dataclass(frozen=True, eq=False)
class OfficialFile:
    """Everything that an npz and its XML hold."""

    problem: Problem
    images: NDArray[np.uint8]
    """Shape (16, 160, 160): context, then candidates."""
    predict: int | None
    """What upstream's own solver answered, 0..7, where the file says so."""
    meta_matrix: NDArray[np.uint8]
    """Shape (8, 9): one row per rule, marking its name and attribute."""
    meta_target: NDArray[np.uint8]
    """Shape (9,): the rows of ``meta_matrix`` or-ed."""
    structure: NDArray[np.str_] | NDArray[np.bytes_]
    """Node names of the scene in pre-order, "/" closing each; byte strings in files that Python 2 wrote."""
    meta_structure: NDArray[np.uint8]
    """Shape (21,): which nodes there are."""
    shapes: tuple[tuple[tuple[Shape, ...], ...], ...]
    """Per panel, component and entity."""
    text: str
    """The XML, whole: tags and attributes that nobody knows are kept."""
    others: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Arrays of the npz that nobody knows."""
    remarks: tuple[str, ...] = ()
    """What is strange about the file though it can be read: what nobody knows in it, what contradicts itself."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The content of the npz."""
        arrays: dict[str, NDArray[Any]] = {"image": self.images, "target": np.array(self.problem.target)}
        if self.predict is not None:
            arrays["predict"] = np.array(self.predict)
        return arrays | {
            "meta_matrix": self.meta_matrix,
            "meta_target": self.meta_target,
            "structure": self.structure,
            "meta_structure": self.meta_structure,
            **self.others,
        }


def official(problem: Problem) -> OfficialFile:
    """A generated problem as an official file, in the published drawing and with all codes."""
    configuration = problem.configuration
    meta = _meta_matrix(problem.rules)
    names = _structure(configuration)
    shapes = tuple(_panel_shapes(configuration, panel) for panel in problem.panels)
    return OfficialFile(
        problem,
        render_published(problem),
        solve(problem).answer,
        meta,
        np.bitwise_or.reduce(meta, axis=0),
        np.array(names),
        np.array([name in names for name in META_STRUCTURE], np.uint8),
        shapes,
        document_text(Document(configuration, problem.panels, shapes, problem.rules, problem.edits)),
    )


def write(file: OfficialFile, stem: Path) -> tuple[Path, Path]:
    """Write ``stem``.npz and ``stem``.xml; returns both paths.

    Raises:
        WriteError: one cannot be written; there is no half npz then, and none without its XML.
    """
    npz, xml = stem.with_name(stem.name + ".npz"), stem.with_name(stem.name + ".xml")
    arrays = file.arrays()
    with whole_file(npz) as new_npz:
        with new_npz.open("wb") as opened:
            np.savez(opened, **arrays)  # type: ignore[arg-type]
        with whole_file(xml) as new_xml:
            new_xml.write_text(file.text, encoding="utf-8")
    return npz, xml


def file_stem(index: int) -> str:
    """Official name of the k-th problem: six in ten are for training, two for validation and two for testing."""
    split = "train" if index % 10 < 6 else "val" if index % 10 < 8 else "test"
    return f"RAVEN_{index}_{split}"


# --- reading ---------------------------------------------------------------------------------------------------------


def read(path: str | Path) -> OfficialFile:
    """Read a problem; ``path`` names its npz, and the XML lies beside it.

    Raises:
        FileError: a file is missing or damaged, says something that the format or its own rules do not allow, or has
            pictures of other panels than those that the XML describes.
    """
    npz = Path(path).with_suffix(".npz")
    arrays, document = read_npz(npz), read_document(npz.with_suffix(".xml"))
    images = _checked(npz, arrays, "image", (16, PANEL, PANEL), "u")
    target = int(_checked(npz, arrays, "target", (), "iu"))
    if not 0 <= target < 8:
        raise FileError(npz, f"target is {target}, not a candidate 0..7")
    context, candidates = document.panels[:8], document.panels[8:]
    xml, matrix = npz.with_suffix(".xml"), (*context, candidates[target])
    rules = tuple(
        infer_rules(own, [panel.components[index] for panel in matrix], layout, f"{xml}: component {index}")
        for index, (own, layout) in enumerate(zip(document.rules, document.configuration.layouts, strict=True))
    )
    style = "iraven" if document.edits else "raven"
    source = Imported(str(npz), content_digest(npz))
    form = document.configuration
    problem = Problem(form, context, candidates, target, rules, style, source, document.edits)  # type: ignore[arg-type]
    meta, names = _meta_matrix(rules), np.array(_structure(form))
    structure = np.array([name in names for name in META_STRUCTURE], np.uint8)
    defaults = {"meta_matrix": meta, "meta_target": np.bitwise_or.reduce(meta, axis=0), "meta_structure": structure}
    codes = {
        name: _checked(npz, {name: default} | arrays, name, default.shape, "bui") for name, default in defaults.items()
    }
    predict = int(_checked(npz, arrays, "predict", (), "iu")) if "predict" in arrays else None
    names = _checked(npz, {"structure": names} | arrays, "structure", names.shape, "US")
    check_pictures(str(npz), render_published(problem), images)
    known = {*KNOWN_ARRAYS, *codes}
    return OfficialFile(
        problem,
        images,
        predict,
        structure=names,
        shapes=document.shapes,
        text=document.text,
        others={name: array for name, array in arrays.items() if name not in known},
        remarks=(*document.remarks, *_remarks(arrays, known, codes, defaults)),
        **codes,
    )


KNOWN_ARRAYS = ("image", "target", "predict", "structure")


def _remarks(
    arrays: Mapping[str, NDArray[Any]],
    known: Container[str],
    codes: Mapping[str, NDArray[Any]],
    expected: Mapping[str, NDArray[Any]],
) -> Iterator[str]:
    yield from (f"unknown array {name!r}" for name in arrays if name not in known)
    for name, own in codes.items():
        rows = [sorted(map(tuple, np.atleast_2d(array).tolist())) for array in (own, expected[name])]
        if rows[0] != rows[1]:
            yield f"array {name!r} contradicts the rules or the structure in the XML"


_KINDS = {"iu": "whole numbers", "bui": "whole numbers or truth values", "US": "texts"}
"""What NumPy's letters for kinds of arrays stand for."""


def _checked(
    path: Path, arrays: dict[str, NDArray[Any]], name: str, shape: tuple[int, ...], kinds: str
) -> NDArray[Any]:
    if name not in arrays:
        raise FileError(path, f"no array {name!r}; there are {', '.join(sorted(arrays)) or 'none'}")
    array = arrays[name]
    fits = array.shape == shape and array.dtype.kind in kinds
    if name == "image":
        fits = fits and array.dtype == np.uint8
    if not fits:
        expected = "type uint8" if name == "image" else _KINDS[kinds]
        raise FileError(
            path, f"array {name!r} has shape {array.shape} and type {array.dtype}, not shape {shape} and {expected}"
        )
    return array


def content_digest(npz: Path) -> str:
    """Hash of an npz and its XML, 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    for path in (npz, npz.with_suffix(".xml")):
        digest.update(hashlib.blake2b(read_bytes(path)).digest())
    return digest.hexdigest()


@lru_cache(maxsize=64)
def read_imported(source: Imported) -> OfficialFile:
    """Read the files of an imported problem.

    Raises:
        FileError: as ``read``, or the content is not what it was.
    """
    file = read(source.path)
    assert isinstance(file.problem.source, Imported)
    if file.problem.source.digest != source.digest:
        raise FileError(source.path, f"content has changed: {file.problem.source.digest}, not {source.digest}")
    return file


def infer_rules(rules: Sequence[Rule], solution: Sequence[Component], layout: Layout, place: str) -> Rules:
    """The rules with their parameters; where two fit (a shift of two opposite corners, say) the first in the table.

    Args:
        rules: the four rules of a component without parameters.
        solution: the component in the nine panels of the completed matrix.
        layout: the component's layout.
        place: file and place, for the error.

    Raises:
        FileError: the panels obey a rule with none of its parameters.
    """
    found = []
    for rule, entries in zip(rules, RULE_GROUPS, strict=True):
        views = rule_views(solution, rule)
        rows = [views[0:3], views[3:6], views[6:9]]
        parameters_of = {(name, attribute): parameters for name, attribute, parameters in entries}
        fitting = []
        for parameter in parameters_of[rule.name, rule.attribute]:
            candidate = Rule(rule.name, rule.attribute, parameter)
            if holds(candidate, rows, len(layout.slots)):
                fitting.append(candidate)
        if fitting:
            found.append(fitting[0])
            continue
        # A Constant that other rules have turned into noise holds nowhere, and needs no parameter.
        if rule.name != "Constant":
            raise FileError(place, f"the panels do not obey {rule.name} of {rule.attribute}")
        found.append(rule)
    return found[0], found[1], found[2], found[3]


# --- codes -----------------------------------------------------------------------------------------------------------


def _meta_matrix(rules: Sequence[Rules]) -> NDArray[np.uint8]:
    matrix = np.zeros((8, 9), np.uint8)
    for row, rule in enumerate(rule for own in rules for rule in own):
        matrix[row, META_COLUMNS[0].index(rule.name)] = 1
        for attribute in rule.attribute.split("/"):
            matrix[row, 4 + META_COLUMNS[1].index(attribute)] = 1
    return matrix


def _structure(configuration: Configuration) -> list[str]:
    parts = [name for layout in configuration.layouts for name in (layout.component, layout.name, "/", "/")]
    return ["Scene", configuration.structure, *parts, "/", "/"]


def _panel_shapes(configuration: Configuration, panel: Panel) -> tuple[tuple[Shape, ...], ...]:
    return tuple(
        tuple(_shape(layout, entity) for entity in component.entities)
        for layout, component in zip(configuration.layouts, panel.components, strict=True)
    )


def _shape(layout: Layout, entity: Entity) -> Shape:
    row, column = slot_centers(layout)[entity.slot]
    points = vertices(entity.type, entity.size, layout.extent)
    if entity.type == CIRCLE:
        radius = unit_of(layout.extent) * SIZE_VALUES[entity.size]  # not cut to whole pixels, other than what is drawn
        xs, ys = [-radius, radius], [-radius, radius]
    else:
        angle = math.radians(ANGLE_VALUES[entity.angle])
        xs = [x * math.cos(angle) + y * math.sin(angle) for x, y in points]
        ys = [y * math.cos(angle) - x * math.sin(angle) for x, y in points]
    line = 3  # pixels that the outline adds
    box = (
        row + (min(ys) + max(ys)) / 2,
        column + (min(xs) + max(xs)) / 2,
        max(ys) - min(ys) + line,
        max(xs) - min(xs) + line,
    )
    return Shape(tuple(round(value / PANEL, 4) for value in box), _run_lengths(layout, entity))


def _run_lengths(layout: Layout, entity: Entity) -> tuple[int, ...]:
    row, column = slot_centers(layout)[entity.slot]
    shape = silhouette(entity.type, entity.size, entity.angle, layout.extent)
    ys, xs = np.nonzero(shape)
    middle = shape.shape[0] // 2
    flat = np.sort((ys - middle + row) * PANEL + (xs - middle + column)) + 1
    breaks = np.flatnonzero(np.diff(flat) > 1) + 1
    runs = np.split(flat, breaks)
    return tuple(int(number) for run in runs for number in (run[0], len(run)))
