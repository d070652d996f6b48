"""Kubernetes' protobuf, read only: Go's typed clients send built-in kinds in it and know no other.

Answers are JSON, which the same clients accept.
"""

from .decode import MEDIA_TYPE, decode

__all__ = ["MEDIA_TYPE", "decode"]
