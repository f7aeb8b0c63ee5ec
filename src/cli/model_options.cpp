#include "cli/model_options.h"

#include "base/file.h"
#include "infer/model_drafter.h"
#include "llm/constrain.h"

namespace makar {

void ModelOptions::declare(Options& options) {
  options.add("-m --model", &model, "Hugging Face folder (or file) of the model", "PATH").required = true;
  options.add(
      "--lora --adapter", &adapters,
      "folder of a PEFT adapter beside the model, with :WEIGHT where wanted; repeat to add several up",
      "DIR");
  options.add("-t --threads", &threads, "threads; 0 means all cores", "N");
}

Result<LanguageModel> open_model(const ModelOptions& options, ThreadPool& pool) {
  auto language = LanguageModel::open(options.model, pool, options.adapters);
  if (language.ok())
    for (const std::string& warning : language->warnings())
      fmt::print(stderr, "makar: warning: {}\n", warning);
  return language;
}

void WritingOptions::declare(Options& options) {
  options.add("-n --n-predict --max-tokens", &write.max_new_tokens, "tokens to write at most", "N");
  options.add("--n", &write.answers, "answers to write", "N");
  options.add("--beams", &write.beams, "beam search of this width; 1 means none", "N");
  options.add("--length-penalty", &write.length_penalty, "beams: scores are divided by length^F", "F");
  options.add("--stop", &write.stop, "text that ends the answer; may be repeated", "TEXT");
  options.add("-md --model-draft", &draft,
              "a smaller model with the same vocabulary guesses ahead; the same answer, sooner", "PATH");
  options.add("--draft-max", &write.draft_tokens, "tokens guessed at a time", "N");
  options.add("--lookup", &write.lookup,
              "guess ahead from the prompt; the same answer, sooner where it repeats itself");
  options.add("--mem-budget", &mem_budget, "megabytes for the cache of keys and values; 0 means no bound",
              "MB");
  options.add("-j --json-schema", &json_schema, "the answer is JSON of this schema; @FILE reads it",
              "SCHEMA");
  options.add("--grammar", &grammar, "the answer obeys this GBNF grammar; @FILE reads it", "GBNF");
  options.add("--regex", &regex, "the answer matches this regular expression", "PATTERN");
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
  if (write.draft_tokens < 1 || write.draft_tokens > 64)
    return error_at("--draft-max", "must be 1 to 64, got {}", write.draft_tokens);
  if (mem_budget < 0) return error_at("--mem-budget", "must be at least 0, got {}", mem_budget);
  return check_sampler(write.sampler);
}

Status WritingOptions::constrain(const LanguageModel& language) {
  const int given = !json_schema.empty() + !grammar.empty() + !regex.empty();
  if (given == 0) return Done{};
  if (given > 1) return error_at("options", "--json-schema, --grammar and --regex exclude each other");
  if (write.beams > 1) return error_at("--beams", "beam search knows no grammar; sample instead");
  const auto text = [](const std::string& value) -> Result<std::string> {
    if (!value.starts_with('@')) return value;
    return read_file(value.substr(1));
  };
  MAKAR_TRY(const std::string source, text(!json_schema.empty() ? json_schema
                                           : !grammar.empty()   ? grammar
                                                                : regex));
  MAKAR_TRY(const Grammar rules, !json_schema.empty() ? Grammar::from_json_schema(source)
                                 : !grammar.empty()   ? Grammar::from_gbnf(source)
                                                      : Grammar::from_regex(source));
  MAKAR_TRY(write.constraint, makar::constrain(rules, language));
  return Done{};
}

Status WritingOptions::open_draft(const LanguageModel& language, ThreadPool& pool) {
  if (draft.empty()) return Done{};
  MAKAR_TRY(LoadedModel loaded, load_model(draft));
  const ModelSpec& spec = loaded.model->spec();
  if (!spec.decoder || spec.encoder || spec.vocab != language.spec().vocab)
    return error_at(draft,
                    "a draft model is decoder-only and has the same vocabulary ({} ids), this {} has {}",
                    language.spec().vocab, spec.architecture, spec.vocab);
  loaded.model->pack(pool);
  draft_model_ = std::make_shared<LoadedModel>(std::move(loaded));
  write.drafter = std::make_shared<ModelDrafter>(*draft_model_->model, pool);
  return Done{};
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
