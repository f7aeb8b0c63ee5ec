// Rewards of sampled answers for reinforcement learning: rules that compare an answer with the record of its
// prompt, a reward model, a program, and weighted sums of them.
#pragma once
#include <functional>
#include <span>

#include "train/reward.h"

namespace makar {

// A sampled answer with its prompt.
struct RewardInput {
  const Json& record;    // the dataset's record of the prompt
  const Json& prompt;    // its turns
  std::string text;      // without the stop token
  bool finished = true;  // false: truncated at the length limit
};
using ScoreAnswers = std::function<Result<std::vector<double>>(std::span<const RewardInput>, Device&)>;
using CheckRecord = std::function<Status(const Json& record)>;

struct RewardTerm {
  std::string name;
  double weight = 1;
  ScoreAnswers score;
  CheckRecord check_record = nullptr;  // whether a record has the fields that the term needs; null: none
  // The files that the rewards depend on, after all records are checked; null: none. A run resumes only with
  // the same files.
  std::function<std::vector<std::string>()> files = nullptr;
};
// The first error of the terms about a record, before a run starts.
Status check_record(std::span<const RewardTerm> terms, const Json& record);

struct SummedRewards {
  std::vector<double> rewards;  // per answer: the weighted sum of the terms
  std::vector<double> means;    // per term, without its weight
};
constexpr double kMaxReward = 1e6;
// Errors: a term that is not finite or, times its weight, beyond kMaxReward; the message names the term and
// the answer.
Result<SummedRewards> sum_rewards(std::span<const RewardTerm> terms, std::span<const RewardInput> answers,
                                  Device& device);

// Rewards on the command line: "NAME", "NAME=ARGUMENT", each with ",weight=X".
struct RewardTermSpec {
  std::string name, argument;
  double weight = 1;
};
Result<RewardTermSpec> parse_reward_term(const std::string& text);
// "exact, numeric, regex=PATTERN, ..."
std::string reward_term_forms();

// exact: 1 if the answer, apart from spaces around it, is the record's `answer` (a text or a list of texts).
// numeric: 1 if the last number of the answer is the last number of `answer`.
// world: 1 if the checker of the world accepts the answer to the record's `id`.
// regex: 1 if the pattern matches somewhere in the answer.
// length: -(bytes of the answer / `argument`), at least -1.
// program: a number printed by a command (program_reward.cpp).
// The other terms of reward_term_forms() need models, a sandbox or a database; the command makes them.
Result<RewardTerm> make_reward_term(const RewardTermSpec& spec);

// Prompts and answers as conversations, with the template and tokenizer of the model that scores them.
Result<Batch> batch_reward_inputs(const ConversationEncoder& encoder, std::span<const RewardInput> answers);
// The score of a reward model for the conversation of prompt and answer, with the reward model's own
// template and tokenizer.
RewardTerm model_reward(std::string name, double weight, std::shared_ptr<const Model> model,
                        std::shared_ptr<const ConversationEncoder> encoder);

// Runs `command` with sh for each answer: {"prompt", "answer", "record"} is its standard input; the reward is
// the number that it prints; if it prints nothing, 1 for exit code 0 and otherwise 0. Limits: 10 seconds (the
// reward is then 0), 2 GiB of memory, 64 KiB of output.
Result<double> program_reward(const std::string& command, const std::string& input);

// The last number in a text: digits with commas between them, a sign and a fraction; nullopt if there is
// none.
std::optional<double> last_number(std::string_view text);

}  // namespace makar
