"""Runs in an environment of the package that it names: has the package's own code read an export; prints what it found, JSON.

python exchange_check.py inspect|huggingface|lm_eval|foreign FOLDER
"""

import json
import os
import sys
from pathlib import Path


def inspect(folder: Path) -> dict:
    """inspect_ai reads each log, its pictures resolved."""
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

    episodes, pictures = 0, 0
    for path in sorted(folder.glob("*.eval")):
        log = read_eval_log(str(path), resolve_attachments=True)
        assert log.status == "success" and log.results is not None, path
        assert len(read_eval_log_sample_summaries(str(path))) == len(log.samples), path
        for sample in log.samples:
            parts = [
                part for message in sample.messages if isinstance(message.content, list) for part in message.content
            ]
            found = [part.image for part in parts if part.type == "image"]
            assert all(image.startswith("data:image/png;base64,") for image in found), path
            pictures += len(found)
        episodes += len(log.samples)
    return {"episodes": episodes, "pictures": pictures}


def foreign(folder: Path) -> dict:
    """inspect_ai writes the logs of a player again without what raycade carries, as another harness would."""
    from inspect_ai.log import read_eval_log, write_eval_log

    paths = sorted(folder.glob("*-random_*.eval"))
    (folder / "foreign").mkdir()
    for path in paths:
        log = read_eval_log(str(path))
        log.eval.metadata, log.eval.model = None, "openai/gpt-of-another-harness"
        for sample in log.samples:
            sample.store = {}
            sample.metadata = {
                name: sample.metadata[name] for name in ("suite", "task", "level", "mode", "index", "seed")
            }
        write_eval_log(log, str(folder / "foreign" / path.name))
    return {"episodes": 0, "files": len(paths)}


def huggingface(folder: Path) -> dict:
    """`datasets` loads each configuration of the card and decodes every image; `huggingface_hub` reads the scores."""
    import datasets
    import yaml
    from huggingface_hub import DatasetCard

    card = DatasetCard.load(folder / "dataset" / "README.md")
    episodes, pictures = 0, 0
    for each in card.data.to_dict()["configs"]:
        name = each["config_name"]
        loaded = datasets.load_dataset(str(folder / "dataset"), name, split="test", cache_dir=str(folder / "cache"))
        for row in loaded:
            shown = [part for message in row["messages"] for part in message["content"] if part["type"] == "image"]
            assert len(shown) == len(row["images"]), name
            assert all(image.size[0] > 0 and image.load() is not None for image in row["images"]), name
            pictures += len(shown)
        episodes += len(loaded)
    try:
        from huggingface_hub import parse_eval_result_entries
    except ImportError:  # of older versions
        return {"episodes": episodes, "pictures": pictures}
    files = sorted(folder.glob("models/*/.eval_results/*.yaml"))
    scores = [entry for path in files for entry in parse_eval_result_entries(yaml.safe_load(path.read_text()))]
    return {"episodes": episodes, "pictures": pictures, "scores": len(scores)}


def lm_eval(folder: Path) -> dict:
    """lm-evaluation-harness makes its table of the results and finds the samples of each."""
    from lm_eval import utils

    files = [str(path) for path in folder.glob("*/*")]
    tables = 0
    for path in utils.get_results_filenames(files):
        log = json.loads(Path(path).read_text())
        assert utils.sanitize_model_name(log["model_name"]) == Path(path).parent.name, path
        assert "success" in utils.make_table(log), path
        tables += 1
    episodes = 0
    for path in utils.get_sample_results_filenames(files):
        assert utils.get_file_task_name(Path(path).name) in log_tasks(folder), path
        lines = Path(path).read_text().splitlines()
        assert all(utils.handle_non_serializable(json.loads(line)) for line in lines)
        episodes += len(lines)
    return {"episodes": episodes, "tables": tables}


def log_tasks(folder: Path) -> set:
    """Tasks in all files of results."""
    return {task for path in folder.glob("*/results_*") for task in json.loads(path.read_text())["results"]}


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    check = {"inspect": inspect, "foreign": foreign, "huggingface": huggingface, "lm_eval": lm_eval}[sys.argv[1]]
    print(json.dumps(check(Path(sys.argv[2]))))
