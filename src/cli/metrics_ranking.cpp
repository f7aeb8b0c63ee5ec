// Metrics of retrieval: a run against relevance judgements.
#include <charconv>

#include "cli/metrics.h"
#include "cli/run.h"
#include "data/trec.h"
#include "metrics/ranking.h"
#include "retrieval/test_collection.h"

namespace makar {
namespace {

Result<LineReader> open_lines(const std::string& path) {
  MAKAR_TRY(auto stream, ByteStream::open(path));
  return LineReader(std::move(stream));
}

Result<std::vector<int64_t>> parse_cutoffs(const std::string& text) {
  std::vector<int64_t> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    int64_t k = 0;
    const auto [stop, status] = std::from_chars(text.data() + at, text.data() + end, k);
    if (status != std::errc() || stop != text.data() + end || k < 1)
      return error_at("--cutoffs", "expected numbers above 0, separated by commas, got '{}'", text);
    out.push_back(k);
    at = end + 1;
  }
  return out;
}

}  // namespace

int run_ranking_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricOutput output;
  std::vector<std::string> runs;
  std::string qrels_file, gain = "linear", cutoffs = "1,3,5,10,100", main = name;
  int64_t k = 0;
  const std::string base = name.substr(0, name.find('@'));
  Options options("metrics " + base, "Score ranked lists of documents with relevance judgements.",
                  fmt::format("makar metrics {} --run run.trec --qrels qrels.tsv -k 10", base));
  options.group("Input");
  options
      .add("--run --hyp", &runs,
           "a TREC run: QUERY Q0 DOCUMENT RANK SCORE TAG per line; repeat for more systems", "FILE")
      .required = true;
  options
      .add("--qrels --ref", &qrels_file,
           "judgements: TREC's QUERY 0 DOCUMENT RELEVANCE, or BEIR's table with a header", "FILE")
      .required = true;
  options.group("Metric");
  options.add("-k --k", &k, "evaluate the first k documents; 0 for all", "N");
  options.add("--cutoffs", &cutoffs, "lengths of the list for the other metrics that are printed", "LIST");
  options.add("--gain", &gain, "gain of nDCG: linear (the relevance) or exp (2^relevance - 1)", "NAME");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  if (gain != "linear" && gain != "exp")
    return report(error_at("--gain", "expected linear or exp, got '{}'", gain)), 2;
  const auto lengths = parse_cutoffs(cutoffs);
  if (!lengths.ok()) return report(lengths.error()), 2;
  if (k < 0) return report(error_at("--k", "must be 0 or more, got {}", k)), 2;
  if (k > 0) main = fmt::format("{}@{}", base, k);
  for (char& c : main)
    if (c == '-') c = '_';
  const auto qrels = read_qrels(qrels_file);
  if (!qrels.ok()) return report(qrels.error());
  return report_metric(
      runs,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        RankedRun run;
        Qrels judgements;
        for (size_t s = 0; s < systems.size(); ++s) {
          // The queries of each system are separate units.
          const auto key = [&](const std::string& query) { return fmt::format("{} {}", s, query); };
          MAKAR_TRY(auto lines, open_lines(systems[s]));
          MAKAR_TRY(const auto documents, read_trec_run(std::move(lines)));
          for (const ScoredDocument& d : documents) run[key(d.query)].push_back({d.document, d.score});
          for (const auto& [query, judged] : *qrels) judgements.emplace_back(key(query), judged);
        }
        MAKAR_TRY(Evaluation e, evaluate_ranking(run, judgements, main, *lengths,
                                                 gain == "exp" ? Gain::kExponential : Gain::kLinear));
        if (e.units == 0) return error_at(qrels_file, "no query has a relevant document");
        return e;
      },
      output);
}

}  // namespace makar
