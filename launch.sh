#!/usr/bin/env bash
# Installs raycade into .venv in this directory, then runs it:
#
#   ./launch.sh                    the demo: a slice of the suites with a tiny model, on this machine
#   ./launch.sh suite=kumo ...     `raycade run` with these overrides
#   ./launch.sh COMMAND ...        any other command of raycade: plan, report, ...
#   ./launch.sh slurm ...          a run as a Slurm job: ./launch.sh slurm --help
#   ./launch.sh test               all tests, the fast ones first
#   ./launch.sh test fast          only the fast tests, without Ray, vLLM and a browser; three minutes on two cores
#   ./launch.sh test [...]         pytest with these arguments
#   ./launch.sh setup              install only, with development dependencies
#   ./launch.sh docs               builds the documentation as a site, in docs/_build
#
# Versions are those of constraints.txt, so that an installation tomorrow is today's.
# The GPU build of vLLM is installed where nvidia-smi finds a GPU, else the CPU build.
# RAYCADE_BUILD=gpu|cpu overrides this (on a login node without a GPU, for example). RAYCADE_PYTHON names a Python 3.11 or
# 3.12. pip's settings apply as usual: PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, pip.conf.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="$root/.venv"

say() { printf 'raycade: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

find_python() {
    local candidate candidates=(python3.11 python3.12 python3 python)
    if [[ -n ${RAYCADE_PYTHON:-} ]]; then candidates=("$RAYCADE_PYTHON"); fi
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' \
            2>/dev/null; then
            printf '%s' "$candidate"
            return
        fi
    done
    die "needs Python 3.11 or 3.12 with its venv module; tried ${candidates[*]}." \
        "Install it (Debian and Ubuntu: python3 and python3-venv), or set RAYCADE_PYTHON=/path/to/python"
}

choose_build() {
    local build="${RAYCADE_BUILD:-}"
    if [[ -z $build ]]; then
        if nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then build=gpu; else build=cpu; fi
    fi
    [[ $build == gpu || $build == cpu ]] || die "RAYCADE_BUILD=$build: must be gpu or cpu"
    printf '%s' "$build"
}

# A hash of everything that an installation depends on; stored with it, so that the next start can skip the installation.
fingerprint() { { printf '%s\n' "$root" "$1"; cat "$root/setup.py" "$root/pyproject.toml" "$root/constraints.txt"; } | sha256sum; }

installed() { [[ "$(cat "$venv/.raycade-$1" 2>/dev/null)" == "$(fingerprint "$1")" ]]; }

# Whether raycade is installed. A machine without a GPU (a login node, for example) may have the GPU build.
ready() {
    local each
    for each in "$build" "${RAYCADE_BUILD:-gpu}"; do
        if installed "$each" || installed "$each,dev"; then return; fi
    done
    return 1
}

install() {
    local extras="$1" log="$venv/install.log" python
    if [[ ! -x $venv/bin/python ]]; then
        python="$(find_python)"
        say "creating $venv with $("$python" --version)"
        "$python" -m venv "$venv"
    fi
    say "installing raycade[$extras]; the first time this takes a few minutes"
    # In a copied installation pip warns about every package; hide only these warnings.
    if ! "$venv/bin/python" -m pip install --quiet --constraint "$root/constraints.txt" \
        --editable "$root[$extras]" 2>&1 |
        tee "$log" | sed '/WARNING: Location .* is ignored/d; /\[notice\]/d' >&2; then
        if grep -q 'No matching distribution found for torch' "$log"; then
            say "pip found no index with the build of torch that vLLM requires."
            say "PyTorch has a separate index for CPU builds. Set it, or a mirror, and run this again:"
            say "    PIP_EXTRA_INDEX_URL=URL-OF-THAT-INDEX ./launch.sh"
        fi
        die "the installation failed; see $log for pip's output"
    fi
    fingerprint "$extras" >"$venv/.raycade-$extras"
}

build="$(choose_build)"
command="${1:-run}"
case "$command" in
    -h | --help)
        sed -n '2,/^set -/{/^set -/d; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}"
        exit
        ;;
    test | setup | docs)
        installed "$build,dev" || install "$build,dev"
        case "$command" in
            setup) exit ;;
            docs) exec "$venv/bin/sphinx-build" --quiet --fail-on-warning --keep-going "$root/docs" "$root/docs/_build" ;;
        esac
        shift
        cd "$root"
        unset PYTHONDONTWRITEBYTECODE # else every worker compiles all tests again, each time
        pytest=("$venv/bin/python" -m pytest)
        three=(-n 3 --dist loadfile) # for two cores: many tests wait, for Ray, for vLLM, for a time-out of Slurm
        longest_first=(--no-loadscope-reorder) # the order of tests/conftest.py, not the files with the most tests first
        slow="slow or ray or vllm or browser"
        fast=("${three[@]}" -m "not ($slow)")
        case "${1:-}" in
            "") "${pytest[@]}" "${fast[@]}" && exec "${pytest[@]}" "${three[@]}" "${longest_first[@]}" -m "$slow" ;;
            fast) exec "${pytest[@]}" "${fast[@]}" "${@:2}" ;;
            *) exec "${pytest[@]}" "$@" ;;
        esac
        ;;
    slurm)
        shift
        if [[ ${1:-} != -h && ${1:-} != --help ]] && ! ready; then # the help needs no installation
            [[ -n ${RAYCADE_BUILD:-} || $build == gpu ]] ||
                die "this machine has no GPU. If the compute nodes have GPUs, run RAYCADE_BUILD=gpu ./launch.sh slurm ...," \
                    "else RAYCADE_BUILD=cpu ./launch.sh slurm ..."
            install "$build"
        fi
        exec "$root/cluster/launch/slurm.sh" submit "$@"
        ;;
    *)
        ready || install "$build"
        if [[ $command != --version ]] && [[ $command == *=* || $command == -* ]]; then
            set -- run "$@"
        fi
        # -P: no module of the folder that one stands in is run, as with the command raycade.
        exec "$venv/bin/python" -P -m cluster "${@:-run}"
        ;;
esac
