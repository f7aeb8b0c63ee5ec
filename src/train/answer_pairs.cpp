#include "train/answer_pairs.h"

#include "data/preference_record.h"
#include "data/schema.h"

namespace makar {
namespace {

Result<LearntTokens> encode_answer(const ConversationEncoder& encoder, const Json& prompt,
                                   const Json& answer) {
  Json whole = prompt;
  whole.insert(whole.end(), answer.begin(), answer.end());
  return encoder.encode(whole, prompt.size());
}

Result<AnswerPair> encode_pair(const ConversationEncoder& encoder, const PreferenceRecord& record) {
  MAKAR_TRY(LearntTokens chosen, encode_answer(encoder, record.prompt, record.chosen));
  MAKAR_TRY(LearntTokens rejected, encode_answer(encoder, record.prompt, record.rejected));
  if (chosen.ids == rejected.ids)
    return error_at("", "'chosen' and 'rejected' are the same tokens; if they are cut, raise --sequence-len");
  return AnswerPair{std::move(chosen.ids), std::move(rejected.ids), std::move(chosen.learnt),
                    std::move(rejected.learnt)};
}

}  // namespace

Status read_answer_pairs(const DataPath& path, const ConversationEncoder& encoder, ValidationSplit& split,
                         AnswerPairs& out) {
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    if (!field(record.value, {"chosen"}) || !field(record.value, {"rejected"})) {
      reader.bad().add_once(record.place(), unknown_fields(record.value, {Schema::kPreference}));
      continue;
    }
    const auto read = to_preference(record.value);
    if (!read.ok()) {
      reader.bad().add(record.place(), read.error().message);
      continue;
    }
    const auto pair = encode_pair(encoder, *read);
    if (!pair.ok()) {
      reader.bad().add(record.place(), pair.error().message);
      continue;
    }
    // By the prompt, so that no prompt is in both parts.
    const bool held_out = split.takes(dump(read->prompt));
    MAKAR_CHECK_OK((held_out ? out.validation : out.train).add(*pair));
  }
  out.bad = reader.bad();
  return Done{};
}

Result<AnswerPairs> open_answer_pairs(const DatasetOptions& options, const ConversationEncoder& encoder,
                                      Json& identity) {
  return read_examples<AnswerPairs>(
      options, "pairs of answers", identity,
      [&](const DatasetSpec& spec, ValidationSplit& split, AnswerPairs& out) -> Status {
        if (!spec.type.empty() && schema_named(spec.type) != Schema::kPreference)
          return error_at("datasets", "type '{}' has no pairs of answers; expected preference", spec.type);
        return read_answer_pairs(spec.data(), encoder, split, out);
      });
}

void AnswerBatch::add(const std::vector<int64_t>& ids, const std::vector<uint8_t>& learnt) {
  batch.add(ids);
  lengths.push_back(0);
  for (size_t i = 0; i < ids.size(); ++i) {
    const float scored = i > 0 && learnt[i] ? 1.0f : 0.0f;
    mask.push_back(scored), lengths.back() += scored;
  }
}

AnswerBatch batch_answers(const std::vector<AnswerPair>& pairs) {
  AnswerBatch out;
  for (const AnswerPair& p : pairs) out.add(p.chosen, p.chosen_learnt);
  for (const AnswerPair& p : pairs) out.add(p.rejected, p.rejected_learnt);
  return out;
}

}  // namespace makar
