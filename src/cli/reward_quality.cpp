// makar reward quality: trains heads that rate qualities of answers, from ratings of people.
#include <fmt/format.h>

#include <set>

#include "cli/fine_tune.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "train/quality.h"

namespace makar {
namespace {

struct Quality : FineTuneOptions {
  std::vector<std::string> names;
};

Status check_options(Quality& s) {
  if (s.names.empty()) s.names = lamda_qualities();
  if (s.names.size() > QualityRecord::kMaxRatings ||
      std::set<std::string>(s.names.begin(), s.names.end()).size() != s.names.size())
    return error_at("qualities", "expected 1 to {} different names", QualityRecord::kMaxRatings);
  if (s.sequence_len < 2) return error_at("sequence_len", "expected 2 or more, got {}", s.sequence_len);
  if (s.common.loop.label_smoothing > 0)
    return error_at("label_smoothing", "has no effect on makar reward quality; remove it");
  return check_f32(s.common, "reward quality");
}

// Drops qualities without ratings if --qualities was not set; otherwise they are an error.
Status keep_rated(Quality& s, bool names_set, const std::vector<double>& rating_counts) {
  std::vector<std::string> rated_names;
  for (size_t q = 0; q < s.names.size(); ++q) {
    if (rating_counts[q] > 0)
      rated_names.push_back(s.names[q]);
    else if (names_set)
      return error_at("qualities", "no training record rates '{}'; remove it", s.names[q]);
  }
  s.names = rated_names;
  return Done{};
}

int train(Quality& s, bool names_set, const std::string& command) {
  const auto compute = open_device_option(s.common.device, s.common.threads);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  LanguageModelOptions model_options;
  model_options.weights = WeightUse::kMapped;
  const auto language = LanguageModel::open(s.base_model, device, model_options);
  if (!language.ok()) return report(language.error());
  if (!language->has_tokenizer())
    return report(
        error_of(Error::Kind::kNotFound, s.base_model, "has no tokenizer; training on text needs it"));
  const ModelSpec& spec = language->spec();
  if (spec.max_positions > 0) s.sequence_len = std::min(s.sequence_len, spec.max_positions);
  auto chat = find_template(s, *language);
  if (!chat.ok()) return report(chat.error());
  const ConversationEncoder encoder(language->tokenizer(), std::move(*chat), {s.sequence_len, false, true});
  Json identity = {{"base_model", s.base_model}};
  auto data = open_qualities(dataset_options(s.common), encoder, s.names, identity);
  if (!data.ok()) return report(data.error());
  const std::vector<std::string> all_names = s.names;
  if (const Status ok = keep_rated(s, names_set, data->rated); !ok.ok()) return report(ok.error()), 2;
  if (s.names != all_names) {  // read the data again, without the qualities that have no ratings
    identity = {{"base_model", s.base_model}};
    DatasetOptions quiet = dataset_options(s.common);
    quiet.say = [](const std::string&) {};
    data = open_qualities(quiet, encoder, s.names, identity);
    if (!data.ok()) return report(data.error());
  }
  say(s.common, fmt::format("qualities: {}", fmt::join(s.names, ", ")));
  identity["qualities"] = s.names;
  const auto seed = static_cast<uint64_t>(s.common.loop.seed);
  const auto loaded = with_answer_head(language->model(), s.base_model, s.names, seed);
  if (!loaded.ok()) return report(loaded.error());
  print_trained_parameters(s.common, *loaded->model);
  QualityTask task(*loaded->model, std::move(*data), s.names, s.common.loop.micro_batch_size, seed);
  const Tokenizer& tokenizer = language->tokenizer();
  return run_job({s.common, *loaded, task, device, nullptr, &tokenizer, s.base_model, "trained", command,
                  identity, s.base_model, tokenizer_config(s.base_model, tokenizer), s.saved_template});
}

}  // namespace

int run_reward_quality(const std::vector<std::string>& arguments) {
  Quality s;
  s.common.loop.output_dir = "runs/quality", s.common.loop.learning_rate = 1e-5;
  Options options(
      "reward quality",
      "Train heads that rate qualities of answers (sensible, specific, interesting, safe, grounded), from "
      "records {\"prompt\", \"completion\", \"ratings\": {\"sensible\": 1, \"safe\": 0.5}}; makar judge "
      "people --ratings exports the ratings of a study in this form. --reward quality=DIR and --rank-by "
      "quality=DIR rank answers with the trained model.",
      "makar reward quality -m DIR -d ratings.jsonl -o runs/quality");
  declare_common(options, s.common);
  declare_base(options, s);
  options.group("Objective");
  options.add("--qualities", &s.names,
              "a quality to learn; repeat for several. Default: each of sensible, specific, interesting, "
              "safe and grounded that the data rates",
              "NAME");
  options.add("--sequence-len", &s.sequence_len,
              "tokens of prompt and answer; longer ones are truncated at the beginning", "N");
  if (const auto code = parse_training(options, arguments, s.common)) return *code;
  const bool names_set = !s.names.empty();
  if (const Status checked = check_options(s); !checked.ok()) return report(checked.error()), 2;
  return train(s, names_set, command_line("reward quality", arguments));
}

}  // namespace makar
