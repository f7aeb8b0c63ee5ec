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

constexpr size_t kMaxCitationBytes = 24;  // such as "[1, 2]"

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

// Drops the second half of a passage's sentences; false if it has only one.
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

using Terms = std::unordered_set<std::string>;

// The terms of a passage and of its sentences, computed once for all sentences of an answer.
struct PassageTerms {
  Terms all;
  std::vector<std::pair<Span, Terms>> sentences;
};

PassageTerms passage_terms(const std::string& passage, const Analyzer& analyzer) {
  PassageTerms out;
  for (const Span& span : sentences_of(passage)) {
    const auto terms = analyzer(std::string_view(passage).substr(span.begin, span.end - span.begin));
    out.all.insert(terms.begin(), terms.end());
    out.sentences.emplace_back(span, Terms(terms.begin(), terms.end()));
  }
  return out;
}

double share_of(const std::vector<std::string>& terms, const Terms& available) {
  if (terms.empty()) return 0;
  size_t found = 0;
  for (const std::string& term : terms) found += available.contains(term);
  return static_cast<double>(found) / static_cast<double>(terms.size());
}

Support support_of(const std::vector<std::string>& terms, const std::string& passage,
                   const PassageTerms& indexed) {
  Support out;
  out.share = share_of(terms, indexed.all);
  double best = -1;
  for (const auto& [span, available] : indexed.sentences) {
    const double share = share_of(terms, available);
    if (share > best) best = share, out.begin = span.begin, out.end = span.end;
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

// The indices of the sources that a text cites as [1] or [2, 3]; `plain` is the text without these citations.
std::vector<size_t> cited_sources(const std::string& text, size_t count, std::string& plain) {
  std::vector<size_t> out;
  for (size_t at = 0; at < text.size();) {
    const size_t close = text[at] == '[' ? text.find(']', at) : std::string::npos;
    const bool citation = close != std::string::npos && close > at + 1 && close - at < kMaxCitationBytes &&
                          text.find_first_not_of("0123456789, ", at + 1) == close;
    if (!citation) {
      plain += text[at++];
      continue;
    }
    for (size_t i = at + 1; i < close;) {
      size_t number = 0;
      for (; i < close && text[i] >= '0' && text[i] <= '9'; ++i)
        number = std::min<size_t>(number * 10 + static_cast<size_t>(text[i] - '0'), count + 1);
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
  return ask_messages(Json::array({{{"role", "user"}, {"content", question}}}), 0, passages);
}

Json ask_messages(const Json& conversation, size_t at, const std::vector<SearchHit>& passages) {
  Json out = Json::array({{{"role", "system"}, {"content", kInstruction}}});
  for (size_t i = 0; i < conversation.size(); ++i) {
    Json message = conversation[i];
    const std::string text = message.value("content", "");
    if (i == 0 && message["role"] == "system") {
      out[0]["content"] = text + "\n\n" + kInstruction;
      continue;
    }
    if (i == at) message["content"] = source_list(passages) + "Question: " + text;
    out.push_back(std::move(message));
  }
  return out;
}

Result<std::vector<int64_t>> fit_sources(const EncodeSources& encode, int64_t context, int64_t answer_tokens,
                                         std::vector<SearchHit>& sources) {
  for (;;) {
    MAKAR_TRY(std::vector<int64_t> prompt, encode(sources));
    if (context <= 0 || static_cast<int64_t>(prompt.size()) + answer_tokens <= context) return prompt;
    if (sources.size() > 1) {
      sources.pop_back();
    } else if (!drop_half(sources[0])) {
      return error_of(
          Error::Kind::kLimit, "question",
          "the question, a passage and an answer of {} tokens do not fit the context of {} tokens; use fewer "
          "tokens (-n) or smaller chunks",
          answer_tokens, context);
    }
  }
}

Json sources_json(const std::vector<SearchHit>& sources) {
  Json out = Json::array();
  for (const SearchHit& hit : sources)
    out.push_back({{"id", hit.chunk.key},
                   {"document", hit.chunk.name},
                   {"title", hit.chunk.title},
                   {"begin", hit.chunk.begin},
                   {"end", hit.chunk.end},
                   {"score", hit.score},
                   {"relevance", hit.relevance},
                   {"text", hit.chunk.text}});
  return out;
}

Json sentences_json(const std::vector<AnswerSentence>& sentences) {
  Json out = Json::array();
  for (const AnswerSentence& s : sentences) {
    Json citations = Json::array();
    for (const Citation& c : s.citations)
      citations.push_back({{"source", c.source + 1},
                           {"id", c.id},
                           {"document", c.document},
                           {"begin", c.begin},
                           {"end", c.end},
                           {"quote", c.quote}});
    out.push_back({{"text", s.text},
                   {"grounded", s.grounded},
                   {"support", s.support},
                   {"citations", std::move(citations)}});
  }
  return out;
}

double groundedness(const std::vector<AnswerSentence>& sentences) {
  double grounded = 0;
  for (const AnswerSentence& s : sentences) grounded += s.grounded ? 1 : 0;
  return sentences.empty() ? 0 : grounded / static_cast<double>(sentences.size());
}

std::vector<AnswerSentence> check_grounding(const std::string& answer, const std::vector<SearchHit>& sources,
                                            const Analyzer& analyzer, double threshold) {
  std::vector<AnswerSentence> out;
  std::vector<PassageTerms> passages;
  for (const SearchHit& source : sources) passages.push_back(passage_terms(source.chunk.text, analyzer));
  for (const Span& span : sentences_of(answer)) {
    AnswerSentence sentence;
    sentence.text = answer.substr(span.begin, span.end - span.begin);
    while (!sentence.text.empty() && (sentence.text.back() == ' ' || sentence.text.back() == '\n'))
      sentence.text.pop_back();
    std::string plain;
    const auto cited = cited_sources(sentence.text, sources.size(), plain);
    const auto terms = analyzer(plain);
    if (terms.empty()) {
      // Citations after the full stop belong to the previous sentence.
      if (!out.empty()) {
        out.back().text += " " + sentence.text;
        for (const size_t source : cited) {
          std::string without_citations;
          cited_sources(out.back().text, 0, without_citations);
          out.back().citations.push_back(
              cite(sources, source,
                   support_of(analyzer(without_citations), sources[source].chunk.text, passages[source])));
        }
      }
      continue;
    }
    size_t best = 0;
    std::vector<Support> supports;
    for (size_t i = 0; i < sources.size(); ++i) {
      supports.push_back(support_of(terms, sources[i].chunk.text, passages[i]));
      if (supports[i].share > supports[best].share) best = i;
    }
    if (!sources.empty()) {
      sentence.support = supports[best].share;
      sentence.grounded = sentence.support >= threshold;
      if (sentence.grounded) sentence.citations.push_back(cite(sources, best, supports[best]));
      for (const size_t source : cited)
        if (!sentence.grounded || source != best)
          sentence.citations.push_back(cite(sources, source, supports[source]));
    }
    out.push_back(std::move(sentence));
  }
  return out;
}

namespace {

void keep_relevant(const std::vector<SearchHit>& hits, const AskOptions& options, AnswerWithSources& out) {
  for (const SearchHit& hit : hits)
    if (hit.relevance >= options.min_relevance) out.sources.push_back(hit);
  if (out.sources.empty()) out.text = kNothingFound;
}

}  // namespace

Result<std::vector<int64_t>> ask_prompt(const Engine& engine, const LanguageModel& language,
                                        const std::string& question, const std::vector<SearchHit>& hits,
                                        const AskOptions& options, AnswerWithSources& out) {
  keep_relevant(hits, options, out);
  if (out.sources.empty()) return std::vector<int64_t>();
  return fit_sources([&](const auto& sources) { return encode_prompt(language, question, sources); },
                     context_size(language.spec(), engine.options().context),
                     options.generation.max_new_tokens, out.sources);
}

Result<AnswerWithSources> answer_question(Engine& engine, const LanguageModel& language,
                                          const std::string& question, const std::vector<SearchHit>& hits,
                                          const Analyzer& analyzer, const AskOptions& options,
                                          const std::function<bool(const std::string&)>& on_text) {
  AnswerWithSources out;
  if (options.style != AnswerStyle::kStuff) {
    keep_relevant(hits, options, out);
    if (out.sources.empty()) return out;
    MAKAR_RETURN_IF_ERROR(answer_in_parts(engine, language, question, options, on_text, out));
  } else {
    MAKAR_TRY(const auto prompt, ask_prompt(engine, language, question, hits, options, out));
    if (out.sources.empty()) return out;
    TextGenerationOptions generation = options.generation;
    if (generation.rank) generation.rank_prompt = ask_messages(question, out.sources);
    if (on_text) generation.on_text = [&](int64_t, const std::string& text) { return on_text(text); };
    MAKAR_TRY(const TextGenerationResult result, generate_text(engine, language, prompt, generation));
    out.text = result.answers.front().text;
    out.prompt_tokens = result.prompt_tokens;
    out.tokens = static_cast<int64_t>(result.answers.front().tokens.size());
  }
  out.answered = true;
  out.sentences = check_grounding(out.text, out.sources, analyzer, options.grounded);
  out.groundedness = groundedness(out.sentences);
  return out;
}

}  // namespace makar
