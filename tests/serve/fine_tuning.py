#!/usr/bin/env python3
"""Fine-tuning jobs of the server: created, watched, cancelled, resumed by the next server, and served under their names when they end.

usage: fine_tuning.py MAKAR
"""
import json
import pathlib
import sys
import tempfile

from batches_api import get, upload
from serving import PATIENCE, Server, check, failures, make_model, wait_until

WORD = "banana"


def chats(count=24):
    turns = lambda i: [{"role": "user", "content": f"say {i}"}, {"role": "assistant", "content": WORD}]
    return "".join(json.dumps({"messages": turns(i)}) + "\n" for i in range(count))


def create(s, file_id, **more):
    return s.post("/v1/fine_tuning/jobs", {"model": s.name, "training_file": file_id, **more})


def wait_until_over(s, job):
    return wait_until(lambda: get(s, f"/v1/fine_tuning/jobs/{job}")[1]["status"] in ("succeeded", "failed", "cancelled"), 240 * PATIENCE, 0.1)


def read_job(s, job):
    return get(s, f"/v1/fine_tuning/jobs/{job}")[1]


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
    check(done["status"] == "failed" and done["error"]["message"] and done["fine_tuned_model"] is None,
          f"bad data fails with a reason: {done}")
    good = upload(s, chats(), purpose="fine-tune")[1]["id"]
    other = upload(s, chats(), purpose="batch")[1]["id"]
    for body, part in (({"training_file": "file-none"}, "file-none"), ({"training_file": other}, "purpose fine-tune"), ({}, "training_file"),
                       ({"training_file": good, "model": "nobody"}, "nobody"), ({"training_file": good, "suffix": "a b"}, "suffix"),
                       ({"training_file": good, "hyperparameters": {"n_epochs": 0}}, "n_epochs"),
                       ({"training_file": good, "method": {"type": "reinforcement"}}, "supervised or dpo")):
        status, answer = s.post("/v1/fine_tuning/jobs", {"model": s.name, **body})
        check(status in (400, 404) and part in answer["error"]["message"] + str(answer["error"].get("param")), f"{body}: {status} {answer}")
    for path in ("ftjob-none", "../x", f"{job['id']}/else"):
        check(get(s, f"/v1/fine_tuning/jobs/{path}")[0] in (400, 404), path)
    check(s.post(f"/v1/fine_tuning/jobs/{job['id']}/cancel", {})[0] == 400, "a job that has ended is not cancelled")


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
            check_failures(s)
            check_cancelling(s)
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
        with Server(makar, "--files", files, model=model) as s:
            status, answer = create(s, "file-x")
            check(status >= 400 and "--fine-tuning" in answer["error"]["message"], f"fine-tuning is off by default: {answer}")
    print("fine-tuning jobs: " + ("ok" if not failures else f"{len(failures)} failures"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
