"""Random changes of a model's config.json that keep it consistent: sizes, layers, heads, experts, windows, biases, activations."""
import copy

WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers")
INNER = ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "d_inner", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim",
         "moe_intermediate_size", "shared_expert_intermediate_size")
POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")
EPSILONS = ("layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps", "norm_eps", "norm_epsilon")
ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function", "activation", "ff_activation")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
SWITCHES = ("attention_bias", "mlp_bias", "norm_topk_prob", "use_bias", "qkv_bias", "use_qkv_bias", "use_parallel_residual", "use_conv_bias",
            "conv_bias", "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "norm_bias", "classifier_bias", "decoder_bias", "scale_embedding", "share_att_key",
            "position_biased_input", "output_router_logits", "multimodal_projector_bias", "qk_layernorm", "use_qk_norm", "parallel_attn",
            "bias", "apply_residual_connection_post_layernorm", "do_layer_norm_before", "rotary_value", "enable_bias",
            "layer_norm_elementwise_affine", "sinusoidal_pos_embds")
SCALES = ("logit_scale", "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling", "routed_scaling_factor",
          "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping", "router_aux_loss_coef", "logit_scale_init_value")
CAUSAL_TIES = ("llama", "mistral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "olmo2", "olmoe", "granite", "phi", "phi3", "stablelm",
               "starcoder2", "smollm3", "gptj", "gpt_neox", "gpt2", "nemotron", "glm4", "ernie4_5", "exaone4", "mamba", "mamba2", "cohere")


def present_keys(c, keys):
    """The keys that the config has."""
    return [k for k in keys if c.get(k) is not None]


def draw_heads(c, rng):
    """Width, heads and their dimensions."""
    kind = c["model_type"]
    heads, head = rng.choice([1, 2, 3, 4, 6]), rng.choice([8, 12, 16, 20])
    width = heads * head
    if "encoder_attention_heads" in c:
        width = rng.choice([24, 32, 48, 64])
        c["encoder_attention_heads"], c["decoder_attention_heads"] = rng.choice([1, 2, 4]), rng.choice([1, 2, 4])
    elif c.get("head_dim") is not None or "d_kv" in c:
        width = 4 * heads * rng.randint(-(-20 // (4 * heads)), max(72 // (4 * heads), 1))
        c["head_dim" if "d_kv" not in c else "d_kv"] = head
    if "d_head" in c:
        c["d_head"] = head
    if kind in ("gemma", "gemma2", "gemma3_text") and "query_pre_attn_scalar" in c:
        c["query_pre_attn_scalar"] = head
    for k in present_keys(c, HEADS):
        c[k] = heads
    for k in present_keys(c, KV_HEADS):
        shared = [d for d in (1, 2, 3, 4, 6) if heads % d == 0]
        full = kind.startswith("deepseek") or kind == "falcon" and not c["new_decoder_architecture"]
        c[k] = heads if full else 1 if kind == "gpt_bigcode" else rng.choice(shared)
    for k in present_keys(c, WIDTHS):
        c[k] = width
    for k in present_keys(c, ("pooler_hidden_size", "pooler_output_size")):
        c[k] = width
    if "word_embed_proj_dim" in c:
        c["word_embed_proj_dim"] = rng.choice([width, 20])
    if "ffn_hidden_size" in c:
        c["ffn_hidden_size"] = 4 * width
    if "embedding_size" in c:
        c["embedding_size"] = rng.choice([width, 20, 28])
    if "rotary_dim" in c:
        c["rotary_dim"] = 2 * rng.randint(1, head // 2)
    return heads, head, width


def draw_layers(c, rng):
    count = rng.randint(1, 4)
    for k in present_keys(c, LAYERS):
        # transformers sizes T5's cache by the layers of the encoder, so encoder and decoder get the same number.
        c[k] = rng.randint(1, 3) if k in ("encoder_layers", "decoder_layers") else count
    kind = c["model_type"]
    if c.get("layer_types"):
        types = sorted(set(c["layer_types"]))
        if kind in ("qwen2", "qwen2_moe", "qwen3"):
            first = rng.randint(0, count)
            c["max_window_layers"] = first if c.get("use_sliding_window") else 28
            types = ["full_attention"] * first + ["sliding_attention"] * (count - first) if c.get("use_sliding_window") else ["full_attention"] * count
            c["layer_types"] = types
        else:
            if len(types) > count:
                count = len(types)
                c["num_hidden_layers"] = count
            chosen = types + [rng.choice(types) for _ in range(count - len(types))]
            rng.shuffle(chosen)
            c["layer_types"] = chosen
        if "sliding_window_pattern" in c:
            c["sliding_window_pattern"] = rng.randint(2, 4)
    if "no_rope_layers" in c:
        c["no_rope_layers"] = [rng.randint(0, 1) for _ in range(count)]
    if "mlp_only_layers" in c:
        c["mlp_only_layers"] = sorted(rng.sample(range(count), rng.randint(0, count - 1)))
        c["decoder_sparse_step"] = rng.choice([1, 1, 2])
    if "first_k_dense_replace" in c:
        c["first_k_dense_replace"] = rng.randint(0, count - 1)
    if kind == "gpt_neo":
        each, times = rng.choice([["global"], ["local"], ["global", "local"], ["local", "global"]]), rng.randint(1, 2)
        c["attention_types"], c["attention_layers"], c["num_layers"] = [[each, times]], each * times, len(each) * times
    if kind == "albert":
        c["num_hidden_groups"] = rng.randint(1, count)
        if count % c["num_hidden_groups"]:
            c["num_hidden_groups"] = 1
        c["inner_group_num"] = rng.choice([1, 1, 2])
    return count


def draw_experts(c, rng):
    for k in present_keys(c, EXPERTS):
        c[k] = rng.choice([4, 6, 8])
        if "n_group" in c:
            c["n_group"] = rng.choice([1, 2]) if c["model_type"] == "deepseek_v3" or c.get("topk_method") else 1
            c["topk_group"] = rng.randint(1, c["n_group"])
            if "topk_method" in c:
                c["topk_method"] = "group_limited_greedy" if c["n_group"] > 1 else "greedy"
        c["num_experts_per_tok"] = rng.randint(1, c[k] // c.get("n_group", 1) * c.get("topk_group", 1) // 2 + 1)
    if "n_shared_experts" in c:
        c["n_shared_experts"] = rng.randint(1, 2)
    if "kv_lora_rank" in c:
        c["kv_lora_rank"], c["q_lora_rank"] = 4 * rng.randint(2, 7), rng.choice([None, 16, 24])
        nope, rope = 4 * rng.randint(1, 4), 4 * rng.randint(1, 4)
        c.update(qk_nope_head_dim=nope, qk_rope_head_dim=rope, qk_head_dim=nope + rope, head_dim=rope, v_head_dim=4 * rng.randint(1, 4))


def draw_rope(c, head, rng):
    rope = c.get("rope_parameters")
    if not rope:
        return
    for one in rope.values() if "rope_type" not in rope else [rope]:
        one["rope_theta"] = rng.choice([1000.0, 10000.0, 500000.0])
        if one["rope_type"] in ("linear", "dynamic", "yarn", "llama3"):
            one["factor"] = rng.choice([2.0, 3.0, 8.0])
        if "original_max_position_embeddings" in one:
            one["original_max_position_embeddings"] = rng.choice([8, 16, 32])
            if "original_max_position_embeddings" in c:
                c["original_max_position_embeddings"] = one["original_max_position_embeddings"]
        if one["rope_type"] == "longrope":
            for which in ("short_factor", "long_factor"):
                one[which] = [round(1 + 3 * rng.random(), 3) for _ in range(head // 2)]
        elif "partial_rotary_factor" in one and c["model_type"] != "phi3":
            one["partial_rotary_factor"] = rng.choice([0.5, 1.0])
            if "partial_rotary_factor" in c:
                c["partial_rotary_factor"] = one["partial_rotary_factor"]


def draw_numbers(c, rng):
    kind = c["model_type"]
    for k in present_keys(c, INNER):
        c[k] = 8 * rng.randint(3, 12) if present_keys(c, EXPERTS) else rng.randint(20, 110)  # torch's grouped matrix products need multiples of 16 bytes
    if kind == "phi3" or kind == "lfm2":
        c["intermediate_size"] = 8 * rng.randint(3, 12)
    if kind == "lfm2":
        c["block_multiple_of"] = rng.choice([8, 32, 256])
        c["block_auto_adjust_ff_dim"], c["conv_L_cache"] = rng.random() < 0.6, rng.choice([2, 3, 4])
    for k in present_keys(c, POSITIONS):
        c[k] = rng.randint(44, 100)
    if (c.get("rope_parameters") or {}).get("rope_type") == "dynamic":
        c["max_position_embeddings"] = rng.randint(10, 16)
    for k in present_keys(c, ("sliding_window", "window_size", "local_attention")):
        c[k] = c[k] and (2 * rng.randint(2, 5) if k == "local_attention" else rng.randint(3, 9))
    for k in present_keys(c, EPSILONS):
        c[k] = rng.choice([1e-5, 1e-6, c[k]])
    for k in present_keys(c, SCALES):
        if isinstance(c[k], float):
            c[k] = c[k] * rng.choice([0.75, 1, 1.5])
    if "relative_attention_max_distance" in c:
        c["relative_attention_num_buckets"] = 4 * rng.randint(2, 4)
        c["relative_attention_max_distance"] = c["relative_attention_num_buckets"] + rng.randint(4, 20)
    if "position_buckets" in c:
        c["position_buckets"] = rng.choice([4, 8, 16])
        c["pos_att_type"] = rng.choice([["p2c", "c2p"], ["c2p"], ["p2c"]])
        c["type_vocab_size"] = rng.choice([0, 2])
        c["conv_kernel_size"], c["conv_act"] = rng.choice([0, 0, 3, 5]), rng.choice(["tanh", "gelu"])
    if "id2label" in c:
        count = rng.randint(2, 6)
        c["id2label"] = {str(i): f"LABEL_{i}" for i in range(count)}
        c["label2id"] = {f"LABEL_{i}": i for i in range(count)}
    for k in list(c):
        if "dropout" in k or "pdrop" in k or "layerdrop" in k:
            c[k] = 0.0


def draw_switches(c, rng):
    kind = c["model_type"]
    for k in present_keys(c, SWITCHES):
        if isinstance(c[k], bool) and rng.random() < 0.3 and not (k == "parallel_attn" and c["new_decoder_architecture"]):
            c[k] = not c[k]
    if kind in CAUSAL_TIES and rng.random() < 0.3:
        c["tie_word_embeddings"] = not c.get("tie_word_embeddings", True)
    act = rng.choice(["gelu", "relu", "silu", "gelu_new", "gelu_pytorch_tanh"])
    if rng.random() < 0.3 and kind not in ("gpt_oss", "nemotron", "mamba", "mamba2"):
        for k in present_keys(c, ACTIVATIONS):
            c[k] = act
    if "feed_forward_proj" in c and kind != "umt5":
        c.pop("dense_act_fn", None), c.pop("is_gated_act", None)
        c["feed_forward_proj"] = rng.choice(["relu", "gated-gelu", "gated-silu", c["feed_forward_proj"]])
    if "afn" in c:
        c["afn"] = rng.choice(["gelu", "relu", "silu"])


def draw_image_size(c, rng):
    c["patch_size"] = rng.choice([4, 6, 8])
    c["image_size"] = c["patch_size"] * rng.randint(2, 4)


def draw_state_space(c, rng):
    width, count = 4 * rng.randint(5, 16), rng.randint(1, 4)
    c.update(hidden_size=width, num_hidden_layers=count, state_size=rng.choice([4, 8, 16]), time_step_rank=rng.randint(1, 6),
             conv_kernel=rng.choice([2, 3, 4]), expand=rng.choice([1, 2, 3]))
    if c["model_type"] == "mamba":
        c["intermediate_size"] = c["expand"] * width
    else:
        c["head_dim"] = rng.choice([4, width // 4, 2])
        while c["expand"] * width % c["head_dim"]:
            c["head_dim"] -= 1
        c["num_heads"] = c["expand"] * width // c["head_dim"]
        c["n_groups"] = rng.choice([g for g in (1, 2, 3, 4) if c["num_heads"] % g == 0])
        c["chunk_size"] = rng.choice([2, 5, 8, 64])
    for k in present_keys(c, EPSILONS):
        c[k] = rng.choice([1e-5, 1e-6])


def draw_one(c, rng):
    if c["model_type"] in ("mamba", "mamba2"):
        draw_state_space(c, rng)
    else:
        _, head, _ = draw_heads(c, rng)
        draw_layers(c, rng)
        draw_experts(c, rng)
        draw_numbers(c, rng)
        draw_rope(c, head, rng)
    draw_switches(c, rng)
    if "image_size" in c:
        draw_image_size(c, rng)
    if "vocab_size" in c:
        c["vocab_size"] = rng.randint(90, 300)
        if "decoder_vocab_size" in c:
            c["decoder_vocab_size"] = c["vocab_size"]


def match_widths(encoder, decoder):
    """An encoder of the decoder's width, so that no projection is needed between them."""
    encoder["hidden_size"] = encoder["pooler_output_size"] = decoder["n_embd"]
    encoder["num_attention_heads"] = decoder["n_head"]


def draw(config, rng):
    """A copy of `config` with random changes."""
    c = copy.deepcopy(config)
    c.pop("transformers_version", None)
    if c["model_type"] in ("clip", "llava", "vision-encoder-decoder"):
        parts = ("encoder", "decoder") if "encoder" in c else ("vision_config", "text_config")
        for part in parts:
            draw_one(c[part], rng)
        if "encoder" in c and rng.random() < 0.7:
            match_widths(c["encoder"], c["decoder"])
        if c["model_type"] == "clip":
            c["projection_dim"] = rng.randint(8, 40)
            for part in parts:
                c[part]["projection_dim"] = c["projection_dim"]
        if c["model_type"] == "llava":
            c["image_token_index"] = c["text_config"]["vocab_size"] - 1
            c["vision_feature_layer"] = rng.choice([-1, -2])
            c["vision_config"]["num_hidden_layers"] = rng.randint(2, 4)
            c["vision_feature_select_strategy"] = rng.choice(["default", "full"])
            c["image_seq_length"] = (c["vision_config"]["image_size"] // c["vision_config"]["patch_size"]) ** 2
        return c
    draw_one(c, rng)
    return c
