// The options of the sampling chain, declared once: they are flags of commands, keys of JSON requests and
// rows of the documentation.
#pragma once
#include <span>
#include <string>
#include <variant>

#include "base/json.h"
#include "base/options.h"
#include "infer/sampler.h"

namespace makar {

struct SamplerOption {
  const char* names;  // keys of JSON, the main one first; as flags: "top_k" is --top-k
  std::variant<double SamplerOptions::*, int64_t SamplerOptions::*, uint64_t SamplerOptions::*> field;
  double low, high;  // both allowed
  const char* value;
  const char* help;
};

std::span<const SamplerOption> sampler_options();

// Declares a flag for each; `target` must outlive `options`. Check the bounds with check_sampler() after
// parsing.
void add_sampler_options(Options& options, SamplerOptions& target);
// The value of one key of a request, `logit_bias` ({"id": bias}) included. False: no option has that name.
Result<bool> read_sampler_option(SamplerOptions& target, const std::string& key, const Json& value);
// Bounds of every field; the error names the option and what it may be.
Status check_sampler(const SamplerOptions& options);

}  // namespace makar
