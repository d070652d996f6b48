"""A real Prometheus beside a test: it scrapes an address, and answers PromQL."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.parts import debian
from tests.real.programs import Program, Programs

EVERY_S = 1
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Sample:
    """One series of an answer."""

    labels: dict[str, str]
    value: float


class Refused(AssertionError):
    """Prometheus could not make sense of a query; its own words."""


class Prometheus:
    """Scrapes `targets` (host:port) once a second until `stop`."""

    def __init__(self, folder: Path, *targets: str) -> None:
        program = debian.need(debian.PROMETHEUS)
        folder.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        config = folder / "prometheus.yml"
        config.write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": f"{EVERY_S}s", "scrape_timeout": f"{EVERY_S}s"},
                    "scrape_configs": [
                        {"job_name": "kai", "static_configs": [{"targets": list(targets)}]}
                    ],
                }
            )
        )
        self._programs = Programs(folder / "logs")
        self.program: Program = self._programs.start(
            [
                str(program),
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.address}",
                "--log.level=warn",
            ]
        )
        self.program.wait_until(self._ready)

    def stop(self) -> None:
        self._programs.stop()

    def __enter__(self) -> Prometheus:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def ask(self, query: str) -> list[Sample]:
        """What an instant query answers now. Raises Refused.

        A busy machine may miss a scrape, after which nothing is known until the next: that is
        waited for.
        """
        end = time.monotonic() + PATIENCE_S
        found = self._ask(query)
        while not found and time.monotonic() < end and self._ask("up == 0"):
            time.sleep(0.2)
            found = self._ask(query)
        return found

    def _ask(self, query: str) -> list[Sample]:
        data = self._get("/api/v1/query", {"query": query})
        if data["resultType"] == "scalar":
            return [Sample({}, float(data["result"][1]))]
        return [Sample(row["metric"], float(row["value"][1])) for row in data["result"]]

    def value(self, query: str) -> float | None:
        """The value of the only series of an answer; None where there is none."""
        found = self.ask(query)
        assert len(found) <= 1, f"{query}: {len(found)} series"
        return found[0].value if found else None

    def until(self, query: str, right: Callable[[float], bool]) -> float:
        """The value of a query once it is right."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = self.value(query)
            if found is not None and right(found):
                return found
            time.sleep(0.2)
        raise AssertionError(f"{query} is {self.value(query)}")

    def series(self, matcher: str) -> set[str]:
        """Names of the metrics that it has, of series that match."""
        return {sample.labels["__name__"] for sample in self.ask(matcher)}

    def types(self) -> dict[str, str]:
        """Metric -> its type, as the page said it."""
        found = self._get("/api/v1/metadata", {})
        return {name: entries[0]["type"] for name, entries in found.items()}

    def problem(self) -> str:
        """Why the last scrape failed; "" where it did not."""
        targets = self._get("/api/v1/targets", {})["activeTargets"]
        return next((t["lastError"] for t in targets if t["lastError"]), "")

    def _get(self, path: str, query: dict[str, str]) -> Any:
        url = f"http://{self.address}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Refused(f"{query}: {json.load(error).get('error')}") from error

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False
