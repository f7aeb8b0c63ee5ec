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

  bool has(const Config::Keys& keys) const { return config_.has(keys); }
  int64_t integer(const Config::Keys& keys, int64_t lo, int64_t hi);
  int64_t integer_or(const Config::Keys& keys, int64_t fallback, int64_t lo, int64_t hi);
  float number_or(const Config::Keys& keys, double fallback, double lo = -1e30, double hi = 1e30);
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
  void kv_heads(AttentionSpec& a, const Config::Keys& keys, int64_t fallback);
  // rope_parameters (newer) or rope_theta and rope_scaling (older).
  std::optional<ops::RopeOptions> rope(int64_t head_dim, double theta, int64_t max_positions,
                                       double partial = 1.0);
  // The sliding layers get the window: those of layer_types, or without it by the rule "all", "even" or
  // "none".
  void windows(StackSpec& stack, int64_t window, const std::string& rule);
  int64_t labels();

  // The head of architectures[0], e.g. "BertForMaskedLM"; `model` is the class prefix "Bert".
  HeadKind head(const std::string& model, ModelSpec& spec);
  void special_tokens(ModelSpec& spec, int64_t bos, int64_t eos, int64_t pad);

  // A rule that involves several fields: fails with `what` when it is violated.
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
  Config config_;
  std::optional<Error> error_;
};

}  // namespace makar
