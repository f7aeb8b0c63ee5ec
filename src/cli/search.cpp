// makar search: the chunks of an index that match a query; --eval measures a test collection.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/progress.h"
#include "cli/index_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "retrieval/rerank.h"
#include "retrieval/test_collection.h"

namespace makar {
namespace {

struct SearchCommand {
  std::string index, collection = kDefaultCollection, device = "cpu", eval, split = "test", trec, negatives;
  std::vector<std::string> words, files;
  SearchFlags search;
  int64_t threads = 0, depth = 1000;
  bool json = false, binary = false, ignore_identical = false;
};

Json hit_json(const SearchHit& hit, size_t rank) {
  return {{"rank", rank},
          {"score", hit.score},
          {"id", hit.chunk.key},
          {"document", hit.chunk.name},
          {"title", hit.chunk.title},
          {"heading", hit.chunk.heading},
          {"begin", hit.chunk.begin},
          {"end", hit.chunk.end},
          {"text", hit.chunk.text},
          {"metadata", hit.chunk.metadata}};
}

// The first `bytes` bytes of a text on one line, without a partial character at the end.
std::string excerpt(const std::string& text, size_t bytes) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f';
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out += blank ? ' ' : c;
  }
  if (out.size() <= bytes) return out;
  out.resize(bytes);
  out.resize(complete_utf8_prefix(out));
  return out + "...";
}

bool print_hits(const std::string& query, const std::vector<SearchHit>& hits, bool json) {
  if (json) {
    Json list = Json::array();
    for (size_t i = 0; i < hits.size(); ++i) list.push_back(hit_json(hits[i], i + 1));
    return print_out(Json{{"query", query}, {"hits", std::move(list)}}.dump() + "\n");
  }
  if (hits.empty()) return print_out("nothing found\n");
  std::string out;
  for (size_t i = 0; i < hits.size(); ++i) {
    const StoredChunk& chunk = hits[i].chunk;
    out += fmt::format("{:>2}. {:.4f}  {} [{}-{}] {}{}\n    {}\n", i + 1, hits[i].score, chunk.name,
                       chunk.begin, chunk.end, chunk.key, chunk.heading.empty() ? "" : "  " + chunk.heading,
                       excerpt(chunk.text, 200));
  }
  return print_out(out);
}

// At least k hits of a query, reordered if there is a reranker.
Result<std::vector<SearchHit>> find(const SearchCommand& c, Searcher& searcher, Reranker* reranker,
                                    const std::string& query, size_t k) {
  if (!reranker) return searcher.search(query, k);
  MAKAR_TRY(auto hits, searcher.search(query, std::max(c.search.options.candidates, k)));
  MAKAR_RETURN_IF_ERROR(reranker->rerank(query, hits, c.search.reranking));
  return hits;
}

using RankedNames = std::vector<std::pair<std::string, double>>;

Result<RankedNames> find_documents(const SearchCommand& c, Searcher& searcher, Reranker* reranker,
                                   const std::string& query) {
  if (!reranker) return searcher.search_documents(query, static_cast<size_t>(c.depth) + c.ignore_identical);
  // As many chunks as search_documents() starts with, so that the candidates are the same.
  MAKAR_TRY(const auto hits, find(c, searcher, reranker, query, 2 * static_cast<size_t>(c.depth)));
  RankedNames out;
  for (const SearchHit& hit : hits)
    if (std::none_of(out.begin(), out.end(), [&](const auto& one) { return one.first == hit.chunk.name; }))
      out.emplace_back(hit.chunk.name, hit.score);
  return out;
}

// Triplets for training a retriever (Karpukhin et al., 2020): a query, the best chunk of each relevant
// document that is found, and the best chunks of other documents, one each, as hard negatives.
int mine_negatives(const SearchCommand& c, Searcher& searcher) {
  const auto test = read_test_collection(c.eval, c.split);
  if (!test.ok()) return report(test.error());
  std::string lines;
  int64_t triplets = 0, without_negative = 0;
  {
    Progress progress;
    size_t done = 0;
    for (const auto& [id, text] : test->queries) {
      progress.show("queries", done++, test->queries.size());
      const auto judged = std::find_if(test->judgements.begin(), test->judgements.end(),
                                       [&query = id](const auto& one) { return one.first == query; });
      if (judged == test->judgements.end()) continue;
      const auto hits = searcher.search(text, static_cast<size_t>(c.depth));
      if (!hits.ok()) return report(hits.error());
      std::vector<const SearchHit*> positives, negatives;
      std::set<std::string> seen;
      for (const SearchHit& hit : *hits) {
        if (!seen.insert(hit.chunk.name).second) continue;
        const auto found = judged->second.find(hit.chunk.name);
        const bool relevant = found != judged->second.end() && found->second > 0;
        (relevant ? positives : negatives).push_back(&hit);
      }
      if (negatives.empty()) without_negative += static_cast<int64_t>(positives.size());
      for (size_t i = 0; i < positives.size() && !negatives.empty(); ++i) {
        lines += dump({{"anchor", text},
                       {"positive", positives[i]->chunk.text},
                       {"negative", negatives[i % negatives.size()]->chunk.text}}) +
                 "\n";
        ++triplets;
      }
    }
    progress.show("queries", done, done);
  }
  if (triplets == 0)
    return report(
        error_at(c.eval, "no triplets: the search found no relevant document, or no irrelevant one"));
  if (const Status written = write_file(c.negatives, lines); !written.ok()) return report(written.error());
  if (c.json)
    return print_out(Json{{"triplets", triplets}, {"without_negative", without_negative}}.dump() + "\n") ? 0
                                                                                                         : 1;
  return print_out(fmt::format("{}: {} triplets\n", c.negatives, triplets)) ? 0 : 1;
}

int evaluate(const SearchCommand& c, Searcher& searcher, Reranker* reranker) {
  auto test = read_test_collection(c.eval, c.split);
  if (!test.ok()) return report(test.error());
  if (c.binary)
    for (auto& [query, judged] : test->judgements)
      for (auto& [document, relevance] : judged) relevance = relevance > 0 ? 1 : 0;
  RankedRun run;
  std::string lines;
  {
    Progress progress;
    size_t done = 0;
    for (const auto& [id, text] : test->queries) {
      progress.show("queries", done++, test->queries.size());
      const auto found = find_documents(c, searcher, reranker, text);
      if (!found.ok()) return report(found.error());
      auto& ranked = run[id];
      for (const auto& [document, score] : *found) {
        if ((c.ignore_identical && document == id) || ranked.size() == static_cast<size_t>(c.depth)) continue;
        ranked.push_back({document, score});
        if (!c.trec.empty())
          lines += fmt::format("{} Q0 {} {} {} makar\n", id, document, ranked.size(), score);
      }
    }
    progress.show("queries", done, done);
  }
  if (!c.trec.empty())
    if (const Status written = write_file(c.trec, lines); !written.ok()) return report(written.error());
  Json scores = {{"queries", test->queries.size()}};
  for (const char* metric : {"ndcg@10", "map", "mrr@10", "recall@10", "recall@100", "precision@10"}) {
    const auto e = evaluate_ranking(run, test->judgements, metric, {}, Gain::kLinear);
    if (!e.ok()) return report(e.error());
    scores[metric] = e->score;
  }
  if (c.json) return print_out(scores.dump() + "\n") ? 0 : 1;
  std::string out;
  for (const auto& [name, value] : scores.items())
    out += value.is_number_integer() ? fmt::format("{:<14} {}\n", name, value.get<int64_t>())
                                     : fmt::format("{:<14} {:.4f}\n", name, value.get<double>());
  return print_out(out) ? 0 : 1;
}

void declare_search(Options& options, SearchCommand& c) {
  declare_index(options, c.index, c.collection);
  options.positional("QUERY", &c.words, "the query; lines of standard input if there is none").required =
      false;
  options.add("-f --file", &c.files, "read one query per line from a file", "FILE");
  c.search.declare(options, 10, "-m --model");
  options.group("Evaluation");
  options.add("--eval", &c.eval, "measure on the queries of a BEIR folder or of Cranfield", "DIR");
  options.add("--split", &c.split, "split of a BEIR dataset: the file qrels/NAME.tsv", "NAME");
  options.add("--binary", &c.binary, "count every judgement above 0 as 1");
  options.add("--ignore-identical-ids", &c.ignore_identical,
              "leave out a document that has the id of the query, as BEIR does");
  options.add("--depth", &c.depth, "documents per query that are evaluated", "N");
  options.add("--trec", &c.trec, "write the run for makar metrics", "FILE");
  options.add(
      "--negatives", &c.negatives,
      "instead of measuring, write triplets for training a retriever: anchor, positive, and a hard negative "
      "that this search ranks high",
      "FILE");
  options.group("Output");
  options.add("--json --jsonl", &c.json, "print one JSON object per query");
  declare_threads(options, c.threads);
  declare_device(options, c.device);
}

// Errors are bad usage.
Status check_search(SearchCommand& c) {
  MAKAR_RETURN_IF_ERROR(c.search.check());
  if (c.depth < 1 || c.depth > 100000)
    return error_at("--depth", "must be from 1 to 100000, got {}", c.depth);
  if (!c.eval.empty() && !c.words.empty())
    return error_at("--eval", "takes its queries from the test collection; remove the query");
  if (c.eval.empty() && !c.negatives.empty()) return error_at("--negatives", "needs --eval");
  if (c.eval.empty() && !c.trec.empty()) return error_at("--trec", "needs --eval");
  return Done{};
}

// Prints the hits of the query in the arguments, or of each line of the input.
Status answer_queries(const SearchCommand& c, Searcher& searcher, Reranker* reranker) {
  const auto answer = [&](const std::string& query) -> Status {
    MAKAR_TRY(auto hits, find(c, searcher, reranker, query, c.search.options.k));
    if (hits.size() > c.search.options.k) hits.resize(c.search.options.k);
    if (!print_hits(query, hits, c.json))
      return error_of(Error::Kind::kIo, "standard output", "cannot write");
    return Done{};
  };
  if (!c.words.empty()) return answer(fmt::format("{}", fmt::join(c.words, " ")));
  Status query_status = Done{};
  MAKAR_RETURN_IF_ERROR(each_line_batch(c.files, [&](const std::vector<std::string_view>& lines, size_t) {
    for (const std::string_view line : lines)
      if (query_status.ok() && !line.empty()) query_status = answer(std::string(line));
    return query_status.ok();
  }));
  return query_status;
}

}  // namespace

int run_search(const std::vector<std::string>& arguments) {
  SearchCommand c;
  Options options("search", "Search an index made by makar index: BM25, vectors, or both.",
                  "makar search books.db \"who is Mr. Knightley\"");
  declare_search(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check_search(c); !checked.ok()) return report(checked.error()), 2;
  auto searcher = c.search.open(c.index, c.collection, c.device, c.threads);
  if (!searcher.ok()) return report(searcher.error());
  std::unique_ptr<Device> device;
  std::unique_ptr<Reranker> reranker;
  if (!c.search.rerank.empty()) {
    auto compute = open_device_option(c.device, c.threads);
    if (!compute.ok()) return report(compute.error());
    device = std::move(*compute);
    auto opened = Reranker::open(resolve_model(c.search.rerank), *device);
    if (!opened.ok()) return report(opened.error());
    reranker = std::move(*opened);
  }
  if (!c.negatives.empty()) return mine_negatives(c, **searcher);
  if (!c.eval.empty()) return evaluate(c, **searcher, reranker.get());
  const Status status = answer_queries(c, **searcher, reranker.get());
  return status.ok() ? 0 : report(status.error());
}

}  // namespace makar
