// The datasets of a training run: parsing their specs, reading them, splitting them into training and
// validation, hashing them for the run's identity. Messages about what was read go to DatasetOptions::say.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "data/prepare.h"

namespace makar {

// "PATH,type=alpaca,weight=2,text=review": the remaining NAME=FIELD parts are column names.
struct DatasetSpec {
  std::string path, type;
  double weight = 0;
  Columns columns;
  DataPath data() const { return {path, columns}; }
};
Result<DatasetSpec> parse_dataset(const std::string& text);

struct DatasetOptions {
  std::vector<std::string> train, validation;  // as parse_dataset() reads them
  double validation_share = 0.05;              // of the training data, if `validation` is empty
  bool validation_at_end = false;              // token datasets: the last tokens instead of documents by hash
  std::string folder;  // run folder: token shards and temporary files are stored below it
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// "1 step", "2 steps"
std::string with_plural(uint64_t count, const char* what);
void report_bad_records(const DatasetOptions& options, const BadRecords& bad);

struct TokenSource {
  std::string name;
  TokenStore store;
  double weight = 0;  // 0: its number of tokens
};
struct TokenDatasets {
  std::vector<TokenSource> train;
  std::vector<TokenStore> validation;
};
// Opens the tokens of the datasets; prepares them below the run folder first if needed. Adds the hashes of
// tokenizer and data to `identity`.
Result<TokenDatasets> open_token_datasets(const DatasetOptions& options, const Tokenizer& tokenizer,
                                          int64_t end_of_document, ThreadPool& pool, Json& identity);

// Calls `read` for every training dataset, then for every validation dataset, whose examples are all for
// validation. If the hash puts all examples of every training dataset into one part, calls `restart` and
// reads each again with its last examples for validation.
Status read_datasets(const DatasetOptions& options,
                     const std::function<Status(const DatasetSpec&, ValidationSplit&)>& read,
                     const std::function<Status()>& restart);

// Reads all examples of the datasets into a Data (lists `train` and `validation`, and `bad`, the bad records
// of the file read last) with read(spec, split, data). Adds the hash of the examples to `identity`. `what`
// names the examples in messages, such as "pairs".
template <class Data, class Read>
Result<Data> read_examples(const DatasetOptions& options, const char* what, Json& identity,
                           const Read& read) {
  Data data(options.folder);
  const auto add = [&](const DatasetSpec& spec, ValidationSplit& split) -> Status {
    const size_t train = data.train.size(), validation = data.validation.size();
    MAKAR_RETURN_IF_ERROR(read(spec, split, data));
    options.say(fmt::format("{}: {} {} for training, {} for validation", spec.path, data.train.size() - train,
                            what, data.validation.size() - validation));
    report_bad_records(options, data.bad);
    return Done{};
  };
  const auto restart = [&]() -> Status {
    data = Data(options.folder);
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(read_datasets(options, add, restart));
  if (data.train.empty())
    return error_at("datasets", "there are no {} to train on{}{}", what,
                    data.bad.count > 0 ? "; the first record that could not be used: " : "",
                    data.bad.count > 0 ? data.bad.reported.at(0) : "");
  Sha256 sum;
  for (const auto* part : {&data.train, &data.validation}) MAKAR_RETURN_IF_ERROR(part->add_to(sum));
  identity["data"] = sum.hex();
  return data;
}

}  // namespace makar
