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

void ModelOptions::declare_chat(Options& options) {
  options.add("--chat-template", &chat_template,
              "a Jinja chat template instead of the model's own; @FILE reads it", "TEXT");
}

Result<std::string> text_or_file(const std::string& value) {
  if (!value.starts_with('@')) return value;
  return read_file(value.substr(1), size_t{16} << 20);
}

Result<LanguageModel> open_model(const ModelOptions& options, ThreadPool& pool, const MemoryBudget& budget) {
  MAKAR_TRY(LanguageModel language,
            LanguageModel::open(options.model, pool, {options.adapters, budget, options.offered}));
  for (const std::string& warning : language.warnings()) fmt::print(stderr, "makar: warning: {}\n", warning);
  if (!options.chat_template.empty()) {
    MAKAR_TRY(const std::string source, text_or_file(options.chat_template));
    MAKAR_CHECK_OK(language.use_template(source, "--chat-template"));
  }
  return language;
}

void WritingOptions::declare(Options& options) {
  add_number_options<Decoding>(options, write, decoding_options());
  options.add("--ignore-eos", &write.ignore_eos, "go on after the model's ending ids");
  options.add("--early-stopping", &early,
              "beams: yes ends when there are as many answers as beams, no when none is likely to be better, "
              "never when none can be",
              "WHEN");
  options.add("--mbr", &write.mbr,
              "minimum Bayes risk: draw this many answers, keep the one most like all others; 0 for off",
              "N");
  options.add("--mbr-metric", &mbr_metric,
              "how alike answers are: bleu, chrf (the default), rouge-l, f1, or embedding by --mbr-model",
              "METRIC");
  options.add("--mbr-model", &mbr_model, "a model that embeds texts, for the metric embedding", "PATH");
  options.add("--stop", &write.stop, "text that ends the answer; may be repeated", "TEXT");
  options.add("-md --model-draft", &draft,
              "a smaller model with the same vocabulary guesses ahead; the same answer, sooner", "PATH");
  options.add("--draft-max", &write.draft_tokens, "tokens guessed at a time", "N");
  options.add("--lookup", &write.lookup,
              "guess ahead from the prompt; the same answer, sooner where it repeats itself");
  options.add("-j --json-schema", &json_schema, "the answer is JSON of this schema; @FILE reads it",
              "SCHEMA");
  options.add("--grammar", &grammar, "the answer obeys this GBNF grammar; @FILE reads it", "GBNF");
  options.add("--regex", &regex, "the answer matches this regular expression", "PATTERN");
  engine.declare(options);
  add_sampler_options(options, write.sampler);
}

Status WritingOptions::check() {
  MAKAR_TRY(write.early, parse_early_stop(early));
  const std::string metric = !mbr_metric.empty() ? mbr_metric : mbr_model.empty() ? "chrf" : "embedding";
  MAKAR_CHECK_OK(read_mbr_metric(metric, "--mbr-metric", write));
  if (write.mbr_embedding && mbr_model.empty())
    return error_at("--mbr-metric", "embedding needs a model that embeds; give it with --mbr-model");
  const int given = !json_schema.empty() + !grammar.empty() + !regex.empty();
  if (given > 1) return error_at("options", "--json-schema, --grammar and --regex exclude each other");
  return check_writing(write);
}

Status WritingOptions::prepare(const LanguageModel& language, ThreadPool& pool) {
  MAKAR_CHECK_OK(constrain(language));
  MAKAR_CHECK_OK(open_draft(language, pool));
  MAKAR_CHECK_OK(open_embedder(pool));
  return check_writing(write);
}

Status WritingOptions::constrain(const LanguageModel& language) {
  const std::string& given = !json_schema.empty() ? json_schema : !grammar.empty() ? grammar : regex;
  if (given.empty()) return Done{};
  MAKAR_TRY(const std::string source, text_or_file(given));
  MAKAR_TRY(const Grammar rules, !json_schema.empty() ? Grammar::from_json_schema(source)
                                 : !grammar.empty()   ? Grammar::from_gbnf(source)
                                                      : Grammar::from_regex(source));
  MAKAR_TRY(const Constrainer tokens, Constrainer::of(language));
  write.constraint = tokens.constrain(rules);
  return Done{};
}

Status WritingOptions::open_embedder(ThreadPool& pool) {
  if (mbr_model.empty()) return Done{};
  MAKAR_TRY(const MemoryBudget budget, engine.budget());
  MAKAR_TRY(write.embedder, Embedder::open(mbr_model, pool, budget));
  return Done{};
}

Status read_mbr_metric(const std::string& name, const std::string& place, WriteOptions& write) {
  write.mbr_embedding = name == "embedding";
  if (write.mbr_embedding) return Done{};
  auto metric = parse_overlap(name, place);
  if (!metric.ok()) return metric.error();
  write.mbr_metric = *metric;
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
  MAKAR_TRY(const MemoryBudget budget, engine.budget());
  MAKAR_CHECK_OK(admit_model(*loaded.model, draft, budget));
  loaded.model->pack(pool, true);
  draft_model_ = std::make_shared<LoadedModel>(std::move(loaded));
  write.drafter = std::make_shared<ModelDrafter>(*draft_model_->model, pool);
  return Done{};
}

Result<EngineOptions> WritingOptions::engine_options(const Model& model) const {
  const int64_t beside = draft_model_ ? KvCache(*draft_model_->model->spec().decoder).page_bytes() : 0;
  const int64_t aside =
      write.embedder ? step_bytes(write.embedder->spec(), Embedder::engine_options().step_tokens) : 0;
  return engine.resolve(model, beside, aside);
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
