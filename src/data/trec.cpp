#include "data/trec.h"

#include <charconv>
#include <cmath>
#include <unordered_set>

#include "base/quote.h"

namespace makar {
namespace {

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = line.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t", begin), line.size());
    out.push_back(line.substr(begin, at - begin));
  }
  return out;
}

// Columns: how many a line has, and where query, document and score are.
struct TrecColumns {
  size_t count, query, document, score;
  const char* expected;
};
constexpr TrecColumns kRun{6, 0, 2, 4, "QUERY Q0 DOCUMENT RANK SCORE TAG"};
constexpr TrecColumns kQrels{4, 0, 2, 3, "QUERY 0 DOCUMENT RELEVANCE"};
constexpr TrecColumns kBeir{3, 0, 1, 2, "query-id corpus-id score"};

Result<std::vector<ScoredDocument>> read_columns(LineReader lines, TrecColumns columns) {
  std::vector<ScoredDocument> out;
  std::unordered_set<std::string> seen;
  for (Line line;;) {
    MAKAR_TRY(const bool found, lines.next(line));
    if (!found) return out;
    const std::string place = fmt::format("{}:{}", lines.place(), line.number);
    if (line.too_long)
      return error_of(Error::Kind::kLimit, place, "the line is longer than {} bytes", lines.limit());
    const auto fields = columns_of(line.text);
    if (fields.empty()) continue;
    if (line.number == 1 && columns.count == kQrels.count && fields.size() == kBeir.count &&
        fields[0] == "query-id") {
      columns = kBeir;
      continue;
    }
    if (fields.size() != columns.count)
      return error_at(place, "expected {} columns ({}), found {}", columns.count, columns.expected,
                      fields.size());
    ScoredDocument one{std::string(fields[columns.query]), std::string(fields[columns.document])};
    const std::string_view score = fields[columns.score];
    const auto [end, status] = std::from_chars(score.data(), score.data() + score.size(), one.score);
    if (status != std::errc() || end != score.data() + score.size() || !std::isfinite(one.score))
      return error_at(place, "expected a number, found {}", quote(std::string(score)));
    if (!seen.insert(one.query + '\t' + one.document).second)
      return error_at(place, "document {} is listed twice for query {}", quote(one.document),
                      quote(one.query));
    out.push_back(std::move(one));
  }
}

}  // namespace

Result<std::vector<ScoredDocument>> read_trec_run(LineReader lines) {
  return read_columns(std::move(lines), kRun);
}
Result<std::vector<ScoredDocument>> read_judgements(LineReader lines) {
  return read_columns(std::move(lines), kQrels);
}

}  // namespace makar
