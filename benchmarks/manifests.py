"""The manifests against the full schemas of KubeRay and SkyPilot: ``python -m benchmarks.manifests CRDS [--fields]``.

CRDS is the folder ``helm-chart/kuberay-operator/crds`` of a checkout of KubeRay; the package ``skypilot`` is to be installed.
With ``--fields`` it prints the names of the fields that ``tests/cluster/manifest_fields.yaml`` holds, for tests without either.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

MANIFESTS = Path(__file__).parents[1] / "cluster" / "launch" / "manifests"
OPEN = [
    "rayClusterSpec",
    "headGroupSpec",
    "workerGroupSpecs",
    "authOptions",
    "template",
    "containers",
    "volumes",
    "env",
    "envFrom",
    "secretRef",
    "ports",
    "resources",
    "volumeMounts",
    "persistentVolumeClaim",
    "emptyDir",
]
"""Fields whose own fields are listed, too; of all others only the type."""


def fields_of(schema: dict[str, Any], name: str = "spec") -> Any:
    """A schema as names and types: a mapping for an object (a required field ends with !), a list of one for an array."""
    if schema.get("x-kubernetes-int-or-string"):
        return "integer|string"
    kind = schema.get("type", "any")
    if kind == "array":
        return [fields_of(schema["items"], name)]
    properties = schema.get("properties")
    if properties is None or (name != "spec" and name not in OPEN):
        return kind if isinstance(kind, str) else "|".join(kind)
    required = schema.get("required", [])
    # A pod's own specification is called spec as well.
    return {key + "!" * (key in required): fields_of(each, key) for key, each in sorted(properties.items())}


def closed(schema: Any) -> Any:
    """The schema without the fields that it does not name: KubeRay drops those silently."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(each) for key, each in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema and "additionalProperties" not in schema:
        made["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("crds", type=Path)
    parser.add_argument("--fields", action="store_true")
    options = parser.parse_args()

    import jsonschema
    import sky
    from sky.utils import schemas

    listed = {}
    for kind in ("RayJob", "RayCluster"):
        definition = yaml.safe_load((options.crds / f"ray.io_{kind.lower()}s.yaml").read_text())
        [version] = [each for each in definition["spec"]["versions"] if each["name"] == "v1"]
        schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        listed[kind] = fields_of(schema)
        if not options.fields:
            manifest = yaml.safe_load((MANIFESTS / f"{kind.lower()}.yaml").read_text())
            jsonschema.validate(manifest["spec"], closed(schema))
            print(f"{kind}: valid")
    assert listed["RayJob"]["rayClusterSpec"] == listed.pop("RayCluster"), "a RayJob's cluster is a RayCluster"
    cluster = listed["RayJob"]["rayClusterSpec"]
    workers = cluster["workerGroupSpecs"][0]
    assert workers["template!"] == cluster["headGroupSpec!"]["template!"], "one kind of pods"
    workers["template!"] = cluster["headGroupSpec!"]["template!"]  # written once, as an anchor
    task = fields_of(schemas.get_task_schema())
    resources = fields_of(schemas._get_single_resources_schema())
    listed["SkyPilot"] = {**task, "resources": resources}
    if options.fields:
        print(yaml.safe_dump(listed, width=120, default_flow_style=None), end="")
    else:
        made = sky.Task.from_yaml(str(MANIFESTS / "skypilot.yaml"))
        print(f"SkyPilot {sky.__version__}: valid, {made.num_nodes} node of {next(iter(made.resources)).accelerators}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
