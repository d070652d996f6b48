"""From workloads that users write to gangs: rules per kind, a controller, an index, `kai plan`.

`controller.Podgrouper(settings, say=…)` is the controller; its `member_of(pod)` is what admission
and the encoder ask. `plan.plan_files(paths)` needs no cluster. `registry.RULES`: a line per kind.
"""
