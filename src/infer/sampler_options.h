// The options of the sampling chain, declared once: they are flags of commands, keys of JSON requests and
// rows of the documentation.
#pragma once
#include "infer/number_options.h"
#include "infer/sampler.h"

namespace makar {

using SamplerOption = NumberOption<SamplerOptions>;
std::span<const SamplerOption> sampler_options();

// Declares a flag for each; `target` must outlive `options`. Check the bounds with check_sampler() after
// parsing.
void add_sampler_options(Options& options, SamplerOptions& target);
// The value of one key of a request, `logit_bias` ({"id": bias}) included. False: no option has that name.
Result<bool> read_sampler_option(SamplerOptions& target, const std::string& key, const Json& value);
// Bounds of every field; the error names the option and what it may be.
Status check_sampler(const SamplerOptions& options);

}  // namespace makar
