// makar classify senses: the senses of words in texts, by labelled examples.
#include "cli/classify_senses.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/lower_ascii.h"
#include "base/progress.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "llm/senses.h"

namespace makar {
namespace {

// {"text", "word" or "begin" and "end", "lemma"?, "sense"?}
struct SenseRecord {
  WordInText word;
  std::string key;  // lemma or word in lower case; a word is compared with examples of the same key
  std::string sense;
};

Result<SenseRecord> read_sense_record(const Json& record, bool needs_sense) {
  const auto text_of = [&](const char* key) -> Result<std::string> {
    if (!record.contains(key)) return std::string();
    if (!record[key].is_string()) return error_at(key, "must be a text");
    return record[key].get<std::string>();
  };
  if (!record.is_object()) return error_at("", "expected an object with \"text\" and \"word\"");
  MAKAR_TRY(const std::string text, text_of("text"));
  MAKAR_TRY(const std::string word, text_of("word"));
  MAKAR_TRY(const std::string lemma, text_of("lemma"));
  SenseRecord out;
  MAKAR_TRY(out.sense, text_of("sense"));
  if (text.empty()) return error_at("text", "is missing or empty");
  if (needs_sense && out.sense.empty()) return error_at("sense", "is missing or empty");
  if (record.contains("begin") || record.contains("end")) {
    const Json begin = record.value("begin", Json()), end = record.value("end", Json());
    const auto size = static_cast<int64_t>(text.size());
    if (!begin.is_number_integer() || !end.is_number_integer() || begin.get<int64_t>() < 0 ||
        end.get<int64_t>() > size || begin.get<int64_t>() >= end.get<int64_t>())
      return error_at("begin",
                      "begin and end must be byte offsets into the text, from 0 to {}, with begin below end",
                      size);
    out.word = {text, begin.get<size_t>(), end.get<size_t>()};
  } else {
    MAKAR_TRY(out.word, find_word(text, word));
  }
  out.key = lower_ascii(!lemma.empty() ? lemma : text.substr(out.word.begin, out.word.end - out.word.begin));
  return out;
}

// Results on records with a true sense; the baseline predicts the most frequent sense.
struct SenseCounts {
  int64_t labelled = 0, correct = 0, baseline_correct = 0;
};

// The output line for one word; updates `counts` if the record has the true sense.
Result<Json> answer_line(const Json& record, const WordEncoder& encode, const SenseInventory& inventory,
                         SenseCounts& counts) {
  MAKAR_TRY(const SenseRecord query, read_sense_record(record, false));
  MAKAR_TRY(const auto vector, encode(query.word));
  MAKAR_TRY(const auto ranked, inventory.rank(query.key, vector));
  Json senses = Json::array();
  for (const ScoredSense& one : ranked) senses.push_back({{"sense", one.sense}, {"cosine", one.cosine}});
  if (!query.sense.empty()) {
    MAKAR_TRY(const std::string frequent, inventory.most_frequent(query.key));
    ++counts.labelled;
    counts.correct += ranked.front().sense == query.sense;
    counts.baseline_correct += frequent == query.sense;
  }
  return Json{{"word", query.key},
              {"begin", query.word.begin},
              {"end", query.word.end},
              {"sense", ranked.front().sense},
              {"senses", std::move(senses)}};
}

// Reads and encodes the labelled examples. A bad line is an error: a missing example changes the answers.
Status read_examples(const std::string& path, const WordEncoder& encode, SenseInventory& inventory) {
  MAKAR_TRY(const std::string text, read_file(path));
  Progress progress;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string place = fmt::format("{}:{}", path, ++number);
    progress.show("examples", at, text.size());
    if (text.find_first_not_of(" \t\r", at) < end) {
      MAKAR_TRY(const Json record, parse_json(std::string_view(text).substr(at, end - at), place));
      const auto example = read_sense_record(record, true);
      if (!example.ok()) return example.error().in(place);
      auto vector = encode(example->word);
      if (!vector.ok()) return vector.error().in(place);
      inventory.add(example->key, example->sense, std::move(*vector));
    }
    at = end + 1;
  }
  progress.show("examples", text.size(), text.size());
  if (inventory.words() == 0) return error_at(path, "has no examples");
  return Done{};
}

}  // namespace

int run_classify_senses(const std::vector<std::string>& arguments) {
  ModelOptions model;
  std::string examples, text, word;
  std::vector<std::string> files;
  int64_t layers = 4;
  bool mean = false;
  Options options(
      "classify senses",
      "Find the sense of a word in a text: the sense of the labelled example with the nearest contextual "
      "embedding. One result per line.",
      "makar classify senses -m MODEL --examples senses.jsonl --text \"the bank of the river\" --word "
      "bank");
  model.declare(options);
  declare_device(options, model.device);
  options.group("Senses");
  options
      .add("--examples", &examples,
           "labelled examples, {\"text\", \"word\", \"sense\"} per line; \"begin\" and \"end\" in bytes "
           "instead of \"word\" for an occurrence other than the first; \"lemma\" joins the forms of a word",
           "FILE")
      .required = true;
  options.add("--layers", &layers, "compare the mean of the hidden states of this many last layers", "N");
  options.add("--mean", &mean, "compare with the mean of a sense's examples instead of its nearest example");
  options.group("Text");
  options.add("--text", &text, "the text; records of standard input if there is none", "TEXT");
  options.add("--word", &word, "the word in --text", "WORD");
  options.add(
      "-f --file", &files,
      "read one record per line, {\"text\", \"word\"} as in the examples; if they have a \"sense\", the "
      "accuracy is printed to standard error",
      "FILE");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (text.empty() != word.empty())
    return report(error_at(text.empty() ? "--word" : "--text", "--text and --word belong together")), 2;
  if (!text.empty() && !files.empty()) return report(error_at("--file", "cannot be combined with --text")), 2;
  const auto opened = open_on_device(model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  const auto encode = WordEncoder::make(*language, device, layers);
  if (!encode.ok()) return report(encode.error()), 2;
  SenseInventory inventory(mean);
  if (const Status read = read_examples(examples, *encode, inventory); !read.ok())
    return report(read.error());

  SenseCounts counts;
  if (!text.empty()) {
    const auto line = answer_line({{"text", text}, {"word", word}}, *encode, inventory, counts);
    if (!line.ok()) return report(line.error());
    return print_out(dump(*line) + "\n") ? 0 : 1;
  }
  const Status status = each_line_batch(files, [&](const std::vector<std::string_view>& lines, size_t first) {
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto record = parse_json(lines[i], "", {size_t{16} << 20, 64});
      const auto line =
          record.ok() ? answer_line(*record, *encode, inventory, counts) : Result<Json>(record.error());
      if (!print_out(line.ok() ? dump(*line) + "\n" : error_line(line.error(), first + i))) return false;
    }
    return true;
  });
  if (!status.ok()) return report(status.error());
  if (counts.labelled > 0)
    fmt::print(stderr, "accuracy {:.4f} ({} of {}); always the most frequent sense: {:.4f}\n",
               static_cast<double>(counts.correct) / static_cast<double>(counts.labelled), counts.correct,
               counts.labelled,
               static_cast<double>(counts.baseline_correct) / static_cast<double>(counts.labelled));
  return 0;
}

}  // namespace makar
