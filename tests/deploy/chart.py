"""What infra/helm makes of its values, by Helm's own engine: `make test-deploy`.

Every object is checked against its schema without unknown fields, and against what it is meant to guarantee.

python -m deploy.chart PYTHON, the interpreter of an environment with endmark, which reads the rendered files
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "infra" / "helm"
SCHEMA = Path(__file__).with_name("operator") / "scheduledsparkapplication.v1beta2.json"
KUBERNETES = "1.31.0"
GIVEN = {
    "pipeline": (ROOT / "jobs/endmark/pipelines/auction.yaml").read_text(),
    "kafka": {"bootstrap": "kafka:9092"},
}
# A Kafka with TLS and a login, and S3.
SECURED: dict[str, Any] = {
    "kafka": {
        "bootstrap": "broker-1:9093,broker-2:9093",
        "tls": {"enabled": True, "ca": "kafka-ca"},
        "sasl": {"mechanism": "SCRAM-SHA-512"},
        "job": {"user": "endmark-job", "secret": "kafka-job"},
        "operator": {"user": "endmark-operator", "secret": "kafka-operator"},
    },
    "store": {"url": "s3://shop/auction", "secret": "endmark-s3"},
    "ops": {"tokens": "who"},
    "network": {"kafkaPorts": [9093], "storePorts": [9000]},
}
# Reads the files of a directory as the parts of a release do, and prints what they say of Kafka.
READ = """
import json, os, sys
from pathlib import Path
from endmark.pipeline.file import load, load_kafka
place, password, files = sys.argv[1], sys.argv[2], {}
given = {"KAFKA_PASSWORD_FILE": password, "ENDMARK_RELATION_URL": "sqlite://"}
files["job"] = load(Path(place, "pipeline.yaml"), given).kafka.cluster()
files["operator"] = load_kafka(Path(place, "kafka.yaml"), given).cluster()
print(json.dumps({
    part: {
        "bootstrap": each.bootstrap,
        "protocol": each.protocol,
        "tls": each.tls and list(map(str, (each.tls.ca, each.tls.certificate, each.tls.key))),
        "login": [each.login.mechanism, each.login.user, each.login.password] if each.login else None,
    }
    for part, each in files.items()
}))
"""

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
        {"databaseCa": "databases"},
        {"network": {"dashboardFrom": [{"podSelector": {}}]}},
        SECURED,
        {**SECURED, "schedule": "@every 15m"},
    ]
    for values in given:
        objects = rendered(**values)
        for manifest in objects.values():
            check_schema(manifest)
        kinds = ", ".join(sorted({kind for kind, _ in objects}))
        print(f"{len(objects)} objects with {', '.join(values) or 'no values'}: {kinds}")


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
    assert "--kafka=/etc/endmark/kafka.yaml" in ops["args"]
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

    def less(*place: str) -> dict[str, Any]:
        values = copy.deepcopy(SECURED)
        within: Any = values
        for key in place[:-1]:
            within = within[key]
        within[place[-1]] = ""
        return values

    wrong: dict[str, dict[str, Any]] = {
        "give the pipeline file": {"pipeline": ""},
        "give Kafka's addresses": {"kafka": {"bootstrap": ""}},
        "kafka.job.user=NAME": less("kafka", "job", "user"),
        "kafka.operator.user=NAME": less("kafka", "operator", "user"),
        "kafka.job.secret=NAME": less("kafka", "job", "secret"),
        "kafka.operator.secret=NAME": less("kafka", "operator", "secret"),
        "store.secret=NAME": less("store", "secret"),
        "the pipeline file is no YAML: ": {"pipeline": "name: shop\nstreams: {a: [\n"},
        "has a section kafka; remove it": {"pipeline": "name: shop\nkafka: {bootstrap: 'broker:9092'}\n"},
    }
    for meant, values in wrong.items():
        try:
            rendered(**values)
        except helm.HelmError as refused:
            said = str(refused)
        else:
            said = "nothing"
        assert meant in said, f"{meant}: {said}"


def read_by_endmark(objects: dict[tuple[str, str], Manifest]) -> Any:
    """Let endmark itself read the pipeline file of a release, and the sidecar's file."""
    with tempfile.TemporaryDirectory(prefix="endmark-chart-") as scratch:
        for name in ("auction-pipeline", "auction-operator"):
            for file, text in objects["ConfigMap", name]["data"].items():
                Path(scratch, file).write_text(text)
        password = Path(scratch, "password")
        password.write_text("by file")
        command = [sys.argv[1], "-c", READ, scratch, str(password)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_endmark_accepts_the_files() -> None:
    """The job and the sidecar are two users of one cluster."""
    plain = {"bootstrap": "kafka:9092", "protocol": "PLAINTEXT", "tls": None, "login": None}
    assert read_by_endmark(rendered()) == {"job": plain, "operator": plain}
    secured: Manifest = {"bootstrap": "broker-1:9093,broker-2:9093", "protocol": "SASL_SSL"}
    secured |= {"tls": ["/run/secrets/kafka-ca/ca.crt", "None", "None"]}
    assert read_by_endmark(rendered(**SECURED)) == {
        part: {**secured, "login": ["SCRAM-SHA-512", f"endmark-{part}", "by file"]}
        for part in ("job", "operator")
    }
    system = copy.deepcopy(SECURED)
    system["kafka"]["tls"] = {"enabled": True}
    assert read_by_endmark(rendered(**system))["job"]["tls"] == ["None", "None", "None"]
    mutual = copy.deepcopy(SECURED)
    mutual["kafka"] |= {"tls": {"enabled": True, "certificates": True}, "sasl": {"mechanism": ""}}
    found = read_by_endmark(rendered(**mutual))["operator"]
    assert (found["protocol"], found["login"]) == ("SSL", None)
    assert found["tls"][1:] == ["/run/secrets/kafka/tls.crt", "/run/secrets/kafka/tls.key"]


def test_files_and_passwords_are_where_the_parts_look() -> None:
    """Each part has its login as files. Executors have keys of the store alone. Upkeep asks no relation."""
    objects = rendered(**SECURED)
    job = objects["SparkApplication", "auction"]["spec"]
    ops = objects["Deployment", "auction-ops"]["spec"]["template"]["spec"]
    upkeep = objects["CronJob", "auction-maintenance"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    parts = [
        (job["driver"], job, "kafka-job"),
        (upkeep["containers"][0], upkeep, "kafka-job"),
        (ops["containers"][0], ops, "kafka-operator"),
    ]
    for container, pod, secret in parts:
        assert {"name": "KAFKA_PASSWORD_FILE", "value": "/run/secrets/kafka/password"} in container["env"]
        places = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
        volumes = {each["name"]: each for each in pod["volumes"]}
        assert places.keys() >= {"/etc/endmark", "/run/secrets/kafka", "/run/secrets/kafka-ca"}
        assert volumes[places["/run/secrets/kafka"]]["secret"]["secretName"] == secret
        assert volumes[places["/run/secrets/kafka-ca"]]["secret"]["secretName"] == "kafka-ca"
        assert set(places.values()) <= set(volumes)
    assert "relation-url" in json.dumps(job)
    assert "relation-url" not in json.dumps(upkeep)
    assert not [each for each in job["executor"]["volumeMounts"] if each["name"].startswith("kafka")]
    credentials = [{"secretRef": {"name": "endmark-s3"}}]
    for container in (job["driver"], job["executor"], upkeep["containers"][0]):
        assert container["envFrom"] == credentials
    assert "envFrom" not in ops["containers"][0]


def test_authorities_of_databases_are_files_of_all_who_connect() -> None:
    """A URL names the same file in driver, executors and sidecar. Maintenance connects to no database."""
    objects = rendered(databaseCa="databases")
    job = objects["SparkApplication", "auction"]["spec"]
    ops = objects["Deployment", "auction-ops"]["spec"]["template"]["spec"]
    volume = {"name": "database-ca", "secret": {"secretName": "databases", "defaultMode": 0o440}}
    mount = {"name": "database-ca", "mountPath": "/run/secrets/database-ca", "readOnly": True}
    for part, pod in ((job["driver"], job), (job["executor"], job), (ops["containers"][0], ops)):
        assert volume in pod["volumes"]
        assert mount in part["volumeMounts"]
    assert "database-ca" not in json.dumps(objects["CronJob", "auction-maintenance"])
    assert "database-ca" not in json.dumps(list(rendered().values()))


def test_variables_of_the_pipeline_file_are_in_a_secret() -> None:
    """Driver and maintenance read the file, executors do not. Keys of the store are beside them, if any."""
    mine = {"secretRef": {"name": "shop-variables"}}
    for more, store in (({}, []), (SECURED, [{"secretRef": {"name": "endmark-s3"}}])):
        objects = rendered(**more, variables="shop-variables")
        job = objects["SparkApplication", "auction"]["spec"]
        upkeep = objects["CronJob", "auction-maintenance"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert job["driver"]["envFrom"] == upkeep["containers"][0]["envFrom"] == [*store, mine]
        assert job["executor"].get("envFrom", []) == store


def test_batches_are_as_the_pipeline_file_says_unless_values_say_otherwise() -> None:
    def given(**values: int) -> list[str]:
        job = rendered(job=values)["SparkApplication", "auction"]["spec"]
        return [argument for argument in job["arguments"] if argument.startswith("--set=batch")]

    assert given() == []
    assert given(triggerSeconds=5, maxRecordsPerBatch=2_000_000) == [
        "--set=batch.every=5s",
        "--set=batch.records=2000000",
    ]


def test_nothing_is_in_a_claim_if_it_is_in_s3() -> None:
    objects = rendered(**SECURED)
    job = objects["SparkApplication", "auction"]["spec"]
    assert {"--warehouse=s3://shop/auction/warehouse", "--checkpoint=s3://shop/auction/checkpoint"} <= set(
        job["arguments"]
    )
    assert "persistentVolumeClaim" not in yaml.safe_dump_all(objects.values())
    upkeep = objects["CronJob", "auction-maintenance"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert "--warehouse=s3://shop/auction/warehouse" in upkeep["containers"][0]["args"]
    reached = {
        part: {
            port["port"]
            for rule in objects["NetworkPolicy", f"auction-{part}"]["spec"]["egress"]
            for port in rule.get("ports", [])
        }
        for part in ("job", "ops", "maintenance")
    }
    assert reached == {
        "job": {53, 443, 3306, 6443, 9000, 9093},
        "ops": {53, 3306, 9093},
        "maintenance": {53, 9000},
    }


def test_executors_have_no_rights() -> None:
    """They read records of others. Without an account of their own, Spark gives them that of the driver."""
    objects = rendered()
    job = objects["SparkApplication", "auction"]["spec"]
    accounts = [job[part]["serviceAccount"] for part in ("driver", "executor")]
    assert accounts == ["auction-driver", "auction-executor"]
    assert objects["ServiceAccount", "auction-executor"]["automountServiceAccountToken"] is False
    [subject] = objects["RoleBinding", "auction-driver"]["subjects"]
    assert subject["name"] == "auction-driver"


def test_another_file_makes_other_pods() -> None:
    """Both read their files when they start. An upgrade that changed only the files did nothing."""

    def notes(**values: Any) -> tuple[dict[str, str], dict[str, str]]:
        objects = rendered(**values)
        ops = objects["Deployment", "auction-ops"]["spec"]["template"]["metadata"]["annotations"]
        return objects["SparkApplication", "auction"]["spec"]["driver"]["annotations"], ops

    job, ops = notes()
    assert notes() == (job, ops)
    assert notes(pipeline=f"{GIVEN['pipeline']}# changed\n")[0] != job
    elsewhere = notes(kafka={"bootstrap": "elsewhere:9092"})
    assert elsewhere[0] != job
    assert elsewhere[1] != ops


def test_the_sidecar_answers_to_the_names_that_it_has() -> None:
    ops = {"knownAs": ["ops.example", "*.example"]}
    [container] = rendered(ops=ops)["Deployment", "auction-ops"]["spec"]["template"]["spec"]["containers"]
    known = [each.removeprefix("--known-as=") for each in container["args"] if each.startswith("--known-as=")]
    service = ["auction-ops", "auction-ops.etl", "auction-ops.etl.svc"]
    assert known == [*service, "auction-ops.etl.svc.cluster.local", *ops["knownAs"]]


def main() -> None:
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name}: passed")


if __name__ == "__main__":
    main()
