// Answers to questions from retrieved passages: the prompt within the context, the answer, its citations.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "llm/text_generation.h"
#include "retrieval/analyzer.h"
#include "retrieval/searcher.h"

namespace makar {

// stuff: all passages in one prompt. map-reduce: an answer from each passage, then one from these answers.
// refine: an answer from the first passage, improved with each of the others. The last two use every passage,
// even if not all of them fit the context.
enum class AnswerStyle { kStuff, kMapReduce, kRefine };
Result<AnswerStyle> parse_answer_style(const std::string& name, const std::string& place);

struct AskOptions {
  AnswerStyle style = AnswerStyle::kStuff;
  // Passages with less relevance are not used; if none is left, the question is not answered.
  double min_relevance = 0.3;
  double grounded = 0.5;  // the share of a sentence's terms that a passage must have to support it
  TextGenerationOptions generation;
};

// A place in a document that supports a sentence.
struct Citation {
  size_t source = 0;           // index into AnswerWithSources::sources
  std::string id, document;    // of the chunk, of the document
  int64_t begin = 0, end = 0;  // bytes in the document's text
  std::string quote;           // the text there
};
struct AnswerSentence {
  std::string text;
  double support = 0;  // the share of its terms that the best passage has
  bool grounded = false;
  std::vector<Citation> citations;  // the best passage first, then those the model named as [1]
};
struct AnswerWithSources {
  bool answered = false;  // false: nothing relevant was found and no model ran, or no safe draft has text
  std::string text;
  std::vector<SearchHit> sources;  // that the prompt contains, in its order
  std::vector<AnswerSentence> sentences;
  double groundedness = 0;  // the share of grounded sentences
  int64_t prompt_tokens = 0, tokens = 0;
};

constexpr const char* kNothingFound = "The index has nothing relevant to this question.";

// The messages of a question with numbered passages.
Json ask_messages(const std::string& question, const std::vector<SearchHit>& passages);
// The conversation with the passages before the question in message `at`, and with the instruction as its
// first message.
Json ask_messages(const Json& conversation, size_t at, const std::vector<SearchHit>& passages);

// Drops sources from the end, then shortens the only one left, until `encode(sources)` and an answer of
// `answer_tokens` fit `context` tokens (0: no limit). Returns the prompt.
using EncodeSources = std::function<Result<std::vector<int64_t>>(const std::vector<SearchHit>& sources)>;
Result<std::vector<int64_t>> fit_sources(const EncodeSources& encode, int64_t context, int64_t answer_tokens,
                                         std::vector<SearchHit>& sources);

// The sentences of an answer with the passages that support them, by shared terms.
std::vector<AnswerSentence> check_grounding(const std::string& answer, const std::vector<SearchHit>& sources,
                                            const Analyzer& analyzer, double threshold);

// A question as a search query, written by the model; the question itself if it writes nothing.
Result<std::string> rewrite_question(Engine& engine, const LanguageModel& language,
                                     const std::string& question, const TextGenerationOptions& generation);

// Answers by map-reduce or refine from out.sources; sets the text and the token counts of `out`.
Status answer_in_parts(Engine& engine, const LanguageModel& language, const std::string& question,
                       const AskOptions& options, const std::function<bool(const std::string&)>& on_text,
                       AnswerWithSources& out);

// As JSON, for `makar ask --json` and the server.
Json sources_json(const std::vector<SearchHit>& sources);
Json sentences_json(const std::vector<AnswerSentence>& sentences);
// The share of grounded sentences; 0 without sentences.
double groundedness(const std::vector<AnswerSentence>& sentences);

// The prompt of a question with the relevant hits that fit the context together with the answer, which become
// out.sources. Without any, out.text says so and the prompt is empty.
Result<std::vector<int64_t>> ask_prompt(const Engine& engine, const LanguageModel& language,
                                        const std::string& question, const std::vector<SearchHit>& hits,
                                        const AskOptions& options, AnswerWithSources& out);

// Uses as many of the hits as fit the context together with the answer, best first. `on_text` receives the
// answer as it is generated; false ends it.
Result<AnswerWithSources> answer_question(Engine& engine, const LanguageModel& language,
                                          const std::string& question, const std::vector<SearchHit>& hits,
                                          const Analyzer& analyzer, const AskOptions& options,
                                          const std::function<bool(const std::string&)>& on_text = {});

}  // namespace makar
