"""What each page is told, on a cluster where some run and some wait."""

from __future__ import annotations

import pytest

from kai_ray.cluster.clock import VirtualClock

from .conftest import EXAMPLES, World, submit, world_of


@pytest.fixture
def busy(world: World) -> World:
    """`depth` and `flow` hold both nodes, `late` and `small` wait in that order."""
    world.job("depth", "vision", user="ada")
    world.run(5)
    world.job("flow", "robots")
    world.run(5)
    world.job("late", "robots")
    world.run(2)
    world.job("small", "robots", gpus=1)
    world.run(10)
    return world


def test_the_overview_says_who_holds_what_and_who_waits(busy: World) -> None:
    seen = busy.get("/overview")
    assert seen["state"] == {"ok": True, "message": ""}
    assert seen["gpus"] == {
        "total": 16.0,
        "allocated": 16.0,
        "free": 0.0,
        "shared": 0,
        "unhealthy": 0,
        "utilization": None,
        "idle": 0,
    }
    assert seen["problems"] == []
    assert seen["jobs"] == {"total": 4, "byState": {"Running": 2, "Waiting": 2}}
    assert seen["waiting"]["gpus"] == 9
    assert sum(seen["waiting"]["byReason"].values()) == 2
    assert seen["cycle"]["number"] > 0 and seen["cycle"]["steps"]["decide"] > 0


def test_the_tree_of_queues_counts_what_is_below(busy: World) -> None:
    rows = {row["name"]: row for row in busy.get("/queues")["queues"]}
    names = list(rows)
    assert names.index("research") < names.index("robots") < names.index("vision")
    assert (rows["research"]["depth"], rows["research"]["children"]) == (0, 2)
    assert rows["research"]["waitingJobs"] == rows["robots"]["waitingJobs"] == 2
    assert rows["robots"]["gpu"]["allocated"] == rows["robots"]["gpu"]["borrowed"] == 8
    assert rows["robots"]["gpu"]["pending"] == 9
    assert rows["vision"]["gpu"]["fairShare"] == 8


def test_a_queue_tells_its_conditions_and_its_jobs(busy: World) -> None:
    queue = busy.get("/queues/robots")
    assert queue["jobs"] == {"total": 3, "byState": {"Running": 1, "Waiting": 2}}
    assert {c["type"]: c["status"] for c in queue["conditions"]} == {
        "Ready": "True",
        "OverQuota": "True",
    }
    assert busy.send("GET", "/api/v1/queues/nobody").status == 404


def test_every_gpu_is_a_square_of_its_queue(busy: World) -> None:
    seen = busy.get("/nodes")
    colours = {
        node["name"]: {
            (seen["queues"][queue], seen["jobs"][job], used)
            for queue, used, job, _, _, _ in node["cards"]
        }
        for node in seen["nodes"]
    }
    assert sorted(colours.values(), key=str) == [
        {("robots", "default/Job/flow", 1.0)},
        {("vision", "default/Job/depth", 1.0)},
    ]
    assert all(len(node["cards"]) == 8 for node in seen["nodes"])


def test_shares_of_a_card_are_parts_of_one_square(world: World) -> None:
    for name in ("half", "other"):
        world.job(name, "robots", gpus=0)
        job = world.cluster.store.get(_jobs(), name, "default")
        world.cluster.store.delete(_jobs(), name, "default")
        job["metadata"] = {k: job["metadata"][k] for k in ("name", "namespace", "labels")}
        job["spec"]["template"]["metadata"]["annotations"]["gpu-fraction"] = "0.5"
        world.cluster.store.create(_jobs(), {k: job[k] for k in ("metadata", "spec")})
    world.run(30)
    seen = world.get("/nodes")
    (shared,) = [c for node in seen["nodes"] for c in node["cards"] if c[5]]
    queue, used, _, flags, _, parts = shared
    assert (seen["queues"][queue], used, flags & 1) == ("robots", 1.0, 1)
    assert [(part[1], seen["jobs"][part[2]]) for part in parts] == [
        (0.5, "default/Job/half"),
        (0.5, "default/Job/other"),
    ]
    assert world.get("/overview")["gpus"]["shared"] == 1


def _jobs():
    from kai_ray.cluster import resources as R

    return R.JOB


def test_a_node_tells_what_runs_on_it(busy: World) -> None:
    name = busy.get("/nodes")["nodes"][0]["name"]
    node = busy.get(f"/nodes/{name}")
    (pod,) = node["running"]
    assert (pod["gpus"], pod["phase"], node["hidden"]) == (8, "Running", 0)
    assert pod["job"] in ("default/Job/depth", "default/Job/flow")
    assert ("Ready", "True") in [(c["type"], c["status"]) for c in node["conditions"]]


def test_what_gpus_do_is_shown_as_far_as_it_is_known() -> None:
    with world_of("2x8", gpu_use_s=30) as world:
        world.queue("vision")
        world.job("depth", "vision")
        world.run(300)
        node, other = sorted(world.get("/nodes")["nodes"], key=lambda n: -n["allocated"])
        used = [card[4] for card in node["cards"]]
        assert all(part is not None and 0 < part <= 1 for part in used)
        assert [card[4] for card in other["cards"]] == [0.0] * 8
        seen = world.get("/overview")["gpus"]
        assert seen["utilization"] == pytest.approx(sum(used) / 8, abs=1e-3)
        devices = world.get(f"/nodes/{node['name']}")["devices"]
        assert [d["utilization"] for d in devices] == used
        now = world.get("/jobs/default/Job/depth/gpu")["now"]
        assert sorted(d["index"] for d in now) == list(range(8))
        clock = world.cluster.clock
        assert isinstance(clock, VirtualClock)
        clock.advance_to(clock.now() + 3600)
        told = world.get("/overview")["problems"]
        assert len(told) == 1 and told[0].startswith("no GPU data from node")


def test_a_cordoned_node_says_so(busy: World) -> None:
    from kai_ray.cluster import resources as R

    name = busy.get("/nodes")["nodes"][0]["name"]
    busy.cluster.store.patch(R.NODE, name, {"spec": {"unschedulable": True}})
    busy.run(2)
    assert busy.get(f"/nodes/{name}")["state"] == "Ready,Cordoned"
    assert busy.get("/overview")["nodes"]["cordoned"] == 1


def test_a_job_tells_where_its_pods_are_and_what_happened(busy: World) -> None:
    job = busy.get("/jobs/default/Job/depth")
    assert (job["state"], job["gpus"], job["user"]) == ("Running", 8, "ada")
    (gang,) = job["gangs"]
    (member,) = gang["members"]
    assert member["phase"] == "Running" and member["node"].startswith("node-")
    what = [moment["what"] for moment in job["timeline"]]
    assert what[0] in ("created", "grouped") and "started" in what
    assert job["historyFrom"] == "sight"
    assert {"Scheduled"} <= {event["reason"] for event in job["events"]}


def test_a_waiting_job_is_explained_by_the_cycle_that_decided(busy: World) -> None:
    job = busy.get("/jobs/default/Job/late")
    assert (job["state"], job["position"]) == ("Waiting", 1)
    told = busy.get("/jobs/default/Job/late/explain")
    assert told["sentence"].startswith("Job late waits")
    (gang,) = told["gangs"]
    assert (gang["state"], gang["reason"]) == ("Waiting", job["reason"])
    assert gang["queue"]["name"] == "robots" and gang["help"].startswith("kai ")


def test_the_yaml_is_what_the_api_server_holds(busy: World) -> None:
    import yaml

    answer = busy.send("GET", "/api/v1/jobs/default/Job/depth/yaml")
    assert answer.headers["content-type"].startswith("text/plain")
    job, group = yaml.safe_load_all(answer.body)
    assert (job["kind"], job["metadata"]["name"]) == ("Job", "depth")
    assert group["kind"] == "PodGroup" and group["spec"]["queue"] == "vision"


def test_decisions_say_what_was_bound_where(busy: World) -> None:
    seen = busy.get("/decisions")
    bound = {p["job"]: p for cycle in seen["cycles"] for p in cycle["bound"]}
    assert set(bound) == {"depth", "flow"}
    assert (bound["depth"]["queue"], bound["depth"]["gpus"]) == ("vision", 8)
    newest = seen["cycles"][0]["id"]
    older = busy.get(f"/decisions?before={newest}&limit=1")["cycles"]
    assert [cycle["id"] for cycle in older] == [newest - 1]


def test_an_eviction_names_the_rule_and_for_whom(world: World) -> None:
    world.job("borrower", "robots", gpus=8, pods=2)
    world.run(10)
    world.job("owner", "vision", gpus=8)
    world.run(60)
    evicted = [e for c in world.get("/decisions")["cycles"] for e in c["evicted"]]
    assert [(e["job"], e["rule"]) for e in evicted] == [("borrower", "Reclaimed")]
    assert "default/owner" in evicted[0]["forWhom"]
    job = world.get("/jobs/default/Job/borrower")
    assert job["state"] == "Evicted" and job["evicted"]["rule"] == "Reclaimed"
    assert "evicted" in [moment["what"] for moment in job["timeline"]]


def test_the_link_of_a_decision_leads_to_the_job_that_its_user_made(world: World) -> None:
    world.queue("language", quota=16)
    submit(world, EXAMPLES / "workloads" / "trainjob.yaml")
    world.run(30)
    (bound,) = (p for cycle in world.get("/decisions")["cycles"] for p in cycle["bound"])
    assert (bound["kind"], bound["job"]) == ("TrainJob", "finetune")
    job = world.get(f"/jobs/{bound['namespace']}/{bound['kind']}/{bound['job']}")
    assert job["historyFrom"] == "sight"
    assert [m["what"] for m in job["timeline"]][:3] == ["created", "grouped", "started"]


def test_unchanged_answers_are_not_sent_twice(busy: World) -> None:
    for path in ("/overview", "/nodes", "/jobs", "/queues"):
        first = busy.send("GET", f"/api/v1{path}")
        again = busy.send("GET", f"/api/v1{path}", If_None_Match=first.headers["etag"])
        assert (again.status, again.body) == (304, b""), path
    busy.job("new", "vision", gpus=1)
    busy.run(5)
    first = busy.send("GET", "/api/v1/jobs", If_None_Match=first.headers["etag"])
    assert first.status == 200


def test_large_answers_are_packed(busy: World) -> None:
    import gzip
    import json

    answer = busy.send("GET", "/api/v1/queues", Accept_Encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(answer.body))["queues"]


def test_a_device_that_is_set_aside_is_named_where_it_matters(busy: World) -> None:
    from kai_ray.api import labels as L
    from kai_ray.cluster import resources as R

    name = busy.get("/nodes")["nodes"][0]["name"]
    note = {"metadata": {"annotations": {L.UNHEALTHY_DEVICES: "3"}}}
    busy.cluster.store.patch(R.NODE, name, note)
    busy.run(5)
    node = busy.get(f"/nodes/{name}")
    assert [card[3] & 2 for card in node["cards"]] == [0, 0, 0, 2, 0, 0, 0, 0]
    assert "BadDevice" in node["state"]
    assert busy.get("/overview")["gpus"]["unhealthy"] == 1
    (gang,) = busy.get("/jobs/default/Job/late/explain")["gangs"]
    assert gang["set_aside"] and name in gang["set_aside"][0]
