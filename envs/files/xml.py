"""XML as elements within bounds. Document types are refused, so that no entity can be defined, let alone expanded."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from envs.files.data import Bounds
from envs.files.regular import MIB, FileError

XML_BOUNDS = Bounds(8 * MIB, 64, 50_000)


class _BoundedBuilder(ET.TreeBuilder):
    def __init__(self, place: object) -> None:
        super().__init__()
        self.place = place
        self.depth = self.nodes = 0

    def start(self, tag: str, attrs: dict[Any, Any]) -> ET.Element:  # type: ignore[override]
        """Count an element, with its attributes, and build it."""
        self.depth += 1
        self.nodes += 1 + len(attrs)
        if self.depth > XML_BOUNDS.depth:
            raise FileError(self.place, f"is nested deeper than {XML_BOUNDS.depth} levels")
        if self.nodes > XML_BOUNDS.nodes:
            raise FileError(self.place, f"holds more than {XML_BOUNDS.nodes:,} elements and attributes")
        return super().start(tag, attrs)

    def end(self, tag: str) -> ET.Element:
        """Close an element."""
        self.depth -= 1
        return super().end(tag)


def parse_xml(text: str, place: object) -> ET.Element:
    """The root element of a text; what its declaration says of an encoding does not matter any more.

    Raises:
        FileError: it is not well-formed, declares a document type, or exceeds the bounds.
    """
    if len(text) > XML_BOUNDS.size:
        raise FileError(place, f"has more than {XML_BOUNDS.size:,} characters")
    parser = DefusedXMLParser(target=_BoundedBuilder(place), forbid_dtd=True)
    try:
        parser.feed(text)
        root: ET.Element = parser.close()
    except FileError:
        raise
    except DefusedXmlException:
        raise FileError(place, "document type declarations are not allowed") from None
    except (ET.ParseError, ValueError, LookupError) as error:
        raise FileError(place, f"is not well-formed XML: {error}") from None
    return root


class _References:
    """Takes elements as a parser meets them, and keeps what they refer to."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Keep the element's ``href``, whatever its namespace."""
        for name, value in attributes.items():
            if name.rpartition("}")[2] == "href":
                self.found.append(value)


def references_in(text: str, place: object) -> list[str]:
    """What the elements of a text refer to (``href``). A document type may be named, but declare no entities.

    Raises:
        FileError: it is not well-formed, or declares entities.
    """
    references = _References()
    parser = DefusedXMLParser(target=references)
    try:
        parser.feed(text)
        parser.close()
    except DefusedXmlException:
        raise FileError(place, "declares entities; write what they stand for in their places") from None
    except (ET.ParseError, ValueError, LookupError) as error:
        raise FileError(place, f"is not well-formed XML: {error}") from None
    return references.found
