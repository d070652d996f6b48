"""Trains a small network on CPU; told that it has to go, it saves, says so, and goes on later.

Three things make it give way without loss:

1. It reads its notice: a file that Kubernetes keeps in step with the pod's annotation
   `kai.scheduler/eviction-notice` (a Downward API volume), or SIGTERM.
2. It saves, and writes when it did so to its own pod: annotation `kai.scheduler/checkpoint-time`.
   From then on nobody waits for its deadline. Without the right to do that it is evicted then.
3. It begins where its last checkpoint ends.

    python train.py          # settings by environment, see below
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import ssl
import sys
import time
import urllib.request
from pathlib import Path
from types import FrameType

import torch

CHECKPOINT = Path(os.environ.get("CHECKPOINT_DIR", "/checkpoints")) / "last.pt"
NOTICE = Path(os.environ.get("NOTICE_FILE", "/etc/podinfo/eviction-notice"))
ACCOUNT = Path(
    os.environ.get("SERVICE_ACCOUNT_DIR", "/var/run/secrets/kubernetes.io/serviceaccount")
)
STEPS = int(os.environ.get("STEPS", "100000"))
EVERY = int(os.environ.get("CHECKPOINT_EVERY", "500"))  # steps between two checkpoints
STEP_S = float(os.environ.get("STEP_SECONDS", "0"))  # slows it down, to be looked at

told_to_end = False


def on_signal(number: int, frame: FrameType | None) -> None:
    global told_to_end
    told_to_end = True


def notice() -> str:
    """What the scheduler told this pod; "" if it may stay."""
    try:
        return NOTICE.read_text().strip()
    except OSError:
        return ""


def save(step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """All or nothing: a reader never sees half a checkpoint."""
    CHECKPOINT.parent.mkdir(parents=True, exist_ok=True)
    half = CHECKPOINT.with_suffix(".half")
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, half)
    half.replace(CHECKPOINT)
    print(f"saved step {step}", flush=True)


def load(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The first step that is still to be done."""
    if not CHECKPOINT.exists():
        return 0
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def acknowledge() -> None:
    """Says on this pod that its work is saved. It may go at once then."""
    host, pod = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("POD_NAME")
    if not host or not pod or not (ACCOUNT / "token").exists():
        print("not allowed to say so: staying until the deadline", flush=True)
        return
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017
    body = {"metadata": {"annotations": {"kai.scheduler/checkpoint-time": now}}}
    space = os.environ.get("POD_NAMESPACE", "default")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    request = urllib.request.Request(
        f"https://{host}:{port}/api/v1/namespaces/{space}/pods/{pod}",
        data=json.dumps(body).encode(),
        method="PATCH",
        headers={
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text().strip()}",
            "Content-Type": "application/merge-patch+json",
        },
    )
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
    )
    direct.open(request, timeout=10).close()
    print("acknowledged", flush=True)


def train() -> int:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    target = torch.arange(8, dtype=torch.float32)
    first = load(model, optimizer)
    print(f"begins at step {first}", flush=True)
    for step in range(first, STEPS):
        batch = torch.randn(32, 8, generator=torch.Generator().manual_seed(step))
        loss = (model(batch).squeeze(1) - batch @ target).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done = step + 1
        print(f"step {done} loss {loss.item():.4f}", flush=True)
        time.sleep(STEP_S)
        if told_to_end:
            save(done, model, optimizer)
            return 143  # not 0: it has been stopped, not finished
        if notice():
            save(done, model, optimizer)
            acknowledge()
            while notice() and not told_to_end:  # what is done from here on would be lost
                time.sleep(0.1)
            if told_to_end:
                return 143
            print("it may stay after all", flush=True)
        elif done % EVERY == 0:
            save(done, model, optimizer)
    save(STEPS, model, optimizer)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, on_signal)
    sys.exit(train())
