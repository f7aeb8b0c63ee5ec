// Opens the --datasets of a training command as token stores or examples.
#include <fmt/format.h>

#include "base/file.h"
#include "base/sha256.h"
#include "cli/train_run.h"

namespace makar {
namespace {

// Whether the folder was prepared from the same files with the same options.
bool is_prepared(const std::string& folder, const PrepareOptions& o, const std::string& tokenizer_sum,
                 const Json& wanted) {
  const auto manifest = read_json(folder + "/manifest.json");
  const auto how = read_json(folder + "/prepared_from.json");
  return manifest.ok() && how.ok() && *how == wanted && manifest->is_object() &&
         manifest->value("tokenizer_sha256", "") == tokenizer_sum &&
         manifest->value("end_of_document", int64_t{-2}) == o.end_of_document;
}

}  // namespace

void say_prepared(const TrainCommon& common, const std::string& path, const Prepared& p) {
  say(common, fmt::format("{}: {} documents, {} tokens for training, {} for validation (schema: {})", path,
                          p.documents + p.validation_documents, p.tokens, p.validation_tokens, p.schema));
  say_bad_records(common, p.bad);
}

void say_bad_records(const TrainCommon& common, const BadRecords& bad) {
  if (bad.count == 0) return;
  say(common, fmt::format("{} could not be used:", counted(bad.count, "record")));
  for (const std::string& line : bad.reported) say(common, "  " + line);
}

Status read_datasets(const TrainCommon& common,
                     const std::function<Status(const DatasetSpec&, ValidationSplit&)>& read,
                     const std::function<Status()>& restart) {
  std::vector<DatasetSpec> specs;
  std::vector<ValidationSplit> splits;
  for (const std::string& text : common.datasets) {
    MAKAR_TRY(specs.emplace_back(), parse_dataset(text));
    splits.emplace_back(common.val_datasets.empty() ? common.val_set_size : 0);
  }
  for (size_t i = 0; i < specs.size(); ++i) MAKAR_CHECK_OK(read(specs[i], splits[i]));
  for (const std::string& text : common.val_datasets) {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    ValidationSplit all(1);
    MAKAR_CHECK_OK(read(spec, all));
  }
  std::vector<ValidationSplit> tails;
  for (const ValidationSplit& split : splits)
    if (const auto tail = split.tail()) tails.push_back(*tail);
  if (!common.val_datasets.empty() || tails.size() < specs.size()) return Done{};
  say(common, "no example fell into the validation part by hash: the last ones are used");
  MAKAR_CHECK_OK(restart());
  for (size_t i = 0; i < specs.size(); ++i) MAKAR_CHECK_OK(read(specs[i], tails[i]));
  return Done{};
}

Status open_sources(const TrainCommon& common, const Tokenizer& tokenizer, int64_t end_of_document,
                    ThreadPool& pool, std::vector<Source>& sources, std::vector<TokenStore>& validation,
                    Json& identity) {
  const std::string tokenizer_sum = sha256_of(tokenizer.to_json().dump() + "\n");
  const auto open_one = [&](const std::string& text, bool held_out, size_t number) -> Status {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    std::string folder = spec.path;
    if (!TokenStore::has(spec.path, "train")) {
      PrepareOptions o;
      o.paths = {spec.data()};
      o.folder = folder =
          fmt::format("{}/data/{}{}", common.loop.output_dir, held_out ? "validation-" : "", number);
      o.end_of_document = end_of_document;
      o.validation = held_out || !common.val_datasets.empty() ? 0 : common.val_set_size;
      o.validation_at_end = common.val_split == "tail";
      MAKAR_TRY(const std::string files, fingerprint(o.paths));
      const Json how = {{"files", files},
                        {"path", spec.path},
                        {"validation", o.validation},
                        {"at_end", o.validation_at_end}};
      if (!is_prepared(folder, o, tokenizer_sum, how)) {
        MAKAR_TRY(Prepared prepared, prepare_tokens(tokenizer, pool, o));
        if (o.validation > 0 && prepared.validation_tokens == 0) {
          say(common,
              spec.path + ": no document fell into the validation part by hash: the last tokens are used");
          o.validation_at_end = true;
          MAKAR_TRY(prepared, prepare_tokens(tokenizer, pool, o));
        }
        MAKAR_CHECK_OK(write_file(folder + "/prepared_from.json", how.dump() + "\n"));
        say_prepared(common, spec.path, prepared);
      }
    }
    MAKAR_TRY(const std::string sum, sha256_of_file(folder + "/manifest.json"));
    identity["data"].push_back(sum);
    MAKAR_TRY(TokenStore train, TokenStore::open(folder, "train"));
    if (train.vocab() > static_cast<int64_t>(tokenizer.vocab_size()))
      return error_at(folder, "was prepared with a tokenizer of {} tokens; this one has {}", train.vocab(),
                      tokenizer.vocab_size());
    if (held_out) {
      validation.push_back(std::move(train));
      return Done{};
    }
    sources.push_back({spec.path, std::move(train), spec.weight});
    if (common.val_datasets.empty() && TokenStore::has(folder, "validation")) {
      MAKAR_TRY(TokenStore v, TokenStore::open(folder, "validation"));
      validation.push_back(std::move(v));
    }
    return Done{};
  };
  identity["tokenizer"] = tokenizer_sum;
  for (size_t i = 0; i < common.datasets.size(); ++i) MAKAR_CHECK_OK(open_one(common.datasets[i], false, i));
  for (size_t i = 0; i < common.val_datasets.size(); ++i)
    MAKAR_CHECK_OK(open_one(common.val_datasets[i], true, i));
  return Done{};
}

}  // namespace makar
