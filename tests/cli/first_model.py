#!/usr/bin/env python3
"""The first steps of a new user: train a small model, use it, serve it, convert it; for every family and every kind of tokenizer that
pretrain makes.

Each model is trained from scratch for a few steps, by --model-type or by the config.json of a family, with a tokenizer of
each kind. Then: generate (fill, translate) from the folder, the same from a server, convert to GGUF and back, and the same
answers from both.

usage: first_model.py MAKAR [NAME...]   a part of the matrix; all of it with MAKAR_SLOW=1; NAME: only cases whose name contains it
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
from serving import Server, check, failures  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/models"
SHAPES = ["gpt2", "llama", "bert", "t5", "bart"]
TOKENIZERS = ["char", "bpe", "wordpiece", "unigram"]
# Golden fixtures whose config.json is trained: the families with a language modelling head.
CONFIGS = ["gpt2", "llama", "llama-tied-rope-llama3", "mistral", "mixtral", "qwen2", "qwen3", "gemma2", "gpt-neox", "falcon-grouped", "bloom-alibi", "opt",
           "roberta-mlm", "distilbert-mlm", "albert-mlm", "t5-gated-gelu-untied", "bart", "marian-clean"]
NO_GGUF = ("bart", "marian", "opt", "albert", "distilbert")  # families without a GGUF architecture, or with one that makar does not write
# At least one case per shape and per tokenizer runs always; the rest with MAKAR_SLOW=1.
ALWAYS = {"gpt2 char", "llama char", "llama bpe", "llama unigram", "gpt2 wordpiece", "bert wordpiece", "bert char", "t5 unigram", "t5 char", "bart bpe",
         "config qwen2", "config opt", "config roberta-mlm"}
SMALL = ["--layers", 1, "--width", 32, "--heads", 2]
SIZES = {"vocab_size": 1024, "max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64, "seq_length": 64, "query_pre_attn_scalar": 16, "relative_attention_max_distance": 128}


def run(makar, *words):
    return subprocess.run([makar, *map(str, words)], capture_output=True, text=True, timeout=900)


def good(makar, name, *words):
    done = run(makar, *words)
    check(done.returncode == 0, f"{name}: makar {' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done if done.returncode == 0 else None


def answers(makar, name, model, kind):
    """The output of a model: ids, text, or an embedding (bert in GGUF has no head for masked tokens)."""
    if kind == "masked":
        done = good(makar, name, "embed", "-m", model, "the river and the hill")
        return done and done.stdout
    if kind == "pairs":
        done = good(makar, name, "translate", "-m", model, "the river and the hill", "-n", 8)
        return done and re.sub(r"\[PAD\d+\]", "", done.stdout)  # GGUF names the rows of the vocabulary that have no token
    done = good(makar, name, "generate", "-m", model, "the river and the hill", "-n", 8, "--json", "--temp", 0)
    return done and json.loads(done.stdout)["answers"][0]["ids"]


def fills(makar, name, model):
    mask = "[MASK]" if "[MASK]" in (model / "tokenizer.json").read_text() else "<mask>"
    done = good(makar, name, "fill", "-m", model, f"the {mask} on the hill", "-k", 3, "--json")
    check(done is None or len(json.loads(done.stdout)["answers"]) == 3, f"{name}: three words for the gap: {done and done.stdout}")


def served(makar, name, model, kind):
    try:
        with Server(makar, model=model) as server:
            if kind == "causal":
                status, body = server.post("/v1/completions", {"prompt": "the river and the hill", "max_tokens": 8, "temperature": 0})
                check(status == 200 and "text" in body["choices"][0], f"{name}: served: {status} {body}")
                return
            status, body = server.post("/v1/embeddings" if kind == "masked" else "/v1/completions",
                                       {"input": "the river", "prompt": "the river", "max_tokens": 8} if kind == "masked" else {"prompt": "the river", "max_tokens": 8})
            check(status == 200, f"{name}: served: {status} {body}")
    except RuntimeError as e:
        check(False, f"{name}: {str(e)[-300:]}")


def run_case(makar, scratch, name, words, family):
    folder = scratch / name.replace(" ", "-")
    folder.mkdir()
    model = folder / "run"
    done = good(makar, name, "pretrain", "-d", scratch / "text.txt", "-o", model, "--sequence-len", 48, "--micro-batch-size", 4, "--max-steps", 3,
                "--vocab-size", 512, "-t", 2, "-q", *words)
    if not done:
        return
    tokens = json.loads((model / "tokenizer.json").read_text())
    config = json.loads((model / "config.json").read_text())
    # Ids of the config and the generation config are those of the tokenizer's control tokens.
    special = {t["id"] for t in tokens["added_tokens"] if t.get("special")}
    generation = model / "generation_config.json"
    for source, json_file in (("config", config), ("generation_config", json.loads(generation.read_text()) if generation.is_file() else {})):
        for key in ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"):
            value = json_file.get(key)
            for i in value if isinstance(value, list) else [value]:
                check(i is None or i in special, f"{name}: {source}: {key} {i} is not a control token of the tokenizer ({sorted(special)[:9]}...)")
    encoder_decoder = config.get("is_encoder_decoder") or family in ("t5", "bart", "marian")
    kind = "pairs" if encoder_decoder else "masked" if family in ("bert", "roberta", "distilbert", "albert") else "causal"
    if kind == "masked":
        fills(makar, name, model)
    first = answers(makar, name, model, kind)
    served(makar, name, model, kind)
    gguf, back = folder / "model.gguf", folder / "back"
    done = run(makar, "convert", model, gguf)
    if family in NO_GGUF:
        check(done.returncode == 1 and "internal" not in done.stderr, f"{name}: a family without a GGUF form is refused: {done.stderr}")
        return
    check(done.returncode == 0, f"{name}: convert: {done.stderr.strip()[-400:]}")
    if done.returncode != 0 or first is None:
        return
    second = answers(makar, name, gguf, kind)
    check(second == first, f"{name}: from GGUF {second}\n  from the folder {first}")
    if good(makar, name, "convert", gguf, back):
        third = answers(makar, name, back, kind)
        check(third == first, f"{name}: back from GGUF {third}\n  from the folder {first}")


def cases(scratch):
    for shape in SHAPES:
        for kind in TOKENIZERS:
            yield f"{shape} {kind}", ["--model-type", shape, "--tokenizer", kind, *SMALL], shape
    for name in CONFIGS:
        config = json.loads((GOLDEN / name / "config.json").read_text())
        config.update({k: v for k, v in SIZES.items() if k in config or k == "vocab_size"})
        path = scratch / f"{name}.json"
        path.write_text(json.dumps(config))
        family = {"roberta-mlm": "roberta", "distilbert-mlm": "distilbert", "albert-mlm": "albert", "marian-clean": "marian", "opt": "opt"}.get(name, name.split("-")[0])
        yield f"config {name}", ["--config", path, "--tokenizer", "bpe"], family


def main():
    makar = str(pathlib.Path(sys.argv[1]).resolve())
    selected = sys.argv[2:]
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        lines = [f"the {a} and the {b} are near the hill, and the {b} is old" for a in ("river", "stone", "garden", "window", "forest") for b in ("house", "road", "sea", "bird")]
        (scratch / "text.txt").write_text("\n\n".join("\n".join(lines) for _ in range(6)))
        count = 0
        for case, words, family in cases(scratch):
            if selected and not any(w in case for w in selected):
                continue
            if not selected and os.environ.get("MAKAR_SLOW") != "1" and case not in ALWAYS:
                continue
            before = len(failures)
            run_case(makar, scratch, case, words, family)
            count += 1
            print(f"{case}: {'trained, used, served, converted' if len(failures) == before else 'FAILED'}", flush=True)
    check(count > 0, "no case")
    if failures:
        sys.exit(f"first_model.py: {len(failures)} failures")
    print(f"first_model.py: {count} models")


if __name__ == "__main__":
    main()
