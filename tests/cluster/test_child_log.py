"""Why a child process died, as far as its last lines tell."""

import contextlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from cluster.engines.base import HubBusyError
from cluster.engines.child_log import KEPT, ChildLog
from cluster.engines.hub_answers import HubAnswer, _printed_answer, fetch_small_files, hub_answer


def logged(*lines: str, stream: str = "stderr") -> ChildLog:
    program = f"import sys; sys.{stream}.write({chr(10).join(lines) + chr(10)!r})"
    with ChildLog() as log:
        subprocess.run([sys.executable, "-c", program], check=True)
    return log


def test_the_last_lines_are_kept_in_order():
    log = logged(*(f"\x1b[0;36mline {number}\x1b[0m " for number in range(KEPT + 50)))
    log.cause()
    assert log.lines() == [f"line {number}" for number in range(50, KEPT + 50)]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_children_write_is_shown_as_well(stream, capfd):
    logged("one", "two", stream=stream).cause()
    shown = capfd.readouterr()
    assert getattr(shown, stream[3:]) == "one\ntwo\n" and shown.out + shown.err == "one\ntwo\n"


def test_a_hub_s_answer_is_found_among_all_that_led_to_an_error():
    busy = RuntimeError("too  many\nrequests")
    busy.response = SimpleNamespace(status_code=429, headers={"Retry-After": "200"})
    named, meanwhile = RuntimeError("no config"), RuntimeError("no model")
    named.__cause__, meanwhile.__context__ = busy, busy
    for error in (busy, named, meanwhile):
        assert hub_answer(error) == HubAnswer("too many requests", busy=True, retry_after=120.0)
    named.__cause__, named.__context__ = None, named
    assert hub_answer(named) is None and hub_answer(named, ["HTTP Error 500 thrown while requesting GET x"]).busy


@pytest.mark.parametrize(("status", "busy"), [(429, True), (503, True), (404, False), (0, False)])
def test_small_files_of_a_model_on_the_hub_are_fetched_and_only_a_busy_hub_is_waited_for(status, busy, monkeypatch):
    asked = []

    def download(model, revision, ignore_patterns):
        asked.append((model, revision, {"*.safetensors", "*.bin", "original/*"} <= {*ignore_patterns}))
        error = RuntimeError("refused")
        error.response = SimpleNamespace(status_code=status or None, headers={"Retry-After": "7"})
        raise error

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=download))
    for elsewhere in ("/a/folder", "tiny", "a/b/c"):
        fetch_small_files(elsewhere, None)
    assert asked == []
    with pytest.raises(HubBusyError, match="org/m cannot be read") if busy else contextlib.nullcontext() as raised:
        fetch_small_files("org/m", "r")
    assert asked == [("org/m", "r", True)] and (not busy or raised.value.retry_after == 7.0)


def test_the_last_refusal_that_the_hubs_client_did_not_try_again_is_told():
    refused = "HTTP Error {} thrown while requesting {}"
    lines = [refused.format(503, "HEAD https://hub/a"), refused.format(404, "GET https://hub/b")]
    assert _printed_answer(lines) == HubAnswer("404 for GET https://hub/b", busy=False)
    assert _printed_answer(lines[::-1]) == HubAnswer("503 for HEAD https://hub/a", busy=True)
    assert _printed_answer([*lines, "Retrying in 1s [Retry 1/5]."]) is None
    assert _printed_answer([*lines, "(Worker pid=7) WARNING Retrying in 1s [Retry 1/5]."]) is None
    assert _printed_answer(["Retrying in 1s", *lines]) == HubAnswer("404 for GET https://hub/b", busy=False)
