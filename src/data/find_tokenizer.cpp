#include "data/find_tokenizer.h"

#include "base/file.h"
#include "data/datasets.h"

namespace makar {

Result<FoundTokenizer> find_tokenizer(const std::string& path, const std::vector<std::string>& datasets,
                                      const NewTokenizer& wanted, ThreadPool& pool) {
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
  const Json settings = {{"kind", wanted.kind},
                         {"special", wanted.special},
                         {"vocab_size", wanted.vocab_size},
                         {"files", files}};
  const std::string file = wanted.scratch + "/tokenizer.json", note = wanted.scratch + "/trained_from.json";
  const auto before = read_json(note);
  const bool kept = before.ok() && *before == settings && is_file(file);
  if (!kept) {
    MAKAR_TRY(const Json trained, train_tokenizer_on(paths, wanted, pool));
    MAKAR_CHECK_OK(write_file(file, trained.dump() + "\n"));
    MAKAR_CHECK_OK(write_file(note, settings.dump() + "\n"));
  }
  MAKAR_TRY(Tokenizer tokenizer, Tokenizer::load(file));
  return FoundTokenizer{tokenizer, "", !kept};
}

}  // namespace makar
