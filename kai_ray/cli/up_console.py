"""The console of `kai up`: on loopback, with the token of the API server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kai_ray.cli.failures import taken

if TYPE_CHECKING:
    from kai_ray.cluster.rest import RestServer
    from kai_ray.report.prices import Prices
    from kai_ray.sim.embedded import EmbeddedCluster


@contextmanager
def shown(
    cluster: EmbeddedCluster,
    server: RestServer,
    name: str,
    port: int = 0,
    state: str | None = None,
    prices: Prices | None = None,
) -> Iterator[str]:
    """The console's address with its token. With a state folder it keeps its port."""
    from kai_ray.cli.up import port_of_last_time
    from kai_ray.cluster.rest.server import ADMINISTRATOR
    from kai_ray.console.server import ConsoleServer
    from kai_ray.manager import consoles

    kept = Path(state) / "console-port" if state else None
    if kept and not port:
        port = port_of_last_time(kept)
    words = "open the address that `kai up` printed, or give the token that stands in it"
    console = consoles.local(
        name,
        cluster.store,
        lambda: (cluster.composition, cluster.runtime),
        ADMINISTRATOR,
        server.token,
        words,
        prices,
    )
    served = ConsoleServer(console, port=port)
    try:
        served.start()
    except OSError as error:
        raise taken(port, error, "--console-port") from error
    if kept:
        kept.write_text(str(served.port))
    try:
        yield address(served.url, server.token)
    finally:
        served.stop()


def address(url: str, token: str) -> str:
    """The token stands behind #, which browsers do not send."""
    return f"{url}#token={token}"
