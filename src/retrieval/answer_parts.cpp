// Answers from more passages than fit the context: map-reduce and refine. Also rewrites a question as a
// search query.
#include "base/nearest.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "retrieval/answer.h"

namespace makar {
namespace {

constexpr size_t kMaxQueryBytes = 300;
constexpr int64_t kMaxQueryTokens = 64;

constexpr const char* kFromOne =
    "Answer the question from the source only, in one or two sentences. If the source does not have the "
    "answer, "
    "reply: not in this source.";
constexpr const char* kFromAnswers =
    "The numbered texts are answers to the question from different sources. Write one answer from them. "
    "After each "
    "sentence name the source, such as [1].";
constexpr const char* kImprove =
    "There is an answer to the question. Improve it with the new source if the source is useful; otherwise "
    "repeat "
    "it. After each sentence name the source, such as [1].";
constexpr const char* kRewrite =
    "Write a short search query for the question: the words that a text with the answer contains. Reply with "
    "the "
    "query only.";

class PartWriter {
 public:
  PartWriter(Engine& engine, const LanguageModel& language, const TextGenerationOptions& options)
      : engine_(engine), language_(language), options_(options) {}

  Result<std::vector<int64_t>> encode(const std::string& instruction, const std::string& text) const {
    if (!language_.chat_template()) return language_.encode(instruction + "\n\n" + text + "\nAnswer:");
    ChatInput input;
    input.messages =
        Json::array({{{"role", "system"}, {"content", instruction}}, {{"role", "user"}, {"content", text}}});
    input.add_generation_prompt = true;
    return language_.encode_chat(input);
  }
  int64_t context_length() const { return context_size(language_.spec(), engine_.options().context); }
  int64_t max_new_tokens() const { return options_.max_new_tokens; }

  Result<std::string> write(std::vector<int64_t> prompt,
                            const std::function<bool(const std::string&)>& on_text, AnswerWithSources& out) {
    TextGenerationOptions generation = options_;
    if (on_text) generation.on_text = [&](int64_t, const std::string& text) { return on_text(text); };
    MAKAR_TRY(const TextGenerationResult result,
              generate_text(engine_, language_, std::move(prompt), generation));
    out.prompt_tokens += result.prompt_tokens;
    out.tokens += static_cast<int64_t>(result.answers.front().tokens.size());
    return result.answers.front().text;
  }

 private:
  Engine& engine_;
  const LanguageModel& language_;
  const TextGenerationOptions& options_;
};

std::string numbered(size_t number, const std::string& text) {
  return fmt::format("[{}] {}\n\n", number, text);
}

}  // namespace

Result<AnswerStyle> parse_answer_style(const std::string& name, const std::string& place) {
  const std::vector<std::string> names = {"stuff", "map-reduce", "refine"};
  for (size_t i = 0; i < names.size(); ++i)
    if (name == names[i]) return static_cast<AnswerStyle>(i);
  return error_at(place, "unknown {}{}; expected one of: {}", quote(name), did_you_mean(name, names),
                  fmt::join(names, ", "));
}

Result<std::string> rewrite_question(Engine& engine, const LanguageModel& language,
                                     const std::string& question, const TextGenerationOptions& generation) {
  TextGenerationOptions options = generation;
  options.max_new_tokens = std::min(options.max_new_tokens, kMaxQueryTokens);
  PartWriter writer(engine, language, options);
  MAKAR_TRY(auto prompt, writer.encode(kRewrite, "Question: " + question));
  AnswerWithSources ignored;
  MAKAR_TRY(std::string text, writer.write(std::move(prompt), {}, ignored));
  text.erase(0, std::min(text.find_first_not_of(" \t\r\n\""), text.size()));
  text.resize(std::min({text.size(), text.find('\n'), kMaxQueryBytes}));
  text.resize(complete_utf8_prefix(text));
  return text.empty() ? question : text;
}

Status answer_in_parts(Engine& engine, const LanguageModel& language, const std::string& question,
                       const AskOptions& options, const std::function<bool(const std::string&)>& on_text,
                       AnswerWithSources& out) {
  PartWriter writer(engine, language, options.generation);
  const bool reduce = options.style == AnswerStyle::kMapReduce;
  const std::string question_line = "Question: " + question;
  std::vector<SearchHit> parts;  // one per passage; the text is the answer from that passage
  for (size_t i = 0; i < out.sources.size(); ++i) {
    std::vector<SearchHit> source = {out.sources[i]};
    const std::string previous_answer = !reduce && i > 0 ? "Answer so far: " + out.text + "\n\n" : "";
    MAKAR_TRY(auto prompt,
              fit_sources(
                  [&](const std::vector<SearchHit>& fitting) {
                    return writer.encode(
                        reduce || i == 0 ? kFromOne : kImprove,
                        previous_answer + numbered(i + 1, fitting.front().chunk.text) + question_line);
                  },
                  writer.context_length(), writer.max_new_tokens(), source));
    const bool last = !reduce && i + 1 == out.sources.size();
    MAKAR_TRY(out.text, writer.write(std::move(prompt),
                                     last ? on_text : std::function<bool(const std::string&)>(), out));
    out.sources[i] = source.front();  // shortened, if it did not fit
    parts.push_back(source.front());
    parts.back().chunk.text = out.text;
  }
  if (!reduce) return Done{};
  MAKAR_TRY(auto prompt, fit_sources(
                             [&](const std::vector<SearchHit>& fitting) {
                               std::string text;
                               for (size_t i = 0; i < fitting.size(); ++i)
                                 text += numbered(i + 1, fitting[i].chunk.text);
                               return writer.encode(kFromAnswers, text + question_line);
                             },
                             writer.context_length(), writer.max_new_tokens(), parts));
  MAKAR_TRY(out.text, writer.write(std::move(prompt), on_text, out));
  return Done{};
}

}  // namespace makar
