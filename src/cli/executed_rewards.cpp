#include "cli/executed_rewards.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "apps/sql_score.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "base/thread_pool.h"
#include "base/trim.h"
#include "data/schema.h"
#include "database/postgres.h"
#include "eval/filter.h"
#include "eval/sandbox.h"

namespace makar {
namespace {

constexpr size_t kMaxTestBytes = size_t{1} << 20;

// A text, or the lines of a list of texts; "" if the field is missing or of another type.
std::string text_or_lines(const Json& record, std::initializer_list<const char*> names) {
  const Json* found = field(record, names);
  if (!found) return "";
  if (found->is_string()) return found->get<std::string>();
  std::string out;
  if (found->is_array())
    for (const Json& line : *found) {
      if (!line.is_string()) return "";
      out += line.get<std::string>() + "\n";
    }
  return out;
}

// What follows and what precedes the answer's code.
struct CodeTests {
  std::string setup, tests;
};

Result<CodeTests> tests_of(const Json& record) {
  CodeTests out{text_or_lines(record, {"test_setup_code"}),
                text_or_lines(record, {"tests", "test", "test_list"})};
  if (trimmed(out.tests).empty())
    return error_at("reward",
                    "the record of a prompt has no 'tests' to run with an answer (a text or a list "
                    "of texts)");
  if (const Json* entry = field(record, {"entry_point"})) {
    if (!entry->is_string()) return error_at("reward", "'entry_point' of a record is not a text");
    out.tests += "\ncheck(" + entry->get<std::string>() + ")\n";
  }
  if (out.setup.size() + out.tests.size() > kMaxTestBytes)
    return error_at("reward", "the tests of a record have more than {} bytes", kMaxTestBytes);
  return out;
}

Result<double> passes_tests(const std::string& language, const RewardInput& answer) {
  MAKAR_TRY(const CodeTests tests, tests_of(answer.record));
  const std::string program = tests.setup + "\n" + code_block(answer.text) + "\n" + tests.tests + "\n";
  MAKAR_TRY(const ProgramOutcome outcome, run_program(language, program));
  return outcome.passed ? 1.0 : 0.0;
}

// The databases of a term, opened on first use.
class Databases {
 public:
  explicit Databases(std::string path) : path_(std::move(path)) {}
  Result<const SqlReader*> of(const Json& record) {
    if (!path_.empty()) return open("file " + path_, path_, SqlReader::open);
    const Json *file = field(record, {"database"}), *schema = field(record, {"schema"});
    if (file && file->is_string()) {
      const auto& path = file->get_ref<const std::string&>();
      if (is_postgres_address(path))
        return error_at("reward",
                        "'database' of a record must be a SQLite file; name a server with sql=DATABASE");
      return open("file " + path, path, SqlReader::open);
    }
    if (schema && schema->is_string())
      return open("script " + schema->get_ref<const std::string&>(), schema->get_ref<const std::string&>(),
                  SqlReader::from_script);
    return error_at(
        "reward",
        "the record of a prompt has no 'database' (a SQLite file) or 'schema' (statements that make "
        "it); or name one for all records with sql=DATABASE");
  }

 private:
  Result<const SqlReader*> open(const std::string& key, const std::string& argument,
                                Result<SqlReader> (*make)(const std::string&)) {
    constexpr size_t kMaxOpen = 32;
    if (const auto it = open_.find(key); it != open_.end()) return &it->second;
    if (open_.size() >= kMaxOpen) open_.clear();
    MAKAR_TRY(SqlReader reader, make(argument));
    return &open_.emplace(key, std::move(reader)).first->second;
  }
  std::string path_;
  std::map<std::string, SqlReader> open_;
};

Result<std::string> reference_query(const Json& record) {
  const Json* query = field(record, {"sql", "query"});
  if (!query || !query->is_string() || trimmed(query->get_ref<const std::string&>()).empty())
    return error_at("reward", "the record of a prompt has no 'sql', the query whose rows are expected");
  return query->get<std::string>();
}

}  // namespace

Result<RewardTerm> tests_reward(const RewardTermSpec& spec) {
  const std::string language = spec.argument.empty() ? "python" : spec.argument;
  const auto known = program_languages();
  if (std::find(known.begin(), known.end(), language) == known.end())
    return error_at("reward", "tests cannot run {}{}; expected one of: {}", quote(language),
                    did_you_mean(language, known), fmt::join(known, ", "));
  MAKAR_RETURN_IF_ERROR(check_language(language));
  const auto score = [language](std::span<const RewardInput> answers,
                                Device&) -> Result<std::vector<double>> {
    // More would take too much memory: each program may use 2 GiB.
    constexpr int kProgramsAtOnce = 4;
    std::vector<Result<double>> results(answers.size(), 0.0);
    ThreadPool pool(kProgramsAtOnce);
    pool.run(static_cast<int64_t>(answers.size()), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      results[at] = passes_tests(language, answers[at]);
    });
    std::vector<double> out;
    for (const auto& result : results) {
      MAKAR_TRY(const double reward, result);
      out.push_back(reward);
    }
    return out;
  };
  return RewardTerm{spec.name, spec.weight, score, [](const Json& record) -> Status {
                      MAKAR_RETURN_IF_ERROR(tests_of(record));
                      return Done{};
                    }};
}

Result<RewardTerm> sql_reward(const RewardTermSpec& spec) {
  const auto databases = std::make_shared<Databases>(spec.argument);
  if (!spec.argument.empty()) MAKAR_RETURN_IF_ERROR(databases->of({}));
  const auto score = [databases](std::span<const RewardInput> answers,
                                 Device&) -> Result<std::vector<double>> {
    std::vector<double> out;
    for (const RewardInput& answer : answers) {
      MAKAR_TRY(const std::string reference, reference_query(answer.record));
      MAKAR_TRY(const SqlReader* database, databases->of(answer.record));
      MAKAR_TRY(const SqlScore score, score_sql(*database, code_block(answer.text), reference));
      out.push_back(score.execution ? 1.0 : 0.0);
    }
    return out;
  };
  return RewardTerm{spec.name, spec.weight, score, [databases](const Json& record) -> Status {
                      MAKAR_TRY(const std::string reference, reference_query(record));
                      MAKAR_TRY(const SqlReader* database, databases->of(record));
                      const auto expected = database->run(reference);
                      return expected.ok() ? Status(Done{})
                                           : error_at("reward", "'sql' of a record does not run: {}",
                                                      expected.error().message);
                    }};
}

}  // namespace makar
