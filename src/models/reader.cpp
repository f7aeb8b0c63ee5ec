#include "models/reader.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/nearest.h"
#include "base/quote.h"
#include "kernels/args/experts.h"

namespace makar {

int64_t Reader::integer(const Config::Keys& keys, int64_t lo, int64_t hi) {
  return take(config_.integer(keys, lo, hi), lo);
}
int64_t Reader::integer_or(const Config::Keys& keys, int64_t fallback, int64_t lo, int64_t hi) {
  return take(config_.integer_or(keys, fallback, lo, hi), fallback);
}
std::vector<int64_t> Reader::integers_or(const Config::Keys& keys, int64_t lo, int64_t hi) {
  return has(keys) ? take(config_.integers(keys, lo, hi), std::vector<int64_t>()) : std::vector<int64_t>();
}
std::vector<std::string> Reader::texts_or(const Config::Keys& keys) {
  return has(keys) ? take(config_.texts(keys, 4096), std::vector<std::string>()) : std::vector<std::string>();
}
float Reader::number_or(const Config::Keys& keys, double fallback, double lo, double hi) {
  return static_cast<float>(take(config_.number_or(keys, fallback, lo, hi), fallback));
}
bool Reader::flag_or(const Config::Keys& keys, bool fallback) {
  return take(config_.boolean_or(keys, fallback), fallback);
}
std::string Reader::text_or(const Config::Keys& keys, const std::string& fallback) {
  return take(config_.text_or(keys, fallback), fallback);
}

Activation Reader::activation(const Config::Keys& keys, const std::string& fallback) {
  static const std::map<std::string, Activation> known = {
      {"relu", Activation::kRelu},          {"gelu", Activation::kGelu},
      {"gelu_new", Activation::kGeluTanh},  {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},         {"tanh", Activation::kTanh},
      {"sigmoid", Activation::kSigmoid}};
  const std::string name =
      fallback.empty() ? take(config_.text(keys), std::string("gelu")) : text_or(keys, fallback);
  const auto it = known.find(name);
  if (it != known.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [n, a] : known) names.push_back(n);
  require(
      false, keys,
      fmt::format("is {}, which is not a supported activation{}", quote(name), did_you_mean(name, names)));
  return Activation::kGelu;
}

int64_t Reader::head_dim(int64_t width, int64_t heads, const Config::Keys& keys) {
  require(width % heads == 0, keys, fmt::format("is {}, which does not divide the width {}", heads, width));
  return std::max<int64_t>(1, width / heads);
}

void Reader::full_heads(AttentionSpec& a, int64_t width, const Config::Keys& keys) {
  a.heads = a.kv_heads = heads(keys);
  a.head_dim = head_dim(width, a.heads, keys);
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
}

void Reader::kv_heads(AttentionSpec& a, const Config::Keys& keys, int64_t fallback) {
  a.kv_heads = integer_or(keys, fallback, 1, 4096);
  require(a.heads % a.kv_heads == 0, keys,
          fmt::format("is {}, which does not divide the {} heads", a.kv_heads, a.heads));
}

namespace {

const std::map<std::string, ops::RopeScaling> kScalings = {
    {"default", ops::RopeScaling::kNone},    {"linear", ops::RopeScaling::kLinear},
    {"dynamic", ops::RopeScaling::kDynamic}, {"llama3", ops::RopeScaling::kLlama3},
    {"yarn", ops::RopeScaling::kYarn},       {"longrope", ops::RopeScaling::kLongRope},
    {"su", ops::RopeScaling::kLongRope}};  // longrope's first name

}  // namespace

void Reader::rope_scaling(ops::RopeOptions& o, int64_t max_positions, int64_t original) {
  o.original_positions = integer_or("original_max_position_embeddings", original, 1, int64_t{1} << 24);
  if (o.scaling == ops::RopeScaling::kDynamic) o.original_positions = max_positions;
  const double length_ratio = static_cast<double>(max_positions) / static_cast<double>(o.original_positions);
  const bool has_default_factor =
      o.scaling == ops::RopeScaling::kYarn || o.scaling == ops::RopeScaling::kLongRope;
  require(has_default_factor || has("factor"), "factor", "is missing");
  o.factor = number_or("factor", length_ratio, 1e-3, 1e6);
  o.low_freq_factor = number_or("low_freq_factor", 1.0, 1e-6, 1e6);
  o.high_freq_factor = number_or("high_freq_factor", 4.0, 1e-6, 1e6);
  o.beta_fast = number_or("beta_fast", 32.0, 1e-6, 1e6);
  o.beta_slow = number_or("beta_slow", 1.0, 1e-6, 1e6);
  o.attention_factor = number_or("attention_factor", 0.0, 0.0, 1e6);
  o.mscale = number_or("mscale", 0.0, 0.0, 1e6);
  o.mscale_all = number_or("mscale_all_dim", 0.0, 0.0, 1e6);
  o.truncate = flag_or("truncate", true);
  require(o.scaling != ops::RopeScaling::kLlama3 || o.high_freq_factor != o.low_freq_factor,
          "high_freq_factor", "must differ from low_freq_factor");
  require(o.scaling != ops::RopeScaling::kDynamic || o.rotary > 2, "rope_type",
          "dynamic scaling requires more than 2 rotary dimensions");
  if (o.scaling != ops::RopeScaling::kLongRope) return;
  const auto factors = [&](const char* key) {
    auto list = take(config_.numbers(key, 1e-6, 1e9), std::vector<double>());
    require(static_cast<int64_t>(list.size()) == o.rotary / 2, key,
            fmt::format("has {} values for {} rotated pairs", list.size(), o.rotary / 2));
    list.resize(static_cast<size_t>(o.rotary / 2), 1.0);
    for (double& factor : list)
      factor = static_cast<float>(factor);  // the precision of GGUF and transformers
    return list;
  };
  o.short_factors = factors("short_factor");
  o.long_factors = factors("long_factor");
  require(o.original_positions > 1, "original_max_position_embeddings", "must be at least 2");
}

std::optional<ops::RopeOptions> Reader::rope(int64_t head_dim, double theta, int64_t max_positions,
                                             double rotary_share, const char* layer_type,
                                             const char* theta_key) {
  ops::RopeOptions o;
  const bool has_parameters = config_.has("rope_parameters");
  const char* key = has_parameters ? "rope_parameters" : "rope_scaling";
  Config fields = take(config_.object_or_empty(key), Config());
  if (has_parameters && *layer_type && fields.has(layer_type))
    fields = take(fields.object(layer_type), Config());
  if (!has_parameters && std::string(theta_key) != "rope_theta") fields = Config();
  Reader r(fields);
  o.theta = has_parameters && fields.has("rope_theta")
                ? r.number_or("rope_theta", theta, 1.0, 1e12)
                : number_or({theta_key, "rotary_emb_base"}, theta, 1.0, 1e12);
  rotary_share = r.has("partial_rotary_factor")
                     ? r.number_or("partial_rotary_factor", rotary_share, 0.0, 1.0)
                     : number_or({"partial_rotary_factor", "rotary_pct"}, rotary_share, 0.0, 1.0);
  o.rotary = static_cast<int64_t>(static_cast<double>(head_dim) * rotary_share);
  require(
      o.rotary % 2 == 0 && o.rotary > 0,
      rotary_share == 1.0 ? Config::Keys("head_dim") : Config::Keys({"partial_rotary_factor", "rotary_pct"}),
      fmt::format("rotates {} of {} dimensions; expected an even number of at least 2", o.rotary, head_dim));
  const std::string kind = r.text_or({"rope_type", "type"}, "default");
  const auto it = kScalings.find(kind);
  if (it == kScalings.end()) {
    require(false, key,
            fmt::format("has the rope type {}, which is not supported; supported are default, linear, "
                        "dynamic, llama3, yarn and longrope",
                        quote(kind)));
    return o;
  }
  o.scaling = it->second;
  if (o.scaling != ops::RopeScaling::kNone)
    r.rope_scaling(o, max_positions, positions_or("original_max_position_embeddings", max_positions));
  adopt(r);
  return o;
}

void Reader::windows(StackSpec& stack, int64_t window, int64_t period) {
  const auto layers = stack.blocks.size();
  const bool has_types = config_.has("layer_types");
  const auto types = has_types ? take(config_.texts("layer_types", 4096), std::vector<std::string>())
                               : std::vector<std::string>();
  require(!has_types || types.size() == layers, "layer_types",
          fmt::format("has {} entries for {} layers", types.size(), layers));
  for (size_t i = 0; i < layers; ++i) {
    bool slides = period == 0 || (i + 1) % static_cast<size_t>(period) != 0;
    if (has_types) {
      const std::string type = i < types.size() ? types[i] : "full_attention";
      slides = type == "sliding_attention";
      require(slides || type == "full_attention", "layer_types",
              "has " + quote(type) + "; expected full_attention or sliding_attention");
    }
    stack.blocks[i].attention.window = slides ? window : 0;
  }
}

FeedForwardSpec Reader::experts(FeedForwardSpec f, const Config::Keys& count, int64_t fallback,
                                int64_t per_token) {
  f.experts = integer_or(count, fallback, 1, kernels::kMaxExperts);
  f.experts_per_token = integer_or("num_experts_per_tok", per_token, 1, kernels::kMaxExperts);
  return f;
}

// transformers adds the loss only when it outputs the router logits.
float Reader::router_loss(double fallback) {
  return flag_or("output_router_logits", false) ? number_or("router_aux_loss_coef", fallback, 0, 1e3) : 0.0f;
}

int64_t Reader::labels() {
  if (config_.has("id2label")) {
    const Config names = take(config_.object("id2label"), Config());
    require(names.keys().size() <= 65536, "id2label", "has more than 65536 labels");
    return std::max<int64_t>(1, static_cast<int64_t>(names.keys().size()));
  }
  return integer_or("num_labels", 2, 1, 65536);
}

HeadKind Reader::head(const std::string& model, ModelSpec& spec) {
  static const std::vector<std::pair<std::string, HeadKind>> known = {
      {"Model", HeadKind::kNone},
      {"LMHeadModel", HeadKind::kCausalLm},
      {"ForCausalLM", HeadKind::kCausalLm},
      {"ForConditionalGeneration", HeadKind::kCausalLm},
      {"MTModel", HeadKind::kCausalLm},
      {"ForMaskedLM", HeadKind::kMaskedLm},
      {"ForBidirectionalLM", HeadKind::kBidirectionalLm},
      {"ForPreTraining", HeadKind::kPretraining},
      {"ForSequenceClassification", HeadKind::kSequenceClass},
      {"ForTokenClassification", HeadKind::kTokenClass},
      {"ForQuestionAnswering", HeadKind::kQuestion},
      {"ForImageClassification", HeadKind::kImageClass},
      {"ForImageClassificationWithTeacher", HeadKind::kImageClassTeacher}};
  const auto names = take(config_.texts("architectures", 16), std::vector<std::string>());
  spec.architecture = names.empty() ? "" : names[0];
  for (const auto& [suffix, kind] : known)
    if (spec.architecture == model + suffix) return kind;
  std::vector<std::string> supported;
  for (const auto& [suffix, kind] : known) supported.push_back(model + suffix);
  require(false, "architectures",
          fmt::format("has {}, which is not supported{}", quote(spec.architecture),
                      did_you_mean(spec.architecture, supported)));
  return HeadKind::kNone;
}

void Reader::special_tokens(ModelSpec& spec, int64_t bos, int64_t eos, int64_t pad) {
  const Json& json = config_.json();
  // As in transformers: null means no token; a missing key means the family's default.
  const auto token_id = [&](const char* key, int64_t fallback) {
    const bool none = json.contains(key) && json[key].is_null();
    return none ? -1 : integer_or(key, fallback, -1, int64_t{1} << 23);
  };
  spec.bos = token_id("bos_token_id", bos);
  spec.pad = token_id("pad_token_id", pad);
  spec.decoder_start = token_id("decoder_start_token_id", -1);
  spec.initializer_range = number_or({"initializer_range", "init_std"}, 0.02, 0.0, 1e3);
  if (json.contains("eos_token_id") && json["eos_token_id"].is_array())
    spec.eos = take(config_.integers("eos_token_id", 0, int64_t{1} << 23, 64), std::vector<int64_t>());
  else if (const int64_t id = token_id("eos_token_id", eos); id >= 0)
    spec.eos = {id};
}

void Reader::require(bool holds, const Config::Keys& keys, const std::string& what) {
  if (!holds && !error_) error_ = config_.field_error(keys, what);
}

void Reader::unsupported(bool present, const Config::Keys& keys, const std::string& what) {
  if (!present || error_) return;
  error_ = config_.field_error(keys, what);
  error_->kind = Error::Kind::kUnsupported;
}

Result<ModelSpec> Reader::finish(ModelSpec spec) {
  for (const auto* stack :
       {spec.encoder ? &*spec.encoder : nullptr, spec.decoder ? &*spec.decoder : nullptr}) {
    if (!stack) continue;
    int64_t experts = 0;
    for (const BlockSpec& block : stack->blocks) {
      const auto& f = block.feed_forward;
      require(f.experts == 0 || (f.experts_per_token >= 1 && f.experts_per_token <= f.experts),
              "num_experts_per_tok",
              fmt::format("is {} but there are {} experts", f.experts_per_token, f.experts));
      experts += std::max<int64_t>(1, f.experts);
    }
    require(experts <= 65536, "num_hidden_layers", "times the number of experts exceeds 65536");
    require((stack->embedding.positions != PositionKind::kSinusoidal &&
             stack->embedding.positions != PositionKind::kFairseq) ||
                stack->embedding.max_positions * stack->width <= (int64_t{1} << 24),
            "max_position_embeddings", "gives a position table of more than 2^24 values");
    require(stack->rotary_rows * stack->first().attention.head_dim <= (int64_t{1} << 24),
            "max_position_embeddings", "gives a position table of more than 2^24 values");
  }
  if (error_) return *error_;
  spec.config = config_.json();
  return spec;
}

}  // namespace makar
