#include "data/ranked_record.h"

#include <algorithm>
#include <cmath>

#include "base/quote.h"
#include "data/schema.h"

namespace makar {
namespace {

// Removes a copy of the prompt at the beginning of the answer.
Status without_prompt(const Json& prompt, Json& answer, const std::string& name) {
  if (answer.size() > prompt.size() && std::equal(prompt.begin(), prompt.end(), answer.begin()))
    answer.erase(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
  if (answer.empty() || answer.front().value("role", "") != "assistant")
    return error_at("", "{} does not answer the prompt: its first turn is not the assistant's", name);
  return Done{};
}

Result<RankedRecord> from_pair(const Json& record) {
  MAKAR_TRY(PreferenceRecord pair, to_preference(record));
  RankedRecord out;
  out.prompt = std::move(pair.prompt);
  out.answers = {std::move(pair.chosen), std::move(pair.rejected)};
  out.ranks = {0, 1};
  if (const Json* margin = field(record, {"margin"})) {
    constexpr double kMaxMargin = 1000;
    if (!margin->is_number() || !(std::fabs(margin->get<double>()) <= kMaxMargin))
      return error_at("", "'margin' must be a number from {} to {}", -kMaxMargin, kMaxMargin);
    out.margin = margin->get<double>();
  }
  return out;
}

Status read_ranks(const Json& record, RankedRecord& out) {
  const Json* ranks = field(record, {"ranks"});
  if (!ranks) {
    for (size_t i = 0; i < out.answers.size(); ++i) out.ranks.push_back(static_cast<int64_t>(i));
    return Done{};
  }
  if (!ranks->is_array() || ranks->size() != out.answers.size())
    return error_at("", "'ranks' must be a list of one integer per answer");
  for (const Json& rank : *ranks) {
    if (!rank.is_number_integer() || (rank.is_number_unsigned() && rank.get<uint64_t>() > INT64_MAX))
      return error_at("", "'ranks' must be a list of one integer per answer");
    out.ranks.push_back(rank.get<int64_t>());
  }
  if (std::all_of(out.ranks.begin(), out.ranks.end(), [&](int64_t r) { return r == out.ranks[0]; }))
    return error_at("", "all 'ranks' are the same: there is nothing to compare");
  return Done{};
}

// A prompt and its answer: {"prompt", "completion"} or {"messages"}.
Status read_prompt_and_answer(const Json& record, Json& prompt, Json& answer) {
  MAKAR_TRY(prompt, prompt_turns(record));
  if (const Json* completion = field(record, {"completion", "response"})) {
    if (prompt.empty()) return error_at("", "there is no prompt: add the field 'prompt'");
    MAKAR_TRY(answer, answer_turns(*completion, "completion"));
    return without_prompt(prompt, answer, "'completion'");
  }
  if (prompt.size() < 2 || prompt.back().value("role", "") != "assistant")
    return error_at("",
                    "there is no answer: add the field 'completion', or end 'messages' with the assistant");
  answer = Json::array({prompt.back()});
  prompt.erase(prompt.size() - 1);
  return Done{};
}

}  // namespace

Result<RankedRecord> to_ranking(const Json& record) {
  if (field(record, {"chosen"}) && field(record, {"rejected"})) return from_pair(record);
  const Json* answers = field(record, {"answers"});
  if (!answers || !answers->is_array()) return error_at("", "'answers' is missing or not a list");
  if (answers->size() < 2 || answers->size() > RankedRecord::kMaxAnswers)
    return error_at("", "'answers' must have 2 to {} answers, found {}", RankedRecord::kMaxAnswers,
                    answers->size());
  RankedRecord out;
  MAKAR_TRY(out.prompt, prompt_turns(record));
  if (out.prompt.empty()) return error_at("", "there is no prompt: add the field 'prompt'");
  for (size_t i = 0; i < answers->size(); ++i) {
    MAKAR_TRY(Json turns, answer_turns((*answers)[i], "answers"));
    MAKAR_RETURN_IF_ERROR(without_prompt(out.prompt, turns, fmt::format("answer {}", i)));
    out.answers.push_back(std::move(turns));
  }
  MAKAR_RETURN_IF_ERROR(read_ranks(record, out));
  return out;
}

Result<LabelledRecord> to_labelled(const Json& record) {
  LabelledRecord out;
  const Json* label = field(record, {"label", "kto_tag"});
  if (!label) return error_at("", "'label' is missing: true for a good answer, false for a bad one");
  if (label->is_boolean())
    out.good = label->get<bool>();
  else if (label->is_number_integer() && (*label == 0 || *label == 1))
    out.good = *label == 1;
  else
    return error_at("", "'label' must be true or false");
  MAKAR_RETURN_IF_ERROR(read_prompt_and_answer(record, out.prompt, out.answer));
  return out;
}

Result<QualityRecord> to_quality(const Json& record) {
  QualityRecord out;
  const Json* ratings = field(record, {"ratings"});
  if (!ratings || !ratings->is_object() || ratings->empty() || ratings->size() > QualityRecord::kMaxRatings)
    return error_at("", "'ratings' must be an object of 1 to {} qualities", QualityRecord::kMaxRatings);
  for (const auto& [name, value] : ratings->items()) {
    const double rating = value.is_boolean()  ? (value.get<bool>() ? 1.0 : 0.0)
                          : value.is_number() ? value.get<double>()
                                              : -1.0;
    if (!(rating >= 0 && rating <= 1))
      return error_at("", "the rating of {} must be true, false or a number from 0 to 1",
                      quote(name.substr(0, 80)));
    out.ratings[name] = rating;
  }
  MAKAR_RETURN_IF_ERROR(read_prompt_and_answer(record, out.prompt, out.answer));
  return out;
}

}  // namespace makar
