"""What the chart makes for Prometheus and Grafana, and the real Prometheus on what it installs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object
from kai_ray.metrics.dashboards import dashboards
from tests.parts import debian
from tests.real.chart.release import CHART, NAME, NAMESPACE, HelmFailed, Release
from tests.real.control_plane import LOOPBACK, ControlPlane
from tests.real.metrics.prometheus import Prometheus

pytestmark = pytest.mark.real


def rendered(plane: ControlPlane, metrics: Object) -> list[Object]:
    release = Release(plane)
    release.values = {"metrics": metrics}
    args = ("template", NAME, str(CHART), "-n", NAMESPACE, "--kube-version=1.36.0")
    found = yaml.safe_load_all(release.helm(*args, values=True))
    return [manifest for manifest in found if manifest]


def test_nothing_is_asked_of_a_cluster_without_an_operator(chart_plane: ControlPlane) -> None:
    made = rendered(chart_plane, {})
    assert not {"ServiceMonitor", "ConfigMap"} & {manifest["kind"] for manifest in made}


def test_the_monitor_finds_the_service_and_the_service_the_pods(chart_plane: ControlPlane) -> None:
    made = rendered(chart_plane, {"serviceMonitor": {"enabled": True, "labels": {"release": "p"}}})
    (monitor,) = (m for m in made if m["kind"] == "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [m for m in made if m["kind"] == "Service"]
    (service,) = (s for s in services if wanted <= s["metadata"]["labels"].items())
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = (p for p in service["spec"]["ports"] if p["name"] == endpoint["port"])
    (deployment,) = (m for m in made if m["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    assert port["targetPort"] in {p["name"] for p in container["ports"]}
    assert monitor["metadata"]["labels"]["release"] == "p"


def test_grafana_gets_the_dashboards_as_they_are(chart_plane: ControlPlane) -> None:
    made = rendered(chart_plane, {"dashboards": {"enabled": True, "namespace": "grafana"}})
    (config,) = (m for m in made if m["kind"] == "ConfigMap")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config["metadata"]["namespace"] == "grafana"
    shown = {name.removesuffix(".json"): json.loads(text) for name, text in config["data"].items()}
    assert shown == dashboards()


def test_an_interval_that_makes_no_sense_is_named(chart_plane: ControlPlane) -> None:
    with pytest.raises(HelmFailed, match="interval"):
        rendered(chart_plane, {"serviceMonitor": {"enabled": True, "interval": "soon"}})


def test_prometheus_reads_what_is_installed(release: Release, tmp_path: Path) -> None:
    debian.need(debian.PROMETHEUS)
    service = release.plane.port.get(kinds.SERVICE, f"{NAME}-metrics", NAMESPACE)
    (port,) = service["spec"]["ports"]
    with Prometheus(tmp_path, f"{LOOPBACK}:{port['port']}") as prometheus:
        prometheus.until("kai_leader", lambda v: v == 1)
        queue = 'kai_queue_info{queue_name="default-queue"}'
        prometheus.until(queue, lambda v: v == 1)
