"""The XML side of an official file: panels and rules, read strictly and written as upstream writes them.

A document type declaration is refused, so that no entity can be defined, let alone expanded.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.files import Bounds, FileError, parse_json, read_text
from envs.files.regular import MIB
from envs.files.xml import parse_xml
from envs.raven.grammar import (
    ANGLE_VALUES,
    ATTRIBUTES,
    COLOR_VALUES,
    CONFIGURATIONS,
    SIZE_VALUES,
    TYPE_VALUES,
    Attribute,
    Configuration,
    Layout,
)
from envs.raven.rules import RULE_GROUPS
from envs.raven.scene import Component, Edits, Entity, Panel, Rule

MOST_BYTES = 4 * MIB
_NUMBERS = Bounds(200_000, depth=2)
"""Of a list of numbers in an attribute: the silhouette of an entity, or the slots of a layout."""
_LEVELS = {
    "Type": range(1, len(TYPE_VALUES)),
    "Size": range(len(SIZE_VALUES)),
    "Color": range(len(COLOR_VALUES)),
    "Angle": range(len(ANGLE_VALUES)),
}


@dataclass(frozen=True)
class Shape:
    """What an official file says of an entity's pixels."""

    real_bbox: tuple[float, ...]
    """Row center, column center, height, width of what is drawn, as fractions of the panel."""
    mask: tuple[int, ...]
    """Run-length code of the silhouette: start (from 1) and length in turn, over the flattened panel."""


@dataclass(frozen=True)
class Document:
    """The content of one XML file; rules still lack the parameters that the format omits."""

    configuration: Configuration
    panels: tuple[Panel, ...]
    shapes: tuple[tuple[tuple[Shape, ...], ...], ...]
    """Per panel, component and entity."""
    rules: tuple[tuple[Rule, ...], ...]
    edits: tuple[Edits, ...]
    remarks: tuple[str, ...] = ()
    """Tags and attributes that the format does not have."""
    text: str = ""
    """The whole file, where the document was read from one."""


KNOWN: Mapping[str, tuple[str, ...]] = {
    "Data": (),
    "Panels": (),
    "Panel": (),
    "Struct": ("name",),
    "Component": ("id", "name"),
    "Layout": ("name", "Number", "Position", "Uniformity"),
    "Entity": ("bbox", "real_bbox", "mask", "Type", "Size", "Color", "Angle"),
    "Rules": (),
    "Rule_Group": ("id",),
    "Rule": ("name", "attr"),
    "Modified_attributes": (),
    "Candidate": ("id",),
    "Attribute": ("component_id", "name"),
}
"""The tags of the format with their attributes."""


# --- reading ---------------------------------------------------------------------------------------------------------


def read_document(path: Path) -> Document:
    """Read one XML file.

    Raises:
        FileError: whatever is wrong, with its place.
    """
    text = read_text(path, MOST_BYTES)
    root = parse_xml(text, path)
    nodes = _child(path, root, "Panels").findall("Panel")
    if len(nodes) != 16:
        raise FileError(path, f"{len(nodes)} panels instead of 16")
    configuration = _configuration(path, nodes[0])
    panels: list[Panel] = []
    shapes: list[tuple[tuple[Shape, ...], ...]] = []
    for index, node in enumerate(nodes):
        panel, drawn = _panel(f"{path}: panel {index}", node, configuration)
        panels.append(panel)
        shapes.append(drawn)
    groups = _child(path, root, "Rules").findall("Rule_Group")
    if len(groups) != len(configuration.layouts):
        raise FileError(path, f"{len(groups)} rule groups for {len(configuration.layouts)} components")
    return Document(
        configuration,
        tuple(panels),
        tuple(shapes),
        tuple(_rules(f"{path}: rule group {index}", group) for index, group in enumerate(groups)),
        _edits(path, root, len(configuration.layouts)),
        tuple(f"{what} ({count} times)" for what, count in Counter(_unknown(root)).items()),
        text,
    )


def _unknown(node: ET.Element) -> Iterator[str]:
    if node.tag not in KNOWN:
        yield f"unknown tag {node.tag!r}"
        return
    yield from (f"unknown attribute {name!r} of {node.tag}" for name in node.attrib if name not in KNOWN[node.tag])
    for child in node:
        yield from _unknown(child)


def _child(place: object, node: ET.Element, tag: str) -> ET.Element:
    child = node.find(tag)
    if child is None:
        raise FileError(place, f"{node.tag} has no {tag}")
    return child


def _value(place: str, node: ET.Element, name: str) -> str:
    value = node.get(name)
    if value is None:
        raise FileError(place, f"{node.tag} lacks the attribute {name}")
    return value


def _level(place: str, node: ET.Element, name: str, allowed: range) -> int:
    text = _value(place, node, name)
    if not text.isdecimal() or len(text) > 4 or int(text) not in allowed:
        raise FileError(place, f"{name} is {text!r}, not a level {allowed[0]}..{allowed[-1]}")
    return int(text)


def _numbers(place: str, node: ET.Element, name: str) -> list[Any]:
    text = _value(place, node, name)
    wrong = FileError(place, f"{name} is not a list of numbers: {text[:40]!r}")
    try:
        numbers = parse_json(text, place, _NUMBERS)
    except FileError:
        raise wrong from None
    if not isinstance(numbers, list):
        raise wrong
    # The slots of Position are lists themselves.
    for item in numbers:
        inner = item if isinstance(item, list) else [item]
        for number in inner:
            if not isinstance(number, int | float):
                raise wrong
    return numbers


def _configuration(path: Path, panel: ET.Element) -> Configuration:
    struct = _child(f"{path}: panel 0", panel, "Struct")
    names = tuple(layout.get("name") for layout in struct.iter("Layout"))
    for configuration in CONFIGURATIONS.values():
        if names == tuple(layout.name for layout in configuration.layouts):
            return configuration
    raise FileError(path, f"unknown configuration: structure {struct.get('name')!r} with layouts {list(names)}")


def _panel(place: str, node: ET.Element, configuration: Configuration) -> tuple[Panel, tuple[tuple[Shape, ...], ...]]:
    struct = _child(place, node, "Struct")
    parts = struct.findall("Component")
    if struct.get("name") != configuration.structure or len(parts) != len(configuration.layouts):
        raise FileError(place, f"structure {struct.get('name')!r} in a {configuration.name} problem")
    pairs = [
        _component(f"{place}, component {index} ({layout.component})", part, layout)
        for index, (part, layout) in enumerate(zip(parts, configuration.layouts, strict=True))
    ]
    return Panel(tuple(component for component, _ in pairs)), tuple(shapes for _, shapes in pairs)


def _component(place: str, node: ET.Element, layout: Layout) -> tuple[Component, tuple[Shape, ...]]:
    part = _child(place, node, "Layout")
    if part.get("name") != layout.name:
        raise FileError(place, f"layout {part.get('name')!r} instead of {layout.name!r}")
    nodes = part.findall("Entity")
    if not nodes:
        raise FileError(place, "no entities")
    if _level(place, part, "Number", range(9)) + 1 != len(nodes):
        raise FileError(place, f"Number says {part.get('Number')!r} for {len(nodes)} entities (level + 1)")
    slots = _slots(place, part, layout)
    entities, shapes = [], []
    for index, entity in enumerate(nodes):
        here = f"{place}, entity {index}"
        bbox = tuple(_numbers(here, entity, "bbox"))
        if bbox not in slots:
            raise FileError(here, f"bbox {list(bbox)} is no slot of {layout.name}")
        levels = {name: _level(here, entity, name, allowed) for name, allowed in _LEVELS.items()}
        entities.append(
            Entity(slots.index(bbox), levels["Type"], levels["Size"], levels["Color"], levels["Angle"])  # type: ignore[arg-type]
        )
        real_bbox = tuple(_numbers(here, entity, "real_bbox"))
        mask = tuple(_numbers(here, entity, "mask"))
        shapes.append(Shape(real_bbox, mask))
    taken = {entity.slot for entity in entities}
    if len(taken) < len(entities):
        raise FileError(place, "two entities in one slot")
    uniformity = _level(place, part, "Uniformity", range(4))
    return Component(tuple(entities), uniformity), tuple(shapes)


def _slots(place: str, part: ET.Element, layout: Layout) -> list[tuple[float, ...]]:
    """The layout's slots, which the file has to list."""
    slots = [tuple(slot) for slot in layout.slots]
    listed = []
    for slot in _numbers(place, part, "Position"):
        listed.append(tuple(slot) if isinstance(slot, list) else slot)
    if listed != slots:
        raise FileError(place, f"Position lists other slots than those of {layout.name}")
    return slots


def _rules(place: str, group: ET.Element) -> tuple[Rule, ...]:
    nodes = group.findall("Rule")
    if len(nodes) != 4:
        raise FileError(place, f"{len(nodes)} rules instead of 4")
    rules = []
    for node, entries in zip(nodes, RULE_GROUPS, strict=True):
        for name, attribute, _ in entries:
            if (node.get("name"), node.get("attr")) == (name, attribute):
                rules.append(Rule(name, attribute))  # type: ignore[arg-type]
                break
        else:
            known = ", ".join(f"{name} of {attribute}" for name, attribute, _ in entries)
            raise FileError(
                place, f"unknown rule {node.get('name')!r} of attribute {node.get('attr')!r}; known are {known}"
            )
    return tuple(rules)


def _edits(path: Path, root: ET.Element, components: int) -> tuple[Edits, ...]:
    element = root.find("Modified_attributes")
    if element is None:
        return ()
    place = f"{path}: Modified_attributes"
    edits: list[Edits] = []
    for candidate in element.findall("Candidate"):
        found: list[tuple[int, Attribute]] = []
        for node in candidate.findall("Attribute"):
            wanted = node.get("name")
            name = next((name for name in ATTRIBUTES if name == wanted), None)
            if name is None:
                raise FileError(place, f"unknown attribute {wanted!r}; known are {ATTRIBUTES}")
            component_id = _level(place, node, "component_id", range(components))
            found.append((component_id, name))
        edits.append(tuple(found))
    if len(edits) != 8:
        raise FileError(place, f"{len(edits)} candidates instead of 8")
    return tuple(edits)


# --- writing ---------------------------------------------------------------------------------------------------------


def document_text(document: Document) -> str:
    """The XML of a document, on one line as upstream writes it."""
    layouts = document.configuration.layouts
    data = ET.Element("Data")
    panels = ET.SubElement(data, "Panels")
    for panel, shapes in zip(document.panels, document.shapes, strict=True):
        whole = ET.SubElement(panels, "Panel")
        struct = ET.SubElement(whole, "Struct", name=document.configuration.structure)
        for index, (layout, component) in enumerate(zip(layouts, panel.components, strict=True)):
            node = ET.SubElement(struct, "Component", id=str(index), name=layout.component)
            node.append(_layout_element(layout, component, shapes[index]))
    rules = ET.SubElement(data, "Rules")
    for index, own in enumerate(document.rules):
        group = ET.SubElement(rules, "Rule_Group", id=str(index))
        for rule in own:
            ET.SubElement(group, "Rule", name=rule.name, attr=rule.attribute)
    if not document.edits:
        return ET.tostring(data, encoding="unicode")
    modified = ET.SubElement(data, "Modified_attributes")
    for index, edits in enumerate(document.edits):
        candidate = ET.SubElement(modified, "Candidate", id=str(index))
        for component_id, attribute in edits:
            ET.SubElement(candidate, "Attribute", component_id=str(component_id), name=attribute)
    return ET.tostring(data, encoding="unicode")


def _layout_element(layout: Layout, component: Component, shapes: tuple[Shape, ...]) -> ET.Element:
    element = ET.Element(
        "Layout",
        name=layout.name,
        Number=str(component.count - 1),
        Position=json.dumps(layout.slots),
        Uniformity=str(component.uniformity),
    )
    for entity, shape in zip(component.entities, shapes, strict=True):
        ET.SubElement(element, "Entity", dict(_entity_attributes(layout, entity, shape)))
    return element


def _entity_attributes(layout: Layout, entity: Entity, shape: Shape) -> Iterator[tuple[str, str]]:
    yield "bbox", json.dumps(layout.slots[entity.slot])
    yield "real_bbox", json.dumps(shape.real_bbox)
    yield "mask", json.dumps(shape.mask, separators=(",", ":"))
    yield "Type", str(entity.type)
    yield "Size", str(entity.size)
    yield "Color", str(entity.color)
    yield "Angle", str(entity.angle)
