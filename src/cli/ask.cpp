// makar ask: a question, answered from an index with citations.
#include <fmt/format.h>

#include <algorithm>

#include "cli/index_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"
#include "retrieval/answer.h"
#include "retrieval/rerank.h"

namespace makar {
namespace {

struct AskCommand {
  ModelOptions model;
  GenerationFlags flags;
  SearchFlags search;
  AskOptions ask;
  std::string index, collection = kDefaultCollection, rerank;
  std::vector<std::string> words;
  bool json = false;
};

Json answered_json(const std::string& question, const Answered& a) {
  return {{"question", question},
          {"answered", a.answered},
          {"answer", a.text},
          {"groundedness", a.groundedness},
          {"sentences", sentences_json(a.sentences)},
          {"sources", sources_json(a.sources)},
          {"usage", {{"prompt_tokens", a.prompt_tokens}, {"completion_tokens", a.tokens}}}};
}

// What supports each sentence, then the sources.
std::string support_text(const Answered& a) {
  std::string out = "\n";
  for (const AnswerSentence& s : a.sentences) {
    std::string places;
    for (const Citation& c : s.citations)
      places += fmt::format("{}[{}] {} {}-{}", places.empty() ? "" : ", ", c.source + 1, c.document, c.begin,
                            c.end);
    out += fmt::format("{} {:>3.0f} %  {}\n        {}\n", s.grounded ? "supported  " : "unsupported",
                       100 * s.support, s.text, places.empty() ? "no source" : places);
  }
  out += "\nSources:\n";
  for (size_t i = 0; i < a.sources.size(); ++i) {
    const StoredChunk& c = a.sources[i].chunk;
    out += fmt::format("[{}] {} {}-{} (chunk {})\n", i + 1, c.name, c.begin, c.end, c.key);
  }
  return out;
}

Result<std::vector<SearchHit>> retrieve(AskCommand& c, const std::string& question, Device& device) {
  MAKAR_TRY(const auto searcher, c.search.open(c.index, c.collection, c.model.device, c.model.threads));
  if (c.rerank.empty()) return searcher->search(question);
  MAKAR_TRY(auto hits, searcher->search(question, c.search.options.candidates));
  MAKAR_TRY(const auto reranker, Reranker::open(resolve_model(c.rerank), device));
  MAKAR_CHECK_OK(reranker->rerank(question, hits));
  if (hits.size() > c.search.options.k) hits.resize(c.search.options.k);
  return hits;
}

int answer(AskCommand& c, const std::string& question) {
  const auto compute = c.model.open_device();
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  const auto hits = retrieve(c, question, device);
  if (!hits.ok()) return report(hits.error());
  const auto store = IndexStore::open(c.index, false);
  if (!store.ok()) return report(store.error());
  const auto collection = store->collection(c.collection);
  if (!collection.ok()) return report(collection.error());
  const auto analyzer = Analyzer::open(collection->settings.analyzer);
  if (!analyzer.ok()) return report(analyzer.error());
  const bool relevant = std::any_of(
      hits->begin(), hits->end(), [&](const SearchHit& hit) { return hit.relevance >= c.ask.min_relevance; });
  if (!relevant) {  // before the model is loaded
    Answered nothing;
    nothing.text = kNothingFound;
    return print_out(c.json ? answered_json(question, nothing).dump() + "\n" : nothing.text + "\n") ? 0 : 1;
  }
  const auto budget = c.flags.engine.budget();
  if (!budget.ok()) return report(budget.error()), 2;
  const auto language = open_model(c.model, device, *budget);
  if (!language.ok()) return report(language.error());
  if (!language->spec().decoder || language->spec().encoder || !language->has_tokenizer())
    return report(error_of(Error::Kind::kUnsupported, c.model.model,
                           "answering needs a decoder-only language model with a tokenizer"));
  if (const Status ready = c.flags.prepare(*language, device); !ready.ok()) return report(ready.error());
  const auto engine_options = c.flags.engine_options(language->model());
  if (!engine_options.ok()) return report(engine_options.error());
  Engine engine(language->model(), device, *engine_options);
  c.ask.generation = c.flags.generation;
  std::function<bool(const std::string&)> on_text;
  if (!c.json) on_text = [](const std::string& text) { return print_out(text); };
  const auto answered = answer_question(engine, *language, question, *hits, *analyzer, c.ask, on_text);
  if (!answered.ok()) return report(answered.error());
  return print_out(c.json ? answered_json(question, *answered).dump() + "\n" : "\n" + support_text(*answered))
             ? 0
             : 1;
}

}  // namespace

int run_ask(const std::vector<std::string>& arguments) {
  AskCommand c;
  Options options("ask",
                  "Answers a question from an index made by makar index, with citations. Says so if the "
                  "index has nothing "
                  "relevant.",
                  "makar ask books.db -m MODEL \"Who is Mr. Knightley?\"");
  declare_index(options, c.index, c.collection);
  options.positional("QUESTION", &c.words, "the question").required = true;
  c.model.declare(options);
  declare_device(options, c.model.device);
  c.model.declare_chat(options);
  c.search.declare(options, 4, "--embed-model");
  options.add("--rerank", &c.rerank, "a cross-encoder or decoder that reorders the candidates", "PATH");
  options.add("--min-relevance", &c.ask.min_relevance,
              "use only chunks that have at least this share of the question's terms, or this cosine", "X");
  options.add("--grounded", &c.ask.grounded,
              "a sentence is supported if a source has at least this share of its terms", "X");
  options.group("Output");
  options.add("--json", &c.json, "print one JSON object");
  c.flags.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = c.search.check(); !checked.ok()) return report(checked.error()), 2;
  if (const Status checked = c.flags.check(options); !checked.ok()) return report(checked.error()), 2;
  for (const auto& [flag, value] :
       {std::pair("--min-relevance", c.ask.min_relevance), std::pair("--grounded", c.ask.grounded)})
    if (!(value >= 0 && value <= 1)) return report(error_at(flag, "must be from 0 to 1, got {}", value)), 2;
  if (c.flags.generation.answers != 1) return report(error_at("--n", "makar ask gives one answer")), 2;
  return answer(c, fmt::format("{}", fmt::join(c.words, " ")));
}

}  // namespace makar
