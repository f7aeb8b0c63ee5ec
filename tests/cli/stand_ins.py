"""Small stand-ins for the models and files that the commands of the documentation name: MODEL, books/, sales.db, ..."""
import csv
import gzip
import json
import os
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import sys
import tarfile

import image_models
from tensor_files import read_safetensors, write_safetensors

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "serve"))
from serving import make_model  # noqa: E402

ROOT = HERE.parents[2]
GOLDEN = HERE.parents[1] / "golden/models"
ASSETS = pathlib.Path(os.environ.get("MAKAR_ASSETS", ROOT.parent / "shared" / "assets"))
LINES = ["A fox saw some grapes and jumped.", "The king of the hill is a good man.", "Mr. Knightley is a woman's friend.", "The queen likes a fine film.",
         "It was a day to remember.", "Thank you for the lovely gift!", "The bank of the river is old.", "Who counts the ships at night?"]


def jsonl(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def many(count, make):
    return jsonl(*(make(i, LINES[i % len(LINES)]) for i in range(count)))


def lines(count=8):
    return "".join(LINES[i % len(LINES)] + "\n" for i in range(count))


def chats(count=12):
    return many(count, lambda i, line: {"messages": [{"role": "user", "content": line}, {"role": "assistant", "content": f"Answer {i}."}]})


def pairs(count=12):
    return many(count, lambda i, line: {"prompt": line, "chosen": f"Good {i}.", "rejected": "Bad."})


def labelled(count=40, names=("not-toxic", "toxic")):
    return many(count, lambda i, line: {"text": line, "label": names[i % 2], "group": "ab"[i // 2 % 2]})


# Name of a file -> its text. "DOCUMENT/NAME" is for one document alone.
TEXTS = {
    "text.txt": lines(200), "held-out.txt": lines(60), "test.txt": lines(20), "books.txt": lines(200), "english.txt": lines(40),
    "german.txt": "Guten Tag, das ist ein Satz.\nDer Fuchs sah die Trauben.\n" * 20, "text.jsonl": many(40, lambda i, line: {"text": line}),
    "output.txt": lines(), "reference.txt": lines(), "sentences.txt": lines(40), "reviews.txt": lines(), "answers.txt": lines(), "correct.txt": lines(), "q.txt": lines(),
    "sources.txt": lines(), "summaries.txt": lines(), "a.txt": lines(), "b.txt": lines(), "output.de": lines(), "reference.de": lines(), "baseline.de": lines(), "new.de": lines(),
    "rubric.txt": "Accuracy: is the answer right?\n", "chats.jsonl": chats(), "pairs.jsonl": pairs(), "labelled.jsonl": labelled(), "cola_train.jsonl": labelled(names=("unacceptable", "acceptable")),
    "alignment/train.jsonl": labelled(), "decisions.txt": "1\n0\n1\n1\n" * 5, "labels.txt": "1\n0\n0\n1\n" * 5, "groups.txt": "a\nb\nb\na\n" * 5,
    "prompts.jsonl": many(8, lambda i, line: {"prompt": line, "answer": "yes"}),
    "functions.jsonl": many(2, lambda i, line: {"prompt": line, "tests": ["assert f(1) == 2"]}),
    "queries.jsonl": many(2, lambda i, line: {"prompt": line, "sql": "SELECT count(*) FROM sales", "schema": "CREATE TABLE sales (n); INSERT INTO sales VALUES (3), (9);"}),
    "ratings/study.jsonl": jsonl(*({"prompt": line, "answers": ["Good.", "Bad."], "systems": ["x", "y"]} for line in LINES[:4]),
                                 {"prompt": "Where?", "answers": ["Here.", "No."], "kind": "scale", "scales": ["sensible", "specific", "interesting", "safe", "grounded"]}),
    "ratings/study.ratings.jsonl": jsonl(*({"rater": who, "item": i, "ranks": [1, 2]} for who in ("ann", "bob") for i in range(4)),
                                         *({"rater": who, "item": 4, "scales": [{"sensible": 5, "safe": 5}, {"sensible": 1}]} for who in ("ann", "bob"))),
    "align/questions.jsonl": many(8, lambda i, line: {"prompt": line, "answer": "yes"}),
    "retrieval/questions.jsonl": many(3, lambda i, line: {"question": line, "answer": line}),
    "q.jsonl": many(8, lambda i, line: {"question": line}), "d.jsonl": many(8, lambda i, line: {"dialogue": line}),
    "answers.jsonl": many(4, lambda i, line: {"answer": line, "samples": [line, "No."]}), "summaries.jsonl": many(8, lambda i, line: {"summary": line}),
    "data.jsonl": many(8, lambda i, line: {"references": [line]}), "rated.jsonl": many(16, lambda i, line: {"hyp": line, "ref": LINES[i // 2 % 8], "score": i % 5}),
    "predictions.csv": "label\n" + "a\nb\n" * 4, "test.csv": "label\n" + "a\na\n" * 4,
    "run.trec": "q1 Q0 d1 1 2.0 x\nq1 Q0 d2 2 1.0 x\n", "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td2\t1\n",
    "train.tsv": "".join(f"{LINES[i % 8]}\t{i % 2}\n" for i in range(40)), "dev.tsv": "".join(f"{LINES[i % 8]}\t{i % 2}\n" for i in range(10)),
    "test.tsv": "".join(f"{LINES[i % 8]}\t{i % 2}\n" for i in range(10)), "sst2.tsv": "sentence\tlabel\n" + "".join(f"{LINES[i % 8]}\t{i % 2}\n" for i in range(20)),
    "seeds.jsonl": many(8, lambda i, line: {"instruction": line, "input": "", "output": "Yes."}),
    "lexical/pairs.tsv": "source\ttarget\n" + "".join(f"{line}\t{line[::-1]}\n" for line in LINES), "lexical/pairs.jsonl": many(4, lambda i, line: {"text": line, "pair": line}),
    "wordsim353.txt": "king queen 8\nfox film 2\nday night 5\n", "questions-words.txt": ": family\nking queen man woman\n",
    "train.conllu": "1\tA\ta\tDET\t_\t_\t2\tdet\t_\t_\n2\tfox\tfox\tNOUN\t_\t_\t0\troot\t_\t_\n\n" * 10,
    "test.conllu": "1\tA\ta\tDET\t_\t_\t2\tdet\t_\t_\n2\tking\tking\tNOUN\t_\t_\t0\troot\t_\t_\n\n" * 3,
    "senses.jsonl": jsonl({"text": "The bank of the river is old.", "word": "bank", "sense": "river"}, {"text": "The bank has money.", "word": "bank", "sense": "money"}),
    "words.jsonl": jsonl({"text": "The old bank.", "word": "bank"}), "houses.csv": "rooms,age,price\n" + "".join(f"{i % 5},{i},{i * 10}\n" for i in range(1, 60)),
    "new.csv": "rooms,age\n2,30\n", "requests.jsonl": jsonl({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}}),
    "sql/questions.jsonl": jsonl({"question": "How many states are there?", "query": "SELECT COUNT(*) FROM state"}), "statements.sql": "SELECT COUNT(*) FROM state\n",
    "translate.yaml": 'name: translate\nversion: 2\ninstruction: Translate the word into English.\nexample: "{{word}} => {{output}}"\nexamples:\n- {word: Maison, output: house}\n'
                      'input: "{{word}} =>"\nseparator: "\\n"\nstop: ["\\n"]\ntests:\n- {fields: {word: Chien}, lacks: zzz}\n',
    "my_task.yaml": 'task: mine\ndataset_kwargs: {data_files: {test: mine.jsonl}}\noutput_type: generate_until\ndoc_to_text: "{{ question }}"\ndoc_to_target: "{{ answer }}"\n'
                    'generation_kwargs: {max_gen_toks: 4}\nmetric_list: [{metric: exact_match}]\nmetadata: {version: 1}\n',
    "runs/gpt-data/books/an author/one.md": lines(200), "runs/gpt-data/held-out/two.md": lines(60), "runs/gpt-data/held-out.txt": lines(60),
    "books/one.md": "# One\n\n" + lines(40), "books/two.txt": lines(60), "web/pages.jsonl": jsonl({"text": "<html><body>" + "".join(f"<p>{line}</p>" for line in LINES * 9) + "</body></html>"}),
    "folder-of-pdfs/keeper.txt": "The keeper counts the ships.\n", "docs/keeper.txt": "The keeper counts the ships.\n",
    "feedback.jsonl": jsonl({"type": "preference", "prompt": "Who?", "chosen": "A.", "rejected": "B."}),
}
CHATS = ["MODEL", "DIR", "JUDGE", "OTHER", "base", "chat-model", "runs/chat", "runs/world-chat", "HuggingFaceTB/SmolLM2-135M-Instruct", "models/second"]
ENCODERS = ["ENCODER", "all-MiniLM-L6-v2"]


class StandIns:
    def __init__(self, makar, folder):
        self.makar, self.folder = makar, folder
        folder.mkdir(parents=True)

    def run(self, *words, cwd=None):
        done = subprocess.run([self.makar, *map(str, words)], capture_output=True, text=True, cwd=cwd)
        if done.returncode:
            raise SystemExit(f"a stand-in: makar {' '.join(map(str, words))}: {done.stderr}")

    def once(self, name, make):
        path = self.folder / name
        if not path.exists():
            make(path)
        return path

    def chat(self):
        return self.once("chat", lambda path: make_model(path, positions=8192))

    def encoder(self):
        def make(path):
            shutil.copytree(GOLDEN / "bert-embedding", path)
            config = json.loads((path / "config.json").read_text())  # four times as many positions
            config["max_position_embeddings"] *= 4
            (path / "config.json").write_text(json.dumps(config))
            tensors = read_safetensors(path / "model.safetensors")
            for name in [n for n in tensors if "position_embeddings" in n]:
                kind, shape, data = tensors[name]
                tensors[name] = (kind, [4 * shape[0], shape[1]], data * 4)
            write_safetensors(path / "model.safetensors", tensors)
            words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(c) for c in range(33, 127)] + ["##" + chr(c) for c in range(97, 123)]
            (path / "vocab.txt").write_text("\n".join(words) + "\n")
            (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
        return self.once("encoder", make)

    def adapter(self):
        def make(path):
            (self.folder / "chats.jsonl").write_text(chats())
            self.run("sft", "-m", self.chat(), "-d", self.folder / "chats.jsonl", "--adapter", "lora", "--max-steps", 1, "--micro-batch-size", 1, "--sequence-len", 64, "-o", path, "-q")
        return self.once("adapter", make)

    def deep(self):
        """14 layers with a feed-forward of 1100, for pruning and distillation."""
        def make(path):
            config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 1100, "num_hidden_layers": 14,
                      "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256, "rms_norm_eps": 1e-5}
            (self.folder / "deep.json").write_text(json.dumps(config))
            (self.folder / "deep.txt").write_text(lines(300))
            self.run("pretrain", "--config", self.folder / "deep.json", "-d", self.folder / "deep.txt", "--tokenizer", "bpe", "--vocab-size", 300, "--max-steps", 1,
                     "--micro-batch-size", 1, "--sequence-len", 32, "-o", path, "-q")
            settings = json.loads((path / "tokenizer_config.json").read_text())
            settings["chat_template"] = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
            (path / "tokenizer_config.json").write_text(json.dumps(settings))
        return self.once("deep", make)

    def gguf(self):
        return self.once("model.gguf", lambda path: self.run("quantize", self.chat(), path, "--type", "q8_0"))

    def fill(self, document, folder):
        """The files that a document's commands read, in `folder`."""
        for key, text in TEXTS.items():
            name = key.split("/", 1)[-1] if key.startswith(f"{document}/") else key
            if name == key and "/" in key and key.split("/")[0] in ("alignment", "align", "retrieval", "lexical", "sql"):
                continue
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        links = {**dict.fromkeys(CHATS, self.chat()), **dict.fromkeys(ENCODERS, self.encoder()), **dict.fromkeys(("adapters/poet", "adapters/clerk", "other"), self.adapter()),
                 "model.gguf": self.gguf(), "original.gguf": self.gguf(), "recipes": ROOT / "recipes", "tasks": ROOT / "tasks", "tests": ROOT / "tests",
                 "models/world.gguf": ROOT / "models/world.gguf"}
        if document == "compression":
            links.update(dict.fromkeys(("MODEL", "DIR"), self.deep()))
        if document == "lexical":
            links["MODEL"] = self.once("classifier", self.make_classifier)
        if document == "images":
            for name, golden in (("CLIP", "clip"), ("LLAVA", "llava"), ("MODEL", "vit-gpt2-captions")):
                links[name] = self.once(golden, lambda path, golden=golden: image_models.make_model(golden, path))
            for name in ("photo.jpg", "a.jpg", "b.jpg"):
                (folder / name).write_bytes(image_models.png(image_models.pattern(30, 24, len(name))))
        if document in ("evaluation", "evaluate"):
            links.update({"DIR": self.data(), "datasets": self.data(), "base": self.results(), "tuned": self.results()})
        for name, target in links.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.symlink(target, folder / name)
        self.databases(document, folder)
        self.digits(folder)
        if (ASSETS / "retrieval/cranfield.tgz").is_file():
            os.symlink(self.cranfield(), folder / "cranfield")

    def make_classifier(self, path):
        (self.folder / "pairs.jsonl").write_text(many(12, lambda i, line: {"text": line, "text_pair": line, "label": "ab"[i % 2]}))
        self.run("classify", "train", "-m", self.encoder(), "-d", self.folder / "pairs.jsonl", "--num-epochs", 1, "-o", path, "-q")

    def results(self):
        def make(path):
            (self.folder / "mine.yaml").write_text(TEXTS["my_task.yaml"])
            self.run("eval", "-m", self.chat(), "--tasks", self.folder / "mine.yaml", "--data", self.data(), "--log-samples", "--output", path)
        return self.once("results", make)

    def databases(self, document, folder):
        with open(folder / "sales.csv", "w", newline="") as out:
            csv.writer(out).writerows([("product", "sold"), ("apples", 3), ("pears", 5), ("apples", 1)])
        for name, table, rows in (("sales.db", "sales(product, sold)", [("apples", 3), ("pears", 5)]), ("geography.sqlite", "state(name, area)", [("Ohio", 4), ("Iowa", 5)])):
            with sqlite3.connect(folder / name) as base:
                base.execute(f"CREATE TABLE {table}")
                base.executemany(f"INSERT INTO {table.split('(')[0]} VALUES (?, ?)", rows)
        if document != "retrieval":  # its first command makes it
            self.run("index", "add", folder / "books.db", "books", cwd=folder)
        self.run("index", "add", folder / "docs.db", "docs", cwd=folder)

    def digits(self, folder):
        for name in ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz"):
            body = struct.pack(">IIII", 2051, 64, 28, 28) + bytes((i * 7 + i // 28) % 256 for i in range(64 * 784))
            (folder / name).write_bytes(gzip.compress(body))

    def cranfield(self):
        def make(path):
            with tarfile.open(ASSETS / "retrieval/cranfield.tgz") as packed:
                packed.extractall(path)
        path = self.once("cranfield", make)
        return next(p.parent for p in path.rglob("cran.qry"))

    def data(self):
        """The datasets of the tasks that the documents name."""
        def make(path):
            path.mkdir()
            (path / "mine.jsonl").write_text(jsonl({"question": "Who?", "answer": "A fox."}))
            for name in ("mmlu", "piqa", "gsm8k", "crows_pairs", "bbq", "commonsense_llm_adapters"):
                if (ASSETS / f"eval/{name}.tgz").is_file():
                    with tarfile.open(ASSETS / f"eval/{name}.tgz") as packed:
                        packed.extractall(path)
        return self.once("data", make)
