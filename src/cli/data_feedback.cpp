// makar data feedback: turns people's feedback on answers into training data.
#include <fmt/format.h>

#include <map>

#include "base/file.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "cli/fine_tune.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "data/feedback.h"
#include "train/conversation.h"
#include "train/rollout.h"

namespace makar {
namespace {

struct FeedbackCommand {
  std::vector<std::string> files;
  std::string form = "pairs", output, device = "cpu", model;
  int64_t max_new_tokens = 256, threads = 0;
  bool json = false, quiet = false;
};

// Rewrites criticised answers with a model.
class Reviser {
 public:
  static Result<std::unique_ptr<Reviser>> open(const FeedbackCommand& c) {
    auto out = std::make_unique<Reviser>();
    MAKAR_TRY(out->device_, open_device_option(c.device, c.threads));
    MAKAR_TRY(out->language_, LanguageModel::open(c.model, *out->device_));
    const LanguageModel& language = *out->language_;
    if (language.spec().head.kind != HeadKind::kCausalLm || language.spec().encoder ||
        !language.has_tokenizer())
      return error_of(Error::Kind::kUnsupported, c.model,
                      "a {} cannot write revisions; use a causal language model",
                      language.spec().architecture);
    FineTuneOptions options;
    options.common.quiet = true;
    MAKAR_TRY(ChatTemplate chat, find_template(options, language));
    // A model without a position limit gets one that no conversation reaches.
    const int64_t context = language.spec().max_positions > 0 ? language.spec().max_positions : 1 << 20;
    out->max_prompt_ = context - c.max_new_tokens;
    out->encoder_.emplace(language.tokenizer(), std::move(chat), ConversationOptions{context, false});
    out->options_.max_new_tokens = c.max_new_tokens, out->options_.stop = language.stop_ids();
    return out;
  }
  Status revise(Feedback& feedback) {
    MAKAR_TRY(const auto ids, encoder_->encode_prompt(revision_request(feedback)));
    if (static_cast<int64_t>(ids.size()) > max_prompt_)
      return error_at("", "the conversation has {} tokens; the context and --max-new-tokens leave {}",
                      ids.size(), max_prompt_);
    const std::vector<std::vector<int64_t>> prompts = {ids};
    MAKAR_TRY(const auto rollouts, roll_out(*language_->loaded().model, *device_, prompts, options_));
    std::vector<uint32_t> answer(rollouts[0].tokens.begin() + rollouts[0].prompt_tokens,
                                 rollouts[0].tokens.end());
    if (rollouts[0].finish != Finish::kStop)
      return error_at("", "the revision did not end within --max-new-tokens");
    answer.pop_back();
    add_revision(feedback, language_->tokenizer().decode(answer, true));
    return Done{};
  }

 private:
  std::unique_ptr<Device> device_;
  std::optional<LanguageModel> language_;
  std::optional<ConversationEncoder> encoder_;
  RolloutOptions options_;
  int64_t max_prompt_ = 0;
};

Status convert(const FeedbackCommand& c, std::map<std::string, uint64_t>& kinds, uint64_t& written,
               BadRecords& bad) {
  std::unique_ptr<Reviser> reviser;
  if (!c.model.empty()) {
    MAKAR_TRY(reviser, Reviser::open(c));
  }
  std::FILE* file = c.output.empty() ? stdout : std::fopen(c.output.c_str(), "wb");
  const std::string output = c.output.empty() ? "standard output" : c.output;
  if (!file) return io_error(output, "write");
  const std::unique_ptr<std::FILE, void (*)(std::FILE*)> close(c.output.empty() ? nullptr : file,
                                                               [](std::FILE* f) { std::fclose(f); });
  std::vector<DataPath> paths(c.files.begin(), c.files.end());
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  const FeedbackForm form = *feedback_form_named(c.form);
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    auto feedback = read_feedback(record.value);
    if (feedback.ok() && !feedback->critique.empty() && reviser)
      if (const Status revised = reviser->revise(*feedback); !revised.ok()) feedback = revised.error();
    if (!feedback.ok()) {
      reader.bad().add(record.place(), feedback.error().message);
      continue;
    }
    bool failed = false;
    const Status used = for_each_record(*feedback, form, [&](const Json& out) -> Status {
      const std::string line = dump(out) + "\n";
      failed = std::fwrite(line.data(), 1, line.size(), file) != line.size();
      ++written;
      return failed ? io_error(output, "write") : Status(Done{});
    });
    if (failed) return used;
    if (!used.ok()) {
      reader.bad().add(record.place(), used.error().message);
      continue;
    }
    ++kinds[name(feedback->kind)];
  }
  if (std::fflush(file) != 0) return io_error(output, "write");
  bad = reader.bad();
  return Done{};
}

}  // namespace

int run_data_feedback(const std::vector<std::string>& arguments) {
  FeedbackCommand c;
  Options options(
      "data feedback",
      "Turn feedback on answers into training data. Records: preferences (prompt, chosen, rejected), "
      "rankings (answers, ranks), demonstrations (prompt, completion), corrections (correction), "
      "critiques (critique, revision), thumbs (label or thumb).",
      "makar data feedback feedback.jsonl --form pairs -o pairs.jsonl");
  options.positional("FILE", &c.files, "files with feedback records").required = true;
  options.add("--form", &c.form,
              "training data to write: sft (good answers as messages), pairs (chosen, rejected), rated "
              "(completion, label) or ranked "
              "(answers, ranks)",
              "NAME");
  options.add("-o --output --out", &c.output, "JSONL file to write; standard output if not set", "FILE");
  options.add("-m --model", &c.model,
              "model that writes the revision of a criticised answer if its record has none", "DIR");
  options.add("--max-new-tokens", &c.max_new_tokens, "maximum number of tokens per revision", "N");
  options.add("-q --quiet", &c.quiet, "print no counts");
  options.add("--json", &c.json, "print the counts as JSON to standard error");
  declare_threads(options, c.threads);
  declare_device(options, c.device);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (!feedback_form_named(c.form))
    return report(error_at("--form", "expected {}, got '{}'{}", fmt::join(feedback_form_names(), ", "),
                           c.form, did_you_mean(c.form, feedback_form_names()))),
           2;
  if (c.max_new_tokens < 1 || c.max_new_tokens > 1 << 20)
    return report(error_at("--max-new-tokens", "expected 1 to {}, got {}", 1 << 20, c.max_new_tokens)), 2;
  std::map<std::string, uint64_t> kinds;
  uint64_t written = 0;
  BadRecords bad;
  if (const Status done = convert(c, kinds, written, bad); !done.ok()) return report(done.error());
  if (c.quiet) return 0;
  if (c.json) {
    fmt::print(stderr, "{}\n",
               Json{{"records", written}, {"kinds", kinds}, {"bad_records", bad.count}}.dump());
    return 0;
  }
  std::string counts;
  for (const auto& [kind, count] : kinds)
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, kind);
  fmt::print(stderr, "{} records from {}\n", written, counts.empty() ? "no feedback" : counts);
  for (const std::string& line : bad.reported) fmt::print(stderr, "{}\n", line);
  if (bad.count > bad.reported.size()) fmt::print(stderr, "{} records could not be used\n", bad.count);
  return 0;
}

}  // namespace makar
