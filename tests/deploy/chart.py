"""What infra/helm makes of its values, by Helm's own engine: `make test-deploy`.

Every object is checked against its schema without unknown fields, and against what it is meant to guarantee.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "infra" / "helm"
SCHEMA = Path(__file__).with_name("operator") / "scheduledsparkapplication.v1beta2.json"
KUBERNETES = "1.31.0"
GIVEN = {
    "pipeline": (ROOT / "jobs/endmark/pipelines/auction.yaml").read_text(),
    "bootstrap": "kafka:9092",
}

Manifest = dict[str, Any]


def rendered(**values: Any) -> dict[tuple[str, str], Manifest]:
    """The objects of a release called `auction`, by kind and name."""
    import helm_python as helm

    with helm.Chart.load(CHART) as chart:
        files = chart.render({**GIVEN, **values}, name="auction", namespace="etl")
    objects = [
        document for text in files.values() for document in yaml.safe_load_all(text) if document is not None
    ]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def strict(schema: Any) -> Any:
    """The schema, refusing fields it does not know, as `kubectl --validate=strict` does."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict) and not made.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    if made.get("x-kubernetes-int-or-string"):
        made = {"type": ["integer", "string"]}
    return made


def check_schema(manifest: Manifest) -> None:
    import jsonschema
    import kubernetes_validate

    if not manifest["apiVersion"].startswith("sparkoperator.k8s.io/"):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        return
    assert manifest["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    scheduled = strict(json.loads(SCHEMA.read_text()))
    schemas = {
        "ScheduledSparkApplication": scheduled,
        "SparkApplication": scheduled["properties"]["template"],
    }
    jsonschema.Draft202012Validator(schemas[manifest["kind"]]).validate(manifest["spec"])


def test_schemas_notice_what_is_wrong() -> None:
    """Else the checks below would say nothing."""
    import jsonschema
    import kubernetes_validate

    objects = rendered()
    job = copy.deepcopy(objects["SparkApplication", "auction"])
    job["spec"]["driver"]["core"] = 1
    ops = copy.deepcopy(objects["Deployment", "auction-ops"])
    ops["spec"]["template"]["spec"]["containers"][0]["resource"] = {}
    for wrong in (job, ops):
        try:
            check_schema(wrong)
        except (jsonschema.ValidationError, kubernetes_validate.ValidationError):
            continue
        raise AssertionError(f"{wrong['kind']} with an unknown field was accepted")


def test_every_object_fits_its_schema() -> None:
    given: list[dict[str, Any]] = [
        {},
        {"schedule": "@every 15m"},
        {"ops": {"tokens": "who"}},
        {"network": {"dashboardFrom": [{"podSelector": {}}]}},
    ]
    for values in given:
        objects = rendered(**values)
        for manifest in objects.values():
            check_schema(manifest)
        print(f"{len(objects)} objects with {values}: {', '.join(sorted({kind for kind, _ in objects}))}")


def test_one_driver_at_a_time() -> None:
    """A long run comes back whatever ended it; bounded runs never overlap, and end."""
    job = rendered()["SparkApplication", "auction"]["spec"]
    assert job["restartPolicy"]["type"] == "Always"
    assert "--available-now" not in job["arguments"]
    scheduled = rendered(schedule="@every 15m")
    assert ("SparkApplication", "auction") not in scheduled
    spec = scheduled["ScheduledSparkApplication", "auction"]["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert "--available-now" in spec["template"]["arguments"]
    assert spec["template"]["restartPolicy"] == {"type": "Never"}
    assert rendered()["CronJob", "auction-maintenance"]["spec"]["concurrencyPolicy"] == "Forbid"


def containers(objects: dict[tuple[str, str], Manifest]) -> list[tuple[Manifest, Manifest]]:
    """Security of the pod and of the container, of each that there is."""
    job = objects["SparkApplication", "auction"]["spec"]
    pods = [
        objects["Deployment", "auction-ops"]["spec"]["template"]["spec"],
        objects["CronJob", "auction-maintenance"]["spec"]["jobTemplate"]["spec"]["template"]["spec"],
    ]
    return [
        *((job[part]["podSecurityContext"], job[part]["securityContext"]) for part in ("driver", "executor")),
        *((pod["securityContext"], pod["containers"][0]["securityContext"]) for pod in pods),
    ]


def test_nothing_runs_as_root_or_without_limits() -> None:
    objects = rendered()
    for pod, container in containers(objects):
        assert pod["runAsNonRoot"] is container["runAsNonRoot"] is container["readOnlyRootFilesystem"] is True
        assert container["allowPrivilegeEscalation"] is False
        assert container["capabilities"] == {"drop": ["ALL"]}
    ops = objects["Deployment", "auction-ops"]["spec"]["template"]["spec"]["containers"][0]
    assert {"readinessProbe", "livenessProbe"} <= set(ops)
    assert {"cpu", "memory"} <= set(ops["resources"]["limits"])
    job = objects["SparkApplication", "auction"]["spec"]
    for part in ("driver", "executor"):
        assert {"coreLimit", "memory", "memoryOverhead"} <= set(job[part])


def test_secrets_come_by_reference() -> None:
    """No URL with a password is in a value, and executors get none by their environment."""
    values = {"secret": "elsewhere"}
    objects = rendered(**values)
    job = objects["SparkApplication", "auction"]["spec"]
    assert job["driver"]["envSecretKeyRefs"] == {
        "ENDMARK_RELATION_URL": {"name": "elsewhere", "key": "relation-url"},
        "ENDMARK_OPS_URL": {"name": "elsewhere", "key": "ops-url"},
    }
    assert "://" not in yaml.safe_dump([*job["arguments"], job["executor"]])
    assert job["sparkConf"]["spark.authenticate"] == "true"


def test_the_sidecar_takes_tokens_from_a_secret() -> None:
    """Who has one that may write turns knobs, so the sidecar reaches the broker."""
    plain, given = ((rendered(ops=ops)["Deployment", "auction-ops"]) for ops in ({}, {"tokens": "who"}))
    check_schema(given)
    pod = given["spec"]["template"]["spec"]
    ops = pod["containers"][0]
    environment = {each["name"]: each for each in ops["env"]}
    file = Path(environment["ENDMARK_OPS_TOKENS_FILE"]["value"])
    [mount] = [each for each in ops["volumeMounts"] if each["mountPath"] == str(file.parent)]
    [volume] = [each for each in pod["volumes"] if each["name"] == mount["name"]]
    assert mount["readOnly"] is True
    assert volume["secret"] == {"secretName": "who", "defaultMode": 0o440}
    assert file.name == "tokens"
    assert "--bootstrap=kafka:9092" in ops["args"]
    egress = rendered()["NetworkPolicy", "auction-ops"]["spec"]["egress"][0]["ports"]
    assert 9092 in [each["port"] for each in egress]
    assert "tokens" not in yaml.safe_dump(plain).lower()


def test_who_talks_to_whom() -> None:
    """Every pod has a policy, and nobody from outside reaches the job; the dashboard only who is named."""
    objects = rendered()
    policies = {name: made["spec"] for (kind, name), made in objects.items() if kind == "NetworkPolicy"}
    assert set(policies) == {"auction-job", "auction-ops", "auction-maintenance"}
    for name, policy in policies.items():
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == name.partition("-")[2]
    [mates] = policies["auction-job"]["ingress"]
    assert mates["from"] == [{"podSelector": policies["auction-job"]["podSelector"]}]
    assert policies["auction-ops"]["ingress"] == policies["auction-maintenance"]["egress"] == []
    peers = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    opened = rendered(network={"dashboardFrom": peers})["NetworkPolicy", "auction-ops"]["spec"]["ingress"]
    assert opened == [{"from": peers, "ports": [{"port": 8080, "protocol": "TCP"}]}]


def test_what_must_be_given_is_asked_for() -> None:
    import helm_python as helm

    for missing in GIVEN:
        try:
            rendered(**{missing: ""})
        except helm.HelmError as refused:
            said = str(refused)
        else:
            said = "nothing"
        assert "give " in said


def main() -> None:
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name}: passed")


if __name__ == "__main__":
    main()
