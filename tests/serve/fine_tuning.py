#!/usr/bin/env python3
"""Fine-tuning jobs of the server: created, watched, cancelled, stopped at their limits, resumed by the next server, served under their
names when they end, and deleted.

usage: fine_tuning.py MAKAR
"""
import http.client
import json
import pathlib
import signal
import sys
import tempfile
import time
import urllib.parse

from batches_api import get, upload
from serving import PATIENCE, Server, check, failures, make_model, wait_until

WORD = "banana"


def chats(count=24):
    turns = lambda i: [{"role": "user", "content": f"say {i}"}, {"role": "assistant", "content": WORD}]
    return "".join(json.dumps({"messages": turns(i)}) + "\n" for i in range(count))


def pairs(count=24):
    return "".join(json.dumps({"prompt": f"say {i}", "chosen": WORD, "rejected": "potato"}) + "\n" for i in range(count))


class Client:
    """Requests to a server with an API key."""

    def __init__(self, server, key):
        self.server, self.key, self.name = server, key, server.name

    def request(self, method, path, body=None, headers=None):
        return self.server.request(method, path, body, {**(headers or {}), "authorization": f"Bearer {self.key}"})

    def post(self, path, body):
        status, _, text = self.request("POST", path, body)
        return status, json.loads(text)


def delete_model(s, model):
    status, _, text = s.request("DELETE", "/v1/models/" + urllib.parse.quote(model))
    return status, json.loads(text)


def create(s, file_id, **more):
    return s.post("/v1/fine_tuning/jobs", {"model": s.name, "training_file": file_id, **more})


def wait_until_over(s, job):
    return wait_until(lambda: get(s, f"/v1/fine_tuning/jobs/{job}")[1]["status"] in ("succeeded", "failed", "cancelled"), 240 * PATIENCE, 0.1)


def read_job(s, job):
    return get(s, f"/v1/fine_tuning/jobs/{job}")[1]


def read_list(s, job, what):
    return get(s, f"/v1/fine_tuning/jobs/{job}/{what}?limit=1000")[1]["data"]


def finished(s, job):
    wait_until_over(s, job)
    return read_job(s, job)


def chat(s, model, **more):
    return s.post("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "say 3"}], "max_tokens": 6, "temperature": 0, **more})


def check_training(s):
    file_id = upload(s, chats(), purpose="fine-tune")[1]["id"]
    status, job = create(s, file_id, suffix="fruit", seed=7,
                         hyperparameters={"n_epochs": 8, "batch_size": 4, "learning_rate_multiplier": 40})
    check(status == 200 and job["object"] == "fine_tuning.job" and job["status"] == "queued", f"a job is created: {job}")
    before = chat(s, s.name)[1]["choices"][0]["message"]["content"]
    wait_until_over(s, job["id"])
    done = read_job(s, job["id"])
    check(done["status"] == "succeeded" and done["fine_tuned_model"].startswith(f"ft:{s.name}:fruit:"), f"the job succeeds: {done}")
    check(done["trained_tokens"] and done["finished_at"] >= done["created_at"], f"tokens and times are reported: {done}")
    status, answer = chat(s, done["fine_tuned_model"])
    check(status == 200 and answer["choices"][0]["message"]["content"] == WORD, f"the adapter answers: {answer}")
    check(chat(s, s.name)[1]["choices"][0]["message"]["content"] == before, "the base is unchanged")
    check(done["fine_tuned_model"] in [m["id"] for m in get(s, "/v1/models")[1]["data"]], "the model is listed")
    events = get(s, f"/v1/fine_tuning/jobs/{job['id']}/events?limit=100")[1]["data"]
    losses = [e["data"]["train_loss"] for e in reversed(events) if e["type"] == "metrics"]
    check(len(losses) == 48 and losses[-1] < losses[0] / 4, f"a metric per step: {len(losses)} {losses[:1]} {losses[-1:]}")
    check(events[0]["object"] == "fine_tuning.job.event" and "succeeded" in events[0]["message"], f"newest first: {events[0]}")
    checkpoints = get(s, f"/v1/fine_tuning/jobs/{job['id']}/checkpoints")[1]["data"]
    check(checkpoints and checkpoints[0]["object"] == "fine_tuning.job.checkpoint" and
          checkpoints[0]["step_number"] >= checkpoints[-1]["step_number"], f"checkpoints: {checkpoints}")
    check([j["id"] for j in get(s, "/v1/fine_tuning/jobs")[1]["data"]] == [job["id"]], "the job is listed")
    return done["fine_tuned_model"]


def check_failures(s):
    bad = upload(s, '{"text": 1}\n', purpose="fine-tune")[1]["id"]
    job = create(s, bad)[1]
    wait_until_over(s, job["id"])
    done = read_job(s, job["id"])
    check(done["status"] == "failed" and "training_file" in done["error"]["message"] and ":1: " in done["error"]["message"] and
          done["fine_tuned_model"] is None, f"bad data fails with the first bad line: {done}")
    done = finished(s, create(s, upload(s, chats(), purpose="fine-tune")[1]["id"], validation_file=bad)[1]["id"])
    check(done["status"] == "failed" and "validation_file" in done["error"]["message"], f"a validation file without records: {done}")
    good = upload(s, chats(), purpose="fine-tune")[1]["id"]
    other = upload(s, chats(), purpose="batch")[1]["id"]
    for body, part in (({"training_file": "file-none"}, "file-none"), ({"training_file": other}, "purpose fine-tune"), ({}, "training_file"),
                       ({"training_file": good, "model": "nobody"}, "nobody"), ({"training_file": good, "suffix": "a b"}, "suffix"),
                       ({"training_file": good, "hyperparameters": {"n_epochs": 0}}, "n_epochs"),
                       ({"training_file": good, "hyperparameters": {"n_epochs": 1.9}}, "integer"),
                       ({"training_file": good, "method": {"type": "reinforcement"}}, "supervised or dpo")):
        status, answer = s.post("/v1/fine_tuning/jobs", {"model": s.name, **body})
        check(status in (400, 404) and part in answer["error"]["message"] + str(answer["error"].get("param")), f"{body}: {status} {answer}")
    check(get(s, "/v1/fine_tuning/jobs//events")[0] == 404, "the events of no job")
    for path in ("ftjob-none", "../x", f"{job['id']}/else"):
        check(get(s, f"/v1/fine_tuning/jobs/{path}")[0] in (400, 404), path)
    check(s.post(f"/v1/fine_tuning/jobs/{job['id']}/cancel", {})[0] == 400, "a job that has ended is not cancelled")


def check_files(files, job):
    """Only what an ended job needs stays on disk: no data, no checkpoints."""
    folder = pathlib.Path(files) / job
    wait_until(lambda: not (folder / "training.jsonl").exists() and not list(folder.glob("run/checkpoint-*")))
    left = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    check("events.jsonl" in left and "run/adapter_model.safetensors" in left and not any("training" in p or "run/data" in p for p in left) and
          not any("checkpoint-" in p or "tfevents" in p for p in left), f"files of an ended job: {left}")


def check_validation(s, files):
    training, validation = upload(s, chats(), purpose="fine-tune")[1]["id"], upload(s, chats(3), purpose="fine-tune")[1]["id"]
    start = time.time()
    job = create(s, training, validation_file=validation, hyperparameters={"n_epochs": 11, "batch_size": 4})[1]["id"]  # 66 steps
    done = finished(s, job)
    check(done["status"] == "succeeded" and done["validation_file"] == validation, f"a job with a validation file: {done}")
    losses = {e["data"]["step"]: e["data"]["valid_loss"] for e in read_list(s, job, "events") if "valid_loss" in (e["data"] or {})}
    check({20, 40, 60} <= losses.keys(), f"validations are events: {losses}")
    checkpoints = read_list(s, job, "checkpoints")
    by_step = {c["step_number"]: c for c in checkpoints}
    check(60 in by_step and by_step[60]["metrics"]["valid_loss"] == losses[60] and by_step[60]["metrics"]["step"] == 60 and
          by_step[60]["metrics"]["train_loss"] > 0, f"metrics of checkpoints: {checkpoints}")
    check(all(start - 2 <= c["created_at"] <= time.time() + 2 for c in checkpoints), f"times of checkpoints: {checkpoints}")
    check_files(files, job)


def check_pairs(s):
    job = create(s, upload(s, pairs(), purpose="fine-tune")[1]["id"],
                 method={"type": "dpo", "dpo": {"hyperparameters": {"n_epochs": 2, "batch_size": 4, "beta": 0.2}}})[1]["id"]
    done = finished(s, job)
    check(done["status"] == "succeeded" and chat(s, done["fine_tuned_model"])[0] == 200, f"a job on pairs: {done}")
    check(done["model"] == s.name, f"the name of the model is stored: {done}")


def check_deletion(s, files, tuned):
    for name, code, part in ((s.name, 400, "command line"), ("ft:none", 404, "ft:none"), ("", 404, ""), ("../x", 404, "")):
        status, answer = delete_model(s, name)
        check(status == code and part in answer["error"]["message"], f"DELETE of {name}: {status} {answer}")
    job = next(j["id"] for j in get(s, "/v1/fine_tuning/jobs")[1]["data"] if j["fine_tuned_model"] == tuned)
    link = http.client.HTTPConnection(s.host, s.port, timeout=120 * PATIENCE)
    link.request("POST", "/v1/completions", json.dumps({"model": tuned, "prompt": "say", "max_tokens": 1500, "stream": True, "ignore_eos": True}))
    stream = link.getresponse()
    text = stream.read(1)
    for _ in range(2):  # may be repeated
        check(delete_model(s, tuned) == (200, {"id": tuned, "object": "model", "deleted": True}), "a model is deleted")
        check(tuned not in [m["id"] for m in get(s, "/v1/models")[1]["data"]] and chat(s, tuned)[0] == 404, "a deleted model is not served")
        check(not (pathlib.Path(files) / job / "run").exists(), "its files are deleted")
    text += stream.read()
    link.close()
    check(stream.status == 200 and text.endswith(b"[DONE]\n\n") and b"error" not in text, f"a request in flight finishes: {text[-300:]}")
    check("deleted" in read_list(s, job, "events")[0]["message"] and read_job(s, job)["status"] == "succeeded", "its job stays")


def check_keys(makar, model, files):
    """Jobs and models belong to their key; keys take turns."""
    with Server(makar, "--fine-tuning", "--fine-tuning-threads", "1", "--files", files, "--api-key", "first-key", "--api-key", "second-key", model=model) as s:
        a, b = Client(s, "first-key"), Client(s, "second-key")
        data = {c: upload(c, chats(), purpose="fine-tune")[1]["id"] for c in (a, b)}
        jobs = [create(a, data[a], hyperparameters={"n_epochs": 3})[1]["id"] for _ in range(4)]
        other = create(b, data[b], hyperparameters={"n_epochs": 3})[1]["id"]
        check(create(b, data[a])[0] == 404, "the file of another key")
        done = finished(b, other)
        over = [read_job(a, job)["status"] for job in jobs].count("succeeded")
        check(done["status"] == "succeeded" and over <= 2, f"keys take turns: {over} of the first key's jobs ran before {done}")
        tuned = finished(a, jobs[0])["fine_tuned_model"]
        check(get(b, f"/v1/fine_tuning/jobs/{jobs[0]}")[0] == 404 and jobs[0] not in [j["id"] for j in get(b, "/v1/fine_tuning/jobs")[1]["data"]],
              "the job of another key is not found")
        for path in ("events", "checkpoints"):
            check(get(b, f"/v1/fine_tuning/jobs/{jobs[0]}/{path}")[0] == 404, f"{path} of another key")
        check(b.post(f"/v1/fine_tuning/jobs/{jobs[3]}/cancel", {})[0] == 404, "the job of another key is not cancelled")
        check(delete_model(b, tuned)[0] == 404 and chat(a, tuned)[0] == 200 and chat(b, tuned)[0] == 200, "only the owner deletes a model")
        check(delete_model(a, tuned)[0] == 200 and chat(b, tuned)[0] == 404, "the owner deletes the model")
        for job in jobs:
            a.post(f"/v1/fine_tuning/jobs/{job}/cancel", {})


def check_limits(makar, model, files):
    for flags, part in ((("--fine-tuning-memory", "64"), "--fine-tuning-memory allows 64 MiB"), (("--fine-tuning-time", "0.03"), "--fine-tuning-time")):
        with Server(makar, "--fine-tuning", "--fine-tuning-threads", "1", "--files", files, *flags, model=model) as s:
            file_id = upload(s, "".join(json.dumps({"messages": [{"role": "user", "content": "x" * 400}, {"role": "assistant", "content": "y" * 400}]}) + "\n"
                                        for _ in range(64)), purpose="fine-tune")[1]["id"]
            done = finished(s, create(s, file_id, hyperparameters={"n_epochs": 1000, "batch_size": 64})[1]["id"])
            check(done["status"] == "failed" and part in done["error"]["message"], f"{flags}: {done}")


def check_kills(makar, model, files):
    """A server is killed, and the next one starts while the process of the job stores its checkpoint."""
    flags, job, models = ("--fine-tuning", "--fine-tuning-threads", "1", "--files", files), None, []
    for round in range(4):
        with Server(makar, *flags, model=model) as s:
            if not job:
                file_id = upload(s, chats(200), purpose="fine-tune")[1]["id"]
                job = create(s, file_id, seed=3, hyperparameters={"n_epochs": 20, "learning_rate_multiplier": 10})[1]["id"]
            tokens = read_job(s, job)["trained_tokens"] or 0
            wait_until(lambda: (read_job(s, job)["trained_tokens"] or 0) > tokens or read_job(s, job)["status"] != "running")
            s.stop(signal.SIGKILL)
    with Server(makar, *flags, model=model) as s:
        done = finished(s, job)
        check(done["status"] == "succeeded", f"a job survives kills of the server: {done}")
        steps = [e["data"]["step"] for e in reversed(read_list(s, job, "events")) if "train_loss" in (e["data"] or {})]
        check(steps == list(range(1, 501)), f"one event per step: {len(steps)} {steps[:3]} {steps[-3:]}")
        models = [j["fine_tuned_model"] for j in get(s, "/v1/fine_tuning/jobs")[1]["data"] if j["status"] == "succeeded"]
        for name in models[1:]:
            delete_model(s, name)
        s.process.send_signal(signal.SIGKILL)
    with Server(makar, *flags, model=model) as s:
        served = [m["id"] for m in get(s, "/v1/models")[1]["data"] if m["id"].startswith("ft:")]
        check(served == models[:1] and chat(s, models[0])[0] == 200, f"deleted models stay deleted: {served}")


def check_moved_base(makar, model, files):
    """A job continues when its base has moved, and waits while it is not served."""
    flags, moved = ("--fine-tuning", "--fine-tuning-threads", "1", "--files", files, "--alias"), model.parent / "moved"
    with Server(makar, *flags, "one", model=model) as s:
        s.name = "one"
        job = create(s, upload(s, chats(200), purpose="fine-tune")[1]["id"], hyperparameters={"n_epochs": 3})[1]["id"]
        wait_until(lambda: (read_job(s, job)["trained_tokens"] or 0) > 0)
        s.stop()
    with Server(makar, *flags, "two", model=model) as s:
        wait_until(lambda: read_list(s, job, "events")[0]["level"] == "warn")
        check(read_job(s, job)["status"] == "running" and "'one'" in read_list(s, job, "events")[0]["message"],
              f"a job waits for its base: {read_list(s, job, 'events')[0]}")
    model.rename(moved)
    with Server(makar, *flags, "one", model=moved) as s:
        done = finished(s, job)
        check(done["status"] == "succeeded" and chat(s, done["fine_tuned_model"])[0] == 200, f"the base has moved: {done}")
        check("resuming at step" in (pathlib.Path(files) / job / "output.txt").read_text(), "the job resumes on the moved base")
    moved.rename(model)


def check_changed_base(s, model, weights):
    """The base changes after the model was published, and before it is first loaded."""
    job = create(s, upload(s, chats(), purpose="fine-tune")[1]["id"], hyperparameters={"n_epochs": 1})[1]["id"]
    name, before = finished(s, job)["fine_tuned_model"], weights.read_bytes()
    for data, good in ((before[:-1] + bytes([before[-1] ^ 1]), False), (before, True)):
        (model / "new").write_bytes(data)
        (model / "new").rename(weights)
        status, answer = chat(s, name)
        check(status == 200 if good else "have changed" in answer["error"]["message"], f"a changed base: {status} {answer}")


def check_other_base(makar, model, files, tuned):
    """A model is not served on a base with other weights."""
    weights = model / "model.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    flags = ("--fine-tuning", "--fine-tuning-threads", "1", "--files", files)
    with Server(makar, *flags, model=model) as s:
        check(chat(s, tuned)[0] == 404, "the base has changed")
        job = next(j["id"] for j in get(s, "/v1/fine_tuning/jobs")[1]["data"] if j["fine_tuned_model"] == tuned)
        check("have changed" in read_list(s, job, "events")[0]["message"], f"{read_list(s, job, 'events')[0]}")
        s.lines()
        check("have changed" in pathlib.Path(s.log.name).read_text(), "the log says why a model is not served")
    weights.write_bytes(before)
    with Server(makar, *flags, model=model) as s:
        check(chat(s, tuned)[0] == 200, "the base is the same again")


def check_cancelling(s):
    file_id = upload(s, chats(200), purpose="fine-tune")[1]["id"]
    first, second = create(s, file_id, hyperparameters={"n_epochs": 500})[1]["id"], create(s, file_id)[1]["id"]
    waiting = [create(s, file_id)[1]["id"] for _ in range(4)]  # of the same second: they wait in the order of creation
    wait_until(lambda: read_job(s, first)["status"] == "running" and (read_job(s, first)["trained_tokens"] or 0) > 0)
    check(chat(s, s.name)[0] == 200, "the server answers while a job runs")
    check(read_job(s, second)["status"] == "queued", f"one job at a time: {read_job(s, first)} {read_job(s, second)}")
    check(s.post(f"/v1/fine_tuning/jobs/{second}/cancel", {})[1]["status"] == "cancelled", "a queued job is cancelled at once")
    for job in waiting:
        check(read_job(s, job)["status"] == "queued", f"jobs run in the order of creation: {read_job(s, job)}")
        s.post(f"/v1/fine_tuning/jobs/{job}/cancel", {})
    s.post(f"/v1/fine_tuning/jobs/{first}/cancel", {})
    wait_until_over(s, first)
    check(read_job(s, first)["status"] == "cancelled", f"a running job is cancelled: {read_job(s, first)}")


def main():
    makar = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        model, files = make_model(root / "tiny"), str(root / "files")
        flags = ("--fine-tuning", "--fine-tuning-threads", "1", "--files", files)
        with Server(makar, *flags, model=model) as s:
            tuned = check_training(s)
            check_files(files, get(s, "/v1/fine_tuning/jobs")[1]["data"][0]["id"])
            check_failures(s)
            check_cancelling(s)
            check_validation(s, files)
            check_pairs(s)
            check_changed_base(s, model, model / "model.safetensors")
            file_id = upload(s, chats(200), purpose="fine-tune")[1]["id"]
            job = create(s, file_id, seed=3, hyperparameters={"n_epochs": 4, "learning_rate_multiplier": 10})[1]["id"]
            wait_until(lambda: (read_job(s, job)["trained_tokens"] or 0) > 0)
            s.stop()
        with Server(makar, *flags, model=model) as s:
            check(chat(s, tuned)[1]["choices"][0]["message"]["content"] == WORD, "a tuned model is served after a restart")
            wait_until_over(s, job)
            done = read_job(s, job)
            check(done["status"] == "succeeded", f"the next server finishes the job: {done}")
            output = (pathlib.Path(files) / job / "output.txt").read_text()
            check("resuming at step" in output or "stopped at step" in output, f"the job resumes: {output[-300:]}")
        check_other_base(makar, model, files, tuned)
        check_moved_base(makar, model, str(root / "moving"))
        with Server(makar, *flags, model=model) as s:
            check_deletion(s, files, tuned)
        check_kills(makar, model, files)
        check_keys(makar, model, str(root / "keys"))
        check_limits(makar, model, str(root / "limits"))
        with Server(makar, "--files", files, model=model) as s:
            status, answer = create(s, "file-x")
            check(status >= 400 and "--fine-tuning" in answer["error"]["message"], f"fine-tuning is off by default: {answer}")
    print("fine-tuning jobs: " + ("ok" if not failures else f"{len(failures)} failures"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
