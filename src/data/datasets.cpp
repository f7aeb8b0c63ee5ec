#include "data/datasets.h"

#include <charconv>

#include "base/file.h"
#include "base/quote.h"

namespace makar {
namespace {

// Whether the folder was prepared from the same files with the same options.
bool is_prepared(const std::string& folder, const PrepareOptions& o, const std::string& tokenizer_sum,
                 const Json& expected_source) {
  const auto manifest = read_json(folder + "/manifest.json");
  const auto source = read_json(folder + "/prepared_from.json");
  return manifest.ok() && source.ok() && *source == expected_source && manifest->is_object() &&
         manifest->value("tokenizer_sha256", "") == tokenizer_sum &&
         manifest->value("end_of_document", int64_t{-2}) == o.end_of_document;
}

void say_prepared(const DatasetOptions& options, const std::string& path, const Prepared& p) {
  if (p.split_at_end)
    options.say(path + ": the split by hash leaves one part empty: the last tokens are used for validation");
  options.say(fmt::format("{}: {} documents, {} tokens for training, {} for validation (schema: {})", path,
                          p.documents + p.validation_documents, p.tokens, p.validation_tokens, p.schema));
  report_bad_records(options, p.bad);
}

// Prepares a dataset in `folder` unless it was prepared there before.
Status prepare_dataset(const DatasetOptions& options, const DatasetSpec& spec, const Tokenizer& tokenizer,
                       const std::string& tokenizer_sum, PrepareOptions o, ThreadPool& pool) {
  o.paths = {spec.data()};
  MAKAR_TRY(const std::string files, fingerprint(o.paths));
  const Json source = {
      {"files", files}, {"path", spec.path}, {"validation", o.validation}, {"at_end", o.validation_at_end}};
  if (is_prepared(o.folder, o, tokenizer_sum, source)) return Done{};
  MAKAR_TRY(const Prepared prepared, prepare_tokens(tokenizer, pool, o));
  MAKAR_RETURN_IF_ERROR(write_file(o.folder + "/prepared_from.json", source.dump() + "\n"));
  say_prepared(options, spec.path, prepared);
  return Done{};
}

}  // namespace

Result<DatasetSpec> parse_dataset(const std::string& text) {
  DatasetSpec out;
  out.path = text;
  for (;;) {
    const size_t comma = out.path.rfind(',');
    if (comma == std::string::npos) break;
    const std::string setting = out.path.substr(comma + 1);
    if (setting.starts_with("type=")) {
      out.type = setting.substr(5);
    } else if (setting.starts_with("weight=")) {
      const char *begin = setting.data() + 7, *end = setting.data() + setting.size();
      const auto [stop, code] = std::from_chars(begin, end, out.weight);
      if (code != std::errc() || stop != end || !(out.weight > 0 && out.weight < 1e12))
        return error_at("datasets", "expected a weight above 0, got {}", quote(setting));
    } else {
      const size_t equals = setting.find('=');
      if (equals == std::string::npos || equals == 0 || path_exists(out.path)) break;
      std::string field = setting.substr(0, equals);
      if (field.starts_with("field_")) field.erase(0, 6);  // Axolotl's spelling
      if (!is_field_name(field))
        return error_at(
            "datasets",
            "unknown setting {} of a dataset: expected type, weight, or the name of a field (text, "
            "label, prompt, completion, ...)",
            quote(field));
      if (equals + 1 == setting.size())
        return error_at("datasets", "'{}=' needs the name of a column", field);
      out.columns.emplace(out.columns.begin(), field, setting.substr(equals + 1));
    }
    out.path.resize(comma);
  }
  if (out.path.empty()) return error_at("datasets", "a dataset needs a path, got {}", quote(text));
  return out;
}

std::string with_plural(uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void report_bad_records(const DatasetOptions& options, const BadRecords& bad) {
  if (bad.count == 0) return;
  options.say(fmt::format("{} could not be used:", with_plural(bad.count, "record")));
  for (const std::string& line : bad.reported) options.say("  " + line);
}

Status read_datasets(const DatasetOptions& options,
                     const std::function<Status(const DatasetSpec&, ValidationSplit&)>& read,
                     const std::function<Status()>& restart) {
  std::vector<DatasetSpec> specs;
  std::vector<ValidationSplit> splits;
  for (const std::string& text : options.train) {
    MAKAR_TRY(specs.emplace_back(), parse_dataset(text));
    splits.emplace_back(options.validation.empty() ? options.validation_share : 0);
  }
  for (size_t i = 0; i < specs.size(); ++i) MAKAR_RETURN_IF_ERROR(read(specs[i], splits[i]));
  for (const std::string& text : options.validation) {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    ValidationSplit all(1);
    MAKAR_RETURN_IF_ERROR(read(spec, all));
  }
  std::vector<ValidationSplit> tails;
  for (const ValidationSplit& split : splits)
    if (const auto tail = split.tail()) tails.push_back(*tail);
  if (!options.validation.empty() || tails.size() < specs.size()) return Done{};
  options.say("the split by hash leaves one part empty: the last examples are used for validation");
  MAKAR_RETURN_IF_ERROR(restart());
  for (size_t i = 0; i < specs.size(); ++i) MAKAR_RETURN_IF_ERROR(read(specs[i], tails[i]));
  return Done{};
}

Result<TokenDatasets> open_token_datasets(const DatasetOptions& options, const Tokenizer& tokenizer,
                                          int64_t end_of_document, ThreadPool& pool, Json& identity) {
  const std::string tokenizer_sum = sha256_of(tokenizer.to_json().dump() + "\n");
  const bool split = options.validation.empty();
  TokenDatasets out;
  const auto open_one = [&](const std::string& text, bool validation, size_t number) -> Status {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    std::string folder = spec.path;
    if (!TokenStore::has(spec.path, "train")) {
      PrepareOptions o;
      o.folder = folder =
          fmt::format("{}/data/{}{}", options.folder, validation ? "validation-" : "", number);
      o.end_of_document = end_of_document;
      o.validation = split ? options.validation_share : 0;
      o.validation_at_end = options.validation_at_end;
      MAKAR_RETURN_IF_ERROR(prepare_dataset(options, spec, tokenizer, tokenizer_sum, std::move(o), pool));
    }
    MAKAR_TRY(const std::string sum, sha256_of_file(folder + "/manifest.json"));
    identity["data"].push_back(sum);
    MAKAR_TRY(TokenStore train, TokenStore::open(folder, "train"));
    if (train.vocab() > static_cast<int64_t>(tokenizer.vocab_size()))
      return error_at(folder,
                      "was prepared with a tokenizer of {} tokens, and this one has {}; prepare it again",
                      train.vocab(), tokenizer.vocab_size());
    if (validation) {
      out.validation.push_back(std::move(train));
      return Done{};
    }
    out.train.push_back({spec.path, std::move(train), spec.weight});
    if (split && TokenStore::has(folder, "validation")) {
      MAKAR_TRY(TokenStore v, TokenStore::open(folder, "validation"));
      out.validation.push_back(std::move(v));
    }
    return Done{};
  };
  identity["tokenizer"] = tokenizer_sum;
  for (size_t i = 0; i < options.train.size(); ++i)
    MAKAR_RETURN_IF_ERROR(open_one(options.train[i], false, i));
  for (size_t i = 0; i < options.validation.size(); ++i)
    MAKAR_RETURN_IF_ERROR(open_one(options.validation[i], true, i));
  return out;
}

}  // namespace makar
