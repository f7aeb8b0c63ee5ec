// makar data augment: changed copies of texts for training.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "augment/augment.h"
#include "base/file_writer.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/trim.h"
#include "cli/data_paths.h"
#include "cli/model_options.h"
#include "cli/model_request.h"
#include "cli/run.h"
#include "data/schema.h"
#include "lexical/vector_files.h"
#include "llm/fill.h"
#include "llm/text_generation.h"
#include "text/wordnet.h"

namespace makar {
namespace {

struct AugmentCommand {
  std::vector<std::string> paths, steps;
  std::string output, wordnet = WordNet::kFolder, vectors, classifier, entities;
  std::string translator, back_translator, paraphraser, masked;
  std::string prompt = "Write this sentence in other words.\nSentence: {text}\nIn other words:";
  int64_t copies = 1, seed = 1, threads = 0;
  bool choose = false, only_new = false, quiet = false, json = false;
};

void declare(Options& o, AugmentCommand& c) {
  std::string kinds;
  for (const AugmentKind& k : augment_kinds())
    kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", k.name);
  o.positional("PATHS", &c.paths, "records with a text: JSONL, JSON, CSV, TSV or plain text");
  o.add("-a --augment", &c.steps, "KIND or KIND:RATE, applied in order; kinds: " + kinds, "KIND").required =
      true;
  o.add("-o --output --out", &c.output, "JSONL file to write", "FILE").required = true;
  o.add("--copies", &c.copies, "number of changed copies per record", "N");
  o.add("--choose", &c.choose, "apply one of the kinds, chosen at random for each copy, instead of all");
  o.add("--only-new", &c.only_new, "write the copies without the originals");
  o.add("--seed", &c.seed, "random seed", "S");
  o.group("Resources");
  o.add("--wordnet", &c.wordnet, "folder of the WordNet database", "DIR");
  o.add("--vectors", &c.vectors, "word vectors of `makar vectors train`, word2vec or GloVe (neighbors)",
        "FILE");
  o.add("--classifier", &c.classifier, "file of `makar classify train --method` (adversarial)", "FILE");
  o.add("--entities", &c.entities,
        "file of names, one kind, tab and name per line, instead of the built-in names (entities)", "FILE");
  o.add("--translator", &c.translator, "model folder that translates the texts (back-translation)", "DIR");
  o.add("--back-translator", &c.back_translator, "model folder that translates back", "DIR");
  o.add("--paraphraser", &c.paraphraser, "model folder of a language model (paraphrase)", "DIR");
  o.add("--prompt", &c.prompt, "prompt of the paraphraser; {text} is the text", "TEXT");
  o.add("--masked-model", &c.masked, "model folder of a masked language model (contextual)", "DIR");
  o.group("Output");
  o.add("-q --quiet", &c.quiet, "print no progress");
  o.add("--json", &c.json, "print the counts as JSON");
  declare_threads(o, c.threads);
}

// A model and its engine, for as long as the command runs.
struct RunningModel {
  LanguageModel language;
  std::unique_ptr<Engine> engine;
  static Result<std::shared_ptr<RunningModel>> open(const std::string& path, Device& device) {
    ModelOptions options;
    options.model = path;
    MAKAR_TRY(LanguageModel language, open_model(options, device));
    if (!language.has_tokenizer())
      return error_of(Error::Kind::kNotFound, path, "has no tokenizer; use a model folder with one");
    auto out = std::make_shared<RunningModel>(RunningModel{std::move(language), nullptr});
    out->engine = std::make_unique<Engine>(out->language.model(), device);
    return out;
  }
  // Samples a text of at most 20 + `length` tokens (never over 1000); the first line of it if the model is
  // decoder-only. Empty if the prompt is longer than the context.
  Result<std::string> write(const std::string& prompt, uint64_t seed, size_t length) {
    MAKAR_TRY(auto ids, encode_request(language, prompt));
    TextGenerationOptions o;
    o.sampler = {0.8, 0, 0.95, seed};
    o.max_new_tokens = static_cast<int64_t>(std::min<size_t>(1000, 20 + length)), o.fit = true;
    if (!language.spec().encoder) o.stop = {"\n"};
    const auto generated = generate_text(*engine, language, std::move(ids), o);
    if (!generated.ok() && generated.error().kind == Error::Kind::kLimit)
      return std::string();  // too long: unchanged
    MAKAR_TRY(const auto result, generated);
    return result.answers.empty() ? std::string() : trimmed(result.answers[0].text);
  }
};

// The resources of the steps. `all` points to the other members, so this must not be moved after loading.
struct LoadedResources {
  AugmentResources all;
  std::optional<TextClassifier> classifier;
  std::optional<WordVectors> vectors;
  std::optional<VectorIndex> index;
};

Status load_models(const AugmentCommand& c, Device& device, AugmentResources& r) {
  if (!c.translator.empty() && !c.back_translator.empty()) {
    MAKAR_TRY(const auto forward, RunningModel::open(c.translator, device));
    MAKAR_TRY(const auto backward, RunningModel::open(c.back_translator, device));
    r.back_translate = [forward, backward](const std::string& text, uint64_t seed) -> Result<std::string> {
      MAKAR_TRY(const std::string middle, forward->write(text, seed, text.size()));
      if (middle.empty()) return middle;
      return backward->write(middle, seed + 1, text.size());
    };
  }
  if (!c.paraphraser.empty()) {
    MAKAR_TRY(const auto model, RunningModel::open(c.paraphraser, device));
    r.paraphrase = [model, prompt = c.prompt](const std::string& text, uint64_t seed) {
      std::string filled = prompt;
      if (const size_t at = filled.find("{text}"); at != std::string::npos) filled.replace(at, 6, text);
      return model->write(filled, seed, text.size());
    };
  }
  if (c.masked.empty()) return Done{};
  MAKAR_TRY(const auto model, RunningModel::open(c.masked, device));
  const std::string mask = mask_token(model->language);
  if (mask.empty())
    return error_of(Error::Kind::kUnsupported, c.masked,
                    "is not a masked language model; use one such as BERT");
  r.masked = [model, mask](const std::string& before,
                           const std::string& after) -> Result<std::vector<std::string>> {
    std::vector<std::string> out;
    const auto filled = fill(*model->engine, model->language, before + mask + after, 10);
    if (!filled.ok() && filled.error().kind == Error::Kind::kLimit) return out;  // too long: unchanged
    MAKAR_TRY(const auto predictions, filled);
    if (predictions.empty()) return out;
    for (const TokenLogprob& t : predictions[0].top) {
      std::string word =
          model->language.tokenizer().decode(std::vector<uint32_t>{static_cast<uint32_t>(t.id)}, true);
      std::erase(word, ' ');
      const bool is_word = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char ch) {
        return ch >= 0x80 || std::isalpha(ch);
      });
      if (is_word) out.push_back(std::move(word));
    }
    return out;
  };
  return Done{};
}

Status load_resources(const AugmentCommand& c, const std::vector<AugmentStep>& steps, Device& device,
                      LoadedResources& out) {
  const auto has_step = [&](const char* kind) {
    return std::any_of(steps.begin(), steps.end(), [&](const AugmentStep& s) { return s.kind == kind; });
  };
  if (has_step("synonyms") || has_step("insertion") || has_step("adversarial")) {
    const auto database = WordNet::open(c.wordnet);
    if (!database.ok() && has_step("synonyms")) return database.error();
    if (database.ok())
      out.all.synonyms = [words = *database](const std::string& word) { return words->synonyms(word); };
  }
  if (!c.vectors.empty()) {
    MAKAR_TRY(out.vectors, load_vectors(c.vectors));
    out.index.emplace(*out.vectors);
    out.all.neighbors = [&out](const std::string& word) {
      std::vector<std::string> near;
      const auto id = out.vectors->words.find(word);
      if (!id) return near;
      for (const Neighbor& n : out.index->nearest(out.index->unit(*id), 5, {*id}))
        near.emplace_back(out.vectors->words.word(n.word));
      return near;
    };
  }
  if (!c.classifier.empty()) {
    MAKAR_TRY(const Json json, read_json(c.classifier, {size_t{4} << 30, 16}));
    MAKAR_TRY(auto loaded, TextClassifier::from_json(json, c.classifier));
    out.classifier.emplace(std::move(loaded));
    out.all.classifier = &*out.classifier;
  }
  if (!c.entities.empty()) {
    MAKAR_TRY(out.all.entities, read_entities(c.entities));
  }
  MAKAR_RETURN_IF_ERROR(load_models(c, device, out.all));
  for (const AugmentStep& step : steps) MAKAR_RETURN_IF_ERROR(check(step, out.all));
  return Done{};
}

struct AugmentCounts {
  uint64_t records = 0, written = 0, unchanged = 0, bad = 0;
  std::map<std::string, uint64_t> changed;  // copies that a kind changed
};

// A label as text, for the classifier.
std::string label_text(const Json& record) {
  const Json* label = label_field(record);
  return !label ? "" : label->is_string() ? label->get<std::string>() : label->dump();
}

Result<AugmentCounts> run_steps(const AugmentCommand& c, const std::vector<AugmentStep>& steps,
                                const AugmentResources& resources) {
  MAKAR_TRY(const std::vector<DataPath> paths, parse_data_paths(c.paths));
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  MAKAR_TRY(auto out, FileWriter::open(c.output));
  Progress progress(c.quiet || c.json);
  AugmentCounts counts;
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const Json* text = text_field(record.value);
    if (!text || !text->is_string()) {
      reader.bad().add_once(record.place(), "has no text");
      continue;
    }
    const uint64_t record_index = counts.records++;
    const auto write = [&](const Json& value) {
      ++counts.written;
      return out.write(dump(value) + "\n");
    };
    if (!c.only_new) MAKAR_RETURN_IF_ERROR(write(record.value));
    const std::string original = text->get<std::string>(), label = label_text(record.value);
    for (int64_t copy = 0; copy < c.copies; ++copy) {
      TextDraws draws(static_cast<uint64_t>(c.seed), record_index, static_cast<uint64_t>(copy));
      std::vector<AugmentStep> chosen = steps;
      if (c.choose) chosen = {steps[draws.below(steps.size())]};
      std::string current = original;
      std::vector<std::string> used;
      for (const AugmentStep& step : chosen) {
        MAKAR_TRY(std::string next, augment_text(current, label, step, resources, draws));
        if (next == current || next.empty()) continue;
        current = std::move(next);
        used.push_back(step.kind), ++counts.changed[step.kind];
      }
      if (current == original) {
        ++counts.unchanged;
        continue;
      }
      Json changed = record.value;
      *const_cast<Json*>(text_field(changed)) = current;
      changed["augmented"] = fmt::format("{}", fmt::join(used, ","));
      MAKAR_RETURN_IF_ERROR(write(changed));
    }
    progress.show("records", counts.records, 0, "");
  }
  counts.bad = reader.bad().count;
  MAKAR_RETURN_IF_ERROR(out.commit());
  return counts;
}

}  // namespace

int run_data_augment(const std::vector<std::string>& arguments) {
  AugmentCommand c;
  Options options(
      "data augment", "Augment training data: write changed copies of texts.",
      "makar data augment train.tsv -a synonyms:0.1 -a swap:0.1 --copies 4 --choose -o more.jsonl");
  declare(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (c.copies < 1 || c.copies > 4096)
    return report(error_at("--copies", "must be 1 to 4096, got {}", c.copies)), 2;
  std::vector<AugmentStep> steps;
  for (const std::string& text : c.steps) {
    const auto step = parse_step(text);
    if (!step.ok()) return report(step.error()), 2;
    steps.push_back(*step);
  }
  const auto compute = open_device_option("cpu", c.threads);
  if (!compute.ok()) return report(compute.error());
  LoadedResources resources;
  if (const Status s = load_resources(c, steps, **compute, resources); !s.ok()) return report(s.error());
  const auto counts = run_steps(c, steps, resources.all);
  if (!counts.ok()) return report(counts.error());
  if (c.json) {
    const Json out = {{"records", counts->records},     {"written", counts->written},
                      {"unchanged", counts->unchanged}, {"bad_records", counts->bad},
                      {"changed", counts->changed},     {"output", c.output}};
    fmt::print("{}\n", dump(out));
    return 0;
  }
  fmt::print("{}: {} records from {}", c.output, counts->written, counts->records);
  for (const auto& [kind, n] : counts->changed) fmt::print(", {} {}", kind, n);
  fmt::print("; {} copies unchanged and left out, {} bad records\n", counts->unchanged, counts->bad);
  return 0;
}

}  // namespace makar
