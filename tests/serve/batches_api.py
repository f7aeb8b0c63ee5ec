#!/usr/bin/env python3
"""Files and batches: valid and invalid uploads, every kind of line, cancelling, and servers that end during a batch.

usage: batches_api.py MAKAR
"""
import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

from serving import PATIENCE, Server, check, failures, metric, quiet, wait_until

BOUNDARY = "boundary-of-the-form"


def form(*parts, boundary=BOUNDARY, end="--\r\n"):
    """The body of a multipart form with the parts (name, filename or None, data)."""
    out = b""
    for name, filename, data in parts:
        head = f'Content-Disposition: form-data; name="{name}"' + (f'; filename="{filename}"' if filename is not None else "")
        out += f"--{boundary}\r\n{head}\r\n\r\n".encode() + (data if isinstance(data, bytes) else data.encode()) + b"\r\n"
    return out + f"--{boundary}".encode() + end.encode()


def upload(s, data, filename="lines.jsonl", purpose="batch", body=None, kind=f"multipart/form-data; boundary={BOUNDARY}"):
    if body is None:
        body = form(("purpose", None, purpose), ("file", filename, data))
    status, _, text = s.request("POST", "/v1/files", body, {"content-type": kind})
    return status, json.loads(text)


def get(s, path):
    status, _, text = s.request("GET", path)
    return status, json.loads(text)


def content(s, file_id):
    status, _, text = s.request("GET", f"/v1/files/{file_id}/content")
    check(status == 200, f"content of {file_id}")
    return text


def lines_of(s, file_id):
    return {x["custom_id"]: x for x in map(json.loads, content(s, file_id).splitlines())} if file_id else {}


def line(custom_id, body, url="/v1/chat/completions", **more):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body, **more})


def chat(text="x", **more):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 4, "temperature": 0, **more}


def start(s, text, endpoint="/v1/chat/completions", **more):
    return s.post("/v1/batches", {"input_file_id": upload(s, text)[1]["id"], "endpoint": endpoint,
                                  "completion_window": "24h", **more})[1]


def wait(s, batch, *statuses):
    """The batch, as soon as it has one of these statuses; without statuses, as soon as it has ended."""
    path, ended = "/v1/batches/" + batch["id"], ("completed", "failed", "cancelled", "expired")
    check(wait_until(lambda: get(s, path)[1]["status"] in (statuses or ended), 300 * PATIENCE, 0.02), f"a batch that does not reach {statuses or ended}: {batch}")
    return get(s, path)[1]


def check_files(s):
    data = bytes(range(256)) * 4096 + b"\r\n--" + BOUNDARY[:4].encode()
    status, metadata = upload(s, data, "../../etc/passwd", "user_data")
    check(status == 200 and metadata["object"] == "file" and metadata["bytes"] == len(data), f"upload: {metadata}")
    check(metadata["filename"] == "passwd" and metadata["purpose"] == "user_data", f"folders are removed from file names: {metadata}")
    check(get(s, "/v1/files/" + metadata["id"])[1] == metadata, "the metadata of a file")
    import http.client
    link = http.client.HTTPConnection(s.host, s.port)
    link.request("GET", f"/v1/files/{metadata['id']}/content")
    check(link.getresponse().read() == data, "content of a file, byte for byte")
    link.request("HEAD", f"/v1/files/{metadata['id']}/content")
    answer = link.getresponse()
    check(answer.getheader("content-length") == str(len(data)) and answer.read() == b"", "HEAD of a content")
    link.close()
    _, empty = upload(s, b"", "empty")
    check(content(s, empty["id"]) == "", "an empty file")
    ids = {metadata["id"], empty["id"]} | {upload(s, f"{i}", purpose="evals")[1]["id"] for i in range(3)}
    _, listing = get(s, "/v1/files")
    check({f["id"] for f in listing["data"]} == ids and not listing["has_more"], "files are listed")
    check(len(get(s, "/v1/files?purpose=evals")[1]["data"]) == 3, "files are listed by purpose")
    seen, after = [], ""
    while True:
        _, page = get(s, f"/v1/files?limit=2{after}")
        seen += [f["id"] for f in page["data"]]
        if not page["has_more"]:
            break
        after = "&after=" + page["last_id"]
    check(seen == [f["id"] for f in listing["data"]], "files are listed page by page")
    check([f["id"] for f in get(s, "/v1/files?order=asc")[1]["data"]] == seen[::-1], "files are listed in reverse order")
    for file_id in ids:
        status, _, text = s.request("DELETE", "/v1/files/" + file_id)
        check(status == 200 and json.loads(text)["deleted"], "a file is deleted")
        check(s.request("GET", "/v1/files/" + file_id)[0] == 404, "a deleted file is not found")
    return data


def check_bad_files(s, root):
    good = [("purpose", None, "batch"), ("file", "a", "x")]
    for body, kind, param in (
            (form(*good[:1]), None, "file"), (form(*good[1:]), None, "purpose"), (b"", None, "body"),
            (form(("purpose", None, "world"), good[1]), None, "purpose"), (form(*good), "application/json", "body"),
            (form(*good), "multipart/form-data", "body"), (form(*good), "multipart/form-data; boundary=" + "x" * 71, "body"),
            (form(*good, end=""), None, "body"), (form(*good, boundary="other"), None, "body"), (form(*good)[:-20], None, "body"),
            (form(good[0], ("file", "", "x")), None, "file"), (form(good[0], ("file", "a\tb", "x")), None, "file"),
            (form(good[0], ("file", "x" * 300, "x")), None, "file"), (form(*good * 20), None, "body"),
            (b"--" + BOUNDARY.encode() + b"\r\n" + b"x" * 10000 + form(*good), None, "body")):
        status, error = upload(s, "", body=body, kind=kind or f"multipart/form-data; boundary={BOUNDARY}")
        check(status == 400 and error["error"]["param"] == param, f"{body[:60]}: {status} {error}")
    for path in ("..", "../lock", "%2e%2e%2flock", "file-", "file-1.json", "lock", "x/content", "/etc/passwd", "."):
        check(s.request("GET", "/v1/files/" + path)[0] == 404, f"no file is called {path}")
        check(s.request("DELETE", "/v1/files/" + path)[0] == 404, f"no file is called {path}")
    check(s.request("GET", "/v1/files?limit=0")[0] == 400 and s.request("GET", "/v1/files?limit=x")[0] == 400, "limits")
    check(s.request("GET", "/v1/files?after=x")[0] == 404, "an unknown cursor")
    status, error = upload(s, b"x" * 1_100_000)
    check(status == 413 or status == 400 and error["error"]["param"] == "file", f"too large: {status} {error}")
    status, error = upload(s, b"x" * 1_030_000)
    check(status == 400 and error["error"]["param"] == "file", f"a little too large: {status} {error}")
    check(s.request("POST", "/v1/completions", json.dumps({"prompt": "x" * 9_000_000}))[0] == 413, "bodies of other routes keep their limit")
    check([p.name for p in root.iterdir() if p.name != "lock"] == [], f"nothing is left behind: {list(root.iterdir())}")


def check_batches(s):
    texts = [line("a", chat("one")), line("b", chat("two", seed=3, temperature=1.5)), "", line("c", chat(max_tokens=-1)),
             line("d", chat(stream=True)), line("e", chat(model="other")), line("f", {"messages": "x"})]
    batch = start(s, "\n".join(texts), metadata={"k": "v"})
    check(batch["object"] == "batch" and batch["status"] == "validating" and batch["metadata"] == {"k": "v"}, f"new: {batch}")
    done = wait(s, batch)
    check(done["status"] == "completed" and done["request_counts"] == {"total": 6, "completed": 2, "failed": 4}, f"done: {done}")
    output, errors = lines_of(s, done["output_file_id"]), lines_of(s, done["error_file_id"])
    check(set(output) == {"a", "b"} and set(errors) == {"c", "d", "e", "f"}, "answers and errors are in separate files")
    for name in "ab":
        alone = s.post("/v1/chat/completions", json.loads(texts["ab".index(name)])["body"])[1]
        check(output[name]["response"]["body"]["choices"] == alone["choices"], "a line gets the same text as a request")
    codes = {k: v["response"]["status_code"] for k, v in errors.items()}
    check(codes == {"c": 400, "d": 400, "e": 404, "f": 400}, f"codes: {codes}")
    check(errors["c"]["response"]["body"]["error"]["param"] == "max_tokens", "errors have the format of the API")
    check(get(s, "/v1/files/" + done["output_file_id"])[1]["purpose"] == "batch_output", "the output is a file")
    for endpoint, body, key in (("/v1/completions", {"prompt": "a", "max_tokens": 2}, "choices"),
                                ("/v1/embeddings", {"input": "a"}, "data"),
                                ("/v1/responses", {"input": "a", "max_output_tokens": 2}, "output")):
        done = wait(s, start(s, line("1", body, endpoint), endpoint))
        one = lines_of(s, done["output_file_id"])["1"]
        check(one["response"]["body"][key], f"{endpoint}: {one}")
    for text, count in (("{", 1), (line("a", {}, "/v1/embeddings"), 1), (line("a", {}) + "\n" + line("a", {}), 1), ("", 1),
                        (line("a", {}, method="GET"), 1), (line("a", 1), 1), ("1\n2\n" + line("a", {}), 2), (line("", {}), 1)):
        failed = wait(s, start(s, text))
        check(failed["status"] == "failed" and len(failed["errors"]["data"]) == count and failed["output_file_id"] is None,
              f"{text}: {failed}")
    file_id = upload(s, "x")[1]["id"]
    other = upload(s, "x", purpose="evals")[1]["id"]
    for body, param, code in (({"endpoint": "/v1/embeddings"}, "input_file_id", 400),
                              ({"input_file_id": "file-x", "endpoint": "/v1/embeddings"}, "input_file_id", 404),
                              ({"input_file_id": "../lock", "endpoint": "/v1/embeddings"}, "input_file_id", 404),
                              ({"input_file_id": other, "endpoint": "/v1/embeddings"}, "input_file_id", 400),
                              ({"input_file_id": file_id, "endpoint": "/metrics"}, "endpoint", 400),
                              ({"input_file_id": file_id, "endpoint": "/v1/embeddings", "completion_window": "1s"},
                               "completion_window", 400),
                              ({"input_file_id": file_id, "endpoint": "/v1/embeddings", "metadata": 1}, "metadata", 400)):
        status, error = s.post("/v1/batches", body)
        check(status == code and error["error"]["param"] == param, f"{body}: {status} {error}")
    check(get(s, "/v1/batches/batch_x")[0] == 404 and s.post("/v1/batches/batch_x/cancel", {})[0] == 404, "no such batch")
    check(s.post(f"/v1/batches/{done['id']}/cancel", {})[0] == 400, "a finished batch is not cancelled")
    check(s.post(f"/v1/batches/{done['id']}/other", {})[0] == 404, "other actions are refused")
    _, page = get(s, "/v1/batches?limit=5")
    check(len(page["data"]) == 5 and page["has_more"], "a list of batches")


def check_priority(s):
    """Requests have priority over the lines of a batch."""
    long = "\n".join(line(str(i), chat("y" * 20, max_tokens=1500, logit_bias={"256": -100})) for i in range(40))
    batch = start(s, long)
    wait(s, batch, "in_progress")
    time.sleep(0.2)
    status, _, text = s.request("DELETE", "/v1/files/" + batch["input_file_id"])
    check(status == 400 and "batch" in text, "a file that a batch reads stays")
    answered = []
    threads = [threading.Thread(target=lambda: answered.append(s.post("/v1/chat/completions", chat(max_tokens=8))[0]))
            for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    _, now = get(s, "/v1/batches/" + batch["id"])
    check(answered == [200] * 6 and now["status"] == "in_progress", f"requests overtake a batch: {answered} {now}")
    check(now["request_counts"]["completed"] < 40, "requests are answered before the batch is done")
    check(quiet(s), "lines of a batch take no place in the queue")
    check(get(s, "/v1/batches/" + batch["id"])[1]["status"] == "in_progress", "the batch still runs")
    _, cancelled = s.post(f"/v1/batches/{batch['id']}/cancel", {})
    check(cancelled["status"] == "cancelling", f"cancelling: {cancelled}")
    done = wait(s, batch)
    check(done["status"] == "cancelled" and len(lines_of(s, done["output_file_id"])) == done["request_counts"]["completed"],
          f"cancelled: {done}")
    check(wait_until(lambda: metric(s, "num_requests_running") == 0), "the lines of a cancelled batch end")


def check_restart(makar, root):
    """A server that is stopped or killed during a batch: the next one continues, and each line is answered once."""
    count = 60
    # Long enough that some lines are still open when the server ends.
    text = "\n".join(line(f"line-{i}", chat(f"say {i}", max_tokens=120, logit_bias={"256": -100})) for i in range(count))
    flags = ("-t", "1", "-np", "4", "--files", str(root / "kept"))
    s = Server(makar, *flags)
    batch = start(s, text)
    expected = json.loads(s.request("POST", "/v1/chat/completions", json.loads(text.splitlines()[7])["body"])[2])["choices"]
    interrupted = 0
    for signal_number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        before = get(s, "/v1/batches/" + batch["id"])[1]["request_counts"]["completed"]
        wait_until(lambda: get(s, "/v1/batches/" + batch["id"])[1]["request_counts"]["completed"] >= before + 5, pause=0.005)
        s.process.send_signal(signal_number)
        s.process.wait(120 * PATIENCE)
        model = s.model
        parts = list((root / "kept").glob("*.part"))
        interrupted += bool(parts)
        for part in parts:  # half a line, as after a power failure
            with open(part, "ab") as out:
                out.write(b'{"id":"batch_req_1","custom_id":"line-5')
        s.process.stdout.close()
        again = Server(makar, *flags, model=model)
        s.log.close()
        again.old_folders = getattr(s, "old_folders", []) + [s.folder]
        s = again
    done = wait(s, batch)
    answers = [json.loads(x) for x in content(s, done["output_file_id"]).splitlines()]
    check(interrupted >= 2, f"servers ended in the middle: {interrupted}")
    check(done["status"] == "completed" and done["request_counts"] == {"total": count, "completed": count, "failed": 0},
          f"after restarts: {done}")
    check(sorted(a["custom_id"] for a in answers) == sorted(f"line-{i}" for i in range(count)), "each line once")
    line_7 = next(a for a in answers if a["custom_id"] == "line-7")
    check(line_7["response"]["body"]["choices"] == expected, "a line gets the text of an undisturbed request")
    check(get(s, "/v1/files/" + batch["input_file_id"])[0] == 200, "files are kept")
    # Two servers do not share a folder.
    try:
        Server(makar, *flags, model=s.model)
        check(False, "two servers in one folder")
    except RuntimeError as e:
        check("another server" in str(e), f"two servers in one folder: {e}")
    check(s.stop() == 0, "SIGTERM ends the server with exit code 0")
    return s


def check_expired(makar, root):
    """A batch that expired while no server ran."""
    flags = ("-t", "1", "--files", str(root / "late"))
    with Server(makar, *flags) as s:
        batch = start(s, "\n".join(line(str(i), chat(max_tokens=1500, logit_bias={"256": -100})) for i in range(30)))
        wait(s, batch, "in_progress")
        s.process.kill()
        s.process.wait()
        path = root / "late" / (batch["id"] + ".json")
        record = json.loads(path.read_text())
        record["batch"]["expires_at"] = 1
        path.write_text(json.dumps(record))
        (root / "late" / "batch_x.json").write_text('{"batch":{"id":"batch_x"}}')  # incomplete records
        (root / "late" / "file-x.json").write_text('{"id":"file-x"}')
        with Server(makar, *flags, model=s.model) as again:
            done = wait(again, batch)
            check(done["status"] == "expired" and done["request_counts"]["completed"] + done["request_counts"]["failed"] == 30,
                  f"expired: {done}")
            error = next(iter(lines_of(again, done["error_file_id"]).values()))
            check(error["response"]["body"]["error"]["code"] == "batch_expired", f"{error}")
            check(get(again, "/v1/batches/batch_x")[0] == 404 and get(again, "/v1/files/file-x")[0] == 404, "malformed records are ignored")


def check_owners(makar, root):
    """Files, batches and responses of one key are not visible to another."""
    with Server(makar, "-t", "1", "--files", str(root / "owned"), "--api-key", "first-key,second-key") as s:
        def ask(key, method, path, body=None, kind="application/json"):
            status, _, text = s.request(method, path, body, {"authorization": "Bearer " + key, "content-type": kind})
            return status, json.loads(text) if path[-8:] != "/content" else text
        body = form(("purpose", None, "batch"), ("file", "a.jsonl", line("1", {"input": "x", "max_output_tokens": 2}, "/v1/responses")))
        _, metadata = ask("first-key", "POST", "/v1/files", body, f"multipart/form-data; boundary={BOUNDARY}")
        check("owner" not in metadata, f"metadata: {metadata}")
        request = {"input_file_id": metadata["id"], "endpoint": "/v1/responses"}
        check(ask("second-key", "POST", "/v1/batches", request)[0] == 404, "a batch of another's file")
        _, batch = ask("first-key", "POST", "/v1/batches", request)
        path = "/v1/batches/" + batch["id"]
        wait_until(lambda: ask("first-key", "GET", path)[1]["status"] == "completed")
        batch = ask("first-key", "GET", path)[1]
        check(batch["status"] == "completed", f"a batch with a key: {batch}")
        answer = json.loads(ask("first-key", "GET", f"/v1/files/{batch['output_file_id']}/content")[1])
        response = answer["response"]["body"]["id"]
        for path in ("/v1/files/" + metadata["id"], f"/v1/files/{batch['output_file_id']}/content", "/v1/batches/" + batch["id"],
                     "/v1/responses/" + response):
            check(ask("first-key", "GET", path)[0] == 200, f"a key sees its own {path}")
            check(s.request("GET", path, None, {"authorization": "Bearer second-key"})[0] == 404, f"a key does not see another's {path}")
        check(ask("second-key", "DELETE", "/v1/files/" + metadata["id"])[0] == 404, "another's file is not deleted")
        check(ask("second-key", "POST", f"/v1/batches/{batch['id']}/cancel", {})[0] == 404, "another's batch is not cancelled")
        for path in ("/v1/files", "/v1/batches"):
            check(ask("second-key", "GET", path)[1]["data"] == [] and ask("first-key", "GET", path)[1]["data"],
                  f"each key lists its own {path}")
        status, error = ask("second-key", "POST", "/v1/responses", {"input": "x", "previous_response_id": response})
        check(status == 404, f"another's conversation: {error}")


def main():
    makar = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        with Server(makar, "-t", "1", "--files", str(root / "files"), "--max-file-size", "5") as s:
            check_files(s)
            check(oct(os.stat(root / "files").st_mode)[-3:] == "700", "only the owner may read the folder")
        with Server(makar, "-t", "1", "--files", str(root / "small"), "--max-file-size", "1.02") as s:
            upload(s, "x")
            s.request("DELETE", "/v1/files/" + get(s, "/v1/files")[1]["data"][0]["id"])
            check_bad_files(s, root / "small")
        with Server(makar, "-t", "1", "-np", "4", "--files", str(root / "batches")) as s:
            check_batches(s)
            check_priority(s)
            check(s.stop() == 0, "SIGTERM ends the server with exit code 0")
        with Server(makar, "-t", "1", "--files", "none") as s:
            for status, error in (upload(s, "x"), get(s, "/v1/files"), get(s, "/v1/batches"), s.post("/v1/batches", {})):
                check(status == 400 and "--files none" in error["error"]["message"], f"no files: {error}")
        s = check_restart(makar, root)
        for old in s.old_folders:
            old.cleanup()
        s.__exit__()
        check_expired(makar, root)
        check_owners(makar, root)
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
