#include "cli/generation_flags.h"

#include "base/quote.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "infer/model_drafter.h"
#include "llm/constrain.h"

namespace makar {

void SpeculationOptions::declare(Options& options) {
  options.group("Performance");
  options.add(
      "--model-draft -md", &draft,
      "speculative decoding: a smaller model with the same vocabulary drafts tokens; the answer stays "
      "the same",
      "MODEL");
  options.add("--draft-max", &speculation.draft_tokens, "number of tokens to draft at a time", "N");
  options.add("--lookup", &speculation.lookup,
              "speculative decoding: draft tokens from repetitions in the prompt; the answer stays the same");
}

Status SpeculationOptions::open(const LanguageModel& language, Device& device, const MemoryBudget& budget) {
  if (draft.empty()) return Done{};
  MAKAR_TRY(LoadedModel loaded, load_model(resolve_model(draft)));
  const ModelSpec& spec = loaded.model->spec();
  if (!spec.decoder || spec.encoder || spec.vocab != language.spec().vocab)
    return error_at(draft,
                    "a draft model must be decoder-only with the same vocabulary ({} ids); this {} has {}",
                    language.spec().vocab, spec.architecture, spec.vocab);
  MAKAR_RETURN_IF_ERROR(admit_model(*loaded.model, draft, budget));
  loaded.model->pack(device, true, language.model().activations());
  loaded_ = std::make_shared<LoadedModel>(std::move(loaded));
  speculation.draft_model = [model = loaded_, &device] {
    return std::make_shared<ModelDrafter>(*model->model, device);
  };
  return Done{};
}

int64_t SpeculationOptions::cache_page_bytes() const {
  return loaded_ ? KvCache(*loaded_->model->spec().decoder).page_bytes() : 0;
}

void GenerationFlags::declare(Options& options) {
  declare_table<Decoding>(options, generation, decoding_options());
  options.group("Output");
  options.add("--stop", &generation.stop, "end the answer at this text; may be repeated", "TEXT");
  options.add("-j --json-schema", &json_schema,
              "constrain the answer to JSON of this schema; @FILE reads a file", "SCHEMA");
  options.add("--grammar", &grammar, "constrain the answer to this GBNF grammar; @FILE reads a file", "GBNF");
  options.add("--regex", &regex, "constrain the answer to this regular expression; @FILE reads a file",
              "PATTERN");
  options.group("Search");
  options.add("--early-stopping", &early,
              "when beam search ends: yes: with as many answers as beams; no: when a better one is unlikely; "
              "never: when none can be better",
              "WHEN");
  options.add("--mbr", &generation.mbr,
              "minimum Bayes risk: sample this many answers and keep the one most similar to the others; 0 "
              "for off",
              "N");
  options.add(
      "--mbr-metric", &mbr_metric,
      "similarity of answers: bleu, chrf, rouge-l, f1, or embedding with --mbr-model; chrf if not set",
      "METRIC");
  options.add("--mbr-model", &mbr_model, "embedding model for --mbr-metric embedding", "MODEL");
  engine.declare(options);
  speculation.declare(options);
  add_sampler_options(options, generation.sampler);
}

Status GenerationFlags::check(const Options& options) {
  MAKAR_TRY(generation.early_stop, parse_early_stop(early));
  const std::string metric = !mbr_metric.empty() ? mbr_metric : mbr_model.empty() ? "chrf" : "embedding";
  MAKAR_RETURN_IF_ERROR(read_mbr_metric(metric, "--mbr-metric", generation));
  if (generation.mbr_embedding && mbr_model.empty())
    return error_at("--mbr-metric", "embedding needs an embedding model; set --mbr-model");
  const int constraints = !json_schema.empty() + !grammar.empty() + !regex.empty();
  if (constraints > 1) return error_at("options", "--json-schema, --grammar and --regex cannot be combined");
  generation.speculation = speculation.speculation;
  MAKAR_RETURN_IF_ERROR(check_generation(generation));
  if (options.given("--jsonl")) return Done{};  // each request sets its own
  const bool several_answers = generation.answers > 1 || generation.best_of > 1 || generation.mbr > 0;
  const bool greedy = generation.sampler.temperature == 0 || generation.sampler.top_k == 1;
  if (several_answers && greedy && generation.beams == 1)
    return error_at(generation.mbr > 0       ? "--mbr"
                    : generation.best_of > 1 ? "--best-of"
                                             : "--answers",
                    "greedy decoding gives the same answer every time; set --temperature, or use --beams");
  MAKAR_RETURN_IF_ERROR(engine.budget());
  for (const std::string& text : ineffective_options(options, *this)) warn(text);
  return Done{};
}

Status GenerationFlags::prepare(const LanguageModel& language, Device& device) {
  MAKAR_RETURN_IF_ERROR(constrain(language));
  MAKAR_TRY(const MemoryBudget budget, engine.budget());
  MAKAR_RETURN_IF_ERROR(speculation.open(language, device, budget));
  generation.speculation = speculation.speculation;
  MAKAR_RETURN_IF_ERROR(open_embedder(device));
  return check_generation(generation);
}

Status GenerationFlags::constrain(const LanguageModel& language) {
  const std::string& value = !json_schema.empty() ? json_schema : !grammar.empty() ? grammar : regex;
  if (value.empty()) return Done{};
  const std::string flag = !json_schema.empty() ? "--json-schema"
                           : !grammar.empty()   ? "--grammar"
                                                : "--regex";
  MAKAR_TRY(const std::string source, text_or_file(value, flag));
  const auto rules = !json_schema.empty() ? Grammar::from_json_schema(source)
                     : !grammar.empty()   ? Grammar::from_gbnf(source)
                                          : Grammar::from_regex(source);
  if (!rules.ok()) {
    Error error = rules.error().in(flag);
    error.message += suggest_file(value, flag);
    return error;
  }
  MAKAR_TRY(const Constrainer tokens, Constrainer::of(language));
  MAKAR_TRY(generation.constraint, tokens.constrain(*rules));
  return Done{};
}

Status GenerationFlags::open_embedder(Device& device) {
  if (mbr_model.empty()) return Done{};
  MAKAR_TRY(const MemoryBudget budget, engine.budget());
  MAKAR_TRY(generation.embedder, Embedder::open(resolve_model(mbr_model), device, budget));
  return Done{};
}

Status read_mbr_metric(const std::string& name, const std::string& place, TextGenerationOptions& generation) {
  generation.mbr_embedding = name == "embedding";
  if (generation.mbr_embedding) return Done{};
  auto metric = parse_overlap(name, place);
  if (!metric.ok()) return metric.error();
  generation.mbr_metric = *metric;
  return Done{};
}

Result<EngineOptions> GenerationFlags::engine_options(const Model& model) const {
  const int64_t embedder_bytes =
      generation.embedder ? step_bytes(generation.embedder->spec(), Embedder::engine_options().step_tokens)
                          : 0;
  return engine.resolve(model, speculation.cache_page_bytes(), embedder_bytes);
}

Json token_json(const GeneratedToken& generated, const Tokenizer& tokenizer) {
  const auto token = [&](int64_t id) {
    const uint32_t one[] = {static_cast<uint32_t>(id)};
    return tokenizer.decode(one);
  };
  Json out = {{"token", token(generated.id)}, {"id", generated.id}, {"logprob", generated.logprobs.chosen}};
  Json top = Json::array();
  for (const auto& t : generated.logprobs.top)
    top.push_back({{"token", token(t.id)}, {"id", t.id}, {"logprob", t.logprob}});
  out["top"] = std::move(top);
  return out;
}

std::string explain_empty(const TextGenerationResult& result, const LanguageModel& language, bool chat) {
  if (result.answers.empty()) return "";
  for (const GeneratedText& answer : result.answers)
    if (!answer.text.empty()) return "";
  const GeneratedText& first = result.answers[0];
  std::string why;
  if (!first.stop_string.empty()) {
    why = fmt::format("it began with the stop text {}", quote(first.stop_string));
  } else if (first.finish == Finish::kStop) {
    std::string end;
    if (!first.tokens.empty())
      end = language.tokenizer().token(static_cast<uint32_t>(first.tokens.back().id)).value_or("");
    why = "the model ended it with its first token" + (end.empty() ? "" : fmt::format(" ({})", end));
    if (!chat && language.chat_template())
      why += "; the model has a chat template: try --chat";
    else
      why += "; try another prompt, or --min-tokens";
  } else {
    why = fmt::format("its {} tokens have no text ({})", first.tokens.size(), name(first.finish));
  }
  return "the answer is empty: " + why;
}

}  // namespace makar
