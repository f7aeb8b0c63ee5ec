#!/usr/bin/env python3
"""An adapter that makar trained, loaded by PEFT: its hidden states are compared with the hidden states of the merged model.

usage: adapter.py MAKAR BASE ADAPTER        BASE a Hugging Face folder, ADAPTER what `makar sft --adapter lora` wrote

Needs torch, transformers, peft and safetensors; prints a message and passes where they are missing.
"""
import subprocess
import sys
import tempfile

try:
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)


def main(makar, base, adapter):
    model = AutoModelForCausalLM.from_pretrained(base, torch_dtype=torch.float32).eval()
    torch.manual_seed(0)
    ids = torch.randint(5, model.config.vocab_size - 1, (2, 40))
    with torch.no_grad():
        plain = model(ids, output_hidden_states=True).hidden_states[-1].clone()
        tuned = PeftModel.from_pretrained(model, adapter).eval()(ids, output_hidden_states=True).hidden_states[-1]
    with tempfile.TemporaryDirectory() as folder:
        save_file({"in.input_ids": ids}, folder + "/in.safetensors")
        subprocess.run([makar, "merge", "-m", base, "--lora", adapter, "-o", folder + "/merged"], check=True)
        subprocess.run([makar, "forward", "--model", folder + "/merged", "--input", folder + "/in.safetensors",
                        "--output", folder + "/out.safetensors"], check=True, stdout=subprocess.DEVNULL)
        out = load_file(folder + "/out.safetensors")
    last = max((k for k in out if k.startswith("out.hidden_states.")), key=lambda k: int(k.rsplit(".", 1)[1]))
    error = ((out[last].reshape(tuned.shape) - tuned).norm() / tuned.norm()).item()
    change = ((plain - tuned).norm() / tuned.norm()).item()
    print(f"relative error {error:.1e}; the adapter changes the states by {change:.1e}")
    return error < 1e-4 and change > 1e-3


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(not main(*sys.argv[1:]))
