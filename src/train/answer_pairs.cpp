#include "train/answer_pairs.h"

#include <algorithm>

#include "data/preference_record.h"
#include "data/schema.h"
#include "formats/safetensors.h"

namespace makar {

Result<MaskedTokens> encode_answer(const ConversationEncoder& encoder, const Json& prompt,
                                   const Json& answer) {
  Json conversation = prompt;
  conversation.insert(conversation.end(), answer.begin(), answer.end());
  return encoder.encode(conversation, prompt.size());
}

namespace {

Result<AnswerPair> encode_pair(const ConversationEncoder& encoder, const PreferenceRecord& record) {
  MAKAR_TRY(MaskedTokens chosen, encode_answer(encoder, record.prompt, record.chosen));
  MAKAR_TRY(MaskedTokens rejected, encode_answer(encoder, record.prompt, record.rejected));
  if (chosen.ids == rejected.ids)
    return error_at("",
                    "'chosen' and 'rejected' are encoded to the same tokens; if they are truncated, raise "
                    "--sequence-len");
  return AnswerPair{std::move(chosen.ids), std::move(rejected.ids), std::move(chosen.loss_mask),
                    std::move(rejected.loss_mask)};
}

}  // namespace

Status read_answer_pairs(const DataPath& path, const ConversationEncoder& encoder, ValidationSplit& split,
                         AnswerPairs& out) {
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    if (!field(record.value, {"chosen"}) || !field(record.value, {"rejected"})) {
      reader.bad().add_once(record.place(), unexpected_schema_message(record.value, {Schema::kPreference}));
      continue;
    }
    const auto preference = to_preference(record.value);
    if (!preference.ok()) {
      reader.bad().add(record.place(), preference.error().message);
      continue;
    }
    const auto pair = encode_pair(encoder, *preference);
    if (!pair.ok()) {
      reader.bad().add(record.place(), pair.error().message);
      continue;
    }
    // Split by the prompt, so that no prompt is both in training and in validation.
    const bool held_out = split.selects(dump(preference->prompt));
    MAKAR_RETURN_IF_ERROR((held_out ? out.validation : out.train).add(*pair));
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

Result<AnswerPairs> read_fixed_pairs(const std::string& path, const std::string& folder, int64_t vocab) {
  MAKAR_TRY(const auto file, Safetensors::open(path));
  const auto names = file->names();
  const auto has = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto find = [&](const std::string& name) {
    return file->tensor(has("in." + name) ? "in." + name : name);
  };
  MAKAR_TRY(const Tensor chosen, find("chosen"));
  MAKAR_TRY(const Tensor rejected, find("rejected"));
  const auto is_table = [&](const Tensor& t, DType type) {
    return t.dtype() == type && t.rank() == 2 && t.shape() == chosen.shape();
  };
  if (!is_table(chosen, DType::kI64) || !is_table(rejected, DType::kI64) || chosen.dim(1) < 2)
    return error_at(path, "'chosen' and 'rejected' must be ids (i64) of the same shape [pairs, time]");
  Tensor mask;
  if (has("mask") || has("in.mask")) {
    MAKAR_TRY(mask, find("mask"));
    if (!is_table(mask, DType::kF32))
      return error_at(path, "'mask' must be f32 with the shape of 'chosen', {}", chosen.shape().text());
  }
  AnswerPairs out(folder);
  const int64_t time = chosen.dim(1);
  for (int64_t i = 0; i < chosen.dim(0); ++i) {
    AnswerPair pair;
    for (int64_t t = 0; t < time; ++t) {
      const int64_t at = i * time + t, a = chosen.i64()[at], b = rejected.i64()[at];
      if (std::min(a, b) < 0 || std::max(a, b) >= vocab)
        return error_at(path, "row {} has the id {}, which is outside of the vocabulary of {}", i,
                        a < 0 || a >= vocab ? a : b, vocab);
      const bool loss_mask = mask.defined() ? mask.f32()[at] != 0 : t > 0;
      pair.chosen.push_back(a), pair.chosen_mask.push_back(loss_mask);
      pair.rejected.push_back(b), pair.rejected_mask.push_back(loss_mask);
    }
    MAKAR_RETURN_IF_ERROR(out.train.add(pair));
  }
  return out;
}

void AnswerBatch::add(const std::vector<int64_t>& ids, const std::vector<uint8_t>& loss_mask) {
  batch.add(ids);
  lengths.push_back(0);
  for (size_t i = 0; i < ids.size(); ++i) {
    const float scored = i > 0 && loss_mask[i] ? 1.0f : 0.0f;
    mask.push_back(scored), lengths.back() += scored;
  }
}

AnswerBatch batch_answers(const std::vector<AnswerPair>& pairs) {
  AnswerBatch out;
  for (const AnswerPair& p : pairs) out.add(p.chosen, p.chosen_mask);
  for (const AnswerPair& p : pairs) out.add(p.rejected, p.rejected_mask);
  return out;
}

}  // namespace makar
