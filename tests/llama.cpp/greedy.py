#!/usr/bin/env python3
"""F32 models written by makar give the same greedy text in llama.cpp, for every architecture in MODELS. Conversely, makar opens
a file quantised by llama.cpp, with nearly the perplexity of the original.

usage: greedy.py MAKAR LLAMA_CPP_FOLDER [--only NAME] [--keep FOLDER]

LLAMA_CPP_FOLDER has llama.cpp's programs llama-simple and llama-quantize (cmake -B build && cmake --build build --target
llama-simple llama-quantize). Each model has a few thousand weights and is trained for a few steps on recipes/data/fables.txt, so that
the best token leads clearly: llama.cpp stores keys and values in f16. Exits with 77 when a program is not there.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FABLES = REPOSITORY / "recipes/data/fables.txt"
PROMPTS = ("A fox saw", "The lion and the")
LLAMA = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 32, "max_position_embeddings": 256, "vocab_size": 400, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
LATENT = {"num_key_value_heads": 2, "head_dim": 16, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
          "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1}


def like(model_type, name, **changes):
    return LLAMA | {"model_type": model_type, "architectures": [name + "ForCausalLM"]} | changes


MODELS = {
    "llama": like("llama", "Llama"),
    "qwen2": like("qwen2", "Qwen2"),
    "qwen3": like("qwen3", "Qwen3"),
    "gemma2": like("gemma2", "Gemma2", query_pre_attn_scalar=32, sliding_window=16, tie_word_embeddings=True,
                   hidden_activation="gelu_pytorch_tanh", attn_logit_softcapping=50.0, final_logit_softcapping=30.0),
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 256,
             "vocab_size": 400, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0},
    "gptneox": {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
                "num_attention_heads": 2, "intermediate_size": 128, "max_position_embeddings": 256, "vocab_size": 400, "rotary_pct": 0.5},
    "mamba": {"model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16,
              "vocab_size": 400, "expand": 2},
    "mamba2": {"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16,
               "num_heads": 8, "head_dim": 16, "n_groups": 1, "expand": 2, "vocab_size": 400},
    "lfm2": like("lfm2", "Lfm2", layer_types=["conv", "full_attention", "conv"], num_hidden_layers=3, block_multiple_of=32,
                 norm_eps=1e-5),
    "deepseek-v2": like("deepseek_v2", "DeepseekV2", **LATENT, q_lora_rank=None, topk_method="greedy", n_group=1, topk_group=1),
    "deepseek-v3": like("deepseek_v3", "DeepseekV3", **LATENT, q_lora_rank=32, n_group=2, topk_group=1),
    "olmo2": like("olmo2", "Olmo2"),
    "stablelm": like("stablelm", "StableLm", qk_layernorm=True, use_qkv_bias=True, partial_rotary_factor=0.5),
    "gpt-oss": like("gpt_oss", "GptOss", num_local_experts=4, num_experts_per_tok=2, sliding_window=16),
    "qwen2moe": like("qwen2_moe", "Qwen2Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                     shared_expert_intermediate_size=64),
    "granite": like("granite", "Granite", embedding_multiplier=2.0, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=2.0),
    "smollm3": like("smollm3", "SmolLM3", num_hidden_layers=4),
    "mixtral": like("mixtral", "Mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
    "qwen3moe": like("qwen3_moe", "Qwen3Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True),
    "olmoe": like("olmoe", "Olmoe", num_experts=4, num_experts_per_tok=2, num_key_value_heads=2),
    "gemma": like("gemma", "Gemma", tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh"),
    "gemma3": like("gemma3_text", "Gemma3", num_hidden_layers=7, query_pre_attn_scalar=32, sliding_window=16, tie_word_embeddings=True,
                   hidden_activation="gelu_pytorch_tanh"),
    # llama.cpp expects certain tokens of a model with "phi3" in its name.
    "third-phi": like("phi3", "Phi3", num_key_value_heads=2, sliding_window=None),
    "phi2": like("phi", "Phi", num_key_value_heads=2, partial_rotary_factor=0.5, layer_norm_eps=1e-5),
    "command-r": like("cohere", "Cohere", layer_norm_eps=1e-5, tie_word_embeddings=True, logit_scale=0.25),
    "cohere2": like("cohere2", "Cohere2", num_hidden_layers=4, layer_norm_eps=1e-5, tie_word_embeddings=True, logit_scale=0.25,
                    sliding_window=16),
    "starcoder": {"model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"], "n_embd": 64, "n_layer": 2, "n_head": 2,
                  "n_positions": 256, "vocab_size": 400, "multi_query": True, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0},
    "starcoder2": like("starcoder2", "Starcoder2", norm_epsilon=1e-5, use_bias=True, sliding_window=None, tie_word_embeddings=True),
    "bloom": {"model_type": "bloom", "architectures": ["BloomForCausalLM"], "hidden_size": 64, "n_layer": 2, "n_head": 2, "vocab_size": 400,
              "hidden_dropout": 0.0, "attention_dropout": 0.0},
    "mpt": {"model_type": "mpt", "architectures": ["MptForCausalLM"], "d_model": 64, "n_layers": 2, "n_heads": 2, "expansion_ratio": 4,
            "max_seq_len": 256, "vocab_size": 400, "no_bias": True},
    "falcon": {"model_type": "falcon", "architectures": ["FalconForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
               "num_attention_heads": 2, "multi_query": True, "parallel_attn": True, "bias": False, "alibi": False,
               "new_decoder_architecture": False, "vocab_size": 400, "hidden_dropout": 0.0, "attention_dropout": 0.0},
    "glm4": like("glm4", "Glm4", partial_rotary_factor=0.5, attention_bias=True),
    "nemotron": like("nemotron", "Nemotron", norm_eps=1e-5, partial_rotary_factor=0.5, hidden_act="relu2"),
    "ernie4-5": like("ernie4_5", "Ernie4_5", tie_word_embeddings=True),
    "exaone4": like("exaone4", "Exaone4", num_hidden_layers=4, sliding_window=None),
}


def run(*words):
    result = subprocess.run([str(w) for w in words], capture_output=True, timeout=600)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {result.returncode} {result.stderr.decode(errors='replace')[-800:]}")
    return result.stdout.decode(errors="replace")


def make(makar, name, folder):
    """A trained model as a GGUF file in F32."""
    config, out, file = folder / f"{name}.json", folder / name, folder / f"{name}.gguf"
    config.write_text(json.dumps(MODELS[name]))
    run(makar, "pretrain", "--config", config, "-d", FABLES, "-o", out, "--max-steps", 12, "--sequence-len", 32, "--micro-batch-size", 2,
        "--learning-rate", "4e-3", "--val-set-size", 0, "-t", 1, "-q")
    run(makar, "convert", out, file, "--outtype", "f32", "-t", 1)
    return file


def greedy_text(makar, programs, file, prompt):
    makar_output = run(makar, "generate", "-m", file, "--temp", 0, "-n", 24, "-t", 1, "--json", prompt)
    llama_output = run(programs / "llama-simple", "-m", file, "-n", 24, "-ngl", 0, prompt)
    return json.loads(makar_output)["answers"][0]["text"], llama_output


def compare(makar, programs, name, folder):
    file = make(makar, name, folder)
    equal = []
    for prompt in PROMPTS:
        makar_text, llama_text = greedy_text(makar, programs, file, prompt)
        # llama-simple prints the prompt and the answer.
        equal.append(makar_text.strip() != "" and makar_text.strip() in llama_text)
        if not equal[-1]:
            print(f"  {prompt!r}: makar {makar_text!r}, llama.cpp {llama_text!r}")
    return all(equal)


def score(makar, file):
    return json.loads(run(makar, "perplexity", "-m", file, "--json", "-t", 1, FABLES))


def quantized(makar, programs, folder):
    """makar reads llama.cpp's Q8_0 file of a Llama with nearly the perplexity of the F32 file."""
    f32_file, q8_file = folder / "llama.gguf", folder / "llama-q8_0.gguf"
    if not f32_file.exists():
        f32_file = make(makar, "llama", folder)
    run(programs / "llama-quantize", f32_file, q8_file, "Q8_0")
    a, b = (score(makar, f)["perplexity"] for f in (f32_file, q8_file))
    print(f"Q8_0 of llama.cpp: perplexity {b:.4f}, of the F32 file {a:.4f}; {q8_file.stat().st_size} and {f32_file.stat().st_size} bytes")
    return abs(b / a - 1) < 0.01


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("makar")
    p.add_argument("llama_cpp", type=pathlib.Path)
    p.add_argument("--only", default="")
    p.add_argument("--keep", type=pathlib.Path)
    a = p.parse_args()
    for program in ("llama-simple", "llama-quantize"):
        if not os.access(a.llama_cpp / program, os.X_OK):
            print(f"no {a.llama_cpp / program}")
            return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = a.keep or pathlib.Path(scratch)
        folder.mkdir(exist_ok=True)
        good = bad = 0
        for name in MODELS:
            if a.only not in name:
                continue
            try:
                same = compare(a.makar, a.llama_cpp, name, folder)
            except RuntimeError as error:
                print(f"  {error}")
                same = False
            good, bad = good + same, bad + (not same)
            print(f"{name}: {'the same greedy text' if same else 'DIFFERENT'}", flush=True)
        if not a.only and not quantized(a.makar, a.llama_cpp, folder):
            bad += 1
        print(f"{good} architectures with the same greedy text, {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
