#include "data/find_tokenizer.h"

#include "base/file.h"
#include "data/datasets.h"

namespace makar {
namespace {

// A post-processor that puts the token after a text, and after each text of a pair.
Result<Json> end_token_processor(const std::string& token, const Json& tokenizer) {
  Json id;
  for (const Json& added : tokenizer.value("added_tokens", Json::array()))
    if (added.value("content", "") == token) id = added.value("id", Json());
  if (id.is_null()) return error_at("tokenizer", "has no control token '{}'", token);
  const auto text = [](const char* name) { return Json{{"Sequence", {{"id", name}, {"type_id", 0}}}}; };
  const Json end = {{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  return Json{{"type", "TemplateProcessing"},
              {"single", {text("A"), end}},
              {"pair", {text("A"), end, text("B"), end}},
              {"special_tokens",
               {{token, {{"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}}}}}};
}

}  // namespace

Result<FoundTokenizer> find_tokenizer(const std::string& path, const std::vector<std::string>& datasets,
                                      const NewTokenizer& new_tokenizer, ThreadPool& pool) {
  if (!path.empty()) {
    MAKAR_TRY(Tokenizer tokenizer, Tokenizer::load(path));
    return FoundTokenizer{tokenizer, is_folder(path) ? path : ""};
  }
  std::vector<DataPath> paths;
  for (const std::string& text : datasets) {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    if (TokenStore::has(spec.path, "train")) {  // prepared data includes its tokenizer
      MAKAR_TRY(Tokenizer tokenizer, Tokenizer::load(spec.path));
      return FoundTokenizer{tokenizer, spec.path};
    }
    paths.push_back(spec.data());
  }
  MAKAR_TRY(const std::string files, fingerprint(paths));
  const Json settings = {{"kind", new_tokenizer.kind},
                         {"special", new_tokenizer.special},
                         {"vocab_size", new_tokenizer.vocab_size},
                         {"end_token", new_tokenizer.end_token},
                         {"files", files}};
  const std::string file = new_tokenizer.folder + "/tokenizer.json",
                    settings_file = new_tokenizer.folder + "/trained_from.json";
  const auto previous = read_json(settings_file);
  const bool reused = previous.ok() && *previous == settings && is_file(file);
  if (!reused) {
    MAKAR_TRY(Json trained, train_tokenizer_on(paths, new_tokenizer, pool));
    if (!new_tokenizer.end_token.empty()) {
      MAKAR_TRY(trained["post_processor"], end_token_processor(new_tokenizer.end_token, trained));
    }
    MAKAR_RETURN_IF_ERROR(write_file(file, trained.dump() + "\n"));
    MAKAR_RETURN_IF_ERROR(write_file(settings_file, settings.dump() + "\n"));
  }
  MAKAR_TRY(Tokenizer tokenizer, Tokenizer::load(file));
  return FoundTokenizer{tokenizer, "", !reused};
}

}  // namespace makar
