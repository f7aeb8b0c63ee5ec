#include "cli/model_options.h"

namespace makar {

void ModelOptions::declare(Options& options) {
  options.add("-m --model", &model, "Hugging Face folder (or file) of the model", "PATH").required = true;
  options.add("-t --threads", &threads, "threads; 0 means all cores", "N");
}

void WritingOptions::declare(Options& options) {
  options.add("-n --n-predict --max-tokens", &write.max_new_tokens, "tokens to write at most", "N");
  options.add("--n", &write.answers, "answers to write", "N");
  options.add("--beams", &write.beams, "beam search of this width; 1 means none", "N");
  options.add("--length-penalty", &write.length_penalty, "beams: scores are divided by length^F", "F");
  options.add("--stop", &write.stop, "text that ends the answer; may be repeated", "TEXT");
  options.add("--lookup", &write.lookup,
              "guess ahead from the prompt; the same answer, sooner where it repeats itself");
  options.add("--mem-budget", &mem_budget, "megabytes for the cache of keys and values; 0 means no bound",
              "MB");
  add_sampler_options(options, write.sampler);
}

Status WritingOptions::check() const {
  if (write.max_new_tokens < 1) return error_at("-n", "must be at least 1, got {}", write.max_new_tokens);
  if (write.answers < 1 || write.answers > 1024)
    return error_at("--n", "must be 1 to 1024, got {}", write.answers);
  if (write.beams < 1 || write.beams > 256)
    return error_at("--beams", "must be 1 to 256, got {}", write.beams);
  if (write.beams > 1 && write.answers > write.beams)
    return error_at("--n", "asks for {} answers of {} beams; there are at most as many answers as beams",
                    write.answers, write.beams);
  if (mem_budget < 0) return error_at("--mem-budget", "must be at least 0, got {}", mem_budget);
  return check_sampler(write.sampler);
}

EngineOptions WritingOptions::engine(const Model& model) const {
  EngineOptions o;
  if (mem_budget > 0) {
    const KvCache probe(*model.spec().decoder);
    o.max_pages = std::max<int64_t>(
        1, static_cast<int64_t>(mem_budget * 1e6 / static_cast<double>(probe.page_bytes())));
  }
  return o;
}

Json written_json(const Written& written, const Tokenizer& tokenizer) {
  const auto token = [&](int64_t id) {
    const uint32_t one[] = {static_cast<uint32_t>(id)};
    return tokenizer.decode(one);
  };
  Json out = {{"token", token(written.id)}, {"id", written.id}, {"logprob", written.logprobs.chosen}};
  Json top = Json::array();
  for (const auto& t : written.logprobs.top)
    top.push_back({{"token", token(t.id)}, {"id", t.id}, {"logprob", t.logprob}});
  out["top"] = std::move(top);
  return out;
}

}  // namespace makar
