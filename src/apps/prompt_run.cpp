// Runs a prompt program: the techniques, the graph, and its tests.
#include <algorithm>
#include <map>

#include "apps/prompt.h"
#include "base/quote.h"
#include "base/trim.h"
#include "metrics/words.h"

namespace makar {
namespace {

constexpr const char *kStepByStep = " Let's think step by step.", *kTherefore = "\nTherefore, the answer is",
                     *kFollowUp = "Follow up:", *kIntermediate = "Intermediate answer:",
                     *kFinal = "So the final answer is:";
constexpr size_t kMaxMatches = 10000;  // of the answer pattern in a reply

std::string first_line(const std::string& text) {
  const std::string stripped = trimmed(text);
  return trimmed(stripped.substr(0, stripped.find('\n')));
}

// The text after the last `label`; empty without one.
std::string after_last(const std::string& text, const std::string& label) {
  const size_t at = text.rfind(label);
  return at == text.npos ? "" : trimmed(std::string_view(text).substr(at + label.size()));
}

class Runner {
 public:
  Runner(const Prompt& prompt, const PromptModel& model, PromptRun& run)
      : prompt_(prompt), model_(model), run_(run) {}

  Result<std::string> run(const BuiltPrompt& built) {
    switch (prompt_.technique) {
      case Technique::kDirect: {
        MAKAR_TRY(const std::string text, write(built.text, prompt_.stop, 0, prompt_.schema));
        return extract_answer(text);
      }
      case Technique::kChainOfThought:
        return chain_of_thought(built.text, 0);
      case Technique::kSelfConsistency: {
        std::vector<std::string> answers;
        for (int64_t i = 0; i < prompt_.samples; ++i) {
          MAKAR_TRY(std::string one, chain_of_thought(built.text, static_cast<uint64_t>(i)));
          answers.push_back(std::move(one));
        }
        return majority(answers);
      }
      case Technique::kSelfAsk:
        return self_ask(built.text);
      case Technique::kLeastToMost:
        return least_to_most(built.text);
    }
    check(false, "a known technique");
    return std::string();
  }

 private:
  Result<std::string> write(const std::string& text, const std::vector<std::string>& stop, uint64_t sample,
                            const std::string& schema = "") {
    MAKAR_TRY(const ModelReply reply, model_.write(text, schema, stop, prompt_.max_tokens, sample));
    run_.prompt_tokens += reply.prompt_tokens, run_.tokens += reply.tokens;
    run_.replies.push_back({prompt_.name, text, reply.text});
    return reply.text;
  }

  Result<std::string> extract_answer(const std::string& text) const {
    if (!prompt_.answer) return trimmed(text);
    std::vector<std::vector<Span>> found;
    MAKAR_RETURN_IF_ERROR(prompt_.answer->find_groups(text, found, kMaxMatches));
    if (found.empty()) return std::string();
    // The last match: conclusions come at the end.
    const auto& groups = found.back();
    const Span span = groups.size() > 1 && groups[1].end > groups[1].begin ? groups[1] : groups[0];
    return trimmed(std::string_view(text).substr(span.begin, span.end - span.begin));
  }

  // Reasoning; then the answer by the pattern, or by a second reply.
  Result<std::string> chain_of_thought(const std::string& text, uint64_t sample) {
    MAKAR_TRY(const std::string reasoning, write(text + kStepByStep, prompt_.stop, sample));
    if (prompt_.answer) return extract_answer(reasoning);
    std::vector<std::string> stop = prompt_.stop;
    stop.emplace_back("\n");
    MAKAR_TRY(const std::string last, write(text + kStepByStep + reasoning + kTherefore, stop, sample));
    return trimmed(last);
  }

  Result<std::string> self_ask(const std::string& text) {
    std::string so_far = text + "\nAre follow up questions needed here:";
    for (int64_t i = 0; i <= prompt_.follow_ups; ++i) {
      const bool last = i == prompt_.follow_ups;
      if (last) so_far += std::string("\n") + kFinal;
      MAKAR_TRY(const std::string reply, write(so_far, {kIntermediate}, 0));
      so_far += reply;
      if (const std::string final = after_last(last ? kFinal + reply : reply, kFinal); !final.empty())
        return prompt_.answer ? extract_answer(final) : Result<std::string>(first_line(final));
      const std::string question = first_line(after_last(reply, kFollowUp));
      if (question.empty()) {
        so_far += std::string("\n") + kFinal;
        MAKAR_TRY(const std::string final, write(so_far, {"\n"}, 0));
        return prompt_.answer ? extract_answer(final) : Result<std::string>(first_line(final));
      }
      MAKAR_TRY(const std::string answer, write("Question: " + question + "\nAnswer:", {"\n"}, 0));
      so_far +=
          std::string(so_far.ends_with('\n') ? "" : "\n") + kIntermediate + " " + first_line(answer) + "\n";
    }
    return std::string();
  }

  Result<std::string> least_to_most(const std::string& text) {
    MAKAR_TRY(const std::string list,
              write(text + "\nTo solve this, list the simpler questions to answer first, one per line:\n",
                    {"\n\n"}, 0));
    std::vector<std::string> questions;
    for (size_t at = 0; at < list.size() && questions.size() < static_cast<size_t>(prompt_.follow_ups);) {
      const size_t line = std::min(list.find('\n', at), list.size());
      std::string one = list.substr(at, line - at);
      one.erase(0, std::min(one.find_first_not_of(" \t-*.)0123456789"), one.size()));
      if (!trimmed(one).empty()) questions.push_back(trimmed(one));
      at = line + 1;
    }
    std::string so_far = text + "\n";
    for (const std::string& question : questions) {
      so_far += "\nQ: " + question + "\nA:";
      MAKAR_TRY(const std::string answer, write(so_far, {"\nQ:", "\n\n"}, 0));
      so_far += " " + trimmed(answer);
    }
    MAKAR_TRY(const std::string last,
              write(so_far + "\n\nTherefore, the answer to the first question is:", prompt_.stop, 0));
    return prompt_.answer ? extract_answer(last) : Result<std::string>(first_line(last));
  }

  const Prompt& prompt_;
  const PromptModel& model_;
  PromptRun& run_;
};

}  // namespace

std::string majority(const std::vector<std::string>& answers) {
  std::map<std::string, int64_t> counts;
  for (const std::string& one : answers) ++counts[lowered(trimmed(one))];
  const std::string* best = nullptr;
  int64_t max = 0;
  for (const std::string& one : answers) {
    if (trimmed(one).empty()) continue;
    if (const int64_t n = counts[lowered(trimmed(one))]; n > max) best = &one, max = n;
  }
  return best ? trimmed(*best) : "";
}

Result<PromptRun> run_prompt(const PromptProgram& program, const Json& fields, const PromptModel& model,
                             uint64_t seed) {
  PromptRun out;
  Json available = fields.is_object() ? fields : Json::object();
  for (const Prompt& prompt : program.prompts) {
    auto built = build_prompt(prompt, available, model, seed);
    if (!built.ok()) return built.error().in(program.place);
    MAKAR_TRY(out.output, Runner(prompt, model, out).run(*built));
    available[prompt.name] = out.outputs[prompt.name] = out.output;
  }
  return out;
}

std::string test_failure(const PromptTest& test, const std::string& output) {
  const std::string quoted = quote(output, 200);
  if (test.equals && trimmed(output) != trimmed(*test.equals))
    return fmt::format("expected {}, got {}", quote(*test.equals, 200), quoted);
  if (test.contains && output.find(*test.contains) == std::string::npos)
    return fmt::format("expected a text with {}, got {}", quote(*test.contains, 200), quoted);
  if (test.lacks && output.find(*test.lacks) != std::string::npos)
    return fmt::format("expected a text without {}, got {}", quote(*test.lacks, 200), quoted);
  if (test.matches) {
    std::vector<Span> found;
    if (!test.matches->find_all(output, found).ok() || found.empty())
      return fmt::format("expected a match of {}, got {}", quote(test.matches->pattern(), 200), quoted);
  }
  return {};
}

}  // namespace makar
