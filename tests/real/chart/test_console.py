"""What the chart makes for the console."""

from __future__ import annotations

import pytest
import yaml

from kai_ray.cluster.port import Object
from kai_ray.manager import rights
from tests.real.chart.release import CHART, NAME, NAMESPACE, HelmFailed, Release
from tests.real.control_plane import ControlPlane

pytestmark = pytest.mark.real
INGRESS = {"enabled": True, "host": "kai.example.org", "tlsSecret": "kai-tls"}


def rendered(plane: ControlPlane, console: Object) -> list[Object]:
    release = Release(plane)
    release.values = {"console": console}
    args = ("template", NAME, str(CHART), "-n", NAMESPACE, "--kube-version=1.36.0")
    found = yaml.safe_load_all(release.helm(*args, values=True))
    return [manifest for manifest in found if manifest]


def test_it_is_off_unless_wished_for(chart_plane: ControlPlane) -> None:
    text = yaml.safe_dump_all(rendered(chart_plane, {}))
    assert "console" not in text and "tokenreviews" not in text


def test_service_port_and_rights_belong_together(chart_plane: ControlPlane) -> None:
    made = rendered(chart_plane, {"enabled": True, "port": 9000, "ingress": INGRESS})
    (deployment,) = (m for m in made if m["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--console=0.0.0.0:9000" in container["args"]
    (service,) = (
        m for m in made if m["metadata"]["name"].endswith("-console") and "ports" in m["spec"]
    )
    assert service["spec"]["ports"][0]["targetPort"] in {p["name"] for p in container["ports"]}
    (ingress,) = (m for m in made if m["kind"] == "Ingress")
    assert ingress["spec"]["tls"] == [{"hosts": [INGRESS["host"]], "secretName": "kai-tls"}]
    roles = {m["metadata"]["name"]: m["rules"] for m in made if m["kind"] == "ClusterRole"}
    for rule in rights.console_rules():
        assert any(rule == given for rules in roles.values() for given in rules)
    for role in rights.queue_roles("any"):
        name = role["metadata"]["name"].removeprefix("any-")
        assert [r for n, r in roles.items() if n.endswith(name)] == [role["rules"]]


def test_an_ingress_without_a_certificate_is_refused(chart_plane: ControlPlane) -> None:
    """Tokens do not travel in the clear."""
    with pytest.raises(HelmFailed, match="tlsSecret"):
        rendered(
            chart_plane, {"enabled": True, "ingress": {"enabled": True, "host": "kai.example.org"}}
        )
