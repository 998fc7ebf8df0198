"""Dockerfile, compose.yaml and deploy/kubernetes.yaml name files, settings, routes and commands that there are."""

import json
import re
import tomllib

import pytest
import yaml
from containers import ROOT

from octavo.cli.commands import octavo
from octavo.config import load_settings
from octavo.config.settings import every_setting

DOCKERFILE = re.sub(r"\\\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
KUBERNETES = {
    each["kind"]: each
    for each in yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text(encoding="utf-8"))
}
POD = KUBERNETES["Deployment"]["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]
VARIABLES = {setting.variable for setting in every_setting()}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPEN_ROUTES = json.loads((ROOT / "docs/reference/openapi.json").read_text(encoding="utf-8"))["paths"]


def lines(word):
    """What follows this instruction of the Dockerfile, wherever it stands."""
    return re.findall(rf"^{word} (.*)$", DOCKERFILE, re.MULTILINE)


def image_environment():
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(lines("ENV"))))


def seconds(text):
    return float(re.fullmatch(r"(\d+)s", text)[1])


def settings_of(environ):
    """The settings of a container with this environment."""
    return load_settings(environ={**image_environment(), **environ})


class TestDockerfile:
    def test_it_copies_what_is_there_and_not_ignored(self):
        """.dockerignore lets in what is copied and nothing else, and a build of the package needs no more."""
        copied = {
            name for line in lines("COPY") if not line.startswith("--from") for name in line.split()[:-1]
        }
        ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        assert ignored[1] == "*"
        assert copied == {line[1:] for line in ignored if line.startswith("!")}
        assert [name for name in copied if not (ROOT / name).exists()] == []
        assert {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml"} <= copied

    def test_its_extras(self):
        [extras] = [line.partition("=")[2] for line in lines("ARG") if line.startswith("EXTRAS=")]
        assert {"server", "postgres"} <= set(extras.split(",")) <= set(PROJECT["optional-dependencies"])

    def test_its_base(self):
        """It can be given, needs no name of a registry, and is new enough."""
        [base] = [line.partition("=")[2] for line in lines("ARG") if line.startswith("BASE=")]
        assert lines("FROM") == ["${BASE} AS build", "${BASE}"]
        minor = int(re.fullmatch(r"python:3\.(\d+)-slim", base)[1])
        assert f"Programming Language :: Python :: 3.{minor}" in PROJECT["classifiers"]

    def test_its_settings(self):
        """On all addresses, and so with keys; what is relative is on the volume."""
        named = {name for name in image_environment() if name.startswith("OCTAVO")}
        assert named <= VARIABLES
        settings = settings_of({})
        assert settings.server.needs_key
        assert [str(settings.server.port)] == lines("EXPOSE")
        assert lines("VOLUME") == lines("WORKDIR")[-1:] == [image_environment()["HOME"]]

    def test_its_account_is_a_number(self):
        [user] = lines("USER")
        assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)
        assert f"chown {user} /data" in DOCKERFILE

    def test_its_command(self):
        [command], [entry] = map(json.loads, lines("CMD")), map(json.loads, lines("ENTRYPOINT"))
        assert entry == [*PROJECT["scripts"]]
        assert [word for word in command if word not in octavo.commands] == []

    def test_its_health_check(self):
        [check] = lines("HEALTHCHECK")
        _, _, program = json.loads(check.partition("CMD ")[2])
        compile(program, "HEALTHCHECK", "exec")
        [path] = re.findall(r"'(/[\w/]+)'", program)
        assert path in OPEN_ROUTES
        [variable] = re.findall(r"OCTAVO__\w+", program)
        assert variable in image_environment()
        [most], [inside] = re.findall(r"--timeout=(\d+)s", check), re.findall(r"timeout=(\d+)\)", program)
        assert int(inside) < int(most)


class TestCompose:
    server, database = COMPOSE["services"]["octavo"], COMPOSE["services"]["db"]

    def test_no_secret_stands_in_it(self):
        """The password is asked for, and without one nothing starts."""
        texts = re.findall(r"\$\{[^}]*\}", yaml.safe_dump(COMPOSE, width=1000))
        assert len(texts) == 2
        assert all(text.startswith("${DB_PASSWORD:?") for text in texts)
        assert self.database["environment"]["POSTGRES_PASSWORD"] == texts[0]

    def test_its_settings(self):
        environ = self.server["environment"]
        assert set(environ) <= VARIABLES
        dsn = re.sub(r"\$\{[^}]*\}", "secret", environ["OCTAVO__DATABASE__DSN"])
        names = self.database["environment"]
        assert dsn == f"postgresql://{names['POSTGRES_USER']}:secret@db:5432/{names['POSTGRES_DB']}"
        settings = settings_of({**environ, "OCTAVO__DATABASE__DSN": dsn})
        stop = settings.server.drain_seconds + settings.server.stop_seconds
        assert stop < seconds(self.server["stop_grace_period"])
        [published] = self.server["ports"]
        assert published == f"127.0.0.1:8000:{settings.server.port}"

    def test_it_waits_for_a_healthy_database(self):
        assert self.server["depends_on"] == {"db": {"condition": "service_healthy"}}
        assert self.database["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]

    def test_it_is_locked_up(self):
        assert (self.server["read_only"], self.server["cap_drop"]) == (True, ["ALL"])
        assert self.server["volumes"] == [f"octavo:{lines('VOLUME')[0]}"]
        mounted = {
            volume.partition(":")[0] for each in COMPOSE["services"].values() for volume in each["volumes"]
        }
        assert mounted == set(COMPOSE["volumes"])

    def test_its_image_is_this_version(self):
        assert self.server["image"] == CONTAINER["image"] == f"octavo:{PROJECT['version']}"


class TestKubernetes:
    def test_its_settings(self):
        """Each variable is a setting, and each text is one that it takes."""
        given = {each["name"]: each.get("value") for each in CONTAINER["env"]}
        assert set(given) <= VARIABLES
        secret = {name for name, value in given.items() if value is None}
        assert secret == {"OCTAVO__DATABASE__DSN", "OCTAVO__PRIVACY__DIGEST_KEY"}
        settings = settings_of({name: value for name, value in given.items() if value is not None})
        assert not settings.failure_queue.enabled  # the volume is gone with its pod
        assert POD["volumes"][0] == {"name": "data", "emptyDir": {}}
        stop = settings.server.drain_seconds + settings.server.stop_seconds
        assert stop < POD["terminationGracePeriodSeconds"]
        ready = CONTAINER["readinessProbe"]
        assert settings.server.drain_seconds > ready["periodSeconds"] * ready["failureThreshold"]

    def test_its_secret_is_the_one_to_make(self):
        """The command at the top of the file makes every key that is asked for."""
        told = (ROOT / "deploy/kubernetes.yaml").read_text(encoding="utf-8").partition("\napiVersion")[0]
        asked = [each["valueFrom"]["secretKeyRef"] for each in CONTAINER["env"] if "valueFrom" in each]
        assert {each["name"] for each in asked} == {*re.findall(r"secret generic (\S+)", told)}
        assert {each["key"] for each in asked} == {*re.findall(r"--from-literal=([\w-]+)=", told)}

    @pytest.mark.parametrize(
        ("probe", "path"),
        [
            ("startupProbe", "/health/live"),
            ("livenessProbe", "/health/live"),
            ("readinessProbe", "/health/ready"),
        ],
    )
    def test_its_probes(self, probe, path):
        assert path in OPEN_ROUTES
        assert CONTAINER[probe]["httpGet"] == {"path": path, "port": "http"}

    def test_its_port_is_the_one_of_the_server(self):
        [port] = CONTAINER["ports"]
        assert port == {"name": "http", "containerPort": settings_of({}).server.port}
        [served] = KUBERNETES["Service"]["spec"]["ports"]
        assert served["targetPort"] == port["name"]

    def test_its_command(self):
        assert [word for word in CONTAINER["args"] if word not in octavo.commands] == []

    def test_it_is_locked_up(self):
        user, group = map(int, lines("USER")[0].split(":"))
        context = POD["securityContext"]
        assert context["runAsNonRoot"] is True
        assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (user, group, group)
        assert CONTAINER["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {each["mountPath"] for each in CONTAINER["volumeMounts"]} == {lines("VOLUME")[0], "/tmp"}
        assert {each["name"] for each in CONTAINER["volumeMounts"]} == {
            each["name"] for each in POD["volumes"]
        }

    def test_everything_speaks_of_the_same_pods(self):
        labels = KUBERNETES["Deployment"]["spec"]["template"]["metadata"]["labels"]
        assert KUBERNETES["Deployment"]["spec"]["selector"]["matchLabels"] == labels
        assert KUBERNETES["Service"]["spec"]["selector"] == labels
        budget = KUBERNETES["PodDisruptionBudget"]["spec"]
        assert budget["selector"]["matchLabels"] == labels
        assert budget["minAvailable"] < KUBERNETES["Deployment"]["spec"]["replicas"]
        [spread] = POD["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"] == labels
