"""Python for pipelines and notebooks: submit, wait, react. Its public names are those of `kai_ray`.

Below the command line, which uses the same functions. Nothing here is imported before it is used.
"""
