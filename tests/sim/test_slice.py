import yaml

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.shared import shared_dir
from tests.sim.first_fit import FirstFit


def test_rayjob():
    c = EmbeddedCluster(
        ClusterConfig.short("4x8"), VirtualClock(), scheduling=False, extra=[FirstFit()]
    )
    c.store.create(R.NAMESPACE, {"metadata": {"name": "team-a"}})
    for doc in yaml.safe_load_all((shared_dir() / "realparts/yaml/rayjob.yaml").read_text()):
        c.client.create(R.RAY_JOB, doc)

    def done():
        j = c.client.get(R.RAY_JOB, "rj", "team-a")
        return (j.get("status") or {}).get("jobDeploymentStatus") == "Complete"

    ok = c.run_until(done, 600)
    print(yaml.safe_dump(c.client.get(R.RAY_JOB, "rj", "team-a")["status"]))
    for p in c.client.list(R.POD).items:
        print(p["metadata"]["name"], p["status"]["phase"], p["spec"].get("nodeName"))
    assert ok and not c.kubelet.refused
    assert c.runtime.errors == 0
