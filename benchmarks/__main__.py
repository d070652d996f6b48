"""`python -m benchmarks NAME [options]`: run one benchmark, print a table or JSON lines.

A benchmark is a module of this package with `OPTIONS` (name -> default), `sizes(options)` and
`run(figures, options)`, and a line in `BENCHMARKS`; or, if it measures other processes than its
own, with `measure(options)` and `table(result)` instead.
"""

from __future__ import annotations

import argparse
import importlib
import json
from typing import Any

from benchmarks.measure import once, repeated

BENCHMARKS = {
    "fill": "benchmarks.fill",
    "cycle-mixed": "benchmarks.cycle_mixed",
    "reclaim-large": "benchmarks.reclaim_large",
    "many-single": "benchmarks.many_single",
    "unschedulable": "benchmarks.unschedulable",
    "topology": "benchmarks.topology",
    "cli_start": "benchmarks.cli_start",
    "e2e": "benchmarks.e2e",
    "caches": "benchmarks.caches",
    "console": "benchmarks.console",
    "import_time": "benchmarks.import_time",
    "history": "benchmarks.history",
    "scrape": "benchmarks.scrape",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = parser.add_subparsers(dest="name", required=True)
    for name, path in BENCHMARKS.items():
        module = importlib.import_module(path)
        sub = names.add_parser(name, help=(module.__doc__ or "").splitlines()[0])
        for option, default in module.OPTIONS.items():
            sub.add_argument(f"--{option}", type=type(default), default=default)
        sub.add_argument("--json", action="store_true", help="one JSON object a line")
        sub.add_argument("--repeats", type=int, default=3, help="fresh processes; median is shown")
        sub.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = vars(parser.parse_args())
    module = importlib.import_module(BENCHMARKS[options["name"]])
    if options["once"]:
        print(once(lambda figures: module.run(figures, options)))
        return
    if hasattr(module, "measure"):
        result = module.measure(options)
        print(json.dumps(result) if options["json"] else module.table(result))
        return
    arguments = [options["name"]]
    for option in module.OPTIONS:
        arguments += [f"--{option}", str(options[option])]
    result = {"benchmark": options["name"], "sizes": module.sizes(options)}
    result |= repeated(arguments, options["repeats"])
    print(json.dumps(result) if options["json"] else _table(result))


def _table(result: dict[str, Any]) -> str:
    sizes = ", ".join(f"{value} {key}" for key, value in result["sizes"].items())
    lines = [f"{result['benchmark']}: {sizes} (median of {result['repeats']})"]
    lines += [f"  {key:<12} {result[key]}" for key in ("cpu_s", "wall_s", "peak_rss_mb")]
    lines += [f"  cpu {key:<8} {value}" for key, value in result["parts"].items()]
    lines += [f"  {key:<12} {value}" for key, value in result["checks"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
