#!/usr/bin/env python3
"""The device checker: code above kernels/ passes tensors to kernels and does not touch their memory.

- Host pointers (.f32(), .i64(), .raw(), .span(), .data<T>()) only in the files of HOST_FILES: those that read and write
  files, make values on the host, or read results through Tensor::host().
- Addresses (.address(), .f32_address(), .i64_address()) only in the modules and files of ADDRESSES, for the arguments of
  kernels.
- Closures recorded on the tape capture by value: they run when the caller of the op has returned.
- No ThreadPool in the modules of NO_THREADS, and no header of kernels/cpu outside of kernels/.

usage: device.py [ROOT]       check a tree (default: the tree of this file)
       device.py --self-test  show that planted faults are caught
"""
import re

import planted

POINTERS = re.compile(r"(?:\.|->)(?:f32|i64|raw|span)\(\)|(?:\.|->)data<\w+>\(\)")
ADDRESS_CALLS = re.compile(r"(?:\.|->)(?:address|f32_address|i64_address)\(\)")

RECORDED = re.compile(r"\brecord\([^\[;{]*\[([^\]]*)\]")

HOST_FILES = {
    "files in and out": """
        formats/gguf_writer.cpp formats/safetensors.cpp formats/safetensors_writer.cpp models/dequantize.cpp models/load.cpp
        models/names.cpp formats/prequantized_decode.cpp formats/torch_file.cpp
        models/gguf_rope.cpp models/forward.cpp train/answer_pairs.cpp train/checkpoint.cpp train/objective.cpp optim/optimizer.cpp""",
    "values made on the host": """
        models/adapter.cpp models/adapter_set.cpp nn/linear.cpp nn/relative_attention.cpp nn/source_attention.cpp ops/embedding.cpp train/distill.cpp
        train/image.cpp train/image_text.cpp train/preference.cpp train/debias.cpp images/processor.cpp infer/image_inputs.cpp llm/image_inputs.cpp nets/autoencoder.cpp nets/gan.cpp nets/mlp.cpp nets/neural_lm.cpp nets/tabular.cpp
        nets/text_cnn.cpp""",
    "weights encoded on the host": """
        quant/encode.cpp quant/gptq.cpp quant/calibrate.cpp quant/choose_kept_parts.cpp quant/prune.cpp quant/reduce.cpp quant/report.cpp""",
    "results read through host()": """
        cli/alignment_plot.cpp cli/inspect_attention.cpp cli/classify_images.cpp cli/net_autoencoder.cpp cli/net_data.h capi/capi.cpp train/quality.cpp models/model.cpp models/positions.cpp nets/batches.cpp ops/experts.cpp
        cli/classify_run.cpp cli/embed.cpp cli/index_options.cpp cli/reward_score.cpp infer/engine.cpp infer/model_drafter.cpp
        llm/bayes_risk.cpp llm/classify.cpp llm/embed.cpp llm/fill.cpp llm/senses.cpp llm/token_vectors.cpp nn/feed_forward.cpp
        optim/gradient_norm.cpp serve/page/look.cpp serve/page/look_positions.cpp train/classify.cpp train/contrastive.cpp
        train/denoise.cpp train/replaced.cpp train/dpo.cpp train/grpo.cpp train/kto.cpp train/loop.cpp train/loop_gradients.cpp
        train/policy_state.cpp train/policy_task.cpp train/ppo.cpp train/reward.cpp train/reward_rules.cpp train/step.cpp""",
}
BELOW = {"base", "tensor", "kernels"}
ADDRESSES = {"ops", "nn", "optim", "infer/memory_plan.cpp", "train/checkpoint.cpp", "serve/http/transport.cpp"}
NO_THREADS = {"ops", "nn", "models", "optim", "infer", "llm", "train", "serve"}


def check(root):
    """-> (errors, number of files seen)"""
    allowed = {name for names in HOST_FILES.values() for name in names.split()}
    errors, used, seen = [], set(), 0
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".cpp", ".h"}:
            continue
        name = path.relative_to(root / "src").as_posix()
        module = name.split("/")[0]
        seen += 1
        text = path.read_text(errors="replace")
        for found in RECORDED.finditer(text):
            if "&" in found.group(1):
                number = text.count("\n", 0, found.start()) + 1
                errors.append(f"src/{name}:{number}: a closure on the tape captures '{found.group(1)}' by reference")
        for number, line in enumerate(text.splitlines(), 1):
            code = line.split("//")[0]
            place = f"src/{name}:{number}"
            if module != "kernels" and re.search(r'#include "kernels/cpu/', code):
                errors.append(f"{place}: a private header of kernels/cpu; include kernels/device.h or kernels/cpu_device.h")
            if module in NO_THREADS and re.search(r"\bThreadPool\b", code):
                errors.append(f"{place}: a ThreadPool; tensor work takes a Device")
            if module in BELOW:
                continue
            if found := POINTERS.search(code):
                used.add(name)
                if name not in allowed:
                    errors.append(f"{place}: host access '{found.group()}' to a tensor; use a kernel, or host() and a line in "
                                  "HOST_FILES of tests/structure/device.py")
            if ADDRESS_CALLS.search(code) and not {module, name} & ADDRESSES:
                errors.append(f"{place}: the address of a tensor; only ops/, nn/ and optim/ pass addresses to kernels")
    for name in sorted(allowed - used):
        errors.append(f"tests/structure/device.py: HOST_FILES names {name}, which has no host access")
    return errors, seen


def self_test():
    allowed = {name for names in HOST_FILES.values() for name in names.split()}
    files = {f"src/{name}": "const float* p = x.host().f32();\n" for name in allowed}
    files |= {
        "src/kernels/cpu/a.cpp": '#include "kernels/cpu/table.h"\nThreadPool pool; x.f32();\n',
        "src/ops/b.cpp": '#include "kernels/device.h"\nctx.device.add({ctx.f32(x), x.f32_address()});  // not x.f32()\n',
        "src/ops/c.cpp": "ctx.tape->record(y, [ctx, x](const Tensor& dy) { f(dy, [&] {}); });\n",
        "src/quant/c.cpp": "void encode(ThreadPool& pool);\n",
    }
    faults = [
        ("src/ops/b.cpp", "float* p = x.f32();\n", "src/ops/b.cpp:1: host access '.f32()'"),
        ("src/nn/d.cpp", "\nfor (float v : p->value.span()) sum += v;\n", "src/nn/d.cpp:2: host access '.span()'"),
        ("src/train/d.cpp", "t.data<uint16_t>()[0] = 1;\n", "src/train/d.cpp:1: host access"),
        ("src/train/d.cpp", "copy(t.address());\n", "src/train/d.cpp:1: the address"),
        ("src/infer/e.h", "ThreadPool& pool_;\n", "src/infer/e.h:1: a ThreadPool"),
        ("src/models/f.cpp", '#include "kernels/cpu/gemm.h"\n', "src/models/f.cpp:1: a private header"),
        ("src/ops/b.cpp", "ctx.tape->record(\n    y, [&ctx, to = Key(x)](const Tensor& dy) {});\n",
         "src/ops/b.cpp:1: a closure on the tape"),
        ("src/train/step.cpp", "int x;\n", "HOST_FILES names train/step.cpp"),
    ]
    planted.self_test("device.py", files, faults, lambda root: check(root)[0])


if __name__ == "__main__":
    planted.main(check, self_test, "device: {} files checked, no access to tensor memory outside of the lists")
