"""The types of a CustomResourceDefinition on the wire."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class Props(Struct, gc=False):
    """One node of a structural schema."""

    type: str = ""
    format: str | None = None
    properties: dict[str, Props] | None = None
    items: Props | None = None
    additional: Props | bool | None = field(default=None, name="additionalProperties")
    required: list[str] | None = None
    enum: list[Any] | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    multiple_of: float | None = field(default=None, name="multipleOf")
    min_length: int | None = field(default=None, name="minLength")
    max_length: int | None = field(default=None, name="maxLength")
    min_items: int | None = field(default=None, name="minItems")
    max_items: int | None = field(default=None, name="maxItems")
    min_properties: int | None = field(default=None, name="minProperties")
    max_properties: int | None = field(default=None, name="maxProperties")
    all_of: list[Props] | None = field(default=None, name="allOf")
    any_of: list[Props] | None = field(default=None, name="anyOf")
    one_of: list[Props] | None = field(default=None, name="oneOf")
    none_of: Props | None = field(default=None, name="not")
    list_type: str | None = field(default=None, name="x-kubernetes-list-type")
    list_keys: list[str] | None = field(default=None, name="x-kubernetes-list-map-keys")
    map_type: str | None = field(default=None, name="x-kubernetes-map-type")
    rules: list[Rule] | None = field(default=None, name="x-kubernetes-validations")


class Rule(Struct, rename="camel", gc=False):
    rule: str
    message: str | None = None
    message_expression: str | None = None
    field_path: str | None = None
    reason: str | None = None
    optional_old_self: bool | None = None


class Validation(Struct, gc=False):
    openapi: Props | None = field(default=None, name="openAPIV3Schema")


class Scale(Struct, rename="camel", gc=False):
    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str | None = None


class Subresources(Struct, rename="camel", gc=False):
    status: dict[str, Any] | None = None
    scale: Scale | None = None


class Column(Struct, rename="camel", gc=False):
    name: str
    type: str
    json_path: str
    priority: int = 0


class Selectable(Struct, rename="camel", gc=False):
    json_path: str


class Version(Struct, rename="camel", gc=False):
    name: str
    served: bool = False
    storage: bool = False
    schema: Validation | None = None
    subresources: Subresources | None = None
    additional_printer_columns: list[Column] | None = None
    selectable_fields: list[Selectable] | None = None


class Names(Struct, rename="camel", gc=False):
    plural: str = ""
    kind: str = ""
    singular: str = ""
    list_kind: str = ""
    short_names: list[str] | None = None
    categories: list[str] | None = None


class DefinitionSpec(Struct, rename="camel", gc=False):
    group: str = ""
    scope: str = ""
    names: Names | None = None
    versions: list[Version] | None = None
