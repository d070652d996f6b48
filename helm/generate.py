"""Writes what the chart ships into it: definitions, policies, webhooks, rights, dashboards.

    python helm/generate.py

All of it is made from the code, so that chart and process never disagree; a test runs this into
an empty folder and compares. Names that only a release knows stand between two @.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from kai_ray.admission.policies import policies
from kai_ray.admission.webhooks import WebhookConfig, configurations
from kai_ray.api.crd import crds
from kai_ray.manager import agent_rights, fence, rights
from kai_ray.metrics.dashboards import dashboards

CHART = Path(__file__).parent / "kai-ray"
_HEAD = "# Made by helm/generate.py: change the code, not this file.\n"


def files() -> dict[str, str]:
    """Path in the chart to content."""
    found = {f"crds/{c['metadata']['name']}.yaml": _yaml(c) for c in crds()}
    scheduler_names = ("@schedulerName@",)
    webhooks = WebhookConfig(
        {"service": {"name": "@service@", "namespace": "@namespace@"}},
        scheduler_names,
        routes=True,
        every_pod=True,
        not_in=("kube-system", "@namespace@"),
    )
    found["files/policies.yaml"] = _yaml(policies(scheduler_names))
    found["files/webhooks.yaml"] = _yaml(configurations(webhooks))
    found["files/fence.yaml"] = _yaml(
        [fence.policy(), fence.policy_binding("@namespace@", "@lease@")]
    )
    found["files/rights.yaml"] = _yaml(
        {
            "cluster": rights.cluster_rules(),
            "named": rights.named_rules(),
            "namespace": rights.namespace_rules("@lease@", "@secret@"),
            "reservations": rights.reservation_rules(),
            "console": rights.console_rules(),
        }
    )
    found["files/console-roles.yaml"] = _yaml(
        {
            role["metadata"]["name"].removeprefix("@name@-"): role["rules"]
            for role in rights.queue_roles("@name@")
        }
    )
    found["files/agent.yaml"] = _yaml(
        {
            "rules": agent_rights.rules(),
            "policies": [
                agent_rights.policy("@agent@", "@namespace@", "@agent@"),
                agent_rights.policy_binding("@agent@"),
            ],
        }
    )
    for name, dashboard in dashboards().items():
        found[f"files/dashboards/{name}.json"] = json.dumps(dashboard, indent=1) + "\n"
    return found


def write(chart: Path) -> None:
    for path, text in files().items():
        (chart / path).parent.mkdir(parents=True, exist_ok=True)
        (chart / path).write_text(text)


class _Dumper(yaml.SafeDumper):
    """Without references: every object stands for itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(content: Any) -> str:
    return _HEAD + yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=100)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else CHART)
