"""KUMO: games of elimination. Find the one valid truth by tests whose outcomes only ever rule truths out.

``load_domain``, or ``draw_domain`` with a chosen structure, and ``generate_tasks`` make tasks, ``Game`` (or the environment
``raycade/KumoTasks-v0``) plays one, ``write_book`` says what a player may know, and ``OptimalSearch`` plays perfectly.
"""

import gymnasium

from envs.kumo.book import BOOK_STYLES, BookStyle, write_book
from envs.kumo.domain import Action, Domain, DomainError, Observation, State
from envs.kumo.domain_file import available_domains, load_domain
from envs.kumo.game import BUDGET, Game, KumoEnv
from envs.kumo.generate import DIFFICULTIES, GenerationError, generate_tasks
from envs.kumo.search import OptimalSearch
from envs.kumo.structure import Structure, domain_from, draw_domain, permuted, structured_sources
from envs.kumo.task import Task, from_official, read_tasks, write_tasks

__all__ = [
    "BOOK_STYLES",
    "BUDGET",
    "DIFFICULTIES",
    "Action",
    "BookStyle",
    "Domain",
    "DomainError",
    "Game",
    "GenerationError",
    "KumoEnv",
    "Observation",
    "OptimalSearch",
    "State",
    "Structure",
    "Task",
    "available_domains",
    "domain_from",
    "draw_domain",
    "from_official",
    "generate_tasks",
    "load_domain",
    "permuted",
    "read_tasks",
    "structured_sources",
    "write_book",
    "write_tasks",
]

gymnasium.register(id="raycade/KumoTasks-v0", entry_point="envs.kumo.game:KumoEnv")
