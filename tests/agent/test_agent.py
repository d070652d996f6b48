"""The agent beside a driver: what it tells, whose processes it sees, and what if that fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from kai_ray.agent import cgroups
from kai_ray.agent.health import CONTAINED_XIDS, PROGRAM_XIDS
from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, Forbidden, Gone, Unavailable
from kai_ray.gpu.node_use import read
from kai_ray.gpu.use import STALE_S, GpuUse
from tests.agent.stand_in import CONTAINER, NODE, Machine, device


def test_devices_are_told_with_their_use_memory_cells_and_links(machine: Machine) -> None:
    machine.says(device(0, util=87, used=40_000), device(1), device(2), "link 0 1")
    machine.numa(0, 0)
    machine.numa(1, 1)
    machine.numa(2, -1)
    status = machine.after(machine.agent())
    first, second, third = status["devices"]
    assert status["driver"] == "550.54.15" and status["source"] == "nvml"
    assert (first["uuid"], first["index"], first["model"]) == ("GPU-0", 0, "NVIDIA H100 80GB HBM3")
    assert (first["memoryMiB"], first["usedMiB"], first["powerWatts"]) == (81559, 40000, 512)
    assert first["utilization"] == 0.87 and second["utilization"] == 0.0
    assert (first["numaNode"], second["numaNode"], "numaNode" in third) == (0, 1, False)
    assert (first["links"], second["links"], third["links"]) == ([1], [0], [])
    state = machine.store.get(kinds.GPU_NODE_STATE, NODE)
    owner = state["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Node", NODE), "it goes with its node"


def test_use_is_the_mean_of_what_was_seen_since_the_last_report(machine: Machine) -> None:
    agent = machine.agent()
    machine.says(device(0, util=100))
    machine.after(agent, looks=1)
    agent.look()
    machine.says(device(0, util=0))
    for _ in range(2):
        agent.look()
    machine.now += 30
    machine.says(device(0, util=100))
    agent.turn()
    assert machine.told()["devices"][0]["utilization"] == 0.5


def test_processes_are_told_by_the_pod_and_container_that_they_run_in(machine: Machine) -> None:
    uid = machine.pod("train")
    machine.process(100, machine.cgroup_of(uid))
    machine.process(101, machine.cgroup_of(uid))
    machine.process(200, "0::/system.slice/nv-hostengine.service\n")
    lines = ["proc 0 100 2000 40 -1", "proc 0 101 1000 20 -1", "proc 0 200 50 0 -1"]
    machine.says(device(0, util=60, used=3050), device(1), *lines)
    status = machine.after(machine.agent())
    host, mine = status["devices"][0]["processes"]
    assert mine == {
        "namespace": "default", "pod": "train", "uid": uid, "container": "main",
        "usedMiB": 3000, "utilization": 0.6,
    }  # fmt: skip
    assert host == {"container": "(host)", "usedMiB": 50, "utilization": 0.0}
    assert status["problem"] == ""
    found = read({"metadata": {"name": NODE}, "status": status})
    assert found.mapped and not found.devices[0].strangers


CGROUPS = [
    ("11:devices:/kubepods/besteffort/pod{uid}/" + CONTAINER, True),
    ("0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{under}.slice/crio-" + CONTAINER
     + ".scope", True),
    ("0::/kubepods.slice/kubepods-pod{under}.slice/cri-containerd-" + CONTAINER
     + ".scope/user.slice", True),
    ("13:cpu:/docker/" + "d" * 64 + "/kubelet/kubepods/pod{uid}/" + CONTAINER, True),
    ("0::/../../kubepods-burstable-pod{under}.slice/cri-containerd-" + CONTAINER + ".scope", True),
    ("0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{under}.slice", False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "contained"), CGROUPS)
def test_cgroups_of_every_layout(text: str, contained: bool) -> None:
    uid = "12345678-9abc-def0-1234-56789abcdef0"
    found = cgroups.read(text.format(uid=uid, under=uid.replace("-", "_")) + "\n")
    assert found == cgroups.Place(uid, CONTAINER if contained else "")


@pytest.mark.parametrize(
    "text", ["", "0::/", "0::/user.slice/user-1000.slice\n", "0::/podman/" + "a" * 64, "\x00\xff"]
)
def test_what_is_in_no_pod(text: str) -> None:
    assert cgroups.read(text).uid == ""


def test_a_pod_that_a_kubelet_has_from_a_file(machine: Machine) -> None:
    assert cgroups.read(f"0::/kubepods/pod{'a' * 32}/{CONTAINER}").uid == "a" * 32


def test_without_the_nodes_processes_it_says_so_and_claims_nothing(machine: Machine) -> None:
    machine.pod("train", devices=None)
    machine.says(device(0, util=60), "proc 0 100 2000 40 -1")
    agent = machine.agent()
    assert machine.after(agent)["problem"] == "", "a process may just have ended"
    status = machine.after(agent)
    assert "hostPID" in status["problem"]
    found = read({"metadata": {"name": NODE}, "status": status})
    assert not found.mapped and found.devices[0].strangers


def test_who_was_given_a_device_is_read_from_pods_or_from_the_kubelets_file(
    machine: Machine,
) -> None:
    agent = machine.agent(checkpoint=machine.checkpoint)
    uid = machine.pod("told", devices=["GPU-0"])
    assert [d["pods"] for d in machine.after(agent)["devices"]] == [[uid], []]
    other = machine.pod("untold", devices=None)
    assert all("pods" not in d for d in machine.after(agent)["devices"]), "one does not say"
    machine.kubelet_gave({uid: ["GPU-0"], other: ["GPU-1::0"], "gone": ["GPU-1"]})
    assert [d["pods"] for d in machine.after(agent)["devices"]] == [[uid], [other]]
    machine.checkpoint.write_text("{")
    assert all("pods" not in d for d in machine.after(agent)["devices"])


def test_parts_of_a_partitioned_card(machine: Machine) -> None:
    uid = machine.pod("small", devices=["MIG-x"])
    machine.process(100, machine.cgroup_of(uid))
    machine.says(
        device(0, mig=1),
        "part 0 1 MIG-x 9856 2000 1g.10gb",
        "part 0 2 MIG-y 9856 0 1g.10gb",
        "proc 0 100 2000 0 1",
    )
    found = machine.after(machine.agent())["devices"][0]
    assert "utilization" not in found and found["processes"] == []
    first, second = found["migInstances"]
    assert (first["uuid"], first["profile"], first["memoryMiB"]) == ("MIG-x", "1g.10gb", 9856)
    assert first["processes"][0]["pod"] == "small" and "utilization" not in first["processes"][0]
    assert second.get("processes", []) == []
    assert found["pods"] == [uid]


@pytest.mark.parametrize(
    ("name", "pods"), [("1", [[], ["uid"]]), ("GPU-1", [[], ["uid"]]), ("gpu-of-slot-7", None)]
)
def test_devices_may_be_named_by_number_and_other_names_tell_nothing(
    machine: Machine, name: str, pods: list[list[str]] | None
) -> None:
    uid = machine.pod("train", devices=[name])
    told = [d.get("pods") for d in machine.after(machine.agent())["devices"]]
    assert told == ([None, None] if pods is None else [[uid] if p else [] for p in pods])


def test_what_runs_unnamed_where_nobody_was_given_anything_leaves_all_unknown(
    machine: Machine,
) -> None:
    """A pod that is given a card and another that nobody knows: neither is called idle."""
    uid = machine.pod("train", devices=["GPU-0"])
    machine.says(device(0, util=60), device(1, util=60), "proc 1 100 2000 40 -1")
    agent = machine.agent()
    machine.after(agent)
    machine.after(agent)
    state = machine.store.get(kinds.GPU_NODE_STATE, NODE)
    assert not read(state).mapped
    pods = {p["metadata"]["uid"]: p for p in machine.store.list(kinds.POD).items}
    assert GpuUse.of([state]).of_pod(pods[uid], machine.now).utilization == 0.6
    bare = machine.store.create(
        kinds.POD,
        {
            "metadata": {"name": "other", "namespace": "default"},
            "spec": {
                "nodeName": NODE,
                "containers": [
                    {"name": "c", "image": "x", "resources": {"limits": {L.NVIDIA_GPU: 1}}}
                ],
            },
        },
    )
    assert GpuUse.of([state]).of_pod(bare, machine.now).utilization is None


@pytest.mark.parametrize("code", [4, 999])  # no permission; an error
def test_processes_that_cannot_be_seen_are_not_taken_for_none(machine: Machine, code: int) -> None:
    uid = machine.pod("small", devices=["MIG-x"])
    whole = machine.pod("whole", devices=["GPU-1"])
    machine.says(
        device(0, mig=1),
        device(1, util=30),
        "part 0 1 MIG-x 9856 0 1g.10gb",
        f"odd nvmlDeviceGetComputeRunningProcesses_v3 {code}",
    )
    status = machine.after(machine.agent())
    assert all("processes" not in d for d in status["devices"])
    use = GpuUse.of([machine.store.get(kinds.GPU_NODE_STATE, NODE)])
    pods = {p["metadata"]["uid"]: p for p in machine.store.list(kinds.POD).items}
    assert use.of_pod(pods[uid], machine.now).utilization is None
    found = use.of_pod(pods[whole], machine.now)
    assert found.utilization == 0.3, "the device has but one pod"


# ---------------------------------------------------------------------- health


@pytest.mark.parametrize(
    ("line", "healthy", "words"),
    [
        ("xid 0 79", False, "XID 79: it has fallen off the bus"),
        ("xid 0 48", False, "XID 48"),
        ("xid 0 999", False, "XID 999"),
        ("xid 0 31", True, ""),
        ("xid 0 94", True, ""),
        ("ecc 0 3", False, "3 uncorrected errors"),
        ("rows 0 0 0", True, ""),
        ("rows 0 1 0", True, "at the next reset"),
        ("rows 0 0 1", False, "has to be exchanged"),
        ("odd nvmlDeviceGetComputeRunningProcesses_v3 999", True, "not all of it could be read"),
        ("odd nvmlDeviceGetPowerUsage 999", True, ""),
    ],
)
def test_what_is_wrong_with_a_device(
    machine: Machine, line: str, healthy: bool, words: str
) -> None:
    machine.says(device(0), device(1), line)
    first, second = machine.after(machine.agent())["devices"]
    assert first["healthy"] is healthy and words in first["problem"]
    assert second["healthy"], "the other one is well"


def test_errors_of_programs_are_nobodys_hardware() -> None:
    assert not {48, 64, 74, 79, 95} & (PROGRAM_XIDS | CONTAINED_XIDS)
    assert {13, 31, 43, 45, 68, 109} <= PROGRAM_XIDS


def test_a_device_that_falls_off_the_bus_in_the_middle_is_told_and_the_others_go_on(
    machine: Machine,
) -> None:
    agent = machine.agent()
    machine.says(device(0, util=50), device(1, util=50))
    machine.after(agent)
    machine.says(device(0, util=50, lost=1), device(1, util=50))
    first, second = machine.after(agent)["devices"]
    assert not first["healthy"] and "does not answer" in first["problem"]
    assert first["uuid"] == "GPU-0" and "utilization" not in first
    assert second["healthy"] and second["utilization"] == 0.5


def test_a_device_that_is_lost_from_the_start_has_a_name_all_the_same(machine: Machine) -> None:
    machine.says(device(0, lost=1), device(1))
    first, second = machine.after(machine.agent())["devices"]
    assert (first["uuid"], first["healthy"]) == ("GPU-of-index-0", False)
    assert second["healthy"]


def test_a_driver_that_stops_and_comes_back(machine: Machine) -> None:
    agent = machine.agent()
    machine.says(device(0, util=50), device(1))
    machine.after(agent)
    machine.says(driver="")
    status = machine.after(agent)
    assert status["devices"] == [] and "the NVIDIA driver is not loaded" in status["problem"]
    machine.says(device(0, util=50))  # and one device fewer
    machine.after(agent)
    status = machine.after(agent)
    assert status["problem"] == "" and status["devices"][0]["healthy"]
    gone = status["devices"][1]
    assert (gone["uuid"], gone["healthy"]) == ("GPU-1", False) and "not there" in gone["problem"]


@pytest.mark.parametrize(
    ("lines", "driver", "words"),
    [
        ([], "550", "knows no GPU"),
        ([], "", "the NVIDIA driver is not loaded"),
        (["init 18"], "550", "the NVIDIA driver says"),
        (["error 1"], "550", "the NVIDIA driver says"),
    ],
)
def test_a_node_without_a_gpu_or_driver_says_so(
    machine: Machine, lines: list[str], driver: str, words: str
) -> None:
    machine.says(*lines, driver=driver)
    status = machine.after(machine.agent())
    assert status["devices"] == [] and words in status["problem"]


def test_a_driver_that_never_answers_is_said_not_to_answer(machine: Machine) -> None:
    machine.says(device(0), "slow 2")
    agent = machine.agent(hangs_s=0.2, look_s=0.1, period_s=0.2)
    agent._now = time.time
    stop = threading.Event()
    running = threading.Thread(target=agent.run, args=(stop,))
    running.start()
    try:
        _until(lambda: "does not answer since" in machine.told()["problem"])
    finally:
        machine.says(device(0))
        stop.set()
        running.join(10)
    assert not running.is_alive()


def test_an_api_server_that_is_away_stops_nothing(machine: Machine, monkeypatch) -> None:
    agent = machine.agent()
    machine.after(agent)

    def away(*args: object, **more: object) -> None:
        raise Unavailable("connection refused")

    with monkeypatch.context() as broken:
        for name in ("patch", "create", "list", "get"):
            broken.setattr(machine.store, name, away)
        machine.says(device(0, util=30), device(1))
        agent._pods._end("")
        for _ in range(3):
            machine.now += 30
            agent.turn()
    assert machine.after(agent)["devices"][0]["utilization"] == 0.3


def test_news_of_pods_that_are_lost_are_read_anew(machine: Machine, monkeypatch) -> None:
    agent = machine.agent()
    first = machine.pod("first", devices=["GPU-0"])
    assert machine.after(agent)["devices"][0]["pods"] == [first]

    def gone(timeout_s: float = 0.0) -> None:
        raise Gone("too old")

    monkeypatch.setattr(agent._pods._watch, "next", gone)
    machine.store.delete(kinds.POD, "first", "default", grace_s=0)
    second = machine.pod("second", devices=["GPU-0"])
    assert machine.after(agent)["devices"][0]["pods"] == [second]
    machine.store.delete(kinds.POD, "second", "default", grace_s=0)
    assert machine.after(agent)["devices"][0]["pods"] == [], "and the new watch goes on"


def test_an_agent_that_may_not_read_pods_says_so(machine: Machine, monkeypatch) -> None:
    def refused(*args: object, **more: object) -> None:
        raise Forbidden("pods is forbidden")

    monkeypatch.setattr(machine.store, "list", refused)
    machine.says(device(0, util=30), "proc 0 100 2000 40 -1")
    machine.process(100, machine.cgroup_of("12345678-9abc-def0-1234-56789abcdef0"))
    status = machine.after(machine.agent())
    assert "pods of this node cannot be read: pods is forbidden" in status["problem"]
    (running,) = status["devices"][0]["processes"]
    assert running["uid"].startswith("12345678") and not running.get("pod")


def test_a_quiet_node_is_told_of_every_two_minutes(machine: Machine) -> None:
    agent = machine.agent()
    versions = set()
    for _ in range(20):
        machine.after(agent)
        versions.add(machine.store.get(kinds.GPU_NODE_STATE, NODE)["metadata"]["resourceVersion"])
    assert 5 <= len(versions) <= 6
    assert STALE_S > 2 * 120


def test_an_object_that_somebody_deleted_is_made_again(machine: Machine) -> None:
    agent = machine.agent()
    machine.after(agent)
    machine.store.delete(kinds.GPU_NODE_STATE, NODE)
    machine.says(device(0, util=30), device(1))
    assert machine.after(agent)["devices"][0]["utilization"] == 0.3


def test_a_part_of_a_card_is_known_by_our_own_annotation(machine: Machine) -> None:
    uid = machine.pod("half", gpus=0)
    patch = {
        "metadata": {
            "labels": {L.GPU_GROUP: "g"},
            "annotations": {L.GPU_DEVICES: "GPU-1", L.GPU_FRACTION: "0.5"},
        }
    }
    machine.store.patch(kinds.POD, "half", patch, "default")
    assert [d["pods"] for d in machine.after(machine.agent())["devices"]] == [[], [uid]]


# ---------------------------------------------------------------------- the program


def _until(done, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            if done():
                return
        except ApiError:
            pass
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


def _kai(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from kai_ray.cli import main; main()", "agent", *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )


def test_once_shows_what_it_sees_to_whoever_stands_at_the_machine(machine: Machine) -> None:
    machine.says(device(0, util=40))
    done = _kai("--once", KAI_NVML_LIBRARY=os.environ["KAI_NVML_LIBRARY"])
    assert done.returncode == 0, done.stderr
    assert '"utilization": 0.4' in done.stdout


def test_a_library_that_is_none_is_named(tmp_path) -> None:
    wrong = tmp_path / "wrong.so"
    wrong.write_text("not a library")
    done = _kai("--once", KAI_NVML_LIBRARY=str(wrong))
    assert done.returncode == 0 and "cannot be loaded" in done.stdout


def test_a_node_without_a_name_is_asked_for_one() -> None:
    done = _kai(NODE_NAME="")
    assert done.returncode == 2 and "--node NAME" in done.stderr


def test_it_costs_less_than_a_hundredth_of_a_core(machine: Machine) -> None:
    """Eight devices with eight processes each, at the pace of the DaemonSet."""
    lines = [device(i, util=50) for i in range(8)]
    uid = machine.pod("train")
    for pid in range(100, 164):
        machine.process(pid, machine.cgroup_of(uid))
        lines.append(f"proc {pid % 8} {pid} 100 10 -1")
    machine.says(*lines)
    agent = machine.agent()
    agent.turn()
    before = time.process_time()
    periods = 10
    for _ in range(periods):
        machine.after(agent, looks=3)
    seconds = (time.process_time() - before) / periods
    assert seconds < 0.01 * 30, f"{seconds * 1000:.1f} ms of CPU in 30 s"
