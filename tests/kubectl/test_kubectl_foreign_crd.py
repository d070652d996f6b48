"""A CRD that the project knows nothing of, and objects of it."""

from __future__ import annotations

from .conftest import Kubectl

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: boats.sea.example.com
spec:
  group: sea.example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bt], categories: [fleet]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.masts, statusReplicasPath: .status.up}
    additionalPrinterColumns:
    - {name: Sails, type: integer, jsonPath: .spec.sails}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Launched, type: date, jsonPath: .spec.launched}
    - {name: Crew, type: string, jsonPath: '.spec.crew[*]', priority: 1}
    schema:
      openAPIV3Schema:
        description: A thing that floats.
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [sails]
            x-kubernetes-validations:
            - {rule: "self.sails >= self.masts", message: every mast needs a sail}
            properties:
              sails: {type: integer, minimum: 1, maximum: 50, description: How many sails.}
              masts: {type: integer, default: 1}
              color: {type: string, enum: [red, blue], default: blue}
              launched: {type: string, format: date-time}
              crew: {type: array, items: {type: string}}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
"""


def boat(name: str, **spec) -> dict:
    return {
        "apiVersion": "sea.example.com/v1",
        "kind": "Boat",
        "metadata": {"name": name},
        "spec": {"sails": 3} | spec,
    }


def test_a_foreign_crd_is_served_as_its_own(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=CRD)
    kubectl("wait", "--for", "condition=Established", "crd/boats.sea.example.com", "--timeout=20s")
    kubectl("apply", "-f", "-", stdin=boat("b", launched="2020-01-01T00:00:00Z", crew=["x", "y"]))
    assert kubectl("apply", "-f", "-", stdin=boat("b")) == "boat.sea.example.com/b configured\n"

    kubectl(
        "patch", "boat", "b", "--type=merge", "-p", '{"spec":{"launched":"2020-01-01T00:00:00Z"}}'
    )
    status = '{"status":{"conditions":[{"type":"Ready","status":"True"}],"up":1}}'
    kubectl("patch", "boat", "b", "--subresource=status", "--type=merge", "-p", status)
    head, row = kubectl("get", "boats").splitlines()
    assert head.split() == ["NAME", "SAILS", "READY", "LAUNCHED"]
    assert row.split()[:3] == ["b", "3", "True"]
    assert row.split()[3].startswith(("6y", "7y", "8y", "5y")), "a date is shown as an age"
    assert "CREW" in kubectl("get", "bt", "-o", "wide")
    assert kubectl("get", "fleet", "-o", "name") == "boat.sea.example.com/b\n"
    assert kubectl.json("get", "boat", "b")["spec"]["color"] == "blue", "defaults are filled in"

    assert "How many sails." in kubectl("explain", "boat.spec.sails")
    assert "Sails:" in kubectl("describe", "boat", "b")
    kubectl("scale", "boat", "b", "--replicas=2")
    assert kubectl.json("get", "boat", "b")["spec"]["masts"] == 2

    said = kubectl("apply", "-f", "-", stdin=boat("c", sails=0, color="pink"), ok=False)
    assert "spec.sails" in said and "spec.color" in said
    said = kubectl("apply", "-f", "-", stdin=boat("c", masts=9), ok=False)
    assert "every mast needs a sail" in said
    said = kubectl("apply", "-f", "-", stdin=boat("c", keel=1), ok=False)
    assert 'unknown field "spec.keel"' in said

    kubectl("delete", "crd", "boats.sea.example.com", "--timeout=30s")
    assert "could not find the requested resource" in kubectl("get", "boats", ok=False)
