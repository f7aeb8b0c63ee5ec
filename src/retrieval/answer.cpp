#include "retrieval/answer.h"

#include <algorithm>
#include <unordered_set>

#include "retrieval/chunker.h"

namespace makar {
namespace {

constexpr const char* kInstruction =
    "Answer the question from the numbered sources only. After each sentence name the source that supports "
    "it, such as "
    "[1]. If the sources do not have the answer, say that they do not.";

std::string source_list(const std::vector<SearchHit>& passages) {
  std::string out;
  for (size_t i = 0; i < passages.size(); ++i) {
    const StoredChunk& c = passages[i].chunk;
    out +=
        fmt::format("[{}] {}{}{}\n{}\n\n", i + 1, c.title, c.heading.empty() ? "" : " > ", c.heading, c.text);
  }
  return out;
}

Result<std::vector<int64_t>> encode_prompt(const LanguageModel& language, const std::string& question,
                                           const std::vector<SearchHit>& passages) {
  if (!language.chat_template())
    return language.encode(source_list(passages) + "Question: " + question + "\nAnswer:");
  ChatInput input;
  input.messages = ask_messages(question, passages);
  input.add_generation_prompt = true;
  return language.encode_chat(input);
}

// Shortens a passage to its first sentences.
bool drop_half(SearchHit& hit) {
  const std::vector<Span> sentences = sentences_of(hit.chunk.text);
  if (sentences.size() < 2) return false;
  const size_t end = sentences[sentences.size() / 2].begin;
  hit.chunk.text.resize(end);
  hit.chunk.end = hit.chunk.begin + static_cast<int64_t>(end);
  return true;
}

struct Support {
  double share = 0;
  size_t begin = 0, end = 0;  // of the best sentence in the passage
};

double share_of(const std::vector<std::string>& wanted, const std::vector<std::string>& present) {
  if (wanted.empty()) return 0;
  const std::unordered_set<std::string> has(present.begin(), present.end());
  size_t found = 0;
  for (const std::string& term : wanted) found += has.contains(term);
  return static_cast<double>(found) / static_cast<double>(wanted.size());
}

Support support_of(const std::vector<std::string>& terms, const std::string& passage,
                   const Analyzer& analyzer) {
  Support out;
  out.share = share_of(terms, analyzer(passage));
  double best = -1;
  for (const Span& s : sentences_of(passage)) {
    const double share =
        share_of(terms, analyzer(std::string_view(passage).substr(s.begin, s.end - s.begin)));
    if (share > best) best = share, out.begin = s.begin, out.end = s.end;
  }
  while (out.end > out.begin && (passage[out.end - 1] == ' ' || passage[out.end - 1] == '\n')) --out.end;
  return out;
}

Citation cite(const std::vector<SearchHit>& sources, size_t source, const Support& support) {
  const StoredChunk& c = sources[source].chunk;
  return {source,
          c.key,
          c.name,
          c.begin + static_cast<int64_t>(support.begin),
          c.begin + static_cast<int64_t>(support.end),
          c.text.substr(support.begin, support.end - support.begin)};
}

// The sources named in a text as [1] or [2, 3], from 0; the marks are removed from `plain`.
std::vector<size_t> named_sources(const std::string& text, size_t count, std::string& plain) {
  std::vector<size_t> out;
  for (size_t at = 0; at < text.size();) {
    const size_t close = text[at] == '[' ? text.find(']', at) : std::string::npos;
    const bool mark = close != std::string::npos && close > at + 1 && close - at < 24 &&
                      text.find_first_not_of("0123456789, ", at + 1) == close;
    if (!mark) {
      plain += text[at++];
      continue;
    }
    for (size_t i = at + 1; i < close;) {
      size_t number = 0;
      for (; i < close && text[i] >= '0' && text[i] <= '9'; ++i)
        number = std::min<size_t>(number * 10 + static_cast<size_t>(text[i] - '0'), 1000000);
      if (number >= 1 && number <= count && std::find(out.begin(), out.end(), number - 1) == out.end())
        out.push_back(number - 1);
      ++i;
    }
    at = close + 1;
  }
  return out;
}

}  // namespace

Json ask_messages(const std::string& question, const std::vector<SearchHit>& passages) {
  return Json::array({{{"role", "system"}, {"content", kInstruction}},
                      {{"role", "user"}, {"content", source_list(passages) + "Question: " + question}}});
}

std::vector<AnswerSentence> check_grounding(const std::string& answer, const std::vector<SearchHit>& sources,
                                            const Analyzer& analyzer, double threshold) {
  std::vector<AnswerSentence> out;
  for (const Span& span : sentences_of(answer)) {
    AnswerSentence sentence;
    sentence.text = answer.substr(span.begin, span.end - span.begin);
    while (!sentence.text.empty() && (sentence.text.back() == ' ' || sentence.text.back() == '\n'))
      sentence.text.pop_back();
    std::string plain;
    const auto named = named_sources(sentence.text, sources.size(), plain);
    const auto terms = analyzer(plain);
    if (terms.empty()) {
      // Marks that follow a full stop belong to the sentence before.
      if (!out.empty()) {
        out.back().text += " " + sentence.text;
        for (const size_t source : named) {
          std::string before;
          named_sources(out.back().text, 0, before);
          out.back().citations.push_back(
              cite(sources, source, support_of(analyzer(before), sources[source].chunk.text, analyzer)));
        }
      }
      continue;
    }
    size_t best = 0;
    std::vector<Support> supports;
    for (size_t i = 0; i < sources.size(); ++i) {
      supports.push_back(support_of(terms, sources[i].chunk.text, analyzer));
      if (supports[i].share > supports[best].share) best = i;
    }
    if (!sources.empty()) {
      sentence.support = supports[best].share;
      sentence.grounded = sentence.support >= threshold;
      if (sentence.grounded) sentence.citations.push_back(cite(sources, best, supports[best]));
      for (const size_t source : named)
        if (!sentence.grounded || source != best)
          sentence.citations.push_back(cite(sources, source, supports[source]));
    }
    out.push_back(std::move(sentence));
  }
  return out;
}

Result<Answered> answer_question(Engine& engine, const LanguageModel& language, const std::string& question,
                                 const std::vector<SearchHit>& hits, const Analyzer& analyzer,
                                 const AskOptions& options,
                                 const std::function<bool(const std::string&)>& on_text) {
  Answered out;
  for (const SearchHit& hit : hits)
    if (hit.relevance >= options.min_relevance) out.sources.push_back(hit);
  if (out.sources.empty()) {
    out.text = kNothingFound;
    return out;
  }
  TextGenerationOptions generation = options.generation;
  const int64_t room = context_size(language.spec(), engine.options().context);
  std::vector<int64_t> prompt;
  for (;;) {
    MAKAR_TRY(prompt, encode_prompt(language, question, out.sources));
    if (room <= 0 || static_cast<int64_t>(prompt.size()) + generation.max_new_tokens <= room) break;
    if (out.sources.size() > 1) {
      out.sources.pop_back();
    } else if (!drop_half(out.sources[0])) {
      return error_of(
          Error::Kind::kLimit, "question",
          "the question, a passage and an answer of {} tokens do not fit the context of {} tokens; use fewer "
          "tokens (-n) or smaller chunks",
          generation.max_new_tokens, room);
    }
  }
  if (on_text) generation.on_text = [&](int64_t, const std::string& text) { return on_text(text); };
  MAKAR_TRY(const TextGenerationResult result, generate_text(engine, language, prompt, generation));
  out.answered = true;
  out.text = result.answers.front().text;
  out.prompt_tokens = result.prompt_tokens;
  out.tokens = static_cast<int64_t>(result.answers.front().tokens.size());
  out.sentences = check_grounding(out.text, out.sources, analyzer, options.grounded);
  double grounded = 0;
  for (const AnswerSentence& s : out.sentences) grounded += s.grounded ? 1 : 0;
  if (!out.sentences.empty()) out.groundedness = grounded / static_cast<double>(out.sentences.size());
  return out;
}

}  // namespace makar
