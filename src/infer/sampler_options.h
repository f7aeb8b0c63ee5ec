// The options of the sampling chain, declared once for command-line flags, keys of JSON requests and
// documentation.
#pragma once
#include "base/option_table.h"
#include "infer/sampler.h"

namespace makar {

using SamplerOption = TableOption<SamplerOptions>;
std::span<const SamplerOption> sampler_options();

// Declares one flag per option; `target` must outlive `options`. Check the bounds with check_sampler() after
// parsing.
void add_sampler_options(Options& options, SamplerOptions& target);
// Reads the value of one request key, including `logit_bias` ({"id": bias}). False: no option has that name.
Result<bool> read_sampler_option(SamplerOptions& target, const std::string& key, const Json& value);
// Checks the bounds of every field; the error names the option and its range.
Status check_sampler(const SamplerOptions& options);

}  // namespace makar
