"""RAVEN matrices: generation, both answer styles, rendering, solving, official files and question images.

problem = generate("distribute_four", seed=7)          # I-RAVEN candidates; style="raven" for RAVEN's own
problem.context[0].components[0].entities              # the symbolic scene, in levels
render_problem(problem)                                # (16, 160, 160) uint8
puzzle(problem).render()                               # (1056, 780, 3) uint8; a picture travels as a description
solve(problem).answer == problem.target                # from the panels alone
read("RAVEN_0_train.npz").problem                      # official files
"""

from envs.raven.compose import (
    RavenPicture,
    enlarged,
    load,
    one_panel,
    one_row,
    panel_pixels,
    puzzle,
    two_panels,
    two_rows,
)
from envs.raven.files import OfficialFile, official, read, write
from envs.raven.generate import VERSION, generate
from envs.raven.grammar import (
    ANGLE_VALUES,
    ATTRIBUTES,
    COLOR_VALUES,
    CONFIGURATIONS,
    ENTITY_ATTRIBUTES,
    SIZE_VALUES,
    TYPE_VALUES,
    Attribute,
    Configuration,
    EntityAttribute,
    Layout,
    configuration_named,
)
from envs.raven.render import render_problem
from envs.raven.scene import (
    STYLES,
    Component,
    Difficulty,
    Entity,
    Generated,
    Imported,
    Panel,
    Problem,
    Render,
    Rule,
    Rules,
    Style,
    is_noise,
)
from envs.raven.solve import Verdict, majority_vote, solve

__all__ = [
    "ANGLE_VALUES",
    "ATTRIBUTES",
    "COLOR_VALUES",
    "CONFIGURATIONS",
    "ENTITY_ATTRIBUTES",
    "SIZE_VALUES",
    "STYLES",
    "TYPE_VALUES",
    "VERSION",
    "Attribute",
    "Component",
    "Configuration",
    "Difficulty",
    "Entity",
    "EntityAttribute",
    "Generated",
    "Imported",
    "Layout",
    "OfficialFile",
    "Panel",
    "Problem",
    "RavenPicture",
    "Render",
    "Rule",
    "Rules",
    "Style",
    "Verdict",
    "configuration_named",
    "enlarged",
    "generate",
    "is_noise",
    "load",
    "majority_vote",
    "official",
    "one_panel",
    "one_row",
    "panel_pixels",
    "puzzle",
    "read",
    "render_problem",
    "solve",
    "two_panels",
    "two_rows",
    "write",
]
