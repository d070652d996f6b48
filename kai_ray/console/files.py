"""The pages: files of `static/`, read once, packed once."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
INDEX = "index.html"
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class File:
    body: bytes
    packed: bytes
    media_type: str
    etag: str


class Files:
    """Looks at a file's time of change at each request, so that editing needs no restart."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._known: dict[str, tuple[float, File]] = {}

    def find(self, path: str) -> File | None:
        """The file of an address; pages have no dot in their last part and are all the index."""
        name = path.lstrip("/")
        if "." not in name.rpartition("/")[2]:
            name = INDEX
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            return None
        file = self._folder.joinpath(*parts)
        try:
            changed = file.stat().st_mtime
            known = self._known.get(name)
            if known is None or known[0] != changed:
                if not file.is_file():
                    return None
                known = self._known[name] = (changed, _file(file))
        except OSError:
            return None
        return known[1]


def _file(path: Path) -> File:
    body = path.read_bytes()
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    etag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    return File(body, gzip.compress(body, 6), kind or "application/octet-stream", etag)
