#!/usr/bin/env python3
"""Makes golden fixtures with transformers, in the form that ./dev golden reads.

Dropout is 0 and models are in eval mode, so every number can be reproduced. The variants cover what one config of a
family leaves out: rope scalings, sliding windows, the newer Falcon, OPT with projections, ALBERT with two groups, other heads.

usage: make_fixtures.py FOLDER [NAME...]      NAME: only these models (needs torch and transformers)
"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file

V = 160  # vocabulary size


LLAMA = dict(vocab_size=V, hidden_size=40, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2)
BERT = dict(vocab_size=V, hidden_size=40, intermediate_size=72, num_hidden_layers=3, num_attention_heads=4,
            max_position_embeddings=48, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=0)
BART = dict(vocab_size=V, d_model=40, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=2,
            encoder_ffn_dim=72, decoder_ffn_dim=56, max_position_embeddings=48, dropout=0.0, attention_dropout=0.0,
            activation_dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2,
            forced_eos_token_id=None, decoder_vocab_size=V)
T5 = dict(vocab_size=V, d_model=40, d_kv=12, d_ff=72, num_layers=3, num_decoder_layers=3, num_heads=4,
          relative_attention_num_buckets=12, relative_attention_max_distance=24, dropout_rate=0.0, pad_token_id=0,
          eos_token_id=2, decoder_start_token_id=0)
FALCON = dict(vocab_size=V, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, hidden_dropout=0.0,
              attention_dropout=0.0, bos_token_id=1, eos_token_id=2)
OPT = dict(vocab_size=V, hidden_size=40, ffn_dim=72, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=48,
           dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2)
NEOX = dict(vocab_size=V, hidden_size=40, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=48, bos_token_id=1, eos_token_id=2)
MODERN = dict(vocab_size=V, hidden_size=40, intermediate_size=72, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=48,
              local_attention=6, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
DEBERTA = dict(BERT, relative_attention=True, share_att_key=True, pos_att_type=["p2c", "c2p"], position_buckets=8,
               norm_rel_ebd="layer_norm", position_biased_input=False, type_vocab_size=0)
ROPE = {"rope_theta": 10000.0}

MODELS = {
    "opt-clean": ("OPTForCausalLM", "OPTConfig", OPT),
    "opt-projected-post-norm": ("OPTForCausalLM", "OPTConfig", dict(OPT, word_embed_proj_dim=24, do_layer_norm_before=False)),
    "bart-clean": ("BartForConditionalGeneration", "BartConfig", dict(BART, scale_embedding=True)),
    "marian-clean": ("MarianMTModel", "MarianConfig", dict(BART, scale_embedding=True)),
    "t5-tied-clean": ("T5ForConditionalGeneration", "T5Config", T5),
    "t5-gated-silu-untied": ("T5ForConditionalGeneration", "T5Config", dict(T5, feed_forward_proj="gated-silu", tie_word_embeddings=False)),
    "llama-rope-linear": ("LlamaForCausalLM", "LlamaConfig", dict(LLAMA, rope_parameters=dict(ROPE, rope_type="linear", factor=4.0))),
    "llama-rope-dynamic": ("LlamaForCausalLM", "LlamaConfig", dict(LLAMA, max_position_embeddings=12, rope_parameters=dict(ROPE, rope_type="dynamic", factor=2.0))),
    "llama-rope-yarn": ("LlamaForCausalLM", "LlamaConfig", dict(LLAMA, rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0, original_max_position_embeddings=8))),
    "llama-biases": ("LlamaForCausalLM", "LlamaConfig", dict(LLAMA, attention_bias=True, mlp_bias=True)),
    "qwen2-window": ("Qwen2ForCausalLM", "Qwen2Config", dict(LLAMA, num_hidden_layers=3, use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    "gemma2-three-layers": ("Gemma2ForCausalLM", "Gemma2Config", dict(LLAMA, num_hidden_layers=3, head_dim=12, query_pre_attn_scalar=17, sliding_window=4)),
    "mixtral-window": ("MixtralForCausalLM", "MixtralConfig", dict(LLAMA, num_local_experts=5, num_experts_per_tok=3, sliding_window=6, output_router_logits=True)),
    "neox-sequential": ("GPTNeoXForCausalLM", "GPTNeoXConfig", dict(NEOX, use_parallel_residual=False, rotary_pct=0.4)),
    "falcon-grouped": ("FalconForCausalLM", "FalconConfig", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2)),
    "falcon-alibi-sequential": ("FalconForCausalLM", "FalconConfig", dict(FALCON, alibi=True, parallel_attn=False, multi_query=False, bias=True)),
    "bloom-post-residual": ("BloomForCausalLM", "BloomConfig", dict(vocab_size=V, hidden_size=48, n_layer=2, n_head=6, apply_residual_connection_post_layernorm=True, bos_token_id=1, eos_token_id=2, pad_token_id=0)),
    "gpt2-classifier": ("GPT2ForSequenceClassification", "GPT2Config", dict(vocab_size=V, n_embd=40, n_layer=2, n_head=4, n_positions=48, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, pad_token_id=0, num_labels=3)),
    "gpt2-layer-scales": ("GPT2LMHeadModel", "GPT2Config", dict(vocab_size=V, n_embd=40, n_layer=3, n_head=4, n_positions=48, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, pad_token_id=0, bos_token_id=1, eos_token_id=2, scale_attn_by_inverse_layer_idx=True)),
    "roberta-classifier": ("RobertaForSequenceClassification", "RobertaConfig", dict(BERT, num_labels=4, pad_token_id=1, type_vocab_size=1)),
    "roberta-token-classifier": ("RobertaForTokenClassification", "RobertaConfig", dict(BERT, num_labels=4, pad_token_id=1, type_vocab_size=1)),
    "distilbert-classifier": ("DistilBertForSequenceClassification", "DistilBertConfig", dict(vocab_size=V, dim=40, hidden_dim=72, n_layers=2, n_heads=4, max_position_embeddings=48, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, num_labels=3)),
    "albert-two-groups": ("AlbertForMaskedLM", "AlbertConfig", dict(BERT, num_hidden_layers=4, num_hidden_groups=2, embedding_size=24)),
    "albert-classifier": ("AlbertForSequenceClassification", "AlbertConfig", dict(BERT, embedding_size=24, num_labels=3, classifier_dropout_prob=0.0)),
    "albert-inner-groups": ("AlbertForMaskedLM", "AlbertConfig", dict(BERT, num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2, embedding_size=24)),
    "deberta-v2-own-keys": ("DebertaV2ForMaskedLM", "DebertaV2Config", dict(DEBERTA, share_att_key=False)),
    "deberta-v2-convolution": ("DebertaV2ForMaskedLM", "DebertaV2Config", dict(DEBERTA, conv_kernel_size=3, conv_act="gelu")),
    "roformer-rotary-value": ("RoFormerForMaskedLM", "RoFormerConfig", dict(BERT, embedding_size=24, rotary_value=True)),
    "stablelm-head-norms": ("StableLmForCausalLM", "StableLmConfig", dict(LLAMA, qk_layernorm=True, use_qkv_bias=True)),
    "modernbert-classifier": ("ModernBertForSequenceClassification", "ModernBertConfig", dict(MODERN, num_labels=3)),
    "modernbert-mean-classifier": ("ModernBertForSequenceClassification", "ModernBertConfig", dict(MODERN, num_labels=3, classifier_pooling="mean")),
    "modernbert-token-classifier": ("ModernBertForTokenClassification", "ModernBertConfig", dict(MODERN, num_labels=4)),
    "vit-no-qkv-bias": ("ViTForImageClassification", "ViTConfig", dict(hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=60, image_size=24, patch_size=6, qkv_bias=False, num_labels=7)),
}


def inputs_for(model, config, arch):
    g = torch.Generator().manual_seed(7)
    rand = lambda *shape: torch.randint(3, V, shape, generator=g)
    if "Image" in arch:
        size = config.image_size
        return {"pixel_values": torch.randn(3, 3, size, size, generator=g), "labels": torch.tensor([1, 0, 3])}
    ids = rand(3, 14)
    pad = config.pad_token_id if config.pad_token_id is not None else 0
    x = {"input_ids": ids}
    if model.config.is_encoder_decoder:
        mask = torch.ones_like(ids)
        mask[1, 10:] = 0
        ids[mask == 0] = pad
        labels = rand(3, 9)
        labels[2, 6:] = -100
        start = torch.full((3, 1), config.decoder_start_token_id)
        decoder = torch.cat([start, labels[:, :-1].clamp(min=0)], 1)
        return {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": decoder, "labels": labels}
    if "Causal" in arch or "LMHead" in arch:
        labels = ids.clone()
        labels[:, :2] = -100
        return {"input_ids": ids, "labels": labels}
    mask = torch.ones_like(ids)
    mask[1, 11:] = 0
    ids[mask == 0] = pad
    x["attention_mask"] = mask
    if "MaskedLM" in arch:
        labels = torch.full_like(ids, -100)
        labels[:, 1:9:3] = ids[:, 1:9:3]
    elif "Token" in arch:
        labels = torch.randint(0, config.num_labels, ids.shape, generator=g)
        labels[mask == 0] = -100
    else:
        labels = torch.tensor([2, 0, 1])
    x["labels"] = labels
    return x


def summary(t):
    t = t.detach().double().flatten()
    return {"l2": t.norm().item(), "sum": t.sum().item(), "first": t[:8].tolist()}


def make(name, folder):
    arch, config_name, fields = MODELS[name]
    config = getattr(transformers, config_name)(**fields)
    # transformers' eager Falcon adds ALiBi twice (once in the mask, once in the scores); its default path adds it once.
    attention = "sdpa" if name.startswith("falcon-alibi") else "eager"
    config._attn_implementation = attention
    torch.manual_seed(sum(map(ord, name)))
    model = getattr(transformers, arch)(config).float().eval()
    for key, p in model.named_parameters():  # more than the usual 0.02, so that every weight matters; sinusoidal tables stay
        if "embed_positions" in key and name.startswith(("marian", "roformer")):
            continue
        with torch.no_grad():
            p.add_(torch.randn_like(p) * (0.1 if "t5" in name else 0.3 if p.dim() > 1 else 0.1))
    path = os.path.join(folder, "models", name)
    os.makedirs(path, exist_ok=True)
    model.save_pretrained(path)
    model = getattr(transformers, arch).from_pretrained(path, attn_implementation=attention).float().eval()
    x = inputs_for(model, config, arch)
    out = model(**x, output_hidden_states=True)
    tensors = {"in." + k: v.contiguous() for k, v in x.items()}
    tensors["out.logits"] = out.logits
    for kind in ("hidden_states", "encoder_hidden_states", "decoder_hidden_states"):
        for i, h in enumerate(getattr(out, kind, None) or ()):
            tensors[f"out.{kind}.{i}"] = h
    save_file({k: v.detach().clone().contiguous() for k, v in tensors.items()}, os.path.join(path, "golden.safetensors"))
    golden = {"transformers": transformers.__version__, "torch": torch.__version__, "class": arch, "loss": out.loss.item()}
    model.zero_grad()
    out.loss.backward()
    golden["grads"] = {k: summary(p.grad) for k, p in model.named_parameters() if p.grad is not None}
    if "Causal" in arch or "LMHead" in arch or "Conditional" in arch or "MT" in arch:
        ids = x["input_ids"][:1, :9]
        model = getattr(transformers, arch).from_pretrained(path, attn_implementation=attention).float().eval()
        args = dict(num_beams=1, do_sample=False, max_new_tokens=10, pad_token_id=0, eos_token_id=2)
        golden["generate"] = [{"input_ids": ids.tolist(), "args": args, "sequences": model.generate(ids, **args).tolist()}]
    # Dynamic rope keeps the longest length it saw: train a fresh copy.
    model = getattr(transformers, arch).from_pretrained(path, attn_implementation=attention).float().eval()
    decay = [p for p in model.parameters() if p.requires_grad and p.dim() >= 2]
    rest = [p for p in model.parameters() if p.requires_grad and p.dim() < 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for _ in range(6):
        opt.zero_grad()
        loss = model(**x).loss
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        losses.append(loss.item())
        opt.step()
    golden["training"] = {"recipe": "AdamW lr=1e-3 betas=(0.9,0.95) eps=1e-8, weight_decay=0.1 on tensors of 2 or more dims and 0 on the rest, "
                                    "global grad-norm clip 1.0, dropout 0, same batch every step",
                          "lr": 1e-3, "loss": losses, "grad_norm_before_clip": norms}
    json.dump(golden, open(os.path.join(path, "golden.json"), "w"))


if __name__ == "__main__":
    for each in sys.argv[2:] or MODELS:
        try:
            make(each, sys.argv[1])
            print("made", each)
        except Exception as e:  # a model that fails must not stop the others
            print("FAILED", each, type(e).__name__, str(e)[:300])
