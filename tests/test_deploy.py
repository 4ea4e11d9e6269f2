"""Tests that the files in `deploy/` are valid and safe, and have the commands and settings of the product."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from handoffaudit.checks import known_names
from tests.test_compose import COMPOSE

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
OBJECTS: list[dict[str, Any]] = [
    found for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) for found in yaml.safe_load_all(path.read_text())
]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
# The services of docker-compose.yml by the component in Kubernetes and by the unit of systemd.
SERVICES = {"web": "web", "worker": "worker", "llm-worker": "asker", "migrate": "prepare"}
COMPONENT = "app.kubernetes.io/component"
PODS = {
    one["metadata"]["labels"][COMPONENT]: one["spec"]["template"]
    for one in OBJECTS
    if "template" in one.get("spec", {})
}
KUBERNETES = "1.33"


def command_of(service: str) -> list[str]:
    """Return the command of a service in docker-compose.yml, with the default of its variable."""
    return [re.sub(r"\$\{[A-Z_]+:-(\d+)\}", r"\1", word) for word in COMPOSE["services"][service]["command"]]


@pytest.mark.parametrize("found", OBJECTS, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_every_object_of_kubernetes_is_valid(found: dict[str, Any]) -> None:
    kubernetes_validate.validate(found, KUBERNETES, strict=True)


def test_an_invalid_object_is_refused() -> None:
    broken = json.loads(json.dumps(OBJECTS[-1]))
    broken["spec"]["replica"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


@pytest.mark.parametrize("component", SERVICES)
def test_a_pod_runs_the_command_of_compose_with_few_rights(component: str) -> None:
    pod = PODS[component]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == command_of(SERVICES[component])
    assert container["image"].startswith("handoffaudit:")
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert str(pod["securityContext"]["runAsUser"]) in (ROOT / "Dockerfile").read_text()
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert "memory" in container["resources"]["limits"]
    # With a read-only root, the folders that the product writes to are volumes.
    assert {one["mountPath"] for one in container["volumeMounts"]} == {"/data", "/tmp"}  # noqa: S108
    assert all(one["emptyDir"]["sizeLimit"] for one in pod["volumes"])
    assert [*container["envFrom"]] == [
        {"configMapRef": {"name": "handoffaudit"}},
        {"secretRef": {"name": "handoffaudit"}},
    ]


def test_the_probes_ask_for_addresses_that_exist() -> None:
    from django.urls import resolve

    (web,) = PODS["web"]["spec"]["containers"]
    probes = [web[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert [resolve(probe["path"]).url_name for probe in probes] == ["healthz", "healthz", "readyz"]
    config = next(one["data"] for one in OBJECTS if one["kind"] == "ConfigMap")
    for probe in probes:
        (host,) = probe["httpHeaders"]
        assert host["value"] in config["HANDOFFAUDIT_ALLOWED_HOSTS"].split(",")


def test_every_long_running_pod_has_a_disruption_budget_and_its_selectors_fit() -> None:
    budgets = {
        one["spec"]["selector"]["matchLabels"][COMPONENT] for one in OBJECTS if one["kind"] == "PodDisruptionBudget"
    }
    assert budgets == set(SERVICES) - {"migrate"}
    for found in OBJECTS:
        selector = found.get("spec", {}).get("selector", {})
        wanted = selector.get("matchLabels", selector)
        if wanted:
            assert PODS[wanted[COMPONENT]]["metadata"]["labels"] == wanted


def test_autoscaling_uses_a_metric_that_exists() -> None:
    (scaler,) = [one for one in OBJECTS if one["kind"] == "HorizontalPodAutoscaler"]
    (metric,) = scaler["spec"]["metrics"]
    name = metric["external"]["metric"]["name"]
    assert f"`{name}`" in (ROOT / "docs" / "metrics.md").read_text()
    assert scaler["spec"]["scaleTargetRef"]["name"] in {
        one["metadata"]["name"] for one in OBJECTS if one["kind"] == "Deployment"
    }


def test_every_setting_exists() -> None:
    config = next(one["data"] for one in OBJECTS if one["kind"] == "ConfigMap")
    assert set(config) <= known_names()
    page = (ROOT / "docs" / "deploy.md").read_text()
    assert set(re.findall(r"HANDOFFAUDIT_[A-Z_]+", page)) <= known_names()


@pytest.mark.parametrize("component", SERVICES)
def test_a_unit_runs_the_command_of_compose(component: str) -> None:
    unit = (DEPLOY / "systemd" / f"handoffaudit-{component}.service").read_text()
    (line,) = re.findall(r"^ExecStart=/opt/handoffaudit/bin/(.*)$", unit, re.MULTILINE)
    # On one machine, a proxy of the machine is in front.
    assert line.replace("127.0.0.1", "0.0.0.0").split() == command_of(SERVICES[component])  # noqa: S104


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_gives_few_rights(unit: Path) -> None:
    text = unit.read_text()
    for line in (
        "User=handoffaudit",
        "NoNewPrivileges=true",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=",
        "UMask=0077",
    ):
        assert f"\n{line}\n" in text


def test_the_proxy_can_take_the_address_of_a_person_from_a_proxy_in_front() -> None:
    text = (DEPLOY / "nginx.conf").read_text()
    for name in ("set_real_ip_from", "real_ip_header"):
        assert re.search(rf"^    #{name} \S+;$", text, re.MULTILINE)
        assert f"`{name}`" in (ROOT / "docs" / "postgresql.md").read_text()


@pytest.mark.parametrize("name", ["HANDOFFAUDIT_MAX_WAIT_SECONDS", "HANDOFFAUDIT_MAX_HOOK_SECONDS"])
def test_the_proxy_cuts_off_no_wait(name: str) -> None:
    [longest] = re.findall(rf'"{name}", \d+, most=(\d+)', (ROOT / "handoffaudit" / "settings.py").read_text())
    timeouts = re.findall(r"proxy_read_timeout (\d+)s;", (DEPLOY / "nginx.conf").read_text())
    assert min(map(int, timeouts)) > int(longest)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        # systemd looks whether the program of a unit exists.
        text = unit.read_text().replace("/opt/handoffaudit/bin", str(Path(sys.executable).parent))
        (tmp_path / unit.name).write_text(text)
    files = [str(tmp_path / unit.name) for unit in UNITS]
    done = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / UNITS[0].name).write_text(UNITS[0].read_text().replace("[Service]", "[Service]\nNoSuchSetting=1"))
    done = subprocess.run(["systemd-analyze", "verify", files[0]], capture_output=True, text=True, check=False)
    assert "NoSuchSetting" in done.stderr
