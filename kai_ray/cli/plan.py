"""`kai plan`: which gangs manifests become, without any cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from kai_ray.cli import output
from kai_ray.cli.failures import Failure
from kai_ray.cli.output import output_option
from kai_ray.sdk import manifests

if TYPE_CHECKING:
    from kai_ray.podgrouper.plan import Gang, WorkloadPlan


_FEW = 5


@click.command("plan")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@output_option
def plan(files: tuple[str, ...], output: str) -> None:
    """Show which gangs manifests become: files, folders, or - for standard input.

    All files are read first, so that references between them resolve. A workload that cannot be
    grouped says why; the exit code is 0 unless a file cannot be read or parsed, and the others are
    shown all the same.
    """
    from kai_ray.podgrouper.plan import plan_documents

    documents, faults = manifests.documents(files)
    if documents or not faults or output in ("json", "yaml"):
        show(plan_documents(documents), output)
    if faults:
        raise Failure("\n".join(faults))


def show(plans: Sequence[WorkloadPlan], form: str) -> None:
    from kai_ray.podgrouper import plan_output

    if form in ("json", "yaml"):
        output.print_document(plan_output.as_objects(plans), form)
    elif form == "name":
        for found in plans:
            group = found.api_version.rpartition("/")[0]
            kind = found.kind.lower() + (f".{group}" if group else "")
            click.echo(f"{kind}/{found.name}")
    elif not plans:
        click.echo("No workloads found.", err=True)
    else:
        click.echo(plan_output.to_table(plans))
        for line in _details(plans) if form == "wide" else _notes(plans):
            click.echo(line)


def _notes(plans: Sequence[WorkloadPlan]) -> Iterator[str]:
    """What workloads should know, with all whom it concerns."""
    whom: dict[str, dict[str, None]] = {}
    for found in plans:
        for note in (note for gang in found.gangs for note in gang.notes):
            whom.setdefault(note, {})[f"{found.kind} {found.name}"] = None
    for note, names in whom.items():
        more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
        yield f"\n{', '.join([*names][:_FEW])}{more}: {note}"


def _details(plans: Sequence[WorkloadPlan]) -> Iterator[str]:
    """Subgroups, where queue and priority were found, and notes: what `-o wide` adds."""
    for found in plans:
        for gang in dict.fromkeys(g.name for g in found.gangs):
            yield from _gang(found, next(g for g in found.gangs if g.name == gang))


def _gang(found: WorkloadPlan, gang: Gang) -> Iterator[str]:
    yield f"\n{found.kind} {found.name}: gang {gang.name}"
    for field, source in sorted(gang.sources.items()):
        yield f"  {field} from {source}"
    depth: dict[str, int] = {}
    for sub in gang.sub_groups:
        depth[sub.name] = depth.get(sub.parent or "", -1) + 1
        counted = (
            f"{sub.min_member} pods"
            if sub.min_member is not None
            else f"{sub.min_sub_group} subgroups"
            if sub.min_sub_group is not None
            else "all subgroups"
        )
        yield f"  {'  ' * depth[sub.name]}subgroup {sub.name}: at least {counted}"
    for note in gang.notes:
        yield f"  note: {note}"
