"""A registry with one image, as far as `docker pull` asks for it.

python registry.py PORT FOLDER    FOLDER holds an unpacked `docker save`
"""

from __future__ import annotations

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TYPES = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def content(folder: Path) -> tuple[bytes, dict[str, bytes]]:
    """The manifest, and what it names: digest → bytes."""
    saved = json.loads((folder / "manifest.json").read_text())[0]
    blobs: dict[str, bytes] = {}

    def entry(kind: str, name: str) -> dict[str, object]:
        data = (folder / name).read_bytes()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        blobs[digest] = data
        return {"mediaType": kind, "size": len(data), "digest": digest}

    manifest = {
        "schemaVersion": 2,
        "mediaType": TYPES,
        "config": entry(CONFIG, saved["Config"]),
        "layers": [entry(LAYER, name) for name in saved["Layers"]],
    }
    return json.dumps(manifest).encode(), blobs


def serve(port: int, folder: Path) -> None:
    manifest, blobs = content(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            what = self.path.rsplit("/", 1)[-1]
            data, kind = (
                (manifest, TYPES) if "/manifests/" in self.path else (blobs.get(what, b"{}"), "application/json")
            )
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(data).hexdigest()}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
