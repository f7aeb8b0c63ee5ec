#include "train/reward_rules.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "base/trim.h"
#include "data/schema.h"
#include "text/regex.h"
#include "world/check.h"

namespace makar {
namespace {

// The texts of the record's `answer`.
Result<std::vector<std::string>> expected_answers(const Json& record) {
  const Json* answer = field(record, {"answer", "answers", "target", "solution"});
  std::vector<std::string> out;
  if (answer && answer->is_array()) {
    for (const Json& text : *answer)
      if (text.is_string()) out.push_back(text.get<std::string>());
  } else if (answer && answer->is_string()) {
    out.push_back(answer->get<std::string>());
  } else if (answer && answer->is_number()) {
    out.push_back(answer->dump());
  }
  if (out.empty())
    return error_at("reward",
                    "the record of a prompt has no 'answer' to compare with (a text, a number or a "
                    "list of texts)");
  return out;
}

// The value of an answer, and a check of the record that it is computed with.
struct AnswerRule {
  std::function<Result<double>(const RewardInput&)> value;
  CheckRecord check_record = nullptr;
};

Result<double> exact(const RewardInput& a) {
  MAKAR_TRY(const auto expected_texts, expected_answers(a.record));
  for (const std::string& w : expected_texts)
    if (trimmed(w) == trimmed(a.text)) return 1.0;
  return 0.0;
}

Result<double> numeric(const RewardInput& a) {
  MAKAR_TRY(const auto expected_texts, expected_answers(a.record));
  const auto number = last_number(a.text);
  if (!number) return 0.0;
  for (const std::string& w : expected_texts)
    if (const auto expected = last_number(w);
        expected && std::fabs(*number - *expected) <= 1e-6 * std::max(1.0, std::fabs(*expected)))
      return 1.0;
  return 0.0;
}

Status has_answer(const Json& record) {
  MAKAR_RETURN_IF_ERROR(expected_answers(record));
  return Done{};
}

Result<world::Verdict> world_verdict(const Json& record, const std::string& text) {
  const Json* id = field(record, {"id"});
  if (!id || !id->is_string())
    return error_at(
        "reward",
        "the record of a prompt has no 'id' of the world; makar data world --form rewards writes them");
  return world::check_answer(id->get_ref<const std::string&>(), text);
}

Result<double> world_answer(const RewardInput& a) {
  MAKAR_TRY(const world::Verdict verdict, world_verdict(a.record, a.text));
  return verdict.normalized ? 1.0 : 0.0;
}

Status has_world_id(const Json& record) {
  MAKAR_RETURN_IF_ERROR(world_verdict(record, ""));
  return Done{};
}

Result<AnswerRule> rule_of(const RewardTermSpec& spec) {
  if (spec.name == "exact") return AnswerRule{exact, has_answer};
  if (spec.name == "numeric") return AnswerRule{numeric, has_answer};
  if (spec.name == "world") return AnswerRule{world_answer, has_world_id};
  if (spec.name == "regex") {
    if (spec.argument.empty()) return error_at("reward", "regex needs a pattern: regex=PATTERN");
    MAKAR_TRY(Regex pattern, Regex::compile(spec.argument));
    return AnswerRule{[pattern](const RewardInput& a) -> Result<double> {
      std::vector<std::vector<Span>> found;
      MAKAR_RETURN_IF_ERROR(pattern.find_groups(a.text, found, 1));
      return found.empty() ? 0.0 : 1.0;
    }};
  }
  if (spec.name == "length") {
    const auto max = last_number(spec.argument);
    if (!max || !(*max >= 1)) return error_at("reward", "length needs a number of bytes: length=200");
    return AnswerRule{[max = *max](const RewardInput& a) -> Result<double> {
      return -std::min(1.0, static_cast<double>(a.text.size()) / max);
    }};
  }
  if (spec.name == "program") {
    if (spec.argument.empty()) return error_at("reward", "program needs a command: program=COMMAND");
    return AnswerRule{[command = spec.argument](const RewardInput& a) -> Result<double> {
      const Json input = {{"prompt", a.prompt}, {"answer", a.text}, {"record", a.record}};
      return program_reward(command, dump(input) + "\n");
    }};
  }
  const std::vector<std::string> known = {"exact", "numeric", "regex",   "world", "length",
                                          "model", "quality", "program", "tests", "sql"};
  return error_at("reward", "expected {}, got {}{}", reward_term_forms(), quote(spec.name),
                  did_you_mean(spec.name, known));
}

// The program that a command starts, and its script (python3 score.py). Other files that it names may be
// written by it.
std::vector<std::string> program_files(const std::string& command) {
  constexpr std::string_view kScripts[] = {".py", ".sh", ".js", ".mjs", ".pl", ".rb", ".lua", ".r", ".R"};
  std::istringstream words(command);
  std::string program, script;
  words >> program >> script;
  std::vector<std::string> out;
  if (is_file(program)) out.push_back(program);
  if (std::find(std::begin(kScripts), std::end(kScripts), std::filesystem::path(script).extension()) !=
          std::end(kScripts) &&
      is_file(script))
    out.push_back(script);
  return out;
}

}  // namespace

std::string reward_term_forms() {
  return "exact, numeric, regex=PATTERN, world, length=BYTES, model=DIR, quality=DIR, program=COMMAND, "
         "tests[=LANGUAGE], sql[=DATABASE]";
}

std::optional<double> last_number(std::string_view text) {
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  size_t end = text.size();
  while (end > 0 && !digit(end - 1)) --end;
  if (end == 0) return std::nullopt;
  size_t begin = end;
  constexpr size_t kMaxNumberBytes = 40;
  while (begin > 0 && end - begin < kMaxNumberBytes &&
         (digit(begin - 1) ||
          (begin >= 2 && digit(begin - 2) && (text[begin - 1] == ',' || text[begin - 1] == '.'))))
    --begin;
  if (begin > 0 && text[begin - 1] == '-' && (begin == 1 || !digit(begin - 2))) --begin;
  std::string plain;
  for (const char c : text.substr(begin, end - begin))
    if (c != ',') plain += c;
  // Only the last dot starts a fraction; the others separate thousands.
  for (size_t dot = plain.find('.');
       dot != std::string::npos && plain.find('.', dot + 1) != std::string::npos; dot = plain.find('.'))
    plain.erase(dot, 1);
  return std::strtod(plain.c_str(), nullptr);
}

Result<RewardTermSpec> parse_reward_term(const std::string& text) {
  constexpr std::string_view kWeight = ",weight=";
  RewardTermSpec out;
  std::string rest = text;
  if (const size_t at = rest.rfind(kWeight); at != std::string::npos) {
    char* end = nullptr;
    const std::string number = rest.substr(at + kWeight.size());
    out.weight = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != 0 || !std::isfinite(out.weight) || std::fabs(out.weight) > 1e6)
      return error_at("reward", "the weight in {} is not a number", quote(text));
    rest.resize(at);
  }
  const size_t equals = rest.find('=');
  out.name = rest.substr(0, equals);
  if (equals != std::string::npos) out.argument = rest.substr(equals + 1);
  return out;
}

Result<RewardTerm> make_reward_term(const RewardTermSpec& spec) {
  MAKAR_TRY(const AnswerRule rule, rule_of(spec));
  const std::string command = spec.name == "program" ? spec.argument : "";
  return RewardTerm{spec.name, spec.weight,
                    [rule](std::span<const RewardInput> answers, Device&) -> Result<std::vector<double>> {
                      std::vector<double> out;
                      for (const RewardInput& a : answers) {
                        MAKAR_TRY(const double reward, rule.value(a));
                        out.push_back(reward);
                      }
                      return out;
                    },
                    rule.check_record, [command] { return program_files(command); }};
}

Status check_record(std::span<const RewardTerm> terms, const Json& record) {
  for (const RewardTerm& term : terms)
    if (term.check_record) MAKAR_RETURN_IF_ERROR(term.check_record(record));
  return Done{};
}

Result<SummedRewards> sum_rewards(std::span<const RewardTerm> terms, std::span<const RewardInput> answers,
                                  Device& device) {
  SummedRewards out{std::vector<double>(answers.size(), 0.0), {}};
  for (const RewardTerm& term : terms) {
    MAKAR_TRY(const std::vector<double> scores, term.score(answers, device));
    check(scores.size() == answers.size(), "one reward per answer");
    double sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double reward = term.weight * scores[i];
      if (!std::isfinite(scores[i]) || std::fabs(reward) > kMaxReward)
        return error_at("reward",
                        "{} gave {}{} for the answer {}; expected a finite number of at most {:.0f}",
                        term.name, scores[i], term.weight == 1 ? "" : fmt::format(" times {}", term.weight),
                        quote(answers[i].text), kMaxReward);
      out.rewards[i] += reward, sum += scores[i];
    }
    out.means.push_back(scores.empty() ? 0 : sum / static_cast<double>(scores.size()));
  }
  return out;
}

Result<Batch> batch_reward_inputs(const ConversationEncoder& encoder, std::span<const RewardInput> answers) {
  Batch batch;
  for (const RewardInput& a : answers) {
    const Json answer = Json::array({{{"role", "assistant"}, {"content", a.text}}});
    MAKAR_TRY(const MaskedTokens tokens, encode_answer(encoder, a.prompt, answer));
    batch.add(tokens.ids);
  }
  return batch;
}

RewardTerm model_reward(std::string name, double weight, std::shared_ptr<const Model> model,
                        std::shared_ptr<const ConversationEncoder> encoder) {
  const auto score = [model, encoder](std::span<const RewardInput> answers,
                                      Device& device) -> Result<std::vector<double>> {
    std::vector<double> out;
    constexpr size_t kAnswersPerBatch = 32;
    for (size_t at = 0; at < answers.size(); at += kAnswersPerBatch) {
      MAKAR_TRY(const Batch batch,
                batch_reward_inputs(*encoder,
                                    answers.subspan(at, std::min(kAnswersPerBatch, answers.size() - at))));
      Context ctx{device};
      ForwardContext f{ctx};
      const Tensor scores = reward_scores(f, *model, batch).host();
      for (const float s : scores.span()) out.push_back(s);
    }
    return out;
  };
  return {std::move(name), weight, score};
}

}  // namespace makar
