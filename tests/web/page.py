#!/usr/bin/env python3
"""The page in Chromium, against a server with tiny models.

usage: page.py MAKAR install    install the npm packages and check the types of the page
       page.py MAKAR NAME       run NAME.mjs of this folder

Skipped (exit code 77) without node 20, npm or chromium, or if the packages cannot be downloaded.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "serve"))
from serving import GOLDEN, Server, make_model  # noqa: E402
import image_models  # noqa: E402
from tensor_files import read_safetensors, write_safetensors  # noqa: E402

SKIPPED = 77


def install():
    for folder in ("web", "tests/web"):
        if subprocess.run([ROOT / "scripts/npm-ci", ROOT / folder]).returncode:
            print("skipped: no npm packages for", folder)
            return SKIPPED
    return subprocess.run([HERE / "node_modules/.bin/tsc", "-p", ROOT / "web"]).returncode


def make_run(folder, steps):
    """A log as training writes it, with a sample that would be harmful as HTML."""
    folder.mkdir(parents=True)
    lines = []
    for i in range(1, steps + 1):
        lines.append({"step": i, "loss": 4 / i ** 0.3, "norm": 1.0, "lr": 1e-3 * i / steps, "seconds": 0.1, "tokens": 512})
        if i % 20 == 0:
            lines.append({"step": i, "validation": {"loss": 4.2 / i ** 0.3}})
            lines.append({"step": i, "sample": f"at {i} <img src=x onerror='window.pwned=1'>"})
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def endless_model(folder, **options):
    """A model without an end token: answers have as many tokens as requested."""
    make_model(folder, positions=32768, **options)
    for name in ("config.json", "tokenizer_config.json"):
        fields = json.loads((folder / name).read_text())
        fields = {k: [] if k == "eos_token_id" else v for k, v in fields.items() if k != "eos_token"}
        (folder / name).write_text(json.dumps(fields))
    return folder


def make_pdf(path, *pages):
    """A PDF with one line of text per page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>",
               f"<< /Type /Pages /Kids [{' '.join(f'{4 + 2 * i} 0 R' for i in range(len(pages)))}] /Count {len(pages)} >>",
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    for i, text in enumerate(pages):
        content = f"BT /F1 12 Tf 20 700 Td ({text}) Tj ET"
        objects += [f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * i} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
                    f"<< /Length {len(content)} >>\nstream\n{content}\nendstream"]
    out, offsets = "%PDF-1.4\n", []
    for i, body in enumerate(objects):
        offsets.append(len(out))
        out += f"{i + 1} 0 obj\n{body}\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{at:010d} 00000 n \n" for at in offsets)
    path.write_text(out + f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n")


def make_library(makar, root):
    """A folder of PDF files as an index."""
    folder = root / "pdfs"
    folder.mkdir()
    make_pdf(folder / "keeper.pdf", "The lighthouse keeper counts ships at night.", "In winter the keeper repairs the lamp.")
    make_pdf(folder / "cook.pdf", "The cook bakes bread at dawn. <img src=x onerror='window.pwned=1'>")
    subprocess.run([makar, "index", "add", root / "library.db", folder], check=True, stdout=subprocess.DEVNULL)
    return root / "library.db"


def many_heads_and_layers(folder):
    """The golden llama with its matrices split into 32 heads, and its two layers repeated to 22."""
    folder.mkdir()
    config = json.loads((GOLDEN / "config.json").read_text())
    config.update(num_attention_heads=32, num_key_value_heads=16, head_dim=2, num_hidden_layers=22)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {}
    for key, tensor in read_safetensors(GOLDEN / "model.safetensors").items():
        layer = key.split(".")[2] if key.startswith("model.layers.") else None
        for i in range(int(layer), 22, 2) if layer else [None]:
            name = key if i is None else key.replace(f"layers.{layer}.", f"layers.{i}.")
            tensors[name] = tensor
    write_safetensors(folder / "model.safetensors", tensors)
    return folder


def start_agent(makar, root):
    """An agent with scripted replies: a call that a person must allow, a question to a person, the answer."""
    replies = [{"thought": "calculate", "tool": "calculator", "input": {"expression": "23 * 47"}},
               {"thought": "ask", "tool": "ask_person", "input": {"question": "In which currency?"}}, {"thought": "done", "answer": "1081 euros"}]
    (root / "replies.jsonl").write_text("".join(json.dumps(one) + "\n" for one in replies))
    return subprocess.Popen([makar, "agent", "--replies", root / "replies.jsonl", "--approve", "calculator", "--trace", root / "agents", "--json",
                             "How much is it? <img src=x onerror=window.pwned=1>"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


# Further models of the servers, by test.
FURTHER_MODELS = {"look": {"experts": "mixtral", "slopes": "bloom-alibi", "both": "t5-relu-tied", "learned": "gpt2"},
          "conversations": {"second": "llama", "encoder": "bert-embedding"}}


def run(makar, name):
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        store = "none" if name == "unstored" else str(root / "store.db")
        flags = ["--store", store, "--runs", str(root / "runs"), "--results", str(root / "results"), "--ratings", str(root / "ratings"), "--agents", str(root / "agents")]
        if name == "key":
            flags += ["--api-key", "open-sesame"]
        make_run(root / "runs/first", 100)
        for other, golden in FURTHER_MODELS.get(name, {}).items():
            make_model(root / other, golden=GOLDEN.parent / golden)
            flags += ["--add-model", f"{other}={root / other}"]
        if name == "ask":
            if not shutil.which("pdftotext"):
                print("skipped: pdftotext (package poppler-utils) is absent")
                return SKIPPED
            flags += ["--index", str(make_library(makar, root))]
        if name == "look":
            make_model(root / "heads", golden=many_heads_and_layers(root / "heads-source"))
            flags += ["--add-model", f"heads={root / 'heads'}"]
        agent = start_agent(makar, root) if name == "agents" else None
        if name == "images":
            model = image_models.make_model("llava", root / "tiny")
        elif name == "chat":  # many layers, so that tokens do not arrive faster than the browser renders them
            model = endless_model(root / "tiny", golden=many_heads_and_layers(root / "layers"))
        else:
            model = endless_model(root / "tiny")
        with Server(makar, *flags, model=model) as s:
            done = subprocess.run(["node", HERE / f"{name}.mjs", f"http://{s.host}:{s.port}", root / "runs"], timeout=900)
            code = s.stop()
            if agent:
                trace = json.loads(agent.communicate(timeout=60)[0])
                if trace["end"] != "answer" or trace["steps"][0]["approval"] != "yes":
                    print("the agent ended with", trace)
                    return 1
            if code:
                print("the server ended with", code)
            return done.returncode or code


def main():
    if not all(shutil.which(tool) for tool in ("node", "npm", "chromium")):
        print("skipped: node, npm or chromium is absent")
        return SKIPPED
    if sys.argv[2] == "install":
        return install()
    node = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    if int(node.lstrip("v").split(".")[0]) < 20:
        print("skipped: the driver of the browser needs Node.js 20, this is", node.strip())
        return SKIPPED
    if not (HERE / "node_modules/playwright-core").is_dir():
        print("skipped: the npm packages are missing; run page.py MAKAR install first")
        return SKIPPED
    return run(sys.argv[1], sys.argv[2])


sys.exit(main())
