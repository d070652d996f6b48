"""Random lives of a cluster that claims devices: no device twice, claims and pods agree.

A failing life prints its seed; `python -m tests.dra.test_random_lives SEED` plays it again.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import NotFound, Object
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.dra import objects as o
from tests.dra.world import create, given_twice, queue

STEPS = 30
MODEL = "device.attributes['gpu.nvidia.com'].productName"
NUMA = [{"matchAttribute": "gpu.nvidia.com/numaNode"}]
TEMPLATES = {
    "one": o.spec(),
    "two": o.spec(o.exactly(count=2)),
    "fast": o.spec(o.exactly(where=[f"{MODEL} == 'H100'"])),
    "near": o.spec(o.exactly(count=2), constraints=NUMA),
    "every": o.spec(o.exactly(allocationMode="All")),
    "look": o.spec(o.exactly(adminAccess=True)),
    "either": o.spec(
        {
            "name": "gpu",
            "firstAvailable": [
                {"name": m, **o.exactly(where=[f"{MODEL} == '{m}'"])["exactly"]}
                for m in ("H100", "A100")
            ],
        }
    ),
}


def _cluster(pick: random.Random) -> EmbeddedCluster:
    pools: list[Any] = [
        {
            "name": model.lower(),
            "count": pick.randint(1, 2),
            "gpus": pick.randint(2, 4),
            "model": model,
            "devices": [{"perNuma": 2}],
            "runTime": {"kind": "exponential", "meanSeconds": 40},
        }
        for model in ("H100", "A100")
    ]
    config = {"nodePools": pools, "seed": pick.randint(0, 999)}
    return EmbeddedCluster(ClusterConfig.of(config), VirtualClock())


class Life:
    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.world = _cluster(self.pick)
        self.pods = 0
        create(self.world, *(o.template(name, body) for name, body in TEMPLATES.items()))
        create(self.world, queue("owner", self.pick.randint(2, 6)), queue("borrower", 0))
        for name in ("s1", "s2"):
            create(self.world, o.claim(name, TEMPLATES["two"], queue="default-queue"))

    def play(self) -> None:
        steps: list[Callable[[], None]] = [self.come, self.come, self.share, self.go, self.cordon]
        steps += [self.lose_a_device, self.wait, self.wait]
        for _ in range(STEPS):
            self.pick.choice(steps)()
            self.world.run_for(self.pick.choice([0.05, 0.3, 2, 20]))
            self.check()
        for node in self.world.client.list(R.NODE).items:
            self._set_cordon(node, False)
        self.world.run_for(3000)
        self.check()
        for pod in self.world.client.list(R.POD).items:
            self.world.client.delete(R.POD, pod["metadata"]["name"], "default")
        self.world.run_for(60)
        left = {c["metadata"]["name"]: c.get("status") for c in self._claims()}
        assert set(left) == {"s1", "s2"}, left
        assert not any((s or {}).get("allocation") for s in left.values()), left
        assert self.world.runtime.errors == 0

    def come(self) -> None:
        template = self.pick.choice(sorted(TEMPLATES))
        of = self.pick.choice(["owner", "borrower", "default-queue"])
        for _ in range(self.pick.randint(1, 3)):
            self.pods += 1
            create(self.world, o.pod(f"p{self.pods}", template=template, queue=of))

    def share(self) -> None:
        self.pods += 1
        create(self.world, o.pod(f"p{self.pods}", claim=self.pick.choice(["s1", "s2"])))

    def go(self) -> None:
        pods = self.world.client.list(R.POD).items
        if pods:
            name = self.pick.choice(pods)["metadata"]["name"]
            grace = self.pick.choice([0, None])
            self.world.client.delete(R.POD, name, "default", grace_s=grace)

    def cordon(self) -> None:
        node = self.pick.choice(self.world.client.list(R.NODE).items)
        self._set_cordon(node, not node["spec"].get("unschedulable"))

    def _set_cordon(self, node: Object, closed: bool) -> None:
        patch = {"spec": {"unschedulable": closed or None}}
        self.world.client.patch(R.NODE, node["metadata"]["name"], patch)

    def lose_a_device(self) -> None:
        """A driver offers its devices anew, one less or one more."""
        found = self.pick.choice(self.world.client.list(R.RESOURCE_SLICE).items)
        spec = found["spec"]
        devices = list(spec["devices"])
        if len(devices) > 2:
            devices.pop(self.pick.randrange(len(devices)))
        pool = {**spec["pool"], "generation": spec["pool"]["generation"] + 1}
        self.world.client.update(
            R.RESOURCE_SLICE, {**found, "spec": {**spec, "devices": devices, "pool": pool}}
        )

    def wait(self) -> None:
        return

    def _claims(self) -> list[Object]:
        return self.world.client.list(R.RESOURCE_CLAIM).items

    def check(self) -> None:
        world = self.world
        twice = [d for d in given_twice(world) if not self._only_looked_at(d)]
        assert not twice, twice
        assert not world.kubelet.refused, world.kubelet.refused
        last = world.control.loop.last
        wrong = [p for p in last.encoded.problems if "fail" in p.mend] if last else []
        assert not wrong, wrong
        for pod in world.client.list(R.POD).items:
            node = pod["spec"].get("nodeName")
            if not node or pod["status"]["phase"] not in ("Pending", "Running"):
                continue
            for name in self._names(pod):
                self._check_claim(pod, node, name)

    def _only_looked_at(self, device: str) -> bool:
        """Whether all but one of those who have a device only look at it."""
        takers = 0
        for claim in self._claims():
            allocation = (claim.get("status") or {}).get("allocation") or {}
            for r in (allocation.get("devices") or {}).get("results") or ():
                takers += f"{r['pool']}/{r['device']}" == device and not r.get("adminAccess")
        return takers <= 1

    def _names(self, pod: Object) -> list[str]:
        made = pod["status"].get("resourceClaimStatuses") or ()
        named = pod["spec"].get("resourceClaims") or ()
        found = [s["resourceClaimName"] for s in made]
        return found + [c["resourceClaimName"] for c in named if "resourceClaimName" in c]

    def _check_claim(self, pod: Object, node: str, name: str) -> None:
        try:
            status = self.world.client.get(R.RESOURCE_CLAIM, name, "default").get("status") or {}
        except NotFound:
            raise AssertionError(f"the claim {name} of a placed pod is gone") from None
        results = status["allocation"]["devices"]["results"]
        assert {r["pool"] for r in results} == {node}, (pod["metadata"]["name"], node, results)
        assert pod["metadata"]["uid"] in {u["uid"] for u in status["reservedFor"]}
        if name.startswith("near") or "-near" in name:
            assert len(results) == 2


def live(seed: int) -> None:
    found = Life(seed)
    with found.world:
        found.play()


@pytest.mark.parametrize("seed", [*range(6), 214])
def test_a_random_life(seed: int) -> None:
    live(seed)


if __name__ == "__main__":
    for seed in map(int, sys.argv[1:]):
        live(seed)
