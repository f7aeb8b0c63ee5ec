// Reads rankings for reward models.
#include "data/schema.h"
#include "train/reward.h"

namespace makar {
namespace {

Status read_rankings(const DataPath& path, const ConversationEncoder& encoder, ValidationSplit& split,
                     Rankings& out) {
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const bool pair = field(record.value, {"chosen"}) && field(record.value, {"rejected"});
    if (!pair && !field(record.value, {"answers"})) {
      reader.bad().add_once(record.place(),
                            unexpected_schema_message(record.value, {Schema::kRanked, Schema::kPreference}));
      continue;
    }
    const auto ranking = to_ranking(record.value);
    if (!ranking.ok()) {
      reader.bad().add(record.place(), ranking.error().message);
      continue;
    }
    const auto answers = encode_ranking(encoder, *ranking);
    if (!answers.ok()) {
      reader.bad().add(record.place(), answers.error().message);
      continue;
    }
    // Split by the prompt, so that no prompt is both in training and in validation.
    const bool held_out = split.selects(dump(ranking->prompt));
    MAKAR_RETURN_IF_ERROR((held_out ? out.validation : out.train).add(*answers));
  }
  out.bad = reader.bad();
  return Done{};
}

}  // namespace

Result<RankedAnswers> encode_ranking(const ConversationEncoder& encoder, const RankedRecord& record) {
  RankedAnswers out;
  out.ranks = record.ranks, out.margin = static_cast<float>(record.margin);
  for (const Json& answer : record.answers) {
    MAKAR_TRY(MaskedTokens tokens, encode_answer(encoder, record.prompt, answer));
    out.ids.push_back(std::move(tokens.ids));
  }
  for (size_t i = 0; i < out.ids.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (out.ids[i] == out.ids[j] && out.ranks[i] != out.ranks[j])
        return error_at(
            "",
            "answers {} and {} have different ranks but the same tokens; if they are truncated, raise "
            "--sequence-len",
            j, i);
  return out;
}

Result<Rankings> open_rankings(const DatasetOptions& options, const ConversationEncoder& encoder,
                               Json& identity) {
  return read_examples<Rankings>(
      options, "prompts with answers", identity,
      [&](const DatasetSpec& spec, ValidationSplit& split, Rankings& out) -> Status {
        const auto type = spec.type.empty() ? Schema::kRanked : schema_named(spec.type);
        if (type != Schema::kRanked && type != Schema::kPreference)
          return error_at("datasets", "type '{}' has no ranked answers; expected ranked or preference",
                          spec.type);
        return read_rankings(spec.data(), encoder, split, out);
      });
}

Result<Rankings> rankings_of(const AnswerPairs& pairs, const std::string& folder) {
  Rankings out(folder);
  for (const bool validation : {false, true}) {
    const auto& from = validation ? pairs.validation : pairs.train;
    for (size_t i = 0; i < from.size(); ++i) {
      MAKAR_TRY(AnswerPair pair, from.read(i));
      MAKAR_RETURN_IF_ERROR((validation ? out.validation : out.train)
                                .add({{std::move(pair.chosen), std::move(pair.rejected)}, {0, 1}, 0.0f}));
    }
  }
  return out;
}

}  // namespace makar
