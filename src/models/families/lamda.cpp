// LaMDA (Thoppilan et al., 2022): a decoder with T5's biases per distance bucket and a gated GELU; norms and
// names as in Llama. There are no public weights, so the config has the fields of Llama and T5.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_lamda(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.activation = "gelu_new";
  ModelSpec m = read_llama_like(r, "lamda", "Lamda", d);
  AttentionSpec a = m.decoder->first().attention;
  a.rope.reset();
  a.bias = BiasKind::kT5;
  a.t5_buckets = r.integer_or("relative_attention_num_buckets", 32, 2, 65536);
  a.t5_max_distance = r.integer_or("relative_attention_max_distance", 128, 2, int64_t{1} << 24);
  r.require(a.t5_buckets % 4 == 0 || a.t5_buckets == 2, "relative_attention_num_buckets",
            "must be a multiple of 4");
  r.require(a.t5_max_distance > a.t5_buckets / 2, "relative_attention_max_distance",
            "must be more than half the buckets");
  for (BlockSpec& b : m.decoder->blocks) b.attention = a;
  return r.finish(m);
}

std::vector<NameRule> lamda_names(const ModelSpec& spec) {
  return with_names(llama_names(spec), {{"decoder.relative_bias", "model.relative_attention_bias"}});
}

}  // namespace

const Family kLamda = {.type = "lamda",
                       .prefix = "model.",
                       .read = read_lamda,
                       .names = lamda_names,
                       .ignored = llama_ignored()};

}  // namespace makar
