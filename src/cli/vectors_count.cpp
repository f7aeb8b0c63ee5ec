// makar vectors count: bags of words, TF-IDF, co-occurrences and PPMI as JSON lines.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/nearest.h"
#include "cli/command.h"
#include "cli/data_paths.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "lexical/count_vectors.h"

namespace makar {
namespace {

// Calls `line` with each line of the output: the vocabulary and a vector per document, or a value per pair of
// words.
Status each_count(const std::string& kind, const WordStream& text, int64_t window, bool by_distance,
                  const std::function<Status(const Json&)>& line) {
  if (kind == "cooccurrence" || kind == "ppmi") {
    CooccurrenceOptions counting;
    counting.window = window, counting.by_distance = by_distance;
    MAKAR_TRY(const MappedRecords pairs, count_cooccurrences(text, counting));
    const auto counts = pairs.as<const Cooccurrence>();
    const auto show = [&](uint32_t word, uint32_t context, float value) {
      return line({{"word", text.words.word(word)}, {"context", text.words.word(context)}, {"value", value}});
    };
    if (kind == "cooccurrence") {
      for (const Cooccurrence& c : counts) MAKAR_RETURN_IF_ERROR(show(c.word, c.context, c.count));
      return Done{};
    }
    const SparseMatrix pmi = positive_pmi(text.words.size(), counts, 1.0);
    for (size_t row = 0; row < pmi.rows; ++row)
      for (size_t i = pmi.first[row]; i < pmi.first[row + 1]; ++i)
        MAKAR_RETURN_IF_ERROR(show(static_cast<uint32_t>(row), pmi.column[i], pmi.value[i]));
    return Done{};
  }
  Json words = Json::array();
  for (size_t i = 0; i < text.words.size(); ++i) words.push_back(text.words.word(static_cast<uint32_t>(i)));
  MAKAR_RETURN_IF_ERROR(line({{"words", words}}));
  const auto ids = text.ids.as<const uint32_t>().subspan(0, text.size);
  const auto each_document =
      [&](const std::function<Status(const std::map<uint32_t, size_t>&, size_t)>& use) -> Status {
    std::map<uint32_t, size_t> counts;
    size_t length = 0;
    for (const uint32_t id : ids) {
      if (id != WordStream::kLineEnd) {
        ++counts[id], ++length;
        continue;
      }
      MAKAR_RETURN_IF_ERROR(use(counts, length));
      counts.clear(), length = 0;
    }
    return Done{};
  };
  std::vector<size_t> documents_with(text.words.size(), 0);
  size_t documents = 0;
  MAKAR_RETURN_IF_ERROR(each_document([&](const auto& counts, size_t) -> Status {
    ++documents;
    for (const auto& entry : counts) ++documents_with[entry.first];
    return Done{};
  }));
  return each_document([&](const auto& counts, size_t length) -> Status {
    Json row = Json::array();
    for (uint32_t w = 0; w < text.words.size(); ++w) {
      const auto at = counts.find(w);
      if (kind == "bag")
        row.push_back(at == counts.end() ? 0 : at->second);
      else
        row.push_back(at == counts.end()
                          ? 0.0
                          : tf_idf(static_cast<double>(at->second), static_cast<double>(length),
                                   static_cast<double>(documents), static_cast<double>(documents_with[w])));
    }
    return line({{"vector", row}});
  });
}

Status print_counts(const std::string& kind, const WordStream& text, int64_t window, bool by_distance) {
  std::string block;
  const auto print_block = [&]() -> Status {
    if (!print_out(block)) return error_of(Error::Kind::kIo, "standard output", "cannot be written");
    block.clear();
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(each_count(kind, text, window, by_distance, [&](const Json& json) -> Status {
    block += dump(json) + "\n";
    constexpr size_t kBlockBytes = size_t{1} << 16;
    return block.size() < kBlockBytes ? Status(Done{}) : print_block();
  }));
  return print_block();
}

}  // namespace

int run_vectors_count(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  std::string kind = "bag";
  WordOptions words;
  int64_t min_count = 1, max_words = 10000, window = 5;
  bool by_distance = false;
  Options options("vectors count",
                  "Print count vectors as JSON lines: of documents (one per line; blank lines are skipped), "
                  "or of pairs of words.",
                  "makar vectors count texts.txt --kind tf-idf --lower --split words");
  options.positional("PATHS", &paths, "files and folders of text");
  options.add("--kind", &kind,
              "bag (of words) or tf-idf: the vocabulary, then a vector per document; cooccurrence or ppmi: a "
              "value per pair of words",
              "NAME");
  options.add("--window", &window, "cooccurrence, ppmi: context words on each side", "N");
  options.add("--by-distance", &by_distance, "cooccurrence, ppmi: a pair at distance d counts 1/d");
  options.group("Words");
  options.add("--split", &words.split, "space: split at white space; words: split off punctuation too",
              "NAME");
  options.add("--lower", &words.lower, "convert to lower case");
  options.add("--min-count", &min_count, "drop words with fewer occurrences", "N");
  options.add("--max-words", &max_words, "keep only the most frequent words; 0: all", "N");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const std::vector<std::string> kinds = {"bag", "tf-idf", "cooccurrence", "ppmi"};
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    return report(error_at("--kind", "must be {}, got '{}'{}", fmt::join(kinds, ", "), kind,
                           did_you_mean(kind, kinds))),
           2;
  if (const Status s = check(words); !s.ok()) return report(s.error()), 2;
  if (min_count < 1 || max_words < 0 || window < 1 || window > 20)
    return report(error_at("vectors count",
                           "--min-count is 1 or more, --max-words 0 or more, --window 1 to 20")),
           2;
  const auto work = [&]() -> Status {
    MAKAR_TRY(const std::vector<DataPath> data_paths, parse_data_paths(paths));
    MAKAR_TRY(const WordStream text,
              read_words(data_paths, words, min_count, max_words, [](uint64_t, size_t) {}));
    return print_counts(kind, text, window, by_distance);
  };
  const Status s = work();
  return s.ok() ? 0 : report(s.error());
}

}  // namespace makar
