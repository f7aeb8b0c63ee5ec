#!/usr/bin/env python3
"""Other sizes and seeds of every family: draws variants of the golden fixtures' configs, creates tiny models with transformers, and
compares logits, hidden states, loss, gradients, six training steps and generated text through the golden runner.

usage: try_families.py GOLDEN FIXTURES OUT [--draws N] [--workers N] [--seconds S] [--only NAME] [--seed N]

GOLDEN is build/tests/golden, FIXTURES tests/golden/models. A failing model stays in OUT. Needs torch and transformers;
--list writes the drawn configs to OUT and needs neither.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from draw_config import draw

SKIPPED = {"llama-reward", "dpo-policy", "dpo-reference"}  # preference pairs, or no recorded inputs


def tensor_names(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return [k for k in header if k != "__metadata__"]


def inputs_for(names, config, arch, rng, torch):
    """The inputs that the fixture has, drawn again for the sizes of `config`."""
    text = config.get("text_config", config.get("decoder", config))
    vocab = text["vocab_size"] if "vocab_size" in text else 0
    g = torch.Generator().manual_seed(rng.randrange(1 << 30))
    ids = lambda *shape: torch.randint(3, vocab - 1, shape, generator=g)
    batch, time_, x = rng.randint(1, 3), rng.randint(9, 24), {}
    labels = len(config.get("id2label") or {0: 0, 1: 1})
    if "in.pixel_values" in names:
        vision = config.get("vision_config", config.get("encoder", config))
        side = vision["image_size"]
        x["pixel_values"] = torch.randn(batch, 3, side, side, generator=g)
    if "in.input_ids" in names:
        x["input_ids"] = ids(batch, time_)
        if "image_token_index" in config:
            patches = (vision["image_size"] // vision["patch_size"]) ** 2 + (config["vision_feature_select_strategy"] == "full")
            x["input_ids"] = ids(batch, patches + rng.randint(3, 9))
            x["input_ids"][:, 1:1 + patches] = config["image_token_index"]
    if "in.attention_mask" in names:
        mask = torch.ones_like(x["input_ids"])
        if batch > 1:
            mask[1, rng.randint(4, time_ - 1):] = 0
        x["input_ids"][mask == 0] = config.get("pad_token_id") or 0
        x["attention_mask"] = mask
    if "in.token_type_ids" in names:
        x["token_type_ids"] = torch.randint(0, max(config.get("type_vocab_size") or 2, 1), x["input_ids"].shape, generator=g)
    if "in.decoder_input_ids" in names:
        length = rng.randint(5, 12)
        target = ids(batch, length)
        start = torch.full((batch, 1), config["decoder_start_token_id"])
        x["decoder_input_ids"] = torch.cat([start, target[:, :-1]], 1)
        if "in.labels" in names:
            x["labels"] = target.clone()
            x["labels"][-1, length - 2:] = -100
    elif "in.labels" in names:
        if "Image" in arch or "SequenceClassification" in arch:
            x["labels"] = torch.randint(0, labels, (batch,), generator=g)
        elif "TokenClassification" in arch or arch == "ElectraForPreTraining":
            x["labels"] = torch.randint(0, labels if "Token" in arch else 2, x["input_ids"].shape, generator=g)
            if "Token" in arch:
                x["labels"][x["attention_mask"] == 0] = -100
        elif "Masked" in arch or arch == "BertForPreTraining":
            x["labels"] = torch.full_like(x["input_ids"], -100)
            x["labels"][:, 1:9:3] = x["input_ids"][:, 1:9:3]
            x["labels"][x["attention_mask"] == 0] = -100
        else:
            x["labels"] = x["input_ids"].clone()
            x["labels"][:, :2] = -100
    if "in.next_sentence_label" in names:
        x["next_sentence_label"] = torch.randint(0, 2, (batch,), generator=g)
    for which in ("start_positions", "end_positions"):
        if "in." + which in names:
            x[which] = torch.randint(0, 4, (batch,), generator=g)
    return x


def summary(t):
    t = t.detach().double().flatten()
    return {"l2": t.norm().item(), "sum": t.sum().item(), "first": t[:8].tolist()}


def change_weights(model, rng, torch):
    """Adds noise that makes every weight matter; sinusoidal tables stay."""
    torch.manual_seed(rng.randrange(1 << 30))
    # T5 does not scale its attention scores, Mamba multiplies its states: larger weights amplify rounding.
    gain = 0.25 if model.config.model_type in ("t5", "mt5", "umt5", "mamba") else rng.choice([0.5, 1.0, 1.5])
    sinusoidal = model.config.model_type in ("marian", "pegasus")
    for key, p in model.named_parameters():
        if sinusoidal and "embed_positions" in key or not p.requires_grad:
            continue
        with torch.no_grad():
            p.add_(torch.randn_like(p) * (gain / p.shape[-1] ** 0.5 if p.dim() > 1 else 0.1))


def make(name, source, folder, rng):
    import torch
    import transformers
    from safetensors.torch import save_file
    names = tensor_names(source / "golden.safetensors")
    config = draw(json.loads((source / "config.json").read_text()), rng)
    known = json.loads((source / "golden.json").read_text()) if (source / "golden.json").exists() else {}
    arch = config["architectures"][0]
    # transformers' eager Falcon adds ALiBi twice (once in the mask, once in the scores); its default path adds it once.
    attention = "sdpa" if config.get("alibi") else "eager"
    cls = getattr(transformers, arch)
    folder.mkdir(parents=True)
    (folder / "drawn.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps(config))
    loaded = transformers.AutoConfig.from_pretrained(folder)
    loaded._attn_implementation = attention
    model = cls(loaded).float().eval()
    change_weights(model, rng, torch)
    model.save_pretrained(folder)
    load_again = lambda: cls.from_pretrained(folder, attn_implementation=attention).float().eval()
    model = load_again()
    x = inputs_for(names, config, arch, rng, torch)
    output_names = {n[4:].rsplit(".", 1)[0] if n[4:].rsplit(".", 1)[-1].isdigit() else n[4:] for n in names if n.startswith("out.")}
    out = model(**x, output_hidden_states=any("hidden_states" in w for w in output_names))
    tensors = {"in." + k: v for k, v in x.items()}
    for kind in output_names:
        value = getattr(out, kind, None)
        if isinstance(value, (tuple, list)):
            tensors.update({f"out.{kind}.{i}": h for i, h in enumerate(value)})
        elif value is not None:
            tensors["out." + kind] = value
    save_file({k: v.detach().clone().contiguous() for k, v in tensors.items()}, folder / "golden.safetensors")
    golden = {"transformers": transformers.__version__, "torch": torch.__version__, "class": arch}
    if "loss" in known:
        golden["loss"] = out.loss.item()
        out.loss.backward()
        golden["grads"] = {k: summary(p.grad) for k, p in model.named_parameters() if p.grad is not None}
    if "generate" in known:
        golden["generate"] = []
        ids = x["input_ids"][:1, :rng.randint(3, 9)]
        for search in ({"num_beams": 1}, {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 1.0, "early_stopping": False}):
            args = dict(search, do_sample=False, max_new_tokens=10, pad_token_id=0, eos_token_id=2)
            golden["generate"].append({"input_ids": ids.tolist(), "args": args, "sequences": load_again().generate(ids, **args).tolist()})
    if "loss" in known:
        golden["training"] = train(load_again(), x, torch)
    (folder / "golden.json").write_text(json.dumps(golden))
    return noise(load_again(), x, out, torch)


def train(model, x, torch):
    decay = [p for p in model.parameters() if p.requires_grad and p.dim() >= 2]
    rest = [p for p in model.parameters() if p.requires_grad and p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    opt = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for _ in range(6):
        opt.zero_grad()
        loss = model(**x).loss
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        losses.append(loss.item())
        opt.step()
    # Once the batch is learned, its gradients are rounding errors: only the steps before are compared.
    compared = next((i for i, norm in enumerate(norms) if norm < 0.02 * norms[0]), len(norms))
    return {"recipe": "AdamW lr=1e-3", "lr": 1e-3, "loss": losses[:compared], "grad_norm_before_clip": norms[:compared]}


def noise(model, x, out, torch):
    """How far transformers' own f32 logits are from its f64 logits: a model can be ill conditioned."""
    try:
        if hasattr(model, "set_experts_implementation"):
            model.set_experts_implementation("eager")  # the grouped products have no f64
        with torch.no_grad():
            double = model.double()(**{k: v.double() if v.is_floating_point() else v for k, v in x.items()})
        a, b = out.logits.detach().double(), double.logits.double()
        return ((a - b).norm() / b.norm()).item()
    except Exception:
        return -1.0


def compare(golden, root):
    done = subprocess.run([golden, str(root)], capture_output=True, text=True, timeout=120, env=dict(os.environ, MAKAR_THREADS="1"))
    lines = [line for line in done.stdout.splitlines() if line[:4] in ("pass", "fail", "skip")]
    status = "pass" if lines and not done.returncode else "refused" if "config.json: field" in done.stdout else "fail"
    return status, " | ".join(re.sub(r"^\w+ +models/\S+ +\S+ +", "", line) for line in lines) or f"exit {done.returncode}: {done.stderr[-300:]}"


def within_noise(text, rounding):
    """Whether only the forward pass exceeds its limit, and by less than 4 times transformers' own rounding."""
    limits = {"forward": 4 * rounding, "loss": 1e-4, "gradients": 1e-4, "training": 1e-3}
    known = all(float(v) <= limit for kind, limit in limits.items() for v in re.findall(rf"\b{kind} ([\d.e+-]+)", text))
    return rounding > 0 and known and "forward" in text and not re.search(r"generated|no output|no gradient|exit|Error", text)


def trial(job):
    """One draw: (name, index, status, text, noise). refused: makar does not support the config; noisy: see within_noise;
    invalid: transformers cannot run the config."""
    name, index, source, golden, keep, seed = job
    rng = random.Random(f"{name} {index} {seed}")
    signal.alarm(100)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "models" / f"{name}-{index}"
        rounding, status, text = -1.0, "invalid", ""
        for _ in range(3):  # transformers cannot run every config that it accepts
            shutil.rmtree(folder, ignore_errors=True)
            try:
                rounding = make(name, source, folder, rng)
                status = "created"
                break
            except Exception as error:
                frame = error.__traceback__
                while frame.tb_next:
                    frame = frame.tb_next
                where = f"{os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno}"
                text = f"{type(error).__name__} at {where}: {str(error)[:300]}"
        if status == "created":
            try:
                status, text = compare(golden, scratch)
                if status == "fail" and within_noise(text, rounding):
                    status = "noisy"
            except Exception as error:
                status, text = "fail", f"{type(error).__name__}: {str(error)[:300]}"
        if status != "pass":
            target = keep / f"{name}-{index}"
            shutil.rmtree(target, ignore_errors=True)
            if status in ("fail", "noisy"):
                shutil.copytree(folder, target)
            elif (folder / "drawn.json").exists():
                target.mkdir(parents=True)
                shutil.copy(folder / "drawn.json", target)
    signal.alarm(0)
    return name, index, status, text, rounding


def start_worker(workers_started):
    """Prepares a worker process: one torch thread, on a core of its own."""
    import torch
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    with workers_started.get_lock():
        worker = workers_started.value
        workers_started.value += 1
    os.sched_setaffinity(0, {cores[worker % len(cores)]})
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("100 s")))
    import transformers
    transformers.logging.set_verbosity_error()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("golden")
    p.add_argument("fixtures", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--draws", type=int, default=4)
    p.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--seconds", type=float, default=3600)
    p.add_argument("--only", default="", help="a regular expression: only fixtures whose names match it")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--list", action="store_true", help="write the drawn configs to OUT and stop")
    a = p.parse_args()
    names = sorted(d.name for d in a.fixtures.iterdir() if (d / "golden.safetensors").exists() and d.name not in SKIPPED and re.search(a.only, d.name))
    a.out.mkdir(parents=True, exist_ok=True)
    jobs = [(n, i, a.fixtures / n, a.golden, a.out, a.seed) for i in range(a.draws) for n in names]
    if a.list:
        for n, i, source, *_ in jobs:
            config = draw(json.loads((source / "config.json").read_text()), random.Random(f"{n} {i} {a.seed}"))
            (a.out / f"{n}-{i}.json").write_text(json.dumps(config, indent=1))
        return 0
    end, results = time.time() + a.seconds, {}
    counter = multiprocessing.Value("i", 0)
    with multiprocessing.Pool(a.workers, start_worker, (counter,)) as pool:
        running = [pool.apply_async(trial, (job,)) for job in jobs]
        while running and time.time() < end:
            time.sleep(0.2)
            for r in [r for r in running if r.ready()]:
                running.remove(r)
                try:
                    name, index, status, text, rounding = r.get()
                except Exception as error:
                    print("lost a worker:", error, flush=True)
                    continue
                results.setdefault(name, []).append((status, text, rounding))
                if status != "pass":
                    print(f"{status}  {name}-{index}  noise {rounding:.1e}  {text}", flush=True)
        pool.terminate()
    report(results, len(jobs))
    return 1 if any(s == "fail" for rows in results.values() for s, *_ in rows) else 0


def report(results, jobs):
    kinds = ("forward", "loss", "gradients", "training")
    print(f"\n{'fixture':<28} pass noisy fail refused invalid " + " ".join(f"{k:>9}" for k in kinds) + "  texts")
    for name, rows in sorted(results.items()):
        count = {s: sum(r[0] == s for r in rows) for s in ("pass", "noisy", "fail", "refused", "invalid")}
        worst = []
        for kind in kinds:
            values = [float(v) for status, text, _ in rows if status == "pass" for v in re.findall(rf"\b{kind} ([\d.e+-]+)", text)]
            worst.append(f"{max(values):9.1e}" if values else " " * 9)
        texts = sum(status == "pass" and "greedy" in text for status, text, _ in rows)
        print(f"{name:<28} {count['pass']:4} {count['noisy']:5} {count['fail']:4} {count['refused']:7} {count['invalid']:7} " + " ".join(worst) + f"  {texts}")
    done = [r[0] for rows in results.values() for r in rows]
    print(f"{jobs} drawn, {done.count('pass')} passed, {done.count('noisy')} within rounding, {done.count('fail')} failed, {done.count('refused')} refused by makar, {done.count('invalid')} that transformers cannot run, {jobs - len(done)} not reached")


if __name__ == "__main__":
    sys.exit(main())
