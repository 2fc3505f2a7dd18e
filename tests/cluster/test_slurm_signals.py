"""What the node's part of slurm.sh does on SIGTERM, by what the commands of Slurm answer."""

import os
import subprocess

import pytest

from tests.cluster.conftest import ROOT

SCRIPT = (ROOT / "cluster" / "launch" / "slurm.sh").read_text()
FUNCTION = SCRIPT[SCRIPT.index("on_term() {") : SCRIPT.index("end_ray() {")]
BEGIN = """
set -euo pipefail
FINISH_SECONDS=0 TERM_SECONDS=0 STATE_TRIES=3 job_id=7 SLURMD_NODENAME=n1
say() { echo "$*"; }
trap 'echo Ray is ended' URG
"""


def on_term(tmp_path, *answers: str, node: int = 0) -> str:
    """What is printed; ``scontrol`` gives these answers one after the other, and fails after the last."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for number, answer in enumerate(answers):
        (tmp_path / f"answer-{number}").write_text(answer)
    (programs / "scontrol").write_text(
        f"""#!/bin/bash
        touch {tmp_path}/asked
        answer={tmp_path}/answer-$(wc -l < {tmp_path}/asked)
        echo >> {tmp_path}/asked
        [[ -s $answer ]] && cat "$answer" || exit 1
        """
    )
    (programs / "scancel").write_text('#!/bin/bash\necho "scancel $*"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    script = f"{BEGIN}\nSLURM_NODEID={node}\nsleep() {{ :; }}\n{FUNCTION}\non_term\nwait || true\n"
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_running_job_is_stopped_by_its_batch_script_also_if_slurm_answers_late(tmp_path, failures):
    printed = on_term(tmp_path, *[""] * failures, "JobId=7 JobState=RUNNING Reason=None")
    assert printed == "scancel --batch --signal=USR1 7\n"


@pytest.mark.parametrize("answers", [["SIGNALING", "RUNNING"], ["SIGNALING"] * 3])
def test_a_job_that_is_being_signaled_still_runs(tmp_path, answers):
    printed = on_term(tmp_path, *(f"JobId=7 JobState={state} Reason=None" for state in answers))
    assert printed == "scancel --batch --signal=USR1 7\n"


def test_a_job_that_is_canceled_while_it_is_being_signaled_is_ended(tmp_path):
    printed = on_term(tmp_path, "JobId=7 JobState=SIGNALING Reason=None", "JobId=7 JobState=CANCELLED Reason=None")
    assert printed.splitlines() == ["SIGTERM on n1: the job is CANCELLED; ending Ray here", "Ray is ended"]


def test_the_other_nodes_of_a_running_job_leave_it_to_the_first(tmp_path):
    assert on_term(tmp_path, "JobId=7 JobState=RUNNING Reason=None", node=1) == ""


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (["JobId=7 JobState=COMPLETING Reason=None"], "COMPLETING"),
        (["", "", ""], "in a state that Slurm does not tell"),
    ],
)
def test_ray_is_ended_where_the_job_is(tmp_path, answers, told):
    printed = on_term(tmp_path, *answers)
    assert printed.splitlines() == [f"SIGTERM on n1: the job is {told}; ending Ray here", "Ray is ended"]
