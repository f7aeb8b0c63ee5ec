#include "train/pairs.h"

#include <algorithm>

#include "data/schema.h"
#include "train/objective.h"

namespace makar {

MicroBatch pair_batch(Model& model, const std::vector<TokenPair>& pairs, float smoothing) {
  Inputs inputs;
  std::vector<int64_t> targets;
  const int64_t start =
      model.spec().decoder_start >= 0 ? model.spec().decoder_start : std::max<int64_t>(0, model.spec().pad);
  for (const TokenPair& p : pairs) {
    inputs.source.add(p.source);
    std::vector<int64_t> shifted = {start};
    shifted.insert(shifted.end(), p.target.begin(), p.target.end() - 1);
    inputs.target.add(shifted);
    targets.insert(targets.end(), p.target.begin(), p.target.end());
  }
  MicroBatch out;
  out.weight = static_cast<double>(targets.size());
  out.tokens = inputs.source.rows() + inputs.target.rows();
  out.squared_lengths = squared_lengths(inputs.source) + squared_lengths(inputs.target);
  out.language = std::make_shared<const LanguageBatch>(LanguageBatch{std::move(inputs), std::move(targets)});
  out.loss = [&model, smoothing, b = out.language](ForwardContext& f) -> Result<Tensor> {
    return language_loss(f, model, b->inputs, b->targets, smoothing);
  };
  return out;
}

Status read_pairs(const DataPath& path, const Tokenizer& tokenizer, int64_t eos, int64_t max_length,
                  ValidationSplit& split, PairData& out) {
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  const auto encode = [&](const std::string& text) -> Result<std::vector<int64_t>> {
    std::vector<uint32_t> ids;
    MAKAR_RETURN_IF_ERROR(tokenizer.append_ids(text, {}, ids));
    if (static_cast<int64_t>(ids.size()) >= max_length) ids.resize(static_cast<size_t>(max_length - 1));
    std::vector<int64_t> with_end(ids.begin(), ids.end());
    with_end.push_back(eos);
    return with_end;
  };
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const Json *source = source_field(record.value), *target = target_field(record.value);
    if (!source || !target || !source->is_string() || !target->is_string()) {
      if (source && target)
        reader.bad().add(record.place(), "'source' and 'target' must be texts");
      else
        reader.bad().add_once(record.place(),
                              unexpected_schema_message(record.value, {Schema::kSourceTarget}));
      continue;
    }
    TokenPair pair;
    MAKAR_TRY(pair.source, encode(source->get_ref<const std::string&>()));
    MAKAR_TRY(pair.target, encode(target->get_ref<const std::string&>()));
    const bool held_out = split.selects(source->get_ref<const std::string&>());
    MAKAR_RETURN_IF_ERROR((held_out ? out.validation : out.train).add(pair));
  }
  out.bad = reader.bad();
  return Done{};
}

Result<PairData> open_pairs(const DatasetOptions& options, const Tokenizer& tokenizer, int64_t eos,
                            int64_t max_length, Json& identity) {
  return read_examples<PairData>(options, "pairs of source and target", identity,
                                 [&](const DatasetSpec& spec, ValidationSplit& split, PairData& out) {
                                   return read_pairs(spec.data(), tokenizer, eos, max_length, split, out);
                                 });
}

Result<int64_t> mean_tokens(const PairData& data) {
  int64_t tokens = 0;
  for (size_t i = 0; i < data.train.size(); ++i) {
    MAKAR_TRY(const TokenPair pair, data.train.read(i));
    tokens += static_cast<int64_t>(pair.source.size() + pair.target.size());
  }
  return tokens / std::max<int64_t>(1, static_cast<int64_t>(data.train.size()));
}

Result<MicroBatch> PairTask::make(std::span<const size_t> which, bool validation, uint64_t) {
  std::vector<TokenPair> pairs;
  for (const size_t w : which) {
    MAKAR_TRY(TokenPair pair, (validation ? data_.validation : data_.train).read(w));
    pairs.push_back(std::move(pair));
  }
  return pair_batch(model_, pairs, smoothing_);
}

}  // namespace makar
