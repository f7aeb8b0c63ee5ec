// Reads a family's config.json field by field. After the first error, later reads return their fallbacks, so
// that a family's page is a plain list of fields; it ends with `return reader.finish(spec)`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "formats/config.h"
#include "models/spec.h"

namespace makar {

class Reader {
 public:
  explicit Reader(const Config& config) : config_(config) {}

  // A reader of the object under `key` (empty if missing); adopt() then takes its first error.
  Reader inner(const char* key) { return Reader(take(config_.object_or_empty(key), Config())); }
  void adopt(const Reader& other) {
    if (!error_) error_ = other.error_;
  }
  bool has(const Config::Keys& keys) const { return config_.has(keys); }
  int64_t integer(const Config::Keys& keys, int64_t lo, int64_t hi);
  int64_t integer_or(const Config::Keys& keys, int64_t fallback, int64_t lo, int64_t hi);
  float number_or(const Config::Keys& keys, double fallback, double lo = -1e30, double hi = 1e30);
  std::vector<int64_t> integers_or(const Config::Keys& keys, int64_t lo, int64_t hi);  // empty if missing
  std::vector<std::string> texts_or(const Config::Keys& keys);                         // empty if missing
  bool flag_or(const Config::Keys& keys, bool fallback);
  std::string text_or(const Config::Keys& keys, const std::string& fallback);

  // Sizes with the bounds that all families share.
  int64_t width(const Config::Keys& keys) { return integer(keys, 1, int64_t{1} << 17); }
  int64_t width_or(const Config::Keys& keys, int64_t fallback) {
    return integer_or(keys, fallback, 1, int64_t{1} << 20);
  }
  int64_t layers(const Config::Keys& keys) { return integer(keys, 1, 1024); }
  int64_t heads(const Config::Keys& keys) { return integer(keys, 1, 4096); }
  int64_t vocab(const Config::Keys& keys) { return integer(keys, 1, int64_t{1} << 23); }
  int64_t positions_or(const Config::Keys& keys, int64_t fallback) {
    return integer_or(keys, fallback, 1, int64_t{1} << 24);
  }
  float dropout_or(const Config::Keys& keys, double fallback) {
    return number_or(keys, fallback, 0.0, 0.999);
  }

  Activation activation(const Config::Keys& keys, const std::string& fallback = "");
  // width / heads, with a check that it divides.
  int64_t head_dim(int64_t width, int64_t heads, const Config::Keys& keys);
  // Without grouped queries: kv_heads = heads, head_dim = width / heads, scale = 1 / sqrt(head_dim).
  void full_heads(AttentionSpec& a, int64_t width, const Config::Keys& keys);
  void kv_heads(AttentionSpec& a, const Config::Keys& keys, int64_t fallback);
  // Reads rope_parameters (newer configs) or rope_theta and rope_scaling (older ones). `layer_type` selects
  // the entry where rope_parameters has one per layer type; `theta_key` is the older field for the base of
  // these layers. rope_scaling applies only to layers whose base is rope_theta.
  std::optional<ops::RopeOptions> rope(int64_t head_dim, double theta, int64_t max_positions,
                                       double rotary_share = 1.0, const char* layer_type = "",
                                       const char* theta_key = "rope_theta");
  // Sets the window of the sliding layers: those that layer_types names, or without layer_types all but every
  // `period`-th layer (1: no layer slides, 0: all layers do).
  void windows(StackSpec& stack, int64_t window, int64_t period);
  int64_t window_or(const Config::Keys& keys, int64_t fallback) {
    return integer_or(keys, fallback, 0, int64_t{1} << 40);
  }
  // A routed feed-forward: the number of experts and how many a token uses; the load-balancing loss.
  FeedForwardSpec experts(FeedForwardSpec f, const Config::Keys& count, int64_t fallback, int64_t per_token);
  float router_loss(double fallback);
  int64_t labels();

  // The head of architectures[0], e.g. "BertForMaskedLM"; `model` is the class prefix "Bert".
  HeadKind head(const std::string& model, ModelSpec& spec);
  void special_tokens(ModelSpec& spec, int64_t bos, int64_t eos, int64_t pad);

  // Records an error about a field unless the rule holds; unsupported() records one of kind kUnsupported if
  // an option that makar does not implement is present.
  void require(bool holds, const Config::Keys& keys, const std::string& what);
  void unsupported(bool present, const Config::Keys& keys, const std::string& what);
  Result<ModelSpec> finish(ModelSpec spec);

 private:
  template <class T>
  T take(Result<T> result, T fallback) {
    if (result.ok()) return *result;
    if (!error_) error_ = result.error();
    return fallback;
  }
  // Reads the scaling from the fields of this reader; `original` is the fallback for
  // original_max_position_embeddings.
  void rope_scaling(ops::RopeOptions& o, int64_t max_positions, int64_t original);
  Config config_;
  std::optional<Error> error_;
};

}  // namespace makar
