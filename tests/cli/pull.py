#!/usr/bin/env python3
"""makar pull against a hub on loopback: files, resuming, checksums, tokens, redirects, hostile answers, no network.

usage: pull.py MAKAR
"""
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "serve"))
from serving import PATIENCE, check, failures, make_model  # noqa: E402

MAKAR = sys.argv[1]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.ThreadingHTTPServer):
    """Repositories of files in memory; large files are redirected to a second address, as on the real hub."""
    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.requests, self.corrupted, self.truncate_at, self.token, self.listing = files, [], set(), {}, None, None
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.cdn = None
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", **headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        hub = self.server
        path = self.path.split("?")[0]
        hub.requests.append((path, self.headers.get("Range"), self.headers.get("Authorization")))
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.send(401)
        if path == "/api/models/someone/tiny/revision/main":
            siblings = hub.listing or [dict(rfilename=n, size=len(d), **({"lfs": {"sha256": hashlib.sha256(d).hexdigest()}}
                                       if len(d) > 10000 else {"blobId": git_sha1(d)})) for n, d in hub.files.items()]
            return self.send(200, json.dumps({"sha": COMMIT, "siblings": siblings}).encode())
        name = path.removeprefix(f"/someone/tiny/resolve/{COMMIT}/").removeprefix("/files/")
        if name == path or name not in hub.files:
            return self.send(404)
        data = hub.files[name]
        if hub.cdn and len(data) > 10000:
            return self.send(302, Location=f"{hub.cdn.url}/files/{name}")
        if name in hub.corrupted:
            data = bytes([data[0] ^ 1]) + data[1:]
        begin = int(self.headers["Range"][6:-1]) if self.headers.get("Range") else 0
        if begin >= len(data) and begin:
            return self.send(416)
        end = hub.truncate_at.pop(name, None)
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        self.wfile.write(data[begin:end])
        if end:
            self.close_connection = True
            self.connection.close()


def pull(root, hub, *arguments, **environment):
    environment = dict(os.environ, MAKAR_MODELS=str(root), HF_ENDPOINT=hub if isinstance(hub, str) else hub.url,
                       no_proxy="127.0.0.1", **environment)
    done = subprocess.run([MAKAR, *arguments], capture_output=True, text=True, timeout=120 * PATIENCE, env=environment)
    return done.returncode, done.stdout, done.stderr


def model_files(root):
    model = make_model(root / "made")
    files = {p.name: p.read_bytes() for p in model.iterdir()}
    files.update({"README.md": b"# tiny", "pytorch_model.bin": b"no", "onnx/model.onnx": b"no",
                  "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}'})
    return files


def check_model(root, hub, files):
    store = root / "store"
    hub.truncate_at["model.safetensors"] = 5000
    code, out, err = pull(store, hub, "pull", "someone/tiny")
    check(code == 0, f"pull: {err}")
    folder = store / "someone/tiny"
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    check(names == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "1_Pooling/config.json"},
          f"the files that a model needs: {names}")
    check(all((folder / n).read_bytes() == files[n] for n in names), "the files are unchanged")
    ranges = [r for p, r, _ in hub.requests if p.endswith("model.safetensors") and r]
    check(ranges == ["bytes=5000-"], f"a broken connection is resumed: {ranges}")
    before = len(hub.requests)
    code, out, _ = pull(store, hub, "pull", "someone/tiny")
    check(code == 0 and "0 files downloaded, 5 already there" in out and len(hub.requests) == before + 1, f"again: {out}")
    code, out, err = pull(store, hub, "list")
    check(code == 0 and "someone/tiny" in out and "LlamaForCausalLM" in out, f"list: {out} {err}")
    code, out, err = pull(store, hub, "generate", "-m", "someone/tiny", "hello", "-n", "3")
    check(code == 0 and out.strip() != "", f"a model by its name: {err}")
    (folder / "config.json").write_text("{}")
    code, out, _ = pull(store, hub, "pull", "someone/tiny@main")
    check(code == 0 and "1 file downloaded" in out and (folder / "config.json").read_bytes() == files["config.json"],
          f"a changed file is downloaded again: {out}")
    # A partial file of an interrupted run.
    (folder / "model.safetensors").rename(folder / "model.safetensors.part")
    with open(folder / "model.safetensors.part", "r+b") as f:
        f.truncate(7000)
    code, _, err = pull(store, hub, "pull", "someone/tiny", "--quiet")
    check(code == 0 and hub.requests[-1][1] == "bytes=7000-" and err == "", f"the next call resumes: {hub.requests[-1]} {err}")
    code, out, err = pull(store, hub, "pull", f"{hub.url}/someone/tiny/resolve/main/config.json", "-o", str(root / "one"))
    check(code == 0 and (root / "one/config.json").read_bytes() == files["config.json"], f"one file by its URL: {out} {err}")
    code, out, err = pull(store, hub, "pull", f"{hub.url}/a/b/c/files/config.json", "-o", str(root / "two"))
    check(code == 1 and "404" in err, f"a URL that leads nowhere: {err}")


def check_redirects(root, hub, files):
    hub.cdn, hub.token = Hub(files), "secret"
    code, _, err = pull(root / "private", hub, "pull", "someone/tiny")
    check(code == 1 and "HF_TOKEN" in err, f"a private model: {err}")
    hub.requests.clear()
    code, _, err = pull(root / "private", hub, "pull", "someone/tiny", HF_TOKEN="secret")
    check(code == 0 and (root / "private/someone/tiny/model.safetensors").read_bytes() == files["model.safetensors"], f"with a token: {err}")
    check(any(a == "Bearer secret" for _, _, a in hub.requests), "the hub gets the token")
    check(hub.cdn.requests and all(a is None for _, _, a in hub.cdn.requests), f"other hosts do not: {hub.cdn.requests}")
    hub.cdn = hub.token = None


def check_faults(root, hub, files):
    hub.corrupted.add("model.safetensors")
    code, _, err = pull(root / "broken", hub, "pull", "someone/tiny")
    folder = root / "broken/someone/tiny"
    check(code == 1 and "checksum" in err and not (folder / "model.safetensors").exists() and
          not (folder / "model.safetensors.part").exists(), f"a wrong checksum leaves no file: {err}")
    hub.corrupted.clear()
    hub.corrupted.add("config.json")
    code, _, err = pull(root / "broken", hub, "pull", "someone/tiny")
    check(code == 1 and "checksum" in err and not (folder / "config.json").exists(), f"a wrong checksum of a small file: {err}")
    hub.corrupted.clear()
    code, _, err = pull(root / "store", hub, "pull", "someone/nothing")
    check(code == 1 and "no model someone/nothing" in err, f"an unknown model: {err}")
    for name in ("../../evil", "/etc/evil", "a\\b", "x/../../../evil"):
        hub.listing = [{"rfilename": "config.json", "size": 2, "blobId": git_sha1(b"{}")}, {"rfilename": name, "size": 1}]
        code, _, err = pull(root / "evil", hub, "pull", "someone/tiny")
        check(code == 1 and "is not allowed" in err and not (root / "evil").exists(), f"the file name {name}: {err}")
    hub.listing = [{"rfilename": "model.onnx", "size": 2}]
    code, _, err = pull(root / "onnx", hub, "pull", "someone/tiny")
    check(code == 1 and "no safetensors or GGUF" in err and "model.onnx" in err, f"other weights: {err}")
    pickled = ["pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json", "training_args.bin", "optimizer.pt"]
    hub.files.update({n: n.encode() for n in pickled})
    hub.listing = [{"rfilename": n, "size": len(n), "blobId": git_sha1(n.encode())} for n in pickled]
    code, _, err = pull(root / "pickle", hub, "pull", "someone/tiny")
    found = sorted(p.name for p in (root / "pickle" / "someone/tiny").iterdir()) if code == 0 else err
    check(found == pickled[:2], f"pickled weights without anything else: {found}")
    gguf = [f"tiny-{q}.gguf" for q in ("Q2_K", "Q4_K_M", "Q8_0")]
    hub.files.update({n: n.encode() for n in gguf})
    hub.listing = [{"rfilename": n, "size": len(n), "blobId": git_sha1(n.encode())} for n in gguf]
    for name, expected in (("someone/tiny", gguf[1]), ("someone/tiny:q8_0", gguf[2])):
        code, out, err = pull(root / expected, hub, "pull", name)
        found = [p.name for p in (root / expected / "someone/tiny").iterdir()] if code == 0 else err
        check(found == [expected], f"{name}: {found}")
    code, _, err = pull(root / "none", hub, "pull", "someone/tiny:q3_k_s")
    check(code == 1 and gguf[0] in err, f"a quantization that is not there lists those that are: {err}")
    hub.listing = None
    for name in ("", "a/b/c", "../x", "some one/tiny", "someone/tiny@", "ftp://x/y"):
        code, _, err = pull(root / "usage", hub, "pull", name)
        check(code == 2 and "expected" in err, f"the name {name!r}: {err}")


def check_offline(root):
    code, _, err = pull(root / "offline", "http://127.0.0.1:9", "pull", "someone/tiny")
    check(code == 1 and "HF_ENDPOINT" in err and "copy them to" in err and str(root / "offline/someone/tiny") in err,
          f"without a network it says what to do: {err}")


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    files = model_files(root)
    hub = Hub(files)
    check_model(root, hub, files)
    check_redirects(root, hub, files)
    check_faults(root, hub, dict(files))
    check_offline(root)
sys.exit("\n".join(failures) if failures else 0)
