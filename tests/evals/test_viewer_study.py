"""What the viewer's page of a study is told, and the games behind each share."""

import itertools
import math
import shutil

import pytest

from cluster.commands.view import _Finder
from cluster.errors import UserError
from evals.stats.intervals import Estimate
from evals.study.split import Pair, Played
from evals.suite_results import difficulty_curves
from evals.suites.kidgym import KidGymSuite
from evals.viewer.difficulty import _interval, shown_curves
from evals.viewer.index import EpisodeIndex
from evals.viewer.schema.results import Difficulty
from evals.viewer.schema.study import Study
from evals.viewer.server import Viewer
from evals.viewer.study import StudyPage, _labels
from tests.evals.test_viewer import client_of, conforms
from tests.golden import check_golden
from tests.viewer_runs import ShortSighted, calm_rows, rows_of, study_runs, write_run


def asking(*paths):
    index = EpisodeIndex(_Finder(paths)())
    study = StudyPage(index)
    viewer = Viewer(index, also=study.refresh)
    viewer.refresh()
    return client_of(viewer, study.routes())


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    study_runs(folder)
    return asking(folder)


def test_a_folder_of_runs_is_shown_as_a_study_in_the_order_of_their_numbers(ask):
    answer = ask("study").json()
    conforms(answer, Study)
    assert ask("study/known").json() == {"known": True} and answer["trouble"] == ""
    assert [(each["run"], *each["levels"].values(), each["played"]) for each in answer["conditions"]] == [
        ("0", "picture", "true", 16),
        ("1", "picture", "false", 16),
        ("2", "text", "true", 16),
        ("3", "text", "false", 16),
    ]
    success = next(each for each in answer["measures"] if each["measure"] == "kidgym: success")
    assert [(each["change"], each["against"]) for each in success["effects"]] == [
        ("modality text", "picture"),
        ("tell_budget false", "true"),
    ]
    words, budget = success["effects"]
    assert (words["first"], budget["difference"]["mean"]) == (1, 0) and words["second"] < 0.7
    assert words["p"] <= words["holm"] and success["share"] and len(success["together"]) == 1
    assert sum(each["share"]["mean"] for each in success["variance"]) == pytest.approx(1)


def told(value, place=""):
    """A line for each value of an answer, numbers to four digits."""
    if isinstance(value, dict) and value.keys() != {"mean", "low", "high", "n"}:
        return [line for name, each in value.items() for line in told(each, f"{place} {name}")]
    if isinstance(value, list):
        return [line for number, each in enumerate(value) for line in told(each, f"{place} {number}")]
    kept = value.values() if isinstance(value, dict) else [value]
    return [f"{place}: {' '.join(f'{each:.4g}' if isinstance(each, float) else str(each) for each in kept)}".strip()]


def test_a_study_is_told_as_on_record(ask):
    parts = []
    for baseline in ("", "3"):
        answer = ask("study", baseline=baseline).json()
        parts += [f"# Baseline {baseline or 'by default'}", *told(answer if not baseline else answer["measures"][:1])]
    check_golden("evals_study_page", "\n".join(parts))


def test_the_games_behind_each_share_are_found_by_its_tag(ask):
    losses = ask("study").json()["losses"]
    assert [(each["run"], each["text_run"], each["about"]) for each in losses] == [
        ("0", "2", "tell_budget true"),
        ("1", "3", "tell_budget false"),
    ]
    for each, number in zip(losses, (0, 1), strict=True):
        for cell in each["cells"][number : number + 2]:  # all games and a task, then a task each
            place = {} if cell["task"] == "all" else {"task": cell["task"], "level": cell["level"]}
            assert sum(cause["games"] for cause in cell["causes"]) == cell["lost"] > 0
            for cause in cell["causes"]:
                found = ask("episodes", tag=cause["tag"], run=each["run"], player=each["player"], **place).json()
                assert found["total"] == cause["games"]
                assert all(row["success"] is False for row in found["rows"])
    whole = {cause["cause"]: cause for cause in losses[0]["cells"][0]["causes"]}
    assert whole["form"]["games"] == 4 and whole["planning"]["games"] == whole["won from pictures only"]["games"] == 0
    assert whole["form"]["share"]["mean"] == pytest.approx(4 / losses[0]["cells"][0]["lost"])


def test_each_cause_has_its_tag_and_games_that_tell_nothing_have_none(tmp_path, monkeypatch):
    won, lost, unread = Played(True, True), Played(False, True), Played(False, False)
    kinds = {
        "form": [(unread, won)],
        "seeing": [(lost, won)] * 2,
        "planning": [(lost, lost)] * 3,
        "won from pictures only": [(won, lost)] * 4,
        "": [(won, won), (lost, unread)],
    }
    study_runs(tmp_path)
    given = [each for games in kinds.values() for each in games]

    def pairs_of(picture, text):
        ids = picture.side.run.plan["episode_id"].to_pylist()
        return [Pair(("CL", "1"), number, *each, ids[number]) for number, each in enumerate(given)]

    monkeypatch.setattr("evals.viewer.study.pairs_of", pairs_of)
    ask = asking(tmp_path)
    causes = {each["cause"]: each for each in ask("study").json()["losses"][0]["cells"][0]["causes"]}
    found = {cause: ask("episodes", tag=each["tag"], run="0").json()["total"] for cause, each in causes.items()}
    assert found == {cause: len(games) for cause, games in kinds.items() if cause}
    assert len({each["tag"] for each in causes.values()}) == 4
    given = [(lost, unread)] * 6
    ask = asking(tmp_path)
    causes = {each["cause"]: each for each in ask("study").json()["losses"][0]["cells"][0]["causes"]}
    assert causes["form"]["share"]["mean"] == 0 and causes["seeing"]["share"] is causes["planning"]["share"] is None


def test_tags_of_one_source_leave_those_of_another(tmp_path):
    index = EpisodeIndex(_Finder([write_run(tmp_path / "one", *calm_rows())])())
    index.refresh()
    first = index.table()["episode_id"][0].as_py()
    for tag, source in (("doubtful", "notes"), ("lost", "study"), ("clear", "notes")):
        index.set_tags(0, [(first, tag)], source)
    assert index.tags() == {"clear": 1, "lost": 1}
    index.set_tags(0, [], "study")
    assert index.tags() == {"clear": 1}


def test_another_baseline_turns_the_effects_round(ask):
    effect = ask("study").json()["measures"][0]["effects"][0]["difference"]["mean"]
    turned = ask("study", baseline="2").json()
    assert turned["conditions"][0]["run"] == "2"
    assert turned["measures"][0]["effects"][0]["difference"]["mean"] == pytest.approx(-effect)
    assert ask("study", baseline="5").status_code == 400


def test_a_success_of_nothing_is_drawn_and_an_unknown_one_is_not():
    assert _interval(None) is None
    assert _interval(0.0) == {"mean": 0.0, "low": None, "high": None, "n": 0}
    assert _interval(Estimate(0.0, math.nan, 0.5, 4)) == {"mean": 0.0, "low": None, "high": 0.5, "n": 4}


def test_success_over_difficulty_is_told_for_each_run_and_player(tmp_path):
    suite = {"tasks": ["CL", "SO"], "levels": [1, 2], "modes": ["zero_shot"], "episodes": 2}
    rows = rows_of(KidGymSuite(**suite), {"short-sighted": ShortSighted()})
    answer = asking(write_run(tmp_path / "levels", *rows, {"type": "kidgym", **suite}))("difficulty").json()
    conforms(answer, Difficulty)
    curves = {(each["task"], each["player"]): each for each in answer["curves"]}
    assert {task for task, _ in curves} == {"all tasks", "CL", "SO"}
    own, chance = curves["SO", "short-sighted"], curves["SO", "chance"]
    assert (own["run"], own["levels"], own["success"][0]["n"], own["reference"]) == ("levels", ["1", "2"], 2, False)
    assert {each["title"] for each in answer["curves"]} == {"KidGym"} and own["mode"] == "zero_shot"
    assert [each["mean"] for each in chance["success"]] == pytest.approx([1 / 2, 1 / 6]) and chance["reference"]


def test_runs_that_are_no_study_say_why(tmp_path):
    ask = asking(write_run(tmp_path / "one", *calm_rows()), write_run(tmp_path / "two", *calm_rows()))
    assert ask("study/known").json() == {"known": False}
    answer = ask("study").json()
    conforms(answer, Study)
    assert "differ in no setting" in answer["trouble"] and not answer["conditions"]


def test_tags_of_a_study_go_when_another_run_takes_the_place_of_one_of_its_runs(tmp_path):
    paths = study_runs(tmp_path)[::2]
    index = EpisodeIndex(_Finder(paths)())
    study = StudyPage(index)
    viewer = Viewer(index, also=study.refresh)
    viewer.refresh()
    assert study._conditions and index.tags()
    shutil.rmtree(paths[1])
    write_run(paths[1], *calm_rows())
    viewer.refresh()
    assert not study._conditions and index.tags() == {}


def test_a_study_that_is_still_to_be_read_says_so(tmp_path):
    index = EpisodeIndex(_Finder([write_run(tmp_path / "one", *calm_rows())])())
    ask = client_of(Viewer(index), StudyPage(index).routes())
    assert ask("study/known").json() == {"known": False}
    assert ask("study").json()["trouble"] == "the runs have not been read yet"


def test_a_single_run_is_no_study_and_is_not_opened(tmp_path):
    [run] = _Finder([write_run(tmp_path / "one", *calm_rows())])()
    opened = []
    run.data = lambda: opened.append(run)
    study = StudyPage(EpisodeIndex([run]))
    ask = client_of(Viewer(study._index, also=study.refresh), study.routes())
    study._index.refresh()
    study.refresh()
    assert not opened and "two runs or more" in ask("study").json()["trouble"]


def test_curves_of_a_suite_that_fails_hide_no_others(tmp_path, monkeypatch):
    class Broken(KidGymSuite):
        name = "broken"

    def curves(suite, data):
        if isinstance(suite, Broken):
            raise KeyError("level")
        return difficulty_curves(suite, data)

    monkeypatch.setattr("evals.viewer.difficulty.difficulty_curves", curves)
    suite = {"tasks": ["CL"], "levels": [1, 2], "modes": ["zero_shot"], "episodes": 1}
    rows = rows_of(KidGymSuite(**suite), {"short-sighted": ShortSighted()})
    data = _Finder([write_run(tmp_path / "run", *rows, {"type": "kidgym", **suite})])()[0].data()
    assert shown_curves("run", data, Broken(**suite)) == []
    assert {each["run"] for each in shown_curves("run", data, KidGymSuite(**suite))} == {"run"}


def test_runs_are_lettered_and_after_z_numbered():
    labels = [*itertools.islice(_labels(), 29)]
    assert labels[:2] == ["A", "B"] and labels[25:] == ["Z", "R27", "R28", "R29"]


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        _Finder([tmp_path])()
