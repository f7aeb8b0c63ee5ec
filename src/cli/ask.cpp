// makar ask: a question, answered from an index with citations.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/progress.h"
#include "cli/index_options.h"
#include "cli/json_lines.h"
#include "cli/model_path.h"
#include "cli/rank_flags.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "cli/with_engine.h"
#include "lexical/toxicity.h"
#include "retrieval/answer_drafts.h"
#include "retrieval/rerank.h"

namespace makar {
namespace {

struct AskCommand {
  ModelOptions model;
  GenerationFlags flags;
  RankFlags rank;
  SearchFlags search;
  AskOptions ask;
  std::string index, collection = kDefaultCollection, eval, judge;
  std::vector<std::string> words;
  std::string style = "stuff";
  bool json = false, rewrite = false;
  int64_t drafts = 1;  // 1: a single answer without drafts
  std::string classifier;
  std::vector<std::string> benign;
  double threshold = 0.5;
};

Json answer_json(const std::string& question, const AnswerWithSources& a) {
  return {{"question", question},
          {"answered", a.answered},
          {"answer", a.text},
          {"groundedness", a.groundedness},
          {"sentences", sentences_json(a.sentences)},
          {"sources", sources_json(a.sources)},
          {"usage", {{"prompt_tokens", a.prompt_tokens}, {"completion_tokens", a.tokens}}}};
}

// The support and the citations of each sentence, then the sources.
std::string support_text(const AnswerWithSources& a) {
  std::string out = "\n";
  for (const AnswerSentence& s : a.sentences) {
    std::string citations;
    for (const Citation& c : s.citations)
      citations += fmt::format("{}[{}] {} {}-{}", citations.empty() ? "" : ", ", c.source + 1, c.document,
                               c.begin, c.end);
    out += fmt::format("{} {:>3.0f} %  {}\n        {}\n", s.grounded ? "supported  " : "unsupported",
                       100 * s.support, s.text, citations.empty() ? "no source" : citations);
  }
  out += "\nSources:\n";
  for (size_t i = 0; i < a.sources.size(); ++i) {
    const StoredChunk& c = a.sources[i].chunk;
    out += fmt::format("[{}] {} {}-{} (chunk {})\n", i + 1, c.name, c.begin, c.end, c.key);
  }
  return out;
}

// Search, and reranking if requested.
struct Retrieval {
  std::unique_ptr<Searcher> searcher;
  std::unique_ptr<Reranker> reranker;
  size_t k = 0, candidates = 0;
  RerankOptions reranking;

  static Result<Retrieval> open(AskCommand& c, Device& device) {
    Retrieval out;
    MAKAR_TRY(out.searcher, c.search.open(c.index, c.collection, c.model.device, c.model.threads));
    if (!c.search.rerank.empty()) {
      MAKAR_TRY(out.reranker, Reranker::open(resolve_model(c.search.rerank), device));
    }
    out.k = c.search.options.k, out.candidates = std::max(out.k, c.search.options.candidates);
    out.reranking = c.search.reranking;
    return out;
  }
  Result<std::vector<SearchHit>> search(const std::string& question) const {
    if (!reranker) return searcher->search(question);
    MAKAR_TRY(auto hits, searcher->search(question, candidates));
    MAKAR_RETURN_IF_ERROR(reranker->rerank(question, hits, reranking));
    if (hits.size() > k) hits.resize(k);
    return hits;
  }
};

// Opens the model, calls `use`, and returns its exit code.
int with_model(AskCommand& c, Device& device, const EngineUse& use) {
  return with_engine(c.model, c.flags, device, [&](Engine& engine, const LanguageModel& language) {
    if (const Status opened = c.rank.open(device, c.flags.generation); !opened.ok())
      return report(opened.error());
    c.ask.generation = c.flags.generation;
    return use(engine, language);
  });
}

bool has_relevant(const std::vector<SearchHit>& hits, const AskCommand& c) {
  return std::any_of(hits.begin(), hits.end(),
                     [&](const SearchHit& hit) { return hit.relevance >= c.ask.min_relevance; });
}

int write_best_draft(const AskCommand& c, const std::string& question, const std::vector<SearchHit>& hits,
                     const Retrieval& retrieval, Engine& engine, const LanguageModel& language) {
  DraftOptions options;
  options.drafts = c.drafts, options.threshold = c.threshold;
  options.judge = likelihood_judge(engine, language);
  std::optional<ToxicityClassifier> classifier;
  if (!c.classifier.empty()) {
    auto opened = ToxicityClassifier::open(c.classifier, c.benign);
    if (!opened.ok()) return report(opened.error());
    classifier.emplace(std::move(*opened));
    options.toxicity = [&](std::string_view text) { return classifier->toxicity(text); };
  }
  const auto result =
      answer_with_drafts(engine, language, question, hits, retrieval.searcher->analyzer(), c.ask, options);
  if (!result.ok()) return report(result.error());
  if (c.json) {
    Json out = answer_json(question, result->answer);
    out["drafts"] = Json::array();
    for (const AnswerDraft& d : result->drafts)
      out["drafts"].push_back({{"text", d.text},
                               {"toxicity", classifier ? Json(d.toxicity) : Json()},
                               {"safe", d.safe},
                               {"groundedness", d.groundedness},
                               {"quality", d.quality},
                               {"score", d.score}});
    out["chosen"] = result->chosen < 0 ? Json() : Json(result->chosen);
    return print_out(dump(out) + "\n") ? 0 : 1;
  }
  std::string text = result->answer.text + "\n";
  if (result->answer.answered) text += support_text(result->answer);
  if (!result->drafts.empty()) text += "\nDrafts:\n";
  for (size_t i = 0; i < result->drafts.size(); ++i) {
    const AnswerDraft& d = result->drafts[i];
    text += fmt::format("{} {}  supported {:>3.0f} %, quality {:.2f}{}{}\n",
                        static_cast<int64_t>(i) == result->chosen ? "*" : " ", i + 1, 100 * d.groundedness,
                        d.quality, classifier ? fmt::format(", toxicity {:.2f}", d.toxicity) : "",
                        d.safe ? "" : ", dropped: toxic");
  }
  return print_out(text) ? 0 : 1;
}

int write_answer(const AskCommand& c, const std::string& question, const std::vector<SearchHit>& hits,
                 const Retrieval& retrieval, Engine& engine, const LanguageModel& language) {
  if (c.drafts > 1) return write_best_draft(c, question, hits, retrieval, engine, language);
  std::function<bool(const std::string&)> on_text;
  if (!c.json) on_text = [](const std::string& text) { return print_out(text); };
  const auto result =
      answer_question(engine, language, question, hits, retrieval.searcher->analyzer(), c.ask, on_text);
  if (!result.ok()) return report(result.error());
  if (c.json) return print_out(dump(answer_json(question, *result)) + "\n") ? 0 : 1;
  return print_out(result->answered ? "\n" + support_text(*result) : result->text + "\n") ? 0 : 1;
}

int answer(AskCommand& c, const std::string& question) {
  const auto compute = c.model.open_device();
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  const auto retrieval = Retrieval::open(c, device);
  if (!retrieval.ok()) return report(retrieval.error());
  if (c.rewrite)
    return with_model(c, device, [&](Engine& engine, const LanguageModel& language) {
      const auto query = rewrite_question(engine, language, question, c.ask.generation);
      if (!query.ok()) return report(query.error());
      auto hits = retrieval->search(*query);
      if (hits.ok() && !has_relevant(*hits, c)) hits = retrieval->search(question);
      if (!hits.ok()) return report(hits.error());
      return write_answer(c, question, *hits, *retrieval, engine, language);
    });
  const auto hits = retrieval->search(question);
  if (!hits.ok()) return report(hits.error());
  if (!has_relevant(*hits, c)) {  // before the model is loaded
    AnswerWithSources no_answer;
    no_answer.text = kNothingFound;
    return print_out(c.json ? dump(answer_json(question, no_answer)) + "\n" : no_answer.text + "\n") ? 0 : 1;
  }
  return with_model(c, device, [&](Engine& engine, const LanguageModel& language) {
    return write_answer(c, question, *hits, *retrieval, engine, language);
  });
}

struct EvalQuestion {
  std::string question, reference;
};

Result<std::vector<EvalQuestion>> read_questions(const std::string& path) {
  std::vector<EvalQuestion> out;
  MAKAR_RETURN_IF_ERROR(each_json_line(path, [&](const Json& one, const std::string& place) -> Status {
    const Json question = one.is_object() ? one.value("question", Json()) : Json();
    const Json reference = one.is_object() ? one.value("answer", Json("")) : Json();
    if (!question.is_string() || !reference.is_string())
      return error_at(place, "expected an object with the texts \"question\" and \"answer\"");
    out.push_back({question, reference});
    return Done{};
  }));
  if (out.empty()) return error_at(path, "has no questions");
  return out;
}

int evaluate(AskCommand& c) {
  const auto questions = read_questions(c.eval);
  if (!questions.ok()) return report(questions.error());
  const auto compute = c.model.open_device();
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  const auto retrieval = Retrieval::open(c, device);
  if (!retrieval.ok()) return report(retrieval.error());
  std::optional<LanguageModel> judge_language;
  std::unique_ptr<Engine> judge_engine;
  if (!c.judge.empty()) {
    auto opened = LanguageModel::open(resolve_model(c.judge), device);
    if (!opened.ok()) return report(opened.error());
    judge_language.emplace(std::move(*opened));
    if (!judge_language->spec().decoder || judge_language->spec().encoder || !judge_language->has_tokenizer())
      return report(error_of(Error::Kind::kUnsupported, c.judge,
                             "a judge must be a decoder-only language model with a tokenizer"));
    judge_engine = std::make_unique<Engine>(judge_language->model(), device, EngineOptions());
  }
  return with_model(c, device, [&](Engine& engine, const LanguageModel& language) {
    const YesNoJudge judge =
        judge_engine ? likelihood_judge(*judge_engine, *judge_language) : likelihood_judge(engine, language);
    const std::vector<std::pair<const char*, double AnswerScores::*>> fields = {
        {"context_precision", &AnswerScores::context_precision},
        {"context_recall", &AnswerScores::context_recall},
        {"faithfulness", &AnswerScores::faithfulness},
        {"answer_relevance", &AnswerScores::answer_relevance}};
    Json samples = Json::array();
    AnswerScores sum;
    double groundedness_sum = 0, answered_count = 0;
    Progress progress;
    for (const EvalQuestion& one : *questions) {
      progress.show("questions", samples.size(), questions->size());
      const auto hits = retrieval->search(one.question);
      if (!hits.ok()) return report(hits.error());
      const auto result =
          answer_question(engine, language, one.question, *hits, retrieval->searcher->analyzer(), c.ask);
      if (!result.ok()) return report(result.error());
      const auto scores = score_answer(one.question, one.reference, result->answered ? result->text : "",
                                       result->sources, judge);
      if (!scores.ok()) return report(scores.error());
      Json sample = {
          {"question", one.question}, {"answer", result->text}, {"groundedness", result->groundedness}};
      for (const auto& [name, field] : fields)
        sum.*field += (*scores).*field, sample[name] = (*scores).*field;
      groundedness_sum += result->groundedness, answered_count += result->answered ? 1 : 0;
      samples.push_back(std::move(sample));
    }
    progress.show("questions", samples.size(), samples.size());
    const auto n = static_cast<double>(samples.size());
    Json out = {{"questions", samples.size()},
                {"answered", answered_count / n},
                {"groundedness", groundedness_sum / n}};
    for (const auto& [name, field] : fields) out[name] = sum.*field / n;
    if (c.json) {
      out["samples"] = std::move(samples);
      return print_out(dump(out) + "\n") ? 0 : 1;
    }
    std::string text;
    for (const auto& [name, value] : out.items())
      text += value.is_number_integer() ? fmt::format("{:<18} {}\n", name, value.get<int64_t>())
                                        : fmt::format("{:<18} {:.4f}\n", name, value.get<double>());
    return print_out(text) ? 0 : 1;
  });
}

// Called after c.ask.style is set.
Status check_drafts(const AskCommand& c, const Options& options) {
  if (c.drafts < 1 || c.drafts > 64) return error_at("--drafts", "must be from 1 to 64, got {}", c.drafts);
  if (!(c.threshold > 0 && c.threshold <= 1))
    return error_at("--threshold", "must be above 0 and at most 1, got {}", c.threshold);
  if (c.drafts == 1) {
    for (const char* flag : {"--classifier", "--benign", "--threshold"})
      if (options.given(flag)) return error_at(flag, "needs --drafts N, with N above 1");
    return Done{};
  }
  if (c.ask.style != AnswerStyle::kStuff) return error_at("--drafts", "works with --style stuff only");
  if (!c.eval.empty()) return error_at("--drafts", "cannot be combined with --eval");
  if (c.flags.generation.sampler.temperature <= 0)
    return error_at("--drafts", "needs --temp above 0: greedy drafts are all the same");
  return Done{};
}

}  // namespace

int run_ask(const std::vector<std::string>& arguments) {
  AskCommand c;
  Options options(
      "ask",
      "Answer a question from an index made by makar index, with citations. Prints a message if the "
      "index has nothing relevant.",
      "makar ask books.db -m MODEL \"Who is Mr. Knightley?\"");
  declare_index(options, c.index, c.collection);
  options.positional("QUESTION", &c.words, "the question").required = false;
  c.model.declare(options);
  declare_device(options, c.model.device);
  c.model.declare_chat(options);
  c.search.declare(options, 4, "--embed-model");
  options.add("--min-relevance", &c.ask.min_relevance,
              "use only chunks that have at least this share of the question's terms, or this cosine", "X");
  options.add(
      "--style", &c.style,
      "stuff: all passages in one prompt; map-reduce: an answer per passage, then one answer from all of "
      "them; refine: one answer, updated passage by passage",
      "NAME");
  options.add("--rewrite", &c.rewrite, "let the model write the search query");
  options.add("--grounded", &c.ask.grounded,
              "a sentence is supported if a source has at least this share of its terms", "X");
  options.group("Drafts");
  options.add(
      "--drafts", &c.drafts,
      "generate this many answers and print the best: toxic ones are dropped, the others ranked by support "
      "in the sources and relevance to the question; needs --temp above 0",
      "N");
  options.add("--classifier", &c.classifier,
              "toxicity classifier for the drafts, a file of `makar classify train --method logistic`",
              "FILE");
  options.add("--benign", &c.benign,
              "the classifier's label for harmless texts, if it is not a common name such as `safe`",
              "LABEL");
  options.add("--threshold", &c.threshold, "drop drafts whose probability of being toxic is at least this",
              "P");
  options.group("Evaluation");
  options.add(
      "--eval", &c.eval,
      "measure on questions with correct answers, {\"question\", \"answer\"} per line: context precision "
      "and recall, faithfulness, answer relevance, groundedness",
      "FILE");
  options.add("--judge", &c.judge, "model that judges the answers; --model if not set", "PATH");
  options.group("Output");
  options.add("--json", &c.json, "print one JSON object");
  c.flags.declare(options);
  c.rank.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = c.search.check(); !checked.ok()) return report(checked.error()), 2;
  if (const Status checked = c.flags.check(options); !checked.ok()) return report(checked.error()), 2;
  if (const Status checked = c.rank.check(c.flags); !checked.ok()) return report(checked.error()), 2;
  for (const auto& [flag, value] :
       {std::pair("--min-relevance", c.ask.min_relevance), std::pair("--grounded", c.ask.grounded)})
    if (!(value >= 0 && value <= 1)) return report(error_at(flag, "must be from 0 to 1, got {}", value)), 2;
  if (c.flags.generation.answers != 1)
    return report(error_at("--answers",
                           "makar ask returns one answer; --drafts N generates N and prints the best")),
           2;
  const auto style = parse_answer_style(c.style, "--style");
  if (!style.ok()) return report(style.error()), 2;
  c.ask.style = *style;
  if (const Status checked = check_drafts(c, options); !checked.ok()) return report(checked.error()), 2;
  if (c.eval.empty() == c.words.empty())
    return report(error_at("ask", "expected a question, or --eval FILE")), 2;
  if (!c.judge.empty() && c.eval.empty()) return report(error_at("--judge", "needs --eval")), 2;
  return c.eval.empty() ? answer(c, fmt::format("{}", fmt::join(c.words, " "))) : evaluate(c);
}

}  // namespace makar
