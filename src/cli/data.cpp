// makar data: inspects datasets and prepares them for training; data_world.cpp generates them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "base/progress.h"
#include "cli/command.h"
#include "cli/data_paths.h"
#include "cli/run.h"
#include "text/hash.h"
#include "text/unicode.h"

namespace makar {

int run_data_augment(const std::vector<std::string>&);
int run_data_curate(const std::vector<std::string>&);
int run_data_dedup(const std::vector<std::string>&);
int run_data_feedback(const std::vector<std::string>&);
int run_data_filter(const std::vector<std::string>&);
int run_data_instruct(const std::vector<std::string>&);
int run_data_language(const std::vector<std::string>&);
int run_data_self_instruct(const std::vector<std::string>&);
int run_data_world(const std::vector<std::string>&);

namespace {

struct PrepareCommand {
  PrepareOptions o;
  std::vector<std::string> paths;
  std::string tokenizer, split = "hash", end_token;
  int64_t threads = 0;
  bool quiet = false, json = false;
};

void declare_prepare(Options& options, PrepareCommand& c) {
  options.positional("PATHS", &c.paths,
                     "files and folders: text, JSONL, JSON, CSV or TSV, also compressed (gzip, zstd); "
                     "PATH,text=NAME names a "
                     "column");
  options.add("--tokenizer", &c.tokenizer, "tokenizer file, or a folder that has one", "PATH").required =
      true;
  options.add("-o --output --out", &c.o.folder, "folder to write", "DIR");
  options.add("--val-set-size", &c.o.validation, "share of the data kept for validation", "X");
  options.add(
      "--val-split", &c.split,
      "how to choose validation data: hash (documents by a hash of their content) or tail (the last tokens)",
      "NAME");
  options.add("--end-of-document --eos", &c.end_token,
              "token to put after each document; the tokenizer's end token if not set", "TOKEN");
  options.add("-t --threads", &c.threads, "number of threads; 0 for one per core", "N");
  options.add("-q --quiet", &c.quiet, "print no progress");
  options.add("--json", &c.json, "print the counts as JSON");
}

Status check_prepare(PrepareCommand& c) {
  if (!(c.o.validation >= 0 && c.o.validation < 1))
    return error_at("--val-set-size", "must be at least 0 and below 1, got {}", c.o.validation);
  if (c.split != "hash" && c.split != "tail")
    return error_at("--val-split", "expected hash or tail, got '{}'", c.split);
  c.o.validation_at_end = c.split == "tail";
  MAKAR_TRY(c.o.paths, parse_data_paths(c.paths));
  return Done{};
}

void print_prepared(const PrepareCommand& c, const Prepared& p) {
  if (c.json) {
    const Json out = {{"documents", p.documents},
                      {"tokens", p.tokens},
                      {"validation_documents", p.validation_documents},
                      {"validation_tokens", p.validation_tokens},
                      {"bytes", p.bytes},
                      {"bad_records", p.bad.count},
                      {"schema", p.schema}};
    fmt::print("{}\n", out.dump());
    return;
  }
  fmt::print("{}: {} documents, {} tokens, {} more for validation (schema: {})\n", c.o.folder, p.documents,
             p.tokens, p.validation_tokens, p.schema);
  if (p.bad.count > 0) fmt::print("{} records could not be used:\n", p.bad.count);
  for (const std::string& line : p.bad.reported) fmt::print("  {}\n", line);
}

int run_prepare(const std::vector<std::string>& arguments) {
  PrepareCommand c;
  PrepareOptions& o = c.o;
  o.folder = "tokens";
  Options options("data prepare", "Tokenize datasets once into shards that training maps into memory.",
                  "makar data prepare books/ --tokenizer tokenizer/ -o tokens");
  declare_prepare(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status s = check_prepare(c); !s.ok()) return report(s.error()), 2;
  const auto tokenizer = Tokenizer::load(c.tokenizer);
  if (!tokenizer.ok()) return report(tokenizer.error());
  for (const std::string& name : c.end_token.empty()
                                     ? std::vector<std::string>{"<|endoftext|>", "</s>", "<|end_of_text|>"}
                                     : std::vector<std::string>{c.end_token})
    if (const auto id = tokenizer->id(name); id && o.end_of_document < 0) o.end_of_document = *id;
  if (!c.end_token.empty() && o.end_of_document < 0)
    return report(error_at("--end-of-document", "the tokenizer has no token '{}'", c.end_token)), 2;
  ThreadPool pool(static_cast<int>(std::clamp<int64_t>(c.threads, 0, 256)));
  const auto prepared = [&] {
    Progress progress(c.quiet || c.json);  // ends its line before the result is printed
    o.progress = [&](uint64_t documents, uint64_t tokens) {
      progress.show("tokens", tokens, 0, fmt::format("{} documents", documents));
    };
    return prepare_tokens(*tokenizer, pool, o);
  }();
  if (!prepared.ok()) return report(prepared.error());
  print_prepared(c, *prepared);
  return 0;
}

struct DatasetCounts {
  uint64_t documents = 0, bytes = 0, characters = 0, tokens = 0, duplicates = 0;
  std::map<std::string, uint64_t> schemas, scripts;
  std::map<int, uint64_t> lengths;      // documents per power-of-two length in characters
  std::unordered_set<uint64_t> hashes;  // of the texts, to count duplicates
};

const char* script_of(char32_t c) {
  if (c < 0x80)
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ? "Latin"
           : c >= '0' && c <= '9'                           ? "digits"
                                                            : "signs";
  if (c < 0x250) return "Latin";
  if (c >= 0x370 && c < 0x400) return "Greek";
  if (c >= 0x400 && c < 0x530) return "Cyrillic";
  if (c >= 0x590 && c < 0x600) return "Hebrew";
  if (c >= 0x600 && c < 0x780) return "Arabic";
  if (c >= 0x900 && c < 0x980) return "Devanagari";
  if (c >= 0xE00 && c < 0xE80) return "Thai";
  if (c >= 0x3040 && c < 0x3100) return "Kana";
  if ((c >= 0x3400 && c < 0xA000) || (c >= 0x20000 && c < 0x32000)) return "Han";
  if (c >= 0xAC00 && c < 0xD7B0) return "Hangul";
  return "other";
}

// Appends all strings of a record, one per line.
void append_strings(const Json& value, std::string& out, int depth = 0) {
  if (value.is_string()) out += value.get_ref<const std::string&>() + "\n";
  constexpr int kMaxDepth = 8;
  if (depth < kMaxDepth && value.is_structured())
    for (const auto& item : value.items()) append_strings(item.value(), out, depth + 1);
}

Status count_all(const std::vector<DataPath>& paths, const Tokenizer* tokenizer, DatasetCounts& c,
                 BadRecords& bad) {
  // Keeps at most this many document hashes to bound memory; duplicates beyond that are not counted.
  constexpr size_t kMaxHashes = size_t{32} << 20;
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const auto schema = detect_schema(record.value);
    ++c.schemas[schema ? name(*schema) : "unknown"];
    std::string text;
    append_strings(record.value, text);
    if (!text.empty()) text.pop_back();
    c.documents += record.continues ? 0 : 1, c.bytes += text.size();
    uint64_t characters = 0;
    for (size_t at = 0; at < text.size(); ++characters) ++c.scripts[script_of(next_code(text, at))];
    c.characters += characters;
    ++c.lengths[characters > 0 ? static_cast<int>(std::log2(static_cast<double>(characters))) : 0];
    if (c.hashes.size() < kMaxHashes && !c.hashes.insert(hash_bytes(text)).second) ++c.duplicates;
    if (tokenizer) {
      std::vector<uint32_t> ids;
      MAKAR_RETURN_IF_ERROR(tokenizer->append_ids(text, {}, ids));
      c.tokens += ids.size();
    }
  }
  bad = reader.bad();
  return Done{};
}

void print_counts(const DatasetCounts& c, const BadRecords& bad, bool tokens) {
  fmt::print("documents   {}\nbytes       {}\ncharacters  {}\n", c.documents, c.bytes, c.characters);
  if (tokens)
    fmt::print("tokens      {} ({:.2f} bytes per token)\n", c.tokens,
               static_cast<double>(c.bytes) / static_cast<double>(std::max<uint64_t>(1, c.tokens)));
  fmt::print("duplicates  {}\nbad records {}\n", c.duplicates, bad.count);
  for (const std::string& line : bad.reported) fmt::print("  {}\n", line);
  for (const auto& [schema, n] : c.schemas) fmt::print("schema      {} ({} records)\n", schema, n);
  fmt::print("\ncharacters per record\n");
  uint64_t max = 1;
  for (const auto& length : c.lengths) max = std::max(max, length.second);
  for (const auto& [power, n] : c.lengths)
    fmt::print("  {:>8} to {:>8} {:>9} {}\n", int64_t{1} << power, (int64_t{2} << power) - 1, n,
               std::string(1 + 39 * n / max, '#'));
  fmt::print("\nscripts\n");
  for (const auto& [script, n] : c.scripts)
    fmt::print("  {:<12} {:6.2f} %\n", script,
               100.0 * static_cast<double>(n) / static_cast<double>(std::max<uint64_t>(1, c.characters)));
}

int run_stats(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  std::string tokenizer_path;
  bool json = false;
  Options options(
      "data stats",
      "Print statistics of datasets: documents, tokens, lengths, scripts, duplicates, bad records.",
      "makar data stats books/ chats.jsonl --tokenizer tokenizer/");
  options.positional("PATHS", &paths,
                     "files and folders: text, JSONL, JSON, CSV, TSV or CoNLL, also compressed (gzip, zstd)");
  options.add("--tokenizer", &tokenizer_path, "tokenizer to count tokens with", "PATH");
  options.add("--json", &json, "print the counts as JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  std::optional<Tokenizer> tokenizer;
  if (!tokenizer_path.empty()) {
    auto t = Tokenizer::load(tokenizer_path);
    if (!t.ok()) return report(t.error());
    tokenizer = *t;
  }
  DatasetCounts c;
  BadRecords bad;
  const auto data_paths = parse_data_paths(paths);
  if (!data_paths.ok()) return report(data_paths.error()), 2;
  if (const Status s = count_all(*data_paths, tokenizer ? &*tokenizer : nullptr, c, bad); !s.ok())
    return report(s.error());
  if (!json) return print_counts(c, bad, tokenizer.has_value()), 0;
  Json lengths = Json::object();
  for (const auto& [power, n] : c.lengths) lengths[std::to_string(int64_t{1} << power)] = n;
  const Json out = {{"documents", c.documents}, {"bytes", c.bytes},           {"characters", c.characters},
                    {"tokens", c.tokens},       {"duplicates", c.duplicates}, {"bad_records", bad.count},
                    {"bad", bad.reported},      {"schemas", c.schemas},       {"lengths", lengths},
                    {"scripts", c.scripts}};
  fmt::print("{}\n", dump(out));
  return 0;
}

}  // namespace

int run_data(const std::vector<std::string>& arguments) {
  constexpr Command kDataCommands[] = {
      {"prepare", "tokenize datasets into shards for training", run_prepare},
      {"stats", "count documents, tokens, lengths, duplicates and bad records", run_stats},
      {"curate", "clean and filter datasets, and report every drop", run_data_curate},
      {"filter", "alias of curate", run_data_filter},
      {"dedup", "drop exact and near-duplicates", run_data_dedup},
      {"augment", "write changed copies of texts, for small training sets", run_data_augment},
      {"feedback", "turn feedback on answers into training data", run_data_feedback},
      {"instruct", "turn labelled data into instructions", run_data_instruct},
      {"self-instruct", "let a model write new instructions, and filter them", run_data_self_instruct},
      {"language", "train and run a language classifier", run_data_language},
      {"world", "generate stories, questions and preferences, and check answers", run_data_world},
  };
  return run_subcommand("data", "Generate, analyze, curate, augment and prepare datasets.",
                        "makar data stats books/", kDataCommands, arguments);
}

}  // namespace makar
