"""Graphs: of a domain's truths, with Louvain communities and modularity (paper, Eq. 5), and of one game, as a signature."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from envs.kumo import Domain, Task
from envs.kumo.split import components
from evals.tables import Table


@dataclass(frozen=True)
class Communities:
    """A domain's truths by community."""

    domain: Domain
    graph: nx.Graph
    """Truths as nodes; an edge's ``weight`` is the number of tests with an outcome that rules out both its ends."""
    groups: tuple[frozenset[str], ...]
    """Louvain communities, the largest first."""
    modularity: float
    """Q of Eq. 5, weighted."""

    @cached_property
    def places(self) -> dict[str, tuple[float, float]]:
        """Where to draw each truth: communities stand apart on a circle, each with its truths on a circle of its own."""
        count, most = len(self.groups), max(map(len, self.groups))
        # Neighboring circles of the largest communities touch at this radius.
        largest = math.sin(math.pi / count) * 0.85 if count > 1 else 1.0
        found: dict[str, tuple[float, float]] = {}
        for number, group in enumerate(self.groups):
            angle = 2 * math.pi * number / count
            # The only community stands in the middle, and so does the only truth of one.
            center = (math.cos(angle), math.sin(angle)) if count > 1 else (0.0, 0.0)
            radius = largest * math.sqrt(len(group) / most) if len(group) > 1 else 0.0
            for place, truth in enumerate(sorted(group)):
                turn = 2 * math.pi * place / len(group)
                found[truth] = (center[0] + radius * math.cos(turn), center[1] + radius * math.sin(turn))
        return found


def communities_of(domain: Domain) -> Communities:
    """The domain graph with its communities; the same each time."""
    graph = domain_graph(domain)
    groups = nx.community.louvain_communities(graph, weight="weight", seed=0)
    groups = sorted(map(frozenset, groups), key=lambda group: (-len(group), min(map(domain.truths.index, group))))
    connected = graph.number_of_edges() > 0
    modularity = nx.community.modularity(graph, groups, weight="weight") if connected else 0.0
    return Communities(domain, graph, tuple(groups), modularity)


def domain_graph(domain: Domain) -> nx.Graph:
    """Truths, connected where they stand together in an outcome of a test; see ``Communities.graph``."""
    graph = nx.Graph()
    graph.add_nodes_from(domain.truths)
    for action in domain.actions:
        pairs = {pair for state in action.states for pair in itertools.combinations(sorted(state.rules_out), 2)}
        for one, two in sorted(pairs):
            weight = graph.edges[one, two]["weight"] if graph.has_edge(one, two) else 0
            graph.add_edge(one, two, weight=weight + 1)
    return graph


def signature(task: Task) -> str:
    """The structure of a game as the paper sums it up: sorted degrees of its truths, then of its tests.

    In the game's bipartite graph a test is connected with the truths that any outcome of it rules out.
    """
    reach: list[set[str]] = []
    for action in task.actions:
        gone: set[str] = set()
        for state in action.states:
            gone.update(state.rules_out)
        reach.append(gone)
    truths = sorted(sum(truth in gone for gone in reach) for truth in task.truths)
    tests = sorted(map(len, reach))
    return f"{'.'.join(map(str, truths))}/{'.'.join(map(str, tests))}"


def graph_table(found: Iterable[Communities]) -> Table:
    """The graph of each domain in figures."""
    return Table(
        name="kumo_domain_graphs",
        title="KUMO: domain graphs",
        columns=("domain", "truths", "edges", "edge density", "parts", "communities", "largest", "modularity"),
        rows=tuple(
            (
                each.domain.name,
                len(each.graph),
                each.graph.number_of_edges(),
                float(nx.density(each.graph)),
                len(components(each.domain)),
                len(each.groups),
                len(each.groups[0]),
                each.modularity,
            )
            for each in found
        ),
        notes=(
            "Truths are connected where an outcome of a test rules out both, with the number of such tests as weight. "
            "communities: by the Louvain algorithm; modularity: Eq. 5 of the paper. parts: groups of truths that no test "
            "connects through any of its outcomes.",
        ),
        section="diagnostics",
        brief=("domain", "truths", "edge density", "parts", "communities", "modularity"),
    )
