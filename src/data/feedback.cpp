#include "data/feedback.h"

#include <algorithm>

#include "data/ranked_record.h"
#include "data/schema.h"

namespace makar {
namespace {

constexpr std::pair<const char*, FeedbackForm> kFeedbackForms[] = {{"sft", FeedbackForm::kSft},
                                                                   {"pairs", FeedbackForm::kPairs},
                                                                   {"rated", FeedbackForm::kRated},
                                                                   {"ranked", FeedbackForm::kRanked}};

Result<bool> read_thumb(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer() && (value == 0 || value == 1)) return value == 1;
  if (value == "up" || value == "down") return value == "up";
  return error_at("", "'label' or 'thumb' must be true, false, 1, 0, \"up\" or \"down\"");
}

// The prompt, and the answer in `completion` or `response`, or in the last turns of the conversation.
Status read_answer(const Json& record, Feedback& out) {
  MAKAR_TRY(out.prompt, prompt_turns(record));
  Json answer = Json::array();
  if (const Json* completion = field(record, {"completion", "response", "output"})) {
    MAKAR_TRY(answer, answer_turns(*completion, "completion"));
  } else {
    while (!out.prompt.empty() && out.prompt.back().value("role", "") == "assistant") {
      answer.insert(answer.begin(), out.prompt.back());
      out.prompt.erase(out.prompt.size() - 1);
    }
  }
  if (answer.empty() || answer[0].value("role", "") != "assistant")
    return error_at("",
                    "there is no answer: add the field 'completion', or end 'messages' with the assistant");
  if (out.prompt.empty()) return error_at("", "there is no prompt: add the field 'prompt' or 'messages'");
  out.answers = {std::move(answer)}, out.ranks = {0};
  return Done{};
}

Status read_better(const Json& value, const char* name, Feedback& out) {
  MAKAR_TRY(Json better, answer_turns(value, name));
  if (better.empty() || better[0].value("role", "") != "assistant")
    return error_at("", "'{}' must be a text, or turns that begin with the assistant", name);
  if (better == out.answers[0]) return error_at("", "'{}' is the same as the answer", name);
  out.answers.insert(out.answers.begin(), std::move(better));
  out.ranks = {0, 1};
  return Done{};
}

Json joined(const Json& prompt, const Json& answer) {
  Json out = prompt;
  out.insert(out.end(), answer.begin(), answer.end());
  return out;
}

Status for_each_pair(const Feedback& f, const std::function<Status(const Json&)>& use) {
  const uint64_t pairs = f.answers.size() * (f.answers.size() - 1) / 2, bytes = dump(f.prompt).size();
  if (pairs * bytes > kMaxRepeatedBytes)
    return error_at("", "{} pairs with this prompt of {} bytes are too much; use the form 'ranked'", pairs,
                    bytes);
  for (size_t i = 0; i < f.answers.size(); ++i)
    for (size_t j = i + 1; j < f.answers.size(); ++j)
      if (f.ranks[i] < f.ranks[j])
        MAKAR_RETURN_IF_ERROR(
            use({{"prompt", f.prompt}, {"chosen", f.answers[i]}, {"rejected", f.answers[j]}}));
  return Done{};
}

}  // namespace

std::string name(FeedbackKind kind) {
  constexpr const char* kNames[] = {"preference", "ranking", "correction",
                                    "critique",   "thumb",   "demonstration"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<FeedbackForm> feedback_form_named(const std::string& name) {
  for (const auto& [known, form] : kFeedbackForms)
    if (name == known) return form;
  return std::nullopt;
}

std::vector<std::string> feedback_form_names() {
  std::vector<std::string> out;
  for (const auto& row : kFeedbackForms) out.emplace_back(row.first);
  return out;
}

Result<Feedback> read_feedback(const Json& record) {
  if (!record.is_object()) return error_at("", "a record must be an object");
  Feedback out{FeedbackKind::kDemonstration, {}, {}, {}, "", true};
  const bool pair = field(record, {"chosen"}) && field(record, {"rejected"});
  if (pair || field(record, {"answers"})) {
    out.kind = pair ? FeedbackKind::kPreference : FeedbackKind::kRanking;
    MAKAR_TRY(RankedRecord ranking, to_ranking(record));
    std::vector<size_t> order(ranking.answers.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return ranking.ranks[a] < ranking.ranks[b]; });
    out.prompt = std::move(ranking.prompt);
    for (const size_t i : order)
      out.answers.push_back(std::move(ranking.answers[i])), out.ranks.push_back(ranking.ranks[i]);
    return out;
  }
  MAKAR_RETURN_IF_ERROR(read_answer(record, out));
  if (const Json* correction = field(record, {"correction"})) {
    out.kind = FeedbackKind::kCorrection;
    MAKAR_RETURN_IF_ERROR(read_better(*correction, "correction", out));
  } else if (const Json* critique = field(record, {"critique"})) {
    out.kind = FeedbackKind::kCritique;
    if (!critique->is_string() || critique->get_ref<const std::string&>().empty())
      return error_at("", "'critique' must be a text");
    out.critique = critique->get<std::string>();
    if (const Json* revision = field(record, {"revision"})) {
      MAKAR_RETURN_IF_ERROR(read_better(*revision, "revision", out));
      out.critique.clear();
    }
  } else if (const Json* thumb = field(record, {"label", "thumb"})) {
    out.kind = FeedbackKind::kThumb;
    MAKAR_TRY(out.good, read_thumb(*thumb));
  }
  return out;
}

Json revision_request(const Feedback& feedback) {
  Json out = joined(feedback.prompt, feedback.answers.back());
  out.push_back(
      {{"role", "user"},
       {"content", "Critique of your answer: " + feedback.critique +
                       "\nRewrite your answer so that the critique no longer applies. Reply with the "
                       "new answer only."}});
  return out;
}

void add_revision(Feedback& feedback, const std::string& revision) {
  Json better = Json::array({{{"role", "assistant"}, {"content", revision}}});
  if (revision.empty() || better == feedback.answers.back()) return;
  feedback.answers.insert(feedback.answers.begin(), std::move(better));
  feedback.ranks = {0, 1};
  feedback.critique.clear();
}

Status for_each_record(const Feedback& f, FeedbackForm form, const std::function<Status(const Json&)>& use) {
  const bool is_bad = (f.kind == FeedbackKind::kThumb && !f.good) || !f.critique.empty();
  const bool has_comparison = f.answers.size() > 1;
  switch (form) {
    case FeedbackForm::kSft:
      if (is_bad) return Done{};
      return use({{"messages", joined(f.prompt, f.answers[0])}});
    case FeedbackForm::kPairs:
      return has_comparison ? for_each_pair(f, use) : Done{};
    case FeedbackForm::kRated:
      MAKAR_RETURN_IF_ERROR(use({{"prompt", f.prompt}, {"completion", f.answers[0]}, {"label", !is_bad}}));
      if (!has_comparison) return Done{};
      return use({{"prompt", f.prompt}, {"completion", f.answers.back()}, {"label", false}});
    case FeedbackForm::kRanked:
      if (!has_comparison) return Done{};
      return use({{"prompt", f.prompt}, {"answers", f.answers}, {"ranks", f.ranks}});
  }
  return Done{};
}

}  // namespace makar
