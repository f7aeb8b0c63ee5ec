#!/usr/bin/env python3
"""Opens model folders with transformers and compares its logits with those `makar forward` wrote.

usage: check_saved.py MODEL_DIR GOLDEN.safetensors OUT.safetensors ...   (needs torch and transformers)
"""
import json
import sys

import torch
import transformers
from safetensors.torch import load_file


def check(folder, golden, makar_output):
    arch = json.load(open(folder + "/config.json"))["architectures"][0]
    model, info = getattr(transformers, arch).from_pretrained(folder, attn_implementation="eager", output_loading_info=True)
    model = model.float().eval()
    wrong_keys = [k for k in info["missing_keys"] if "embed_positions" not in k] + list(info["unexpected_keys"])
    x = {k[3:]: v for k, v in load_file(golden).items() if k.startswith("in.") and "label" not in k and "positions" not in k and k not in ("in.chosen", "in.rejected")}
    if not x:
        return None, wrong_keys
    with torch.no_grad():
        out = model(**x)
    got = load_file(makar_output)
    worst = 0.0
    for key, value in got.items():
        expected = getattr(out, key[4:], None) if "." not in key[4:] else None
        if expected is None:
            continue
        mask = x.get("attention_mask")
        if mask is not None and value.shape[:2] == mask.shape:
            value, expected = value[mask == 1], expected[mask == 1]
        worst = max(worst, ((value - expected).norm() / expected.norm()).item())
    return worst, wrong_keys


if __name__ == "__main__":
    failed = 0
    for i in range(1, len(sys.argv) - 2, 3):
        worst, wrong_keys = check(*sys.argv[i:i + 3])
        ok = not wrong_keys and (worst is None or worst < 1e-5)
        failed += not ok
        print("pass" if ok else "FAIL", sys.argv[i], worst, wrong_keys)
    print(f"{(len(sys.argv) - 1) // 3 - failed} passed, {failed} failed")
    sys.exit(failed != 0)
